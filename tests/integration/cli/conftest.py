"""Jobs that the commands look at, each made once for all tests of this folder."""

import signal

import pytest

from support.command_line import CommandLine

SAVER = """
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT]
name: Saver
parameterDefinitions:
- {name: Folder, type: PATH, objectType: DIRECTORY, dataFlow: OUT}
steps:
- name: Work
  parameterSpace:
    taskParameterDefinitions:
    - {name: Frame, type: INT, range: "12"}
  script:
    actions:
      onRun:
        command: python
        args: ["{{Task.File.Work}}", "{{Session.WorkingDirectory}}", "{{Param.Folder}}", ""]
        checkpointCancelation: {mode: NOTIFY_THEN_TERMINATE, signalToNotify: SIGUSR1}
      onCheckpointResume:
        command: python
        args: ["{{Task.File.Work}}", "{{Session.WorkingDirectory}}", "{{Param.Folder}}",
               "{{Task.Checkpoint.State}}"]
        checkpointCancelation: {mode: NOTIFY_THEN_TERMINATE, signalToNotify: SIGUSR1}
    embeddedFiles:
    - name: Work
      filename: work.py
      type: TEXT
      data: |
        import json, os, pathlib, signal, sys
        session, outside, state = map(str, sys.argv[1:4])
        asked = []
        signal.signal(signal.SIGUSR1, lambda *_: asked.append(True))
        inside = pathlib.Path(session, "run"); inside.mkdir(exist_ok=True)
        beyond = pathlib.Path(outside, "result.txt")
        commits = pathlib.Path(os.environ["PERDURE_COMMIT_FILE"])
        def save(number):
            pathlib.Path(inside, "data.bin").write_bytes(b"%d" % number * 1000)
            beyond.write_text("result %d" % number)
            print("openjd_checkpoint_files: " + json.dumps(
                {"files": [str(beyond)], "dirs": [str(inside)]}))
            print("openjd_checkpoint_save: " + json.dumps(
                {"state": "step %d" % number, "file": str(inside / "data.bin")}), flush=True)
        def committed(number):
            try:
                return json.loads(commits.read_text())["save"] >= number
            except (OSError, ValueError):
                return False
        if state:
            print("resumed from", state)
            print("openjd_checkpoint_resume_status: " + json.dumps({"status": "RESUMED"}))
            print("openjd_progress: 100.0")
            sys.exit(0)
        import time
        print("openjd_progress: 25.0")
        print("openjd_status: working on it")
        for number in (1, 2):
            save(number)
            while not committed(number):
                time.sleep(0.01)
            print("committed", number, flush=True)
        while not asked:
            time.sleep(0.01)
        save(3)
        sys.exit(1)
"""

QUICK = """
specificationVersion: jobtemplate-2023-09
name: Quick
steps:
- name: Frames
  parameterSpace:
    taskParameterDefinitions:
    - {name: Frame, type: INT, range: "1-3"}
  script:
    actions:
      onRun:
        command: bash
        args: ["-c", "echo frame {{Task.Param.Frame}}; exit $(( {{Task.Param.Frame}} == 2 ))"]
- name: Later
  dependencies: [{dependsOn: Frames}]
  script:
    actions:
      onRun: {command: "true"}
"""

GOOD = """
specificationVersion: jobtemplate-2023-09
name: Good
steps:
- name: Only
  script:
    actions:
      onRun: {command: echo, args: ["all is well"]}
"""


class Shell(CommandLine):
    """The command line, with what these tests do with it."""

    def __init__(self, folder):
        super().__init__(folder)
        self.store = folder / "store"

    def suspended(self, template, *arguments):
        """Run until two checkpoints are committed, then Ctrl-C; the job's id."""
        with self.running("run", self.template(template), *arguments) as run:
            run.until("committed 2")
            run.signal(signal.SIGINT)
            run.end(75)
        return self.json("status", "last")["job"]


@pytest.fixture(scope="session")
def suspended(tmp_path_factory):
    """A suspended job with three checkpoints; tests do not change it."""
    shell = Shell(tmp_path_factory.mktemp("suspended"))
    outside = shell.folder / "outside"
    outside.mkdir()
    shell.job = shell.suspended(SAVER, "-p", f"Folder={outside}", "--key", "my key")
    return shell


@pytest.fixture(scope="session")
def failed(tmp_path_factory):
    """A job of which one task failed, and a step never began."""
    shell = Shell(tmp_path_factory.mktemp("failed"))
    template = shell.template(QUICK)
    shell("run", template, "--limit", "back_off_seconds=0", "--limit", "per_point=2", expect=1)
    shell.job = shell.json("status", "last")["job"]
    return shell


@pytest.fixture
def saver():
    """The template of a job that saves twice, and once more when it is asked."""
    return SAVER


@pytest.fixture
def shell(tmp_path):
    """A command line of the test's own."""
    return Shell(tmp_path)
