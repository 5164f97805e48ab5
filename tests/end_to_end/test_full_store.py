"""A store whose disk is full to the last byte while a job runs."""

import signal

import pytest

from support.disks import filled, in_memory

HOLDING = """\
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT]
name: Holding
steps:
- name: Hold
  script:
    actions:
      onRun:
        command: python3
        args: ["{{Task.File.Hold}}", ""]
        checkpointCancelation: {mode: NOTIFY_THEN_TERMINATE}
      onCheckpointResume:
        command: python3
        args: ["{{Task.File.Hold}}", "{{Task.Checkpoint.State}}"]
    embeddedFiles:
    - name: Hold
      type: TEXT
      data: |
        import os, pathlib, signal, sys, time
        if sys.argv[1]:
            print("resumed at", sys.argv[1])
            sys.exit()
        def asked(*_):
            print("asked", flush=True)
            if not pathlib.Path(os.environ["END"] + "-stubborn").exists():
                sys.exit(1)
        signal.signal(signal.SIGTERM, asked)
        print('openjd_checkpoint_save: {"state": "half"}', flush=True)
        while not os.path.exists("checkpoint_committed.json"):
            time.sleep(0.01)
        print("saved", flush=True)
        while not pathlib.Path(os.environ["END"]).exists():
            time.sleep(0.01)
"""
NOBODY = "no worker of the job runs here"


@pytest.fixture
def disk(perdure, tmp_path):
    """The store's; the task of a job in it ends once the file ``end`` is there."""
    with in_memory(tmp_path, 4 << 20) as disk:
        perdure.environment["PERDURE_STORE"] = str(disk / "store")
        perdure.environment["END"] = str(tmp_path / "end")
        yield disk
        perdure.kill_all()


@pytest.fixture
def run(perdure, disk):
    """A job that has saved."""
    template = perdure.template(HOLDING)
    with perdure.running("run", template, "--heartbeat-seconds", "0.5") as run:
        run.until("^.*saved$")
        yield run


def told(perdure):
    """What is warned of in `status`, which `why` has too."""
    warnings = perdure.json("status", "last")["warnings"]
    explained = perdure.json("why", "last")["explanations"][0]["sentences"]
    assert set(warnings) <= set(explained)
    return "\n".join(warnings)


def test_ctrl_c_stops_the_task_and_what_is_not_recorded_is_said(perdure, disk, run):
    with filled(disk):
        run.signal(signal.SIGINT)
        run.until("the suspension cannot be recorded: .*No space left.*on this host were told")
        run.until(f"the suspension cannot be recorded: .*{NOBODY}")
        assert "No space left on device" in told(perdure)
        run.signal(signal.SIGINT)
        said = run.end(expect=7)
        assert "asked to save and stop" in said
        assert "nothing more of it is recorded" in said
        assert not perdure.processes()
    assert "resumed at half" in perdure("resume", "last").stdout
    assert perdure.json("status", "last")["state"] == "SUCCEEDED"
    assert not told(perdure)


def test_a_second_ctrl_c_stops_a_task_that_does_not_listen(perdure, disk, run, tmp_path):
    (tmp_path / "end-stubborn").touch()
    with filled(disk):
        run.signal(signal.SIGINT)
        run.until("asked$")
        run.signal(signal.SIGINT)
        run.until("the tasks are stopped at once")
        run.until(NOBODY)
    run.until("the store takes records again")
    assert "State: SUSPENDED" in run.end(expect=75)


def test_the_end_of_a_job_is_waited_for_and_said(perdure, disk, run, tmp_path):
    with filled(disk):
        (tmp_path / "end").touch()
        run.until(f"nothing can be recorded: .*No space left.*{NOBODY}")
        run.signal(signal.SIGTERM)
        said = run.end(expect=143)
        assert "State: SUCCEEDED\nReason: its end is not recorded yet" in said
    perdure("resume", "last")
    assert perdure.json("status", "last")["settled_at"] is not None


def test_what_the_hint_says_frees_space(perdure, disk, run):
    with filled(disk):
        run.signal(signal.SIGINT)
        said = run.until("`perdure rm JOB` removes a job").string
        assert "`perdure du`" in said
        run.until(NOBODY)
        run.signal(signal.SIGINT)
        run.end(expect=7)
        perdure("du")
        perdure("rm", "last", "--yes")
        assert perdure.json("status")["jobs"] == []
