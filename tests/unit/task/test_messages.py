"""The library's messages are those that perdure reads."""

import ast
import os
import sys
from pathlib import Path

import pytest

import perdure.task
from perdure import task
from perdure.protocol import (
    CheckpointFiles,
    CheckpointSave,
    DatasetFold,
    FilesMode,
    ResumeReport,
    ResumeStatus,
    TaskComplete,
    decode,
)
from perdure.task import messages

SOURCES = sorted(Path(perdure.task.__file__).parent.glob("*.py"))


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(messages, "_channel", messages._Channel())


def written(capfd):
    return [decode(line) for line in capfd.readouterr().out.encode().splitlines()]


def test_each_message(capfd):
    assert task.save() == 1
    assert task.save(state="3,2,3", file="/a/b") == 2
    task.files("/a", Path("/b"), dirs=["/d"])
    task.files(reset=True)
    task.complete("Frame", 12)
    task.resume_status(resumed=True)
    task.resume_status(resumed=False)
    assert written(capfd) == [
        CheckpointSave(),
        CheckpointSave(state="3,2,3", file="/a/b"),
        CheckpointFiles(files=("/a", "/b"), dirs=("/d",)),
        CheckpointFiles(mode=FilesMode.RESET),
        TaskComplete(parameter="Frame", value=12),
        ResumeStatus(status=ResumeReport.RESUMED),
        ResumeStatus(status=ResumeReport.DISCARDED),
    ]


def test_messages_come_behind_what_was_printed_before(capfd):
    print("before")
    task.save(state="x")
    print("after")
    assert capfd.readouterr().out.splitlines() == [
        "before",
        'openjd_checkpoint_save: {"state": "x"}',
        "after",
    ]


def test_relative_paths_become_absolute_and_dotdot_is_asked_of_the_file_system(
    capfd, tmp_path, monkeypatch
):
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "inner")
    monkeypatch.chdir(tmp_path)
    task.files("out.txt", "link/../x", "real/..")
    (read,) = written(capfd)
    base = os.path.realpath(tmp_path)
    assert read.files == (f"{base}/out.txt", f"{base}/real/x", base)


def test_many_files_are_told_in_writes_that_are_not_torn(capfd, monkeypatch):
    sizes = []
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: sizes.append(len(data)) or real(fd, data))
    paths = [f"/out/frame-{n:05d}.exr" for n in range(1_000)]
    task.files(*paths, dirs=["/d"], reset=True)
    assert max(sizes) <= 4096
    fold = DatasetFold()
    fold.declare(CheckpointFiles(files=("/old",)), line_number=1)
    for message in written(capfd):
        fold.declare(message, line_number=1)
    assert fold.dataset.files == tuple(paths)
    assert fold.dataset.dirs == ("/d",)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: task.save(state=3), TypeError),
        (lambda: task.save(state="a\0"), ValueError),
        (lambda: task.save(state="\ud800"), ValueError),
        (lambda: task.save(state="€" * 16_385), ValueError),
        (lambda: task.save(state="\x01" * 40_000), ValueError),
        (lambda: task.save(file=b"/a"), TypeError),
        (lambda: task.save(file=""), ValueError),
        (lambda: task.files("/" + "p" * 4096), ValueError),
        (lambda: task.complete("Frame", "12"), TypeError),
        (lambda: task.complete("Frame", True), TypeError),
        (lambda: task.complete(12, 12), TypeError),
    ],
)
def test_what_would_be_refused_is_refused_where_the_author_sees_it(call, error, capfd):
    with pytest.raises(error):
        call()
    assert capfd.readouterr().out == ""


def test_a_refused_save_is_not_counted(capfd):
    with pytest.raises(TypeError):
        task.save(state=3)
    assert task.save() == 1


def test_the_largest_state_of_wide_characters_fits(capfd):
    state = "€" * 16_384
    task.save(state=state)
    assert written(capfd) == [CheckpointSave(state=state)]


def test_the_side_channel(tmp_path, monkeypatch, capfd):
    monkeypatch.delenv("PERDURE_MESSAGES", raising=False)
    assert task.use_messages_file() is False
    channel = tmp_path / "messages"
    channel.write_bytes(b"")
    monkeypatch.setenv("PERDURE_MESSAGES", str(channel))
    assert task.use_messages_file() is True
    task.save(state="1")
    task.save(state="2")
    assert [decode(line).state for line in channel.read_bytes().splitlines()] == ["1", "2"]
    assert capfd.readouterr().out == ""


def test_a_replaced_output_without_descriptor(monkeypatch, capsys):
    class Console:
        text = ""

        def write(self, text):
            self.text += text

        def flush(self):
            self.text += "|"

    console = Console()
    monkeypatch.setattr(sys, "stdout", console)
    task.save(state="x")
    assert console.text == 'openjd_checkpoint_save: {"state": "x"}\n|'


def test_a_write_that_takes_less_is_repeated(monkeypatch, capfd):
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:7]))
    task.save(state="a longer state")
    assert written(capfd) == [CheckpointSave(state="a longer state")]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_the_syntax_is_that_of_python_3_9(path):
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
    future = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
    assert future or path.name == "__init__.py", "annotations must not be evaluated"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_only_the_standard_library_is_imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module]
        for name in names:
            is_ours = name.startswith("perdure.task.")
            assert is_ours or name.partition(".")[0] in sys.stdlib_module_names
