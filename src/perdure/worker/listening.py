"""Signals to the worker as stops.

SIGINT is a person's wish, SIGTERM and SIGHUP are the host's (`PERSONS`). LSF ends jobs with SIGINT
first, warns of its limits with SIGUSR2, and with SIGURG where it was asked to: in its jobs all of
them are the batch system's (`BATCH_SYSTEMS`).

A handler of Python's runs only when the main thread comes back from whatever it waits for, and a
signal that arrives just before it begins to wait does not wake it. So the handlers do nothing: the
interpreter writes the signal's number into a pipe at once (`signal.set_wakeup_fd`), and a thread
reads it.
"""

import os
import signal
import threading
from collections.abc import Callable, Mapping

from perdure.worker.machine import Intent
from perdure.worker.notices import TIME_LIMIT
from perdure.worker.stops import Stop

#: What a signal means: who wishes it, and why.
Meanings = Mapping[int, tuple[str, str]]
_HOST: Meanings = {number: ("host", number.name) for number in (signal.SIGTERM, signal.SIGHUP)}
PERSONS: Meanings = {**_HOST, signal.SIGINT: ("user", signal.SIGINT.name)}
BATCH_SYSTEMS: Meanings = {
    **_HOST,
    signal.SIGINT: ("host", signal.SIGINT.name),
    signal.SIGURG: ("engine", TIME_LIMIT),
    signal.SIGUSR2: ("engine", TIME_LIMIT),
}


def listen(post: Callable[[Stop], None], meanings: Meanings = PERSONS) -> None:
    """Post a stop for each signal from now on; a person's second is at once. Main thread only."""
    readable, writable = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(writable, False)
    for number in meanings:
        signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    thread = threading.Thread(
        target=_read, args=(readable, meanings, post), name="perdure-signals", daemon=True
    )
    thread.start()


def _read(readable: int, meanings: Meanings, post: Callable[[Stop], None]) -> None:
    interrupted = False
    while numbers := os.read(readable, 64):
        for number in numbers:
            if number not in meanings:
                continue
            by, reason = meanings[number]
            is_persons = by == "user"
            post(
                Stop(
                    intent=Intent.SUSPEND,
                    by=by,
                    is_now=is_persons and interrupted,
                    reason=reason,
                )
            )
            interrupted = interrupted or is_persons
