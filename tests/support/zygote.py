"""Starts workers fast: everything is imported once, and each worker's keeper is forked from here.

A worker started this way runs the very entry that `python -m perdure.cli.work` runs; only the
interpreter's start and the imports are spared. Requests and answers are lines of JSON:
``{"argv": […], "env": {…}, "out": path}`` gives ``{"pid": n}``, then ``{"pid": n, "exit": c}``.
"""

import json
import os
import select
import signal
import sys
from pathlib import Path

import perdure.cli.working
import perdure.worker.workspaces.openjd
from perdure.cli.work import main
from perdure.worker.processes import become_subreaper

assert perdure.cli.working is not None
assert perdure.worker.workspaces.openjd is not None


def serve() -> None:
    become_subreaper()  # what escapes from a worker whose keeper was killed is ours to collect
    wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(woken)
    waiting = b""
    while True:
        ready, _, _ = select.select([0, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
            reap()
        if 0 in ready:
            data = os.read(0, 1 << 16)
            if not data:
                return
            waiting += data
            while b"\n" in waiting:
                line, _, waiting = waiting.partition(b"\n")
                answer({"pid": start(json.loads(line))})


def reap() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        answer({"pid": pid, "exit": os.waitstatus_to_exitcode(status)})


def answer(words: dict) -> None:
    os.write(1, json.dumps(words).encode() + b"\n")


def start(request: dict) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.environ.clear()
        os.environ.update(request["env"])
        nothing = os.open(os.devnull, os.O_RDONLY)
        said = os.open(request["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(nothing, 0)
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.closerange(3, 64)
        for path, text in request.get("enter", {}).items():  # a cgroup to live in
            Path(path).write_text(text.replace("PID", str(os.getpid())))
        code = main(request["argv"])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    finally:
        os._exit(71)


if __name__ == "__main__":
    serve()
