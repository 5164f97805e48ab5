"""Save when it is time, and save and leave when asked, at points where the program is whole.

A signal can come between any two instructions; a handler that saves there saves a half-changed
state. So the handler here only sets a flag, and `Checkpointer.safe_point`, which the program calls
where everything fits together, does the rest.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable

_INTERVAL_VARIABLE = "PERDURE_INTERVAL_SECONDS"
#: What asks to save and go on.
_SAVE_SIGNAL_VARIABLE = "PERDURE_SAVE_SIGNAL"
_DEFAULT_INTERVAL_SECONDS = 300.0
#: EX_TEMPFAIL: not finished, try again. Any exit is a suspension once the save is committed.
_EXIT_CODE = 75


def _default_signals() -> tuple[signal.Signals, ...]:
    """What schedulers send to ask for a checkpoint, where the system has it."""
    names = ("SIGTERM", "SIGUSR1", "SIGBREAK")
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


class Checkpointer:
    """Calls ``save`` at safe points: every interval, and once more before leaving when asked.

    Where perdure names a signal that asks to save and go on (PERDURE_SAVE_SIGNAL), and it is none
    of ``signals``, it is handled, too.

    Use it as a context: signals are handled inside of it, and as before outside.

    Args:
        save: saves now; calls `perdure.task.save`.
        interval_seconds: between two periodic saves; None: what perdure advises
            (PERDURE_INTERVAL_SECONDS), or five minutes; 0: at every safe point.
        signals: which ask to save and leave; None: SIGTERM and SIGUSR1 (Windows: Ctrl-Break).
        exit_code: to leave with.

    Attributes:
        is_asked: whether a signal asked to leave.
    """

    def __init__(
        self,
        save: Callable[[], object],
        *,
        interval_seconds: float | None = None,
        signals: Iterable[signal.Signals] | None = None,
        exit_code: int = _EXIT_CODE,
    ) -> None:
        self.is_asked = False
        self._save = save
        self._interval = _interval() if interval_seconds is None else interval_seconds
        self._signals = _default_signals() if signals is None else tuple(signals)
        self._exit_code = exit_code
        self._before: dict[signal.Signals, signal._HANDLER] = {}
        self._saved_at = time.monotonic()
        self._is_due = False

    def __enter__(self) -> Checkpointer:  # noqa: PYI034 - Self is younger than Python 3.9
        """Take the signals; only the main thread can."""
        try:
            for number in self._signals:
                self._before[number] = signal.signal(number, self._ask)
            asking = _save_signal()
            if asking is not None and asking not in self._before:
                self._before[asking] = signal.signal(asking, self._ask_to_save)
        except BaseException:
            self._restore()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        """Give the signals back."""
        self._restore()

    def safe_point(self) -> None:
        """Save if it is time or if asked; leave if asked.

        Raises:
            SystemExit: after the save, when a signal asked to leave.
        """
        if self.is_asked:
            self._save_now()
            sys.exit(self._exit_code)
        if self._is_due or time.monotonic() - self._saved_at >= self._interval:
            self._save_now()

    def _save_now(self) -> None:
        """Save; the interval counts from its end, so that a slow save is not followed at once."""
        self._save()
        self._is_due = False  # whoever asked meanwhile is answered
        self._saved_at = time.monotonic()

    def _ask(self, _number: int, _frame: object) -> None:
        """The handler: sets the flag, and nothing else."""
        self.is_asked = True

    def _ask_to_save(self, _number: int, _frame: object) -> None:
        """The handler of the signal that asks to save and go on."""
        self._is_due = True

    def _restore(self) -> None:
        """Handle the signals as before."""
        while self._before:
            number, handler = self._before.popitem()
            # None: the handler was not installed from Python; its default is the best there is
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _save_signal() -> signal.Signals | None:
    """The signal that perdure names, where this system has it."""
    return signal.Signals.__members__.get(os.environ.get(_SAVE_SIGNAL_VARIABLE, ""))


def _interval() -> float:
    """What perdure advises, or the default."""
    try:
        advised = float(os.environ.get(_INTERVAL_VARIABLE, ""))
    except ValueError:
        return _DEFAULT_INTERVAL_SECONDS
    return advised if advised > 0 else _DEFAULT_INTERVAL_SECONDS
