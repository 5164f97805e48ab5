"""Workers as processes of this host.

A worker is started in a session of its own and outlives whoever started it. Its ids are its pid and
start time, with the host, boot and pid namespace that they belong to.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from perdure.engines.base import LaunchRequest
from perdure.errors import EngineRefused
from perdure.worker.host import describe_process, is_gone
from perdure.worker.keeper import is_of_launch
from perdure.worker.processes import TOKEN_VARIABLE, carrying

_MODULE = "perdure.cli.work"


class LocalEngine:
    """Starts workers here."""

    def __init__(self) -> None:
        self._started: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, request: LaunchRequest) -> Mapping[str, Any]:
        """Start a worker; what it prints itself goes into ``<launch>.out`` beside its log.

        Raises:
            EngineRefused: the process could not be started.
        """
        try:
            request.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            request.sessions.mkdir(mode=0o700, parents=True, exist_ok=True)
            said = request.logs / f"{request.launch}.out"
            with said.open("ab") as output:
                process = subprocess.Popen(
                    _command(request),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    env={**request.environment, TOKEN_VARIABLE: request.token},
                )
        except OSError as error:
            raise EngineRefused(
                f"no worker could be started: {error}",
                hint="Check the limits of processes and memory, and the space for logs.",
            ) from error
        self._started[process.pid] = process
        return {"engine": "local", **describe_process(process.pid)}

    def find(self, token: str) -> Mapping[str, Any] | None:
        """The worker's first process, by its token."""
        found = carrying(lambda carried: is_of_launch(carried, token) and carried == token)
        first = min(found, key=lambda info: info.started, default=None)
        return {"engine": "local", **describe_process(first.pid)} if first is not None else None

    def is_there(self, ids: Mapping[str, Any]) -> bool:
        """Whether the process runs; a process of another host is taken to."""
        process = self._started.get(int(ids.get("pid", -1)))
        if process is not None and process.poll() is not None:
            return False
        return not is_gone(ids)

    def interrupt(self, ids: Mapping[str, Any], *, by_person: bool) -> None:
        """SIGINT for a person's wish, SIGTERM for the host's."""
        if self.is_there(ids):
            number = signal.SIGINT if by_person else signal.SIGTERM
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(ids["pid"]), number)

    def wait(self, seconds: float) -> None:
        """Return when a worker started here has ended, or after so many seconds."""
        running = [p for p in self._started.values() if p.poll() is None]
        if not running:
            time.sleep(seconds)
            return
        poll = select.poll()
        descriptors: list[int] = []
        try:
            for process in running:
                with contextlib.suppress(ProcessLookupError):
                    descriptors.append(os.pidfd_open(process.pid))
                    poll.register(descriptors[-1], select.POLLIN)
            poll.poll(seconds * 1000)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        for process in running:
            process.poll()


def _command(request: LaunchRequest) -> list[str]:
    """The worker's command line; ``-P``: what lies in the work folder is not imported."""
    command = [
        sys.executable,
        "-P",
        "-m",
        _MODULE,
        *("--store", request.store),
        *("--job", request.job),
        *("--launch", request.launch),
        *("--token", request.token),
        *("--logs", str(request.logs)),
        *("--sessions", str(request.sessions)),
    ]
    return command if request.gpus is None else [*command, "--gpus", request.gpus]
