"""The seam in openjd-sessions: one class in place of its `LoggingSubprocess`.

Why our own: the stock class polls every millisecond (4 % of a core for a silent task), passes every
line through the logging module (15 us a line), cuts long lines so that their rest can forge a
message, and offers neither the process nor a signal. This one reads bytes when there are any, hands
them to the `Steering` of the session first, and passes on to openjd only the lines that it acts on.

It is rebound by name in the two modules that use it (`install`), keeps the members that they use,
and is guarded by contract tests. The public way remains as the fall-back: without `install` a
session runs as openjd ships it.

Threads: `run` is called on the runner's own pool thread and blocks until the action's process has
exited and its output was read; everything else may be called from any thread.

Source: openjd-sessions 0.13 and 0.14, ``_subprocess.py``, ``_runner_base.py``, ``_session.py``.
"""

import contextlib
import fcntl
import logging
import os
import select
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import IO, Any, Protocol

from openjd.sessions import LogContent, _runner_base, _session

from perdure.worker.workspaces.openjd_threads import LentThreads

#: The attribute of a record that has the line as the action printed it: openjd's filter adds to
#: lines that it does not understand, and hides values.
AS_PRINTED = "perdure_as_printed"
_READ_BYTES = 1 << 18


class Steering(Protocol):
    """What a session's processes ask and tell; called on the pump's thread."""

    def attach(self, process: "SteeredSubprocess") -> None:
        """This process is about to run an action."""
        ...

    def environment(self, changes: Mapping[str, str | None]) -> dict[str, str]:
        """The whole environment of the action's process."""
        ...

    def spawned(self, pid: int) -> None:
        """The action's process runs."""
        ...

    def spawn_failed(self, reason: str) -> None:
        """It could not be started."""
        ...

    def watch(self) -> int | None:
        """A further descriptor to wait for while the process runs, or None."""
        ...

    def watched(self) -> None:
        """That descriptor is readable."""
        ...

    def output(self, data: bytes) -> list[str]:
        """Bytes that it printed; returns the lines that openjd acts on."""
        ...

    def exited(self, code: int) -> None:
        """Its exit was collected; output may still follow."""
        ...

    def output_ended(self) -> list[str]:
        """All output was read; returns the last line, if openjd acts on it."""
        ...

    def abandoned(self) -> None:
        """Its output could not be read to the end; it is over all the same."""
        ...


#: Whose processes are whose: by session id.
_steerings: dict[str, Callable[[], Steering]] = {}


def install() -> None:
    """Put the class in place; may be called again."""
    for module in (_runner_base, _session):
        vars(module)["LoggingSubprocess"] = SteeredSubprocess
        vars(module)["mkstemp"] = _mkstemp
    vars(_runner_base)["ThreadPoolExecutor"] = LentThreads


#: What openjd made beside a session's files, by folder: it has other names in the next session.
_made: dict[str, set[str]] = {}


def made_in(folder: str) -> set[str]:
    """The names of the files that openjd makes in ``folder`` from now on."""
    return _made.setdefault(folder, set())


def forget_made_in(folder: str) -> None:
    """The session is no more."""
    _made.pop(folder, None)


def _mkstemp(*arguments: Any, **named: Any) -> tuple[int, str]:
    """`tempfile.mkstemp`, as the two modules name it, that remembers what it made where."""
    descriptor, path = tempfile.mkstemp(*arguments, **named)
    folder, name = os.path.split(path)
    if folder in _made:
        _made[folder].add(name)
    return descriptor, path


def steer(session_id: str, steering: Callable[[], Steering]) -> None:
    """Let what ``steering`` returns answer for the next process of that session."""
    _steerings[session_id] = steering


def release(session_id: str) -> None:
    """The session is no more."""
    _steerings.pop(session_id, None)


class SteeredSubprocess:
    """What openjd-sessions' runners take for a `LoggingSubprocess`.

    Attributes:
        error: what ended the reading of the output and is no fault of the action: a bug of ours.
        complaint: why the action was ended because one of its lines could not be logged, or "".
    """

    def __init__(
        self,
        *,
        logger: Any,
        args: Sequence[str],
        encoding: str = "utf-8",
        user: object = None,
        callback: Callable[[], None] | None = None,
        os_env_vars: Mapping[str, str | None] | None = None,
        working_dir: str | None = None,
        creation_flags: int | None = None,
    ) -> None:
        assert user is None, "sessions of other users are not made by perdure"
        del encoding, creation_flags
        self._logger = logger
        self._args = list(args)
        self._callback = callback
        self._changes = dict(os_env_vars or {})
        self._working_dir = working_dir
        self._steering = _steerings[logger.extra["session_id"]]()
        self._process: subprocess.Popen[bytes] | None = None
        self._has_started = threading.Event()
        self._has_begun = False
        self._begin_error: BaseException | None = None
        self._start_failed = False
        self._is_over = False
        self._pid: int | None = None
        self._returncode: int | None = None
        self._closing = threading.Lock()
        self._stop_reading = -1
        self.error: BaseException | None = None
        self.complaint = ""
        self._steering.attach(self)

    @property
    def pid(self) -> int | None:
        """The action's own process: the runner's script execs the command."""
        return self._pid

    @property
    def exit_code(self) -> int | None:
        """None until `run` has collected it."""
        return self._returncode

    @property
    def is_running(self) -> bool:
        """Whether the process was started and `run` is not over."""
        return self._has_started.is_set() and self._process is not None and not self._is_over

    @property
    def has_started(self) -> bool:
        """Whether it was started, or starting it failed."""
        return self._has_started.is_set()

    @property
    def failed_to_start(self) -> bool:
        """Whether there never was a process."""
        return self._start_failed

    def wait_until_started(self, timeout: timedelta | None = None) -> None:
        """Block until `has_started`."""
        self._has_started.wait(timeout.total_seconds() if timeout is not None else None)

    def notify(self) -> None:
        """SIGTERM by openjd itself: only where it cancels by itself (a malformed openjd_env)."""
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)

    def terminate(self) -> None:
        """SIGKILL to the action's process group."""
        process = self._process
        if process is not None and not self._is_over:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)

    def stop_reading(self) -> None:
        """Nothing of the action is left: read what the pipe still holds, then end `run`."""
        with self._closing:  # once `run` is over the number may be another file's
            if self._stop_reading >= 0:
                os.eventfd_write(self._stop_reading, 1)

    def begin(self) -> None:
        """Start the process; `run` then only reads.

        `LentThreads` calls it on the thread that submits `run`, which waits for the start anyway:
        so that it need not be woken for it. What goes wrong is raised by `run`.
        """
        self._stop_reading = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            self._process = self._start()
        except BaseException as error:  # noqa: BLE001 - raised by `run`, on the thread of its owner
            self._begin_error = error
        finally:
            self._has_begun = True
            self._has_started.set()

    def run(self) -> None:
        """Start the process, unless it was begun, and read its output to the end; blocks.

        Raises:
            RuntimeError: it was run already.
        """
        if self._has_started.is_set() and not self._has_begun:
            msg = "The process has already been run"
            raise RuntimeError(msg)
        if not self._has_begun:
            self.begin()
        self._has_begun = False
        try:
            self._run()
        finally:
            self._has_started.set()
            self._is_over = True
            with self._closing:
                os.close(self._stop_reading)
                self._stop_reading = -1
            if self._callback is not None:
                self._callback()

    def _run(self) -> None:
        """Pump; whatever went or goes wrong leaves no process and nobody waiting for its end."""
        try:
            process = self._begun()
            if process is None:
                self._start_failed = True
            else:
                self._pump(process)
        except BaseException as error:
            self.error = error
            if self._process is None:
                self._start_failed = True
                self._steering.spawn_failed(str(error))
            else:
                self._abort(self._process)
            raise

    def _begun(self) -> subprocess.Popen[bytes] | None:
        """The process that `begin` started; what went wrong there is raised here."""
        if self._begin_error is not None:
            raise self._begin_error
        return self._process

    def _abort(self, process: subprocess.Popen[bytes]) -> None:
        """Reading failed: kill, collect, and say that it is over."""
        self.terminate()
        if self._returncode is None:
            self._returncode = process.wait()
            self._steering.exited(self._returncode)
        if process.stdout is not None:
            _read_on(process.stdout)
        self._steering.abandoned()

    def _start(self) -> subprocess.Popen[bytes] | None:
        self._say("Running command %s", shlex.join(self._args))
        try:
            process = subprocess.Popen(
                self._args,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self._working_dir,
                env=self._steering.environment(self._changes),
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            self._say("Process failed to start: %s", error)
            self._steering.spawn_failed(str(error))
            return None
        self._pid = process.pid
        self._process = process
        self._steering.spawned(process.pid)
        self._say("Command started as pid: %s", process.pid)
        self._say("Output:")
        return process

    def _pump(self, process: subprocess.Popen[bytes]) -> None:
        """Read the output; collect the exit as soon as there is one."""
        assert process.stdout is not None
        output = process.stdout.fileno()
        os.set_blocking(output, False)
        exit_fd = os.pidfd_open(process.pid)
        poll = select.poll()
        watch = self._steering.watch()
        for descriptor in (output, exit_fd, self._stop_reading):
            poll.register(descriptor, select.POLLIN)
        if watch is not None:
            poll.register(watch, select.POLLIN)
        has_ended = False
        while not (has_ended and self._returncode is not None):
            ready = {descriptor for descriptor, _ in poll.poll()}
            if output in ready and not has_ended and self._read(output):
                has_ended = True
                process.stdout.close()
                poll.unregister(output)
            if watch in ready:
                self._steering.watched()
            if exit_fd in ready:
                poll.unregister(exit_fd)
                self._collect(process)
            if self._stop_reading in ready:
                poll.unregister(self._stop_reading)
                if not has_ended:
                    has_ended = True
                    self._read_rest(output)
        os.close(exit_fd)
        _read_on(process.stdout)
        self._pass_on(self._steering.output_ended())
        self._say_returncode(process.pid)

    def _read(self, output: int) -> bool:
        """Read once; True at the end."""
        try:
            data = os.read(output, _READ_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._pass_on(self._steering.output(data))
        return not data

    def _read_rest(self, output: int) -> None:
        """Read what the pipe holds; no more, because somebody else may go on writing into it."""
        left = fcntl.fcntl(output, fcntl.F_GETPIPE_SZ)
        while left > 0:
            try:
                data = os.read(output, left)
            except BlockingIOError:
                return
            if not data:
                return
            left -= len(data)
            self._pass_on(self._steering.output(data))

    def _collect(self, process: subprocess.Popen[bytes]) -> None:
        self._returncode = process.wait()
        self._steering.exited(self._returncode)

    def _pass_on(self, lines: list[str]) -> None:
        """Let openjd's own filter act on its messages."""
        for line in lines:
            with self._containing():
                extra = {"openjd_log_content": LogContent.COMMAND_OUTPUT, AS_PRINTED: line}
                self._logger.info(line, extra=extra)

    def _say_returncode(self, pid: int) -> None:
        """The line that tools made for `openjd run` look for."""
        code = self._returncode
        assert code is not None
        self._say("Process pid %s exited with code: %s (unsigned) / %s (hex)", pid, code, hex(code))

    def _say(self, text: str, *values: object) -> None:
        with self._containing():
            self._logger.log(
                logging.INFO,
                text,
                *values,
                extra={"openjd_log_content": LogContent.PROCESS_CONTROL},
            )

    @contextlib.contextmanager
    def _containing(self) -> Iterator[None]:
        """A filter that raises ends the action, as in the stock class; never the pump."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever a filter raises
            if not self.complaint:
                self.complaint = f"openjd-sessions could not take a line of its log: {error!r}"
            self.terminate()


def _read_on(output: IO[bytes]) -> None:
    """Keep reading a pipe that somebody else still holds, so that its writers do not die of it.

    An environment's onEnter may leave a server behind that inherited the action's output. What it
    prints from now on belongs to no action and is dropped.
    """
    if output.closed:
        return
    os.set_blocking(output.fileno(), True)

    def drain() -> None:
        with output, contextlib.suppress(OSError):
            while output.read(_READ_BYTES):
                pass

    threading.Thread(target=drain, name="perdure-drain", daemon=True).start()
