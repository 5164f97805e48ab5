"""Many small files, written by a second process beside the restore: a help, never needed."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from blake3 import blake3
from msgspec.structs import replace

from perdure.errors import CheckpointCorrupt
from perdure.store.restore import runs, second_process
from perdure.store.restore.second_process import SecondProcess
from perdure.store.restore.small_files import SmallFile, SmallFileWriter
from store_kit import Task, tree
from support.worker_runs import wait_until

FILES = 600
#: Some take more than one run.
BYTES = 12_000


@pytest.fixture
def given(monkeypatch):
    """A second process is always worth it; the runs that it was given."""
    runs_given = []
    give = SecondProcess.give

    def noting(process, half, files):
        runs_given.append(files)
        return give(process, half, files)

    monkeypatch.setattr(runs, "FILES_WORTH_IT", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    monkeypatch.setattr(SecondProcess, "give", noting)
    return runs_given


@pytest.fixture
def saved(session):
    """A checkpoint of many files."""
    for number in range(FILES):
        path = session / f"{number % 7}" / f"{number:03d}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(os.urandom(BYTES))
        path.chmod(0o600 | number % 8)
        os.utime(path, ns=(0, 10**18 + number))
    (session / "0" / os.fsdecode(b"no text \xff\xfe")).write_text("odd")
    (session / "empty").touch()
    task = Task(session)
    return task, task.manifest(folders=[session])


def about(folder):
    found = {path.relative_to(folder): path.stat() for path in folder.rglob("*")}
    return {path: (at.st_mode, at.st_mtime_ns) for path, at in found.items()}


def test_the_files_are_the_same_whoever_wrote_them(session, saved, fresh, given):
    task, manifest = saved
    task.restore(manifest, fresh)
    assert tree(fresh) == tree(session)
    assert about(fresh) == about(session)
    assert sum(map(len, given)) > 0


def test_a_few_files_are_not_worth_a_process(session, saved, fresh, given, monkeypatch):
    monkeypatch.setattr(runs, "FILES_WORTH_IT", 2 * FILES)
    task, manifest = saved
    task.restore(manifest, fresh)
    assert tree(fresh) == tree(session)
    assert given == []


def test_what_lies_there_under_the_temporary_name_is_replaced(session, saved, fresh, given):
    task, manifest = saved
    task.restore(manifest, fresh)
    (fresh / "0" / "000").write_text("other")
    task.restore(manifest, fresh)
    assert tree(fresh) == tree(session)


@pytest.mark.parametrize("at", [50_000, 3_000_000, 6_000_000])
def test_a_flipped_bit_is_found_and_nothing_is_left(saved, fresh, given, at):
    task, manifest = saved
    (pack,) = [key for key in task.driver.objects.snapshot() if "/packs/" in key]
    data = bytearray(task.driver.get(pack))
    data[at] ^= 1
    task.driver.put(pack, bytes(data))
    entry = next(
        entry
        for entry in manifest.entries
        for block in entry.blocks
        if block.offset <= at < block.offset + block.stored
    )
    with pytest.raises(CheckpointCorrupt, match=f"saved bytes of {entry.path} are not"):
        task.restore(manifest, fresh)
    assert tree(fresh) == {}


def test_a_second_process_that_is_killed_leaves_its_runs_to_the_restore(
    session, saved, fresh, given, monkeypatch
):
    give = SecondProcess.give

    def killed(process, half, files):
        is_given = give(process, half, files)
        process._process.send_signal(signal.SIGKILL)
        return is_given

    monkeypatch.setattr(SecondProcess, "give", killed)
    task, manifest = saved
    task.restore(manifest, fresh)
    assert tree(fresh) == tree(session)
    assert about(fresh) == about(session)
    assert given


def test_one_that_cannot_be_started_is_not_needed(session, saved, fresh, given, monkeypatch):
    def refuse(*_arguments, **_how):
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(second_process.subprocess, "Popen", refuse)
    task, manifest = saved
    task.restore(manifest, fresh)
    assert tree(fresh) == tree(session)
    assert given == []


def test_rows_that_do_not_fit_are_written_here(session, saved, fresh, given, monkeypatch):
    monkeypatch.setattr(runs, "_ROWS_BYTES", 4096)
    task, manifest = saved
    task.restore(manifest, fresh)
    assert tree(fresh) == tree(session)


def test_what_the_second_process_cannot_write_the_restore_tries_itself(
    session, saved, fresh, given, monkeypatch
):
    give = SecondProcess.give

    def without_folders(process, half, files):
        return give(process, half, [replace(file, folder="gone") for file in files])

    monkeypatch.setattr(SecondProcess, "give", without_folders)
    task, manifest = saved
    task.restore(manifest, fresh)
    assert tree(fresh) == tree(session)


def row(folder, name, data, start=0):
    return SmallFile(str(folder), "", name, start, len(data), blake3(data).digest(), 0o640, 10**18)


def test_a_run_is_written_up_to_what_is_damaged(tmp_path):
    def digest(data):
        return blake3(data).digest()

    writer = SmallFileWriter()
    one, two = row(tmp_path, "1", b"one"), row(tmp_path, "2", b"two", 3)
    assert writer.write([one, two], memoryview(b"onetwx"), digest) == 1
    assert set(tree(tmp_path)) == {"1"}
    assert writer.write([one, two], memoryview(b"onetwo"), digest) is None
    assert [content for content, *_ in tree(tmp_path).values()] == [b"one", b"two"]
    writer.close()


_STARTS_ONE = """
import os, sys
from perdure.store.restore.second_process import SecondProcess
process = SecondProcess(4096, 4096)
print(process._process.pid, flush=True)
sys.stdin.read()
"""


def test_it_is_killed_with_the_process_that_started_it():
    """Or it could go on writing where another restore has begun."""
    parent = subprocess.Popen(
        [sys.executable, "-c", _STARTS_ONE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with parent:
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    wait_until("its end", lambda: not _runs(pid))


def _runs(pid):
    try:
        about = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
        return about.rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
