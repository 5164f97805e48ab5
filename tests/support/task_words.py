"""Small tasks that save, for the tests of real workers."""

import signal
from collections.abc import Sequence
from textwrap import dedent
from typing import Any

from support.worker_runs import Ground, JobRun, python_step, template

#: What a task of these tests begins with: one write a message, and waiting for the signal.
WORDS = """
    import json, os, signal, sys, time
    def say(name, **what):
        os.write(1, f"openjd_{name}: {json.dumps(what)}\\n".encode())
    def files(*names, mode="ACCUMULATE", dirs=()):
        say("checkpoint_files", files=[os.path.abspath(n) for n in names],
            dirs=[os.path.abspath(d) for d in dirs], mode=mode)
    def save(state=None, file=None):
        what = {}
        if state is not None:
            what["state"] = state
        if file is not None:
            what["file"] = os.path.abspath(file)
        say("checkpoint_save", **what)
    def write(name, text):
        os.makedirs(os.path.dirname(os.path.abspath(name)), exist_ok=True)
        with open(name, "w") as file:
            file.write(text)
    def complete(value):
        say("task_complete", F=value)
    def committed(n):
        while True:
            try:
                if json.load(open(os.environ["PERDURE_COMMIT_FILE"]))["save"] >= n:
                    return
            except FileNotFoundError:
                pass
            time.sleep(0.005)
    resumed = bool(os.environ["PERDURE_RESUMED_FROM"])
    def wait():
        print("ready", flush=True)
        signal.pause()
"""


_STEP = ("resume", "notice_seconds", "more", "args", "timeout", "cancel")


def job_of(ground: Ground, code: str, *, extensions: Sequence[str] = (), **how: Any) -> JobRun:
    """A job whose only step runs `WORDS` and then ``code``."""
    step_how = {name: how.pop(name) for name in _STEP if name in how}
    body = dedent(WORDS) + "\n" + dedent(code)
    return ground.submit(template(python_step(body, **step_how), extensions=extensions), **how)


def interrupted(job: JobRun, until: str = "ready") -> JobRun:
    """Run until the log says so, then as if the host were to go."""
    worker = job.start()
    job.wait_for(until)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.said()
    return job
