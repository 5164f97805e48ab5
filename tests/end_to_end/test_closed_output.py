"""Whoever reads what `run` prints leaves while the job runs, as `grep` by Ctrl-C, or `head`."""

import signal
import subprocess

import pytest

TICKING = """\
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT]
name: Ticking
steps:
- name: Tick
  script:
    actions:
      onRun:
        command: python3
        args: ["{{Task.File.Tick}}", ""]
        checkpointCancelation: {mode: NOTIFY_THEN_TERMINATE}
      onCheckpointResume:
        command: python3
        args: ["{{Task.File.Tick}}", "{{Task.Checkpoint.State}}"]
    embeddedFiles:
    - name: Tick
      type: TEXT
      data: |
        import signal, sys, time
        if sys.argv[1]:
            print("resumed at", sys.argv[1])
            sys.exit()
        def save(*_):
            print('openjd_checkpoint_save: {"state": "asked"}', flush=True)
            sys.exit(1)
        signal.signal(signal.SIGTERM, save)
        while True:
            print("tick", flush=True)
            time.sleep(0.02)
"""


def ends(perdure, run):
    """The exit code; nothing of the job is left running."""
    code = run.process.wait(60)
    perdure.wait_until_no_process()
    return code


@pytest.mark.parametrize("comes_first", ["signal", "close"])
def test_ctrl_c_counts_though_it_ends_the_reader_too(perdure, comes_first):
    with perdure.running("run", perdure.template(TICKING)) as run:
        run.until("tick$")
        if comes_first == "signal":
            run.signal(signal.SIGINT)
        run.process.stdout.close()
        if comes_first == "close":
            run.signal(signal.SIGINT)
        assert ends(perdure, run) == 75
    assert perdure.json("status", "last")["state"] == "SUSPENDED"
    assert "resumed at asked" in perdure("resume", "last").stdout


def test_without_it_the_tasks_save_and_the_same_line_goes_on(perdure):
    template = perdure.template(TICKING)
    with perdure.running("run", template) as run:
        run.until("tick$")
        run.process.stdout.close()
        assert ends(perdure, run) == 141
    status = perdure.json("status", "last")
    assert (status["state"], status["attempts"][0]["by"]) == ("PENDING", "host")
    assert "resumed at asked" in perdure("run", template).stdout


def test_standard_error_says_the_rest_where_only_the_output_is_closed(perdure):
    process = subprocess.Popen(
        perdure.command("run", perdure.template(TICKING), "--verbose"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=perdure.environment,
        cwd=perdure.work,
    )
    with process:
        while "tick" not in process.stdout.readline():
            pass
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 141
    assert "Traceback" not in said
    assert "launch" in said
