"""A person resumes what failed: at once, from the newest good checkpoint, and told so."""

import re
import signal

import pytest

FAILING = """
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT]
name: Failing
parameterDefinitions:
- {name: Broken, type: STRING}
steps:
- name: Simulate
  script:
    actions:
      onRun: {command: python, args: ["{{Task.File.Work}}", "0", "{{Param.Broken}}"]}
      onCheckpointResume:
        command: python
        args: ["{{Task.File.Work}}", "{{Task.Checkpoint.State}}", "{{Param.Broken}}"]
    embeddedFiles:
    - name: Work
      filename: work.py
      type: TEXT
      data: |
        import json, os, pathlib, sys, time
        at, commits = int(sys.argv[1]), pathlib.Path(os.environ["PERDURE_COMMIT_FILE"])
        print("begins at", at, flush=True)
        def committed():
            try:
                return json.loads(commits.read_text())["save"]
            except (OSError, ValueError):
                return 0
        for number, at in enumerate(range(at + 1, 4), 1):
            print("openjd_checkpoint_save: " + json.dumps({"state": str(at)}), flush=True)
            while committed() < number:
                time.sleep(0.01)
        sys.exit(pathlib.Path(sys.argv[2]).exists())
"""


@pytest.fixture
def failing(shell):
    """The command line of a job that fails at its end while `broken` is there."""
    shell.broken = shell.folder / "broken"
    shell.broken.touch()
    shell.line = ("run", shell.template(FAILING), "-p", f"Broken={shell.broken}")
    return shell


def next_starts(shell):
    """From where the task goes on, by each command that says so."""
    (task,) = shell.json("status", "last")["tasks"]
    listed = shell.json("checkpoints", "last")["checkpoints"]
    shown = shell.json("checkpoint", "show", "last/Simulate")
    pinned = shell.json("checkpoint", "pin", "last/Simulate")["name"]
    return (
        task["base"],
        *(row["sequence"] for row in listed if row["point"]),
        shown["sequence"] if shown["point"] else None,
        int(pinned.rpartition("@")[2]),
    )


def test_a_mended_program_goes_on_from_its_newest_checkpoint(failing):
    limits = ("--limit", "back_off_seconds=0", "--limit", "per_point=1")
    failing(*failing.line, *limits, "--keep-last", "9", expect=75)
    starts = next_starts(failing)
    assert len(set(starts)) == 1
    assert failing.json("checkpoint", "show", "last/Simulate")["state"] == "3"
    failing.broken.unlink()
    done = failing("resume", "last")
    assert f"it goes on from checkpoint {starts[0]}" in done.stderr
    assert "begins at 3" in done.stdout


def test_what_fails_again_is_held_again(failing):
    limits = ("--limit", "back_off_seconds=0", "--limit", "per_point=1")
    failing(*failing.line, *limits, expect=75)
    done = failing("resume", "last", expect=75)
    listed = [line.strip() for line in done.stdout.partition("choose one of:\n")[2].splitlines()]
    assert any(re.search(r"--task \w+ --from start", line) for line in listed)
    assert "It goes on with" not in done.stdout
    assert failing.json("status", "last")["held"]


def test_a_resume_ends_the_back_off_and_run_says_that_it_waits(failing):
    with failing.running(*failing.line, "--limit", "back_off_seconds=600") as run:
        run.until("attempt 2 FAILED: .*; it is tried again in 600 s")
        run.signal(signal.SIGTERM)
        run.end(143)
    with failing.running(*failing.line) as run:
        run.until(r"Simulate is tried again in \d+ s \(attempt 2 FAILED: exited with code 1")
        run.signal(signal.SIGTERM)
        run.end(143)
    why = failing("why", "last").stdout
    assert "# at once, from its newest good checkpoint" in why
    failing.broken.unlink()
    assert "begins at 3" in failing("resume", "last").stdout


def test_a_checkpoint_that_is_not_there_is_answered_with_those_that_are(suspended):
    done = suspended("resume", "last", "--task", "Work", "--from", "7", expect=3)
    assert "Work[Frame=12] has no checkpoint 7" in done.stderr
    assert f"There are: 1, 2, 3. See: perdure checkpoints {suspended.job}" in done.stderr


CONFLICT = """
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT]
name: Conflict
parameterDefinitions:
- {name: Folder, type: PATH, objectType: DIRECTORY, dataFlow: OUT}
steps:
- name: Work
  script:
    actions:
      onRun:
        command: bash
        args: ["{{Task.File.Work}}", "{{Param.Folder}}/result"]
        checkpointCancelation: {mode: NOTIFY_THEN_TERMINATE, signalToNotify: SIGUSR1}
      onCheckpointResume: {command: "true"}
    embeddedFiles:
    - name: Work
      type: TEXT
      data: |
        trap 'exit 1' USR1
        echo one > "$1"
        echo "openjd_checkpoint_files: {\\"files\\": [\\"$1\\"]}"
        echo 'openjd_checkpoint_save: {"state": "1"}'
        until [ -s "$PERDURE_COMMIT_FILE" ]; do sleep 0.05; done
        echo committed
        while true; do sleep 0.05; done
"""


def test_a_job_that_files_are_in_the_way_of_ends_with_the_lines_that_decide(shell):
    shell.suspended_at("committed", "run", shell.template(CONFLICT), "-p", f"Folder={shell.folder}")
    (shell.folder / "result").write_text("mine")
    done = shell("resume", "last", expect=3)
    job = shell.json("status", "last")["job"]
    listed = done.stdout.partition("choose one of:\n")[2]
    assert f"perdure resume {job} --overwrite" in listed
    assert f"perdure resume {job} --keep" in listed
    shell("resume", "last", "--keep")
    assert (shell.folder / "result").read_text() == "mine"
