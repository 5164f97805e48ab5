"""Signals to the worker as stops: SIGINT is a person's wish, SIGTERM and SIGHUP are the host's.

A handler of Python's runs only when the main thread comes back from whatever it waits for, and a
signal that arrives just before it begins to wait does not wake it. So the handlers do nothing: the
interpreter writes the signal's number into a pipe at once (`signal.set_wakeup_fd`), and a thread
reads it.
"""

import os
import signal
import threading
from collections.abc import Callable

from perdure.worker.machine import Intent
from perdure.worker.stops import Stop

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def listen(post: Callable[[Stop], None]) -> None:
    """Post a stop for each signal from now on; a second SIGINT is at once. Main thread only."""
    readable, writable = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(writable, False)
    for number in _SIGNALS:
        signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    thread = threading.Thread(
        target=_read, args=(readable, post), name="perdure-signals", daemon=True
    )
    thread.start()


def _read(readable: int, post: Callable[[Stop], None]) -> None:
    interrupted = False
    while numbers := os.read(readable, 64):
        for number in numbers:
            if number not in _SIGNALS:
                continue
            is_interrupt = number == signal.SIGINT
            post(
                Stop(
                    intent=Intent.SUSPEND,
                    by="user" if is_interrupt else "host",
                    is_now=is_interrupt and interrupted,
                    reason=signal.Signals(number).name,
                )
            )
            interrupted = interrupted or is_interrupt
