"""Which processes lead a launch's actions, written down on this host for whoever ends what it left.

What a launch started is found by the token in its environment. A program may clear that, or write
over it to show a title. Its action's first process leads a session of its own, and whatever does
not leave that session is found by it.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from perdure.worker.host import process_started, this_host
from perdure.worker.processes import ProcessInfo, processes

_NAME = ".led"


class LedSessions:
    """The note of one launch, beside its session folders; written by its worker alone.

    A write that fails is done without: the token finds what it always found.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME
        self._fd: int | None = None
        self._staying: list[tuple[int, int]] = []

    def note(self, pid: int | None, *, stays: bool) -> None:
        """An action began; the one before has ended, unless what it started ``stays``."""
        started = process_started(pid) if pid is not None else None
        if pid is None or started is None:
            return
        led = [*self._staying, (pid, started)]
        if stays:
            self._staying = led
        here = this_host()
        noted = {"boot": here.boot, "pid_namespace": here.pid_namespace, "led": led}
        with suppress(OSError):
            if self._fd is None:
                self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.pwrite(self._fd, json.dumps(noted).encode("ascii") + b"\n", 0)

    def close(self) -> None:
        """Nothing of the launch is left."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            self._path.unlink(missing_ok=True)


def led_processes(folder: Path) -> list[ProcessInfo]:
    """What runs in the sessions that the launch of this folder noted last."""
    led = _read(folder)
    if not led:
        return []
    return [
        info
        for info in processes()
        if info.session in led
        and info.started >= led[info.session]
        and process_started(info.session) in (None, led[info.session])
    ]


def _read(folder: Path) -> dict[int, int]:
    here = this_host()
    try:
        line = (folder / _NAME).read_bytes().split(b"\n", 1)[0]
        noted: dict[str, Any] = json.loads(line)
        if (noted["boot"], noted["pid_namespace"]) != (here.boot, here.pid_namespace):
            return {}
        return {int(pid): int(started) for pid, started in noted["led"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
