"""The store's folder goes away while a job runs, as by `mv` or `umount`, and comes back."""

import signal
from pathlib import Path

import pytest

SAVING = """\
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT]
name: Saving
steps:
- name: Save
  script:
    actions:
      onRun: {command: python3, args: ["{{Task.File.Save}}", "0"]}
      onCheckpointResume:
        command: python3
        args: ["{{Task.File.Save}}", "{{Task.Checkpoint.State}}"]
    embeddedFiles:
    - name: Save
      type: TEXT
      data: |
        import os, pathlib, sys, time
        for number in range(int(sys.argv[1]) + 1, 60):
            name = f"data-{number}"
            pathlib.Path(name).write_text(str(number) * 1000)
            path = os.path.abspath(name)
            print('openjd_checkpoint_save: {"state": "%d", "file": "%s"}' % (number, path))
            print("step", number, flush=True)
            time.sleep(0.15)
"""


@pytest.fixture(params=["nothing", "an empty folder"])
def moved(perdure, request):
    """A running job that is held because its store is elsewhere since step 6.

    An empty folder is what a disk leaves that was unmounted.
    """
    store = Path(perdure.environment["PERDURE_STORE"])
    away = store.with_name("away")
    with perdure.running("run", perdure.template(SAVING), "--heartbeat-seconds", "0.5") as run:
        run.until(r"step 6\b")
        store.rename(away)
        if request.param == "an empty folder":
            store.mkdir()
        run.until("the task is held: the store is out of reach")
        assert not store.exists() or list(store.iterdir()) == []
        if store.exists():
            store.rmdir()
        yield run, store, away


def test_the_job_goes_on_once_it_is_back(perdure, moved):
    run, store, away = moved
    away.rename(store)
    said = run.end(expect=0)
    assert "was removed" not in said
    perdure("verify")
    assert perdure.json("status", "last")["state"] == "SUCCEEDED"
    assert perdure.json("checkpoints", "last")["checkpoints"][-1]["state"] == "59"


def test_it_goes_on_from_there_if_everything_is_killed_meanwhile(perdure, moved):
    run, store, away = moved
    run.signal(signal.SIGKILL)
    perdure.kill_all()
    assert not store.exists()
    away.rename(store)
    assert "step 59" in perdure("resume", "last").stdout
    perdure("verify")
