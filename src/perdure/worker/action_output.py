"""What one action prints: into the log, its messages to the listener, openjd's own back to openjd.

Threads: everything here runs on the pump's thread, as the bytes come. A save is handed to the
listener while its line is being read, because the files it names are looked at in that moment.

A task that prints millions of lines costs a search for ``openjd_`` and one write a read. Only when
a value was declared secret (openjd_redacted_env) do lines go one by one through openjd's filter,
which hides it; the last unfinished line is held back until it ends, so that both ways agree.

Source: facts of openjd-sessions' log filter (contract tests in tests/contract/worker).
"""

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Protocol

from perdure.protocol.attempt_messages import AttemptMessages
from perdure.protocol.attempt_messages import Event as MessageEvent
from perdure.protocol.lines import Line, LineSplitter, Overlong
from perdure.worker import machine
from perdure.worker.output import OutputLog

#: Messages that openjd-sessions must not see: ours, and the one that would silence every later
#: session of this process.
_NOT_FOR_OPENJD = (
    b"openjd_checkpoint_",
    b"openjd_task_complete",
    b"openjd_session_runtime_loglevel",
)
_SECRET = b"openjd_redacted_env"
_HELD_BACK_LIMIT = 64 * 1024
_READ_BYTES = 1 << 18


class ActionProcess(Protocol):
    """What the supervisor needs of the process that a workspace started."""

    @property
    def pid(self) -> int | None:
        """The action's process."""
        ...

    def stop_reading(self) -> None:
        """Nothing of the action is left: end the reading of its output."""
        ...


class Hearing:
    """Folds the messages of one attempt, from its output and from its messages file alike."""

    def __init__(self, messages: AttemptMessages, listener: Callable[[MessageEvent], None]) -> None:
        self._messages = messages
        self._listener = listener
        self._lock = Lock()

    def hear(self, lines: list[Line | Overlong]) -> None:
        """Fold lines and tell the listener, one line after the other."""
        with self._lock:
            for line in lines:
                for event in self._messages.handle(line):
                    self._listener(event)


class ActionOutput:
    """The `Steering` of one action.

    Args:
        log: of the launch.
        environment: of the process, before what the session changes.
        events: where the attempt's machine gets its events from.
        hearing: of this attempt's messages; None: an environment's action, whose checkpoint
            messages mean nothing.
    """

    def __init__(
        self,
        *,
        log: OutputLog,
        environment: Mapping[str, str],
        events: SimpleQueue[machine.Event],
        hearing: Hearing | None,
    ) -> None:
        self._log = log
        self._environment = dict(environment)
        self._events = events
        self._hearing = hearing
        self._splitter = LineSplitter()
        self._held_back = b""
        self._is_secret = False
        self.process: ActionProcess | None = None
        self.pid: int | None = None
        self.spawn_error = ""
        self.has_no_process = False

    def attach(self, process: ActionProcess) -> None:
        """This process runs the action."""
        self.process = process

    def environment(self, changes: Mapping[str, str | None]) -> dict[str, str]:
        """The environment given, with the session's changes; None removes."""
        merged = {**self._environment, **changes}
        return {name: value for name, value in merged.items() if value is not None}

    def spawned(self, pid: int) -> None:
        """Tell the machine."""
        self.pid = pid
        self._events.put(machine.Spawned())

    def spawn_failed(self, reason: str) -> None:
        """Tell the machine; the reason is kept for the outcome."""
        self.spawn_error = reason
        self._events.put(machine.SpawnFailed())

    def output(self, data: bytes) -> list[str]:
        """Log it and listen to it; returns what openjd must see."""
        if not self._is_secret and _SECRET in data:
            self._is_secret = True
        if self._is_secret:
            return self._one_by_one(data)
        self._write(data)
        return self._listen(self._splitter.find(data))

    def exited(self, code: int) -> None:
        """Tell the machine."""
        self._events.put(machine.Exited(code=code))

    def output_ended(self) -> list[str]:
        """The last line, and the end: nothing of the action is left."""
        if self._held_back:
            self._log.write(self._held_back + b"\n")
            self._held_back = b""
        last = self._listen(self._splitter.finish())
        self._events.put(machine.TreeGone())
        return last

    def record(self, text: str) -> None:
        """A line that openjd-sessions says itself (banners, exits), hidden where it must be."""
        self._log.write(text.encode("utf-8", "backslashreplace") + b"\n")

    def _write(self, data: bytes) -> None:
        """Log whole lines; hold back the last one until it ends or gets long."""
        end = data.rfind(b"\n") + 1
        if not end and len(self._held_back) + len(data) <= _HELD_BACK_LIMIT:
            self._held_back += data
            return
        end = end or len(data)
        self._log.write(self._held_back + data[:end])
        self._held_back = data[end:]

    def _one_by_one(self, data: bytes) -> list[str]:
        """Every line goes through openjd's filter, whose handler logs it (`record`)."""
        self._held_back = b""
        lines = self._splitter.feed(data)
        self._listen(lines)
        return [_text(line) for line in lines if not _begins(line, _NOT_FOR_OPENJD)]

    def _listen(self, lines: list[Line | Overlong]) -> list[str]:
        """Fold the lines; those that openjd acts on."""
        if self._hearing is not None:
            self._hearing.hear(lines)
        return [
            _text(line)
            for line in lines
            if _begins(line, (b"openjd_",)) and not _begins(line, _NOT_FOR_OPENJD)
        ]

    @property
    def is_secret(self) -> bool:
        """Whether lines are logged by `record`, through openjd's filter."""
        return self._is_secret


def _begins(line: Line | Overlong, prefixes: tuple[bytes, ...]) -> bool:
    begin = line.data if isinstance(line, Line) else line.head
    return begin.startswith(prefixes)


def _text(line: Line | Overlong) -> str:
    data = line.data if isinstance(line, Line) else line.head
    return data.decode("utf-8", "backslashreplace")


class MessagesFile:
    """Follows ``PERDURE_MESSAGES``: the same grammar and limits as stdout, in a file.

    For programs whose output is prefixed, interleaved or buffered. Lines are counted for
    themselves. The file must stay a regular file; a link or a pipe in its place is not followed.
    """

    def __init__(self, path: Path, hearing: Hearing) -> None:
        self._path = path
        self._hearing = hearing
        self._splitter = LineSplitter()
        self._offset = 0
        _create_empty(path)

    def read(self) -> None:
        """Listen to what was added since the last call."""
        with contextlib.suppress(OSError):
            if self._path.lstat().st_size > self._offset:
                self._read_new()

    def finish(self) -> None:
        """Listen to the rest, an unfinished last line included."""
        self.read()
        self._hearing.hear(self._splitter.finish())

    def _read_new(self) -> None:
        descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            while data := os.pread(descriptor, _READ_BYTES, self._offset):
                self._offset += len(data)
                self._hearing.hear(self._splitter.find(data))
        finally:
            os.close(descriptor)


def _create_empty(path: Path) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
