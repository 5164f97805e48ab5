"""What one action prints: into the log, its messages to the listener, openjd's own back to openjd.

Threads: everything here runs on the pump's thread, as the bytes come. A save is handed to the
listener while its line is being read, because the files it names are looked at in that moment.

A task that prints millions of lines costs a search for ``openjd_`` and one write a read. Only when
a value was declared secret (openjd_redacted_env) do lines go one by one through openjd's filter,
which hides it; the last unfinished line is held back until it ends, so that both ways agree.

Source: facts of openjd-sessions' log filter (contract tests in tests/contract/worker).
"""

from collections.abc import Callable, Mapping
from queue import SimpleQueue
from threading import Lock
from typing import Protocol

from perdure.protocol.attempt_messages import AttemptMessages
from perdure.protocol.attempt_messages import Event as MessageEvent
from perdure.protocol.lines import Line, LineSplitter, Overlong
from perdure.worker import machine
from perdure.worker.output import OutputLog

#: The message that would silence every later session of this process: openjd never sees it.
_SILENCING = b"openjd_session_runtime_loglevel"
#: Messages that mean nothing to openjd-sessions.
_NOT_FOR_OPENJD = (b"openjd_checkpoint_", b"openjd_task_complete", _SILENCING)
_SECRET = b"openjd_redacted_env"
_MARK = b"openjd_"
_HELD_BACK_LIMIT = 64 * 1024


class ActionProcess(Protocol):
    """What the supervisor needs of the process that a workspace started."""

    @property
    def pid(self) -> int | None:
        """The action's process."""
        ...

    @property
    def exit_code(self) -> int | None:
        """None until its exit was collected."""
        ...

    @property
    def error(self) -> BaseException | None:
        """What ended the reading of its output: a bug of ours."""
        ...

    @property
    def complaint(self) -> str:
        """Why it was ended because a line could not be logged, or ""."""
        ...

    def stop_reading(self) -> None:
        """Nothing of the action is left: end the reading of its output."""
        ...


class Followed(Protocol):
    """A file that is listened to beside the output."""

    @property
    def descriptor(self) -> int | None:
        """Readable when the file may have grown."""
        ...

    def news(self) -> None:
        """Listen to what was added."""
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
        self._is_over = False
        self._messages_file: Followed | None = None
        self.process: ActionProcess | None = None
        self.pid: int | None = None
        self.spawn_error = ""

    def follow(self, messages_file: "Followed") -> None:
        """Listen to this file, too, as it grows."""
        self._messages_file = messages_file

    def watch(self) -> int | None:
        """What the pump waits for beside the output."""
        return self._messages_file.descriptor if self._messages_file is not None else None

    def watched(self) -> None:
        """The messages file may have grown."""
        assert self._messages_file is not None
        self._messages_file.news()

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
        # The name may have begun in what came before; that is held back, so nothing was shown yet.
        if not self._is_secret and _SECRET in self._held_back[-len(_SECRET) :] + data:
            self.hide()
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
        lines = self._splitter.finish()
        last = self._listen(lines)
        self.abandoned()
        return self._shown(lines) if self._is_secret else last

    def abandoned(self) -> None:
        """Nothing of the action is left; said once."""
        if not self._is_over:
            self._is_over = True
            self._events.put(machine.TreeGone())

    def hide(self) -> None:
        """From now on every line goes through openjd's filter: the session has hidden values."""
        self._is_secret = True

    def record(self, text: str) -> None:
        """A line that openjd-sessions says itself (banners, exits), hidden where it must be."""
        self._log.say(text)

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
        return self._shown(lines)

    def _listen(self, lines: list[Line | Overlong]) -> list[str]:
        """Fold the lines; those that openjd acts on. Never one that was cut."""
        if self._hearing is not None:
            self._hearing.hear(lines)
        return [
            _text(line.data)
            for line in lines
            if isinstance(line, Line)
            and line.data.startswith(_MARK)
            and not line.data.startswith(_NOT_FOR_OPENJD)
        ]

    def _shown(self, lines: list[Line | Overlong]) -> list[str]:
        """The lines as they go through openjd's filter: one that is too long as no message."""
        shown: list[str] = []
        for line in lines:
            if isinstance(line, Overlong):
                shown.append(f"perdure: a line of {line.size_bytes} bytes is not shown")
            elif line.data.startswith(_SILENCING):
                self.record(_text(line.data))
            else:
                shown.append(_text(line.data))
        return shown

    @property
    def is_secret(self) -> bool:
        """Whether lines are logged by `record`, through openjd's filter."""
        return self._is_secret


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
