"""Hearing at once that Slurm is about to end a job: a preemption tells its steps first.

In the grace of a preemption only steps get SIGTERM; the batch script and what it runs hear of it at
the end, a few seconds before they are killed. So a worker keeps a step of its own that does nothing
but wait for that signal and pass it on: a line through `srun`, whose output the worker reads. That
a step had begun and is killed without that word means that somebody cancelled it (`scancel JOB.0`);
this is told alike.

The step ends with its standard input, that is with the worker, however that ends: a step that is
left would keep the job running. Where no step can be started the early word is missing, no more.

Cost: a process of srun and one of Python without any module, 20 MB together, and no time.

Source: slurm.conf(5) GraceTime; srun(1) --overlap; docs/engines.md.
"""

import subprocess
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import IO, Self

from perdure.engines.slurm.real_commands import real_command
from perdure.errors import EngineRefused

_PROGRAM = """
import os, signal, sys
def pass_on(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, b"ended\\n")
signal.signal(signal.SIGTERM, pass_on)
os.write(1, b"begun\\n")
while os.read(0, 4096):
    pass
"""
_LONGEST_END_SECONDS = 10.0
_STEP = ("--overlap", "--nodes=1", "--ntasks=1", "--cpus-per-task=1", "--mem=0", "--quiet")


class Sentinel:
    """The step, while the context is entered.

    Args:
        told: called once, from a thread, when Slurm tells the job's steps to end or kills this one.
        step: the command that starts it; None: srun in this job.
    """

    def __init__(self, told: Callable[[], None], step: tuple[str, ...] | None = None) -> None:
        self._told = told
        self._step = step
        self._process: subprocess.Popen[bytes] | None = None
        self._is_leaving = False

    def __enter__(self) -> Self:
        """Start it; blocks for as long as that takes to ask, not until it runs."""
        try:
            step = (real_command("srun"), *_STEP) if self._step is None else self._step
            self._process = subprocess.Popen(
                [*step, sys.executable, "-I", "-S", "-c", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, EngineRefused):
            return self
        threading.Thread(
            target=self._listen, args=(self._process.stdout,), name="perdure-sentinel", daemon=True
        ).start()
        return self

    def _listen(self, said: IO[bytes]) -> None:
        with said:
            if said.readline() != b"begun\n":
                return  # no step could be started
            if said.readline() == b"ended\n" or not self._is_leaving:
                self._told()

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """End the step; blocks until it has ended."""
        if self._process is None:
            return
        self._is_leaving = True
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_LONGEST_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
