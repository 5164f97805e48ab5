"""Workers as processes of this host.

A worker is started in a session of its own and outlives whoever started it. Its ids are its pid and
start time, with the host, boot and pid namespace that they belong to.

Most of a worker's start is importing. A command that needs one soon *prepares* it: it imports
while the command reads its template, waits for its order on its standard input, and leaves if that
is closed without one.
"""

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perdure.engines.base import LaunchRequest
from perdure.errors import EngineRefused
from perdure.worker.host import describe_process, is_gone, is_of_here
from perdure.worker.processes import TOKEN_VARIABLE, carrying

#: ``-P``: what lies in the work folder is not imported.
_PROGRAM = (sys.executable, "-P", "-m", "perdure.cli.work")


class LocalEngine:
    """Starts workers here."""

    ends_with_host = True

    def __init__(self) -> None:
        self._started: dict[int, subprocess.Popen[bytes]] = {}
        self._prepared: dict[str, subprocess.Popen[bytes]] = {}

    def prepare(self, workers: int = 1) -> None:
        """See that so many workers import and wait; what they print meanwhile is dropped."""
        for _ in range(workers - len(self._prepared)):
            token = secrets.token_hex(16)
            with contextlib.suppress(OSError):  # then workers are started when they are needed
                self._prepared[token] = subprocess.Popen(
                    [*_PROGRAM, "--token", token, "--wait"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    env={**os.environ, TOKEN_VARIABLE: token},
                )

    def close(self) -> None:
        """Let prepared workers that nobody needed leave."""
        for process in self._prepared.values():
            assert process.stdin is not None
            process.stdin.close()
            self._started[process.pid] = process
        self._prepared.clear()

    def new_tokens(self, count: int) -> Sequence[str]:
        """Those of prepared workers first."""
        prepared = list(self._prepared)[:count]
        return [*prepared, *(secrets.token_hex(16) for _ in range(count - len(prepared)))]

    def start(self, requests: Sequence[LaunchRequest]) -> Sequence[Mapping[str, Any]]:
        """Start workers; what one prints itself goes into ``<launch>.out`` beside its log.

        Raises:
            EngineRefused: a process could not be started.
        """
        return [self._start(request) for request in requests]

    def _start(self, request: LaunchRequest) -> Mapping[str, Any]:
        try:
            request.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
            request.sessions.mkdir(mode=0o700, parents=True, exist_ok=True)
            said = request.logs / f"{request.launch}.out"
            process = self._order_prepared(request, said) or _spawn(request, said)
        except OSError as error:
            raise EngineRefused(
                f"no worker could be started: {error}",
                hint="Check the limits of processes and memory, and the space for logs.",
            ) from error
        self._started[process.pid] = process
        return {"engine": "local", **describe_process(process.pid)}

    def _order_prepared(self, request: LaunchRequest, said: Path) -> subprocess.Popen[bytes] | None:
        """Give the order to the worker that was prepared under the request's token."""
        process = self._prepared.pop(request.token, None)
        if process is None:
            return None
        assert process.stdin is not None
        order = {"arguments": _arguments(request), "said": str(said)}
        try:
            with process.stdin:
                process.stdin.write(json.dumps(order).encode("utf-8") + b"\n")
        except BrokenPipeError:
            process.wait()
            return None
        return process

    def find(self, token: str) -> Mapping[str, Any] | None:
        """The worker's first process, by its token."""
        found = carrying(lambda carried: carried == token)
        first = min(found, key=lambda info: info.started, default=None)
        return {"engine": "local", **describe_process(first.pid)} if first is not None else None

    def is_there(self, ids: Mapping[str, Any]) -> bool:
        """Whether the process runs; a process of another host is taken to."""
        process = self._started.get(int(ids.get("pid", -1)))
        if process is not None and process.poll() is not None:
            return False
        return not is_gone(ids)

    def may_live(self, ids: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """A process of this host is there, or it is not."""
        return False

    def ran_out_of_memory(self, ids: Mapping[str, Any]) -> bool:  # noqa: ARG002 - of any
        """The kernel's proof is the worker's own: who ends a whole worker tells nobody here."""
        return False

    def why_stopped(self, ids: Mapping[str, Any], *, has_begun: bool) -> str | None:  # noqa: ARG002
        """A process of this host is stopped by commands of perdure only."""
        return None

    def follow_later(self, seconds: float, logs: Path) -> bool:  # noqa: ARG002
        """Whoever makes the turns here waits."""
        return False

    def interrupt(self, ids: Mapping[str, Any], *, by_person: bool) -> None:
        """SIGINT for a person's wish, SIGTERM for the host's; nothing to a worker elsewhere."""
        if is_of_here(ids) and self.is_there(ids):
            number = signal.SIGINT if by_person else signal.SIGTERM
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(ids["pid"]), number)

    def withdraw(self, ids: Mapping[str, Any]) -> None:
        """Workers here do not wait: they begin at once."""

    def wait(self, seconds: float) -> bool:
        """Return when a worker started here has ended (True), or after so many seconds."""
        running = [p for p in self._started.values() if p.poll() is None]
        if not running:
            time.sleep(seconds)
            return False
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
        return any([process.poll() is not None for process in running])  # noqa: C419 - poll all


def _spawn(request: LaunchRequest, said: Path) -> subprocess.Popen[bytes]:
    """Start a worker that was not prepared."""
    with said.open("ab") as output:
        return subprocess.Popen(
            [*_PROGRAM, *_arguments(request)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**request.environment, TOKEN_VARIABLE: request.token},
        )


def _arguments(request: LaunchRequest) -> list[str]:
    """What the worker is told."""
    arguments = [
        *("--store", request.store),
        *("--job", request.job),
        *("--launch", request.launch),
        *("--token", request.token),
        *("--logs", str(request.logs)),
        *("--sessions", str(request.sessions)),
    ]
    return arguments if request.gpus is None else [*arguments, "--gpus", request.gpus]
