"""What the commands about checkpoints do with files that lie where the task wrote them."""

import shutil
import signal
import tarfile

import pytest

from support.worker_runs import wait_until

TEMPLATE = """
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT]
name: Left
parameterDefinitions:
- {name: Folder, type: PATH, objectType: DIRECTORY, dataFlow: OUT}
steps:
- name: Work
  script:
    actions:
      onRun: {command: python, args: ["{{Task.File.Work}}", "{{Param.Folder}}"]}
      onCheckpointResume: {command: python, args: ["{{Task.File.Work}}", "{{Param.Folder}}"]}
    embeddedFiles:
    - name: Work
      filename: work.py
      type: TEXT
      data: |
        import json, pathlib, signal, sys
        for number in (1, 2):
            path = pathlib.Path(sys.argv[1], f"state-{number}.bin")
            path.write_bytes(b"%d" % number * 5000)
            print("openjd_checkpoint_save: " + json.dumps({"file": str(path)}), flush=True)
        signal.pause()
"""
NAME = "last/Work"


@pytest.fixture
def left(shell):
    """A suspended job whose checkpoints are left where they are; by its files policy."""

    def make(policy):
        folder = shell.folder / "out"
        folder.mkdir()
        run = ("run", shell.template(TEMPLATE), "-p", f"Folder={folder}", "--files", policy)
        run += ("--limit", "back_off_seconds=0.05", "--limit", "quick_seconds=0")
        with shell.running(*run) as running:
            wait_until("both are committed and read", lambda: _saves(shell) == 2)
            running.signal(signal.SIGINT)
            running.end(75)
        return folder / "state-2.bin"

    return make


def _saves(shell) -> int:
    listed = shell("checkpoints", "last", "--json", expect=None)
    return listed.stdout.count('"sequence"') if listed.returncode == 0 else 0


def test_an_adopted_file_is_listed_read_and_taken_along(shell, left, tmp_path):
    path = left("adopt")
    [row] = shell.json("checkpoint", "files", NAME)["files"]
    assert (row["kept"], row["path"]) == ("adopted", str(path))
    shell("checkpoint", "verify", NAME)
    shell("verify", "last")
    shell("checkpoint", "export", NAME, tmp_path / "it.tar")
    with tarfile.open(tmp_path / "it.tar") as tar:
        assert tar.extractfile(f"files/outside{path}").read() == b"2" * 5000
    restored = shell.json("checkpoint", "restore", NAME, "--to", tmp_path / "native")
    assert restored["file"] == f"{tmp_path}/native/outside{path}"
    copied = tmp_path / f"native/outside{path}"
    assert copied.read_bytes() == b"2" * 5000
    assert copied.stat().st_mtime_ns == path.stat().st_mtime_ns
    assert restored["notes"] == []


def test_an_adopted_file_that_is_gone_by_one_name_is_there_by_the_other(shell, left, tmp_path):
    path = left("adopt")
    path.unlink()
    shell("checkpoint", "verify", NAME)
    shell("checkpoint", "restore", NAME, "--to", tmp_path / "native")
    assert (tmp_path / f"native/outside{path}").read_bytes() == b"2" * 5000


@pytest.mark.parametrize("loss", ["gone", "another byte", "shorter"])
def test_an_adopted_file_that_is_lost_is_said(shell, left, tmp_path, loss):
    path = left("adopt")
    if loss == "gone":
        shutil.rmtree(path.parent)
    elif loss == "another byte":
        path.write_bytes(b"2" * 4999 + b"3")
    else:
        path.write_bytes(b"2")
    assert str(path) in shell("checkpoint", "verify", NAME, expect=3).stdout
    verified = shell("verify", "last", expect=8).stdout
    assert "is not there as it was" in verified
    assert "Run: perdure repair" not in verified
    assert "perdure repair cannot mend that: a task goes on from its newest whole" in verified
    assert "left as it is" in shell("repair", expect=8).stdout  # so it is
    shell("checkpoint", "export", NAME, tmp_path / "it.tar", expect=3)
    assert not (tmp_path / "it.tar").exists()
    assert (
        "is not there"
        in shell("checkpoint", "restore", NAME, "--to", tmp_path / "native", expect=3).stderr
    )


def test_an_attempt_that_could_not_start_is_said_at_once(shell, left):
    path = left("adopt")
    shutil.rmtree(path.parent)
    said = shell("resume", "last", expect=3).stderr
    assert "attempt 2 NOT STARTED: could not start: the saved bytes of" in said
    assert "state-1.bin" in said  # the older one is tried, too


def test_what_is_only_recorded_is_said_to_be_elsewhere(shell, left, tmp_path):
    path = left("shared")
    assert "not in the store and were not read" in shell("verify", "last").stdout
    exported = shell("checkpoint", "export", NAME, tmp_path / "it.tar")
    assert f"{path} was recorded, not saved" in exported.stderr
    assert "no task can go on from it" in exported.stderr
    restored = shell.json("checkpoint", "restore", NAME, "--to", tmp_path / "native")
    assert restored["file"] is None
    assert restored["notes"] == [f"{path} was recorded, not saved (files policy)"]
