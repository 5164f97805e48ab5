"""Which process leads a launch's action, written down on this host for whoever ends what it left.

What a launch started is found by the token in its environment. A program may clear that, or write
over it to show a title. Its action's first process leads a session of its own; while that process
lives, with the start time noted, it and its session are the launch's beyond doubt.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from perdure.worker.host import describe_process, is_gone, is_of_here
from perdure.worker.processes import ProcessInfo, processes

_NAME = ".led"


class LedSession:
    """The note of one launch, beside its session folders; written by its worker alone.

    A write that fails is done without: the token finds what it always found.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fd: int | None = None

    def note(self, pid: int | None) -> None:
        """An action began; the one before has ended."""
        if pid is None:
            return
        noted = json.dumps(describe_process(pid)).encode("ascii")
        with suppress(OSError):
            if self._fd is None:
                path = self._folder / _NAME
                self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.pwrite(self._fd, noted + b"\n", 0)

    def close(self) -> None:
        """Nothing of the launch is left."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        forget_led(self._folder)


def led_processes(folder: Path) -> list[ProcessInfo]:
    """What runs in the session of the action that the launch of this folder noted last."""
    try:
        # A shorter line over a longer one leaves the longer one's end behind it.
        noted: dict[str, Any] = json.loads((folder / _NAME).read_bytes().split(b"\n", 1)[0])
        if noted["pid_started"] is None or not is_of_here(noted) or is_gone(noted):
            return []
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [info for info in processes() if info.session == noted["pid"]]


def forget_led(folder: Path) -> None:
    """Whatever was noted is ended."""
    with suppress(OSError):
        (folder / _NAME).unlink(missing_ok=True)
