"""The place on a host that a batch system gave this process: when it ends, why, how it comes again.

What is alike on Slurm and LSF; each engine has an `Allocation` of its own.
"""

import signal
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import Protocol

from perdure.engines.causes import Cause
from perdure.worker.notices import TIME_LIMIT, HostNotice

#: What a task gets to save before its time limit, unless its allocation is short.
LEAD_SECONDS = 180.0
#: Of a short allocation no more than this part.
LEAD_PART = 0.4
#: A limit may be changed while the job runs; so often it is asked for.
_ASK_SECONDS = 60.0
_LOOK_SECONDS = 5.0


class Allocation(Protocol):
    """The job, or the element of an array, that this process runs in.

    Attributes:
        job: what the batch system calls it.
        exit_code: with which this process is to leave by itself.
    """

    job: str
    exit_code: int

    def ids(self) -> dict[str, str]:
        """By which the engine knows it."""
        ...

    def ends_at(self) -> datetime | None:
        """When it ends; None where there is no limit, or nobody answers."""
        ...

    def cause(self) -> Cause:
        """Why it was told to end, asked just then."""
        ...

    def last_words(self) -> str:
        """What the batch system says of it now, for people who look later; "" for nothing."""
        ...

    def requeue(self) -> None:
        """Put it back into the queue; its processes are ended soon.

        Raises:
            EngineRefused: it may not be put back.
            EngineUnavailable: nobody answers.
        """
        ...

    def killed_at(self) -> datetime | None:
        """When its processes are killed, once it was told to end; None where that is not known."""
        ...

    def wait_for_the_end(
        self, *, until_killed: bool, is_replaced: Callable[[], bool] = lambda: False
    ) -> None:
        """Do nothing until this process is ended (see `wait_to_be_ended`)."""
        ...

    def first_word(self, told: Callable[[], None]) -> AbstractContextManager[object]:
        """While it is entered, ``told`` is called when only others than this process are told."""
        ...


def wait_to_be_ended(
    longest_seconds: float,
    *,
    until_killed: bool,
    is_replaced: Callable[[], bool] = lambda: False,
) -> None:
    """Do nothing until this process is ended: one that leaves by itself has "completed".

    Main thread only.

    Args:
        longest_seconds: then it returns all the same.
        until_killed: stay also when it is asked to leave, as it is some seconds before: what is
            behind this command in a script must not run.
        is_replaced: asked every few seconds: whether the next run has begun. Then nobody here will
            end this one: its host is lost to the batch system.
    """
    ended = threading.Event()

    def leave(_number: int, _frame: FrameType | None) -> None:
        if not until_killed:
            ended.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
        signal.signal(number, leave)
    until = time.monotonic() + longest_seconds
    while not ended.wait(_LOOK_SECONDS):
        if is_replaced() or time.monotonic() > until:
            return


class TimeLimit:
    """A notice source: the allocation's own end, before it comes. Call it every few seconds.

    Args:
        allocation: whose.
        lead_seconds: so long before.
        lead_part: of a short allocation no more than this part.
    """

    def __init__(
        self,
        allocation: Allocation,
        lead_seconds: float = LEAD_SECONDS,
        lead_part: float = LEAD_PART,
    ) -> None:
        self._allocation = allocation
        self._lead_part = lead_part
        self._asked_at: float | None = None
        self._ends_at: datetime | None = None
        self._lead = timedelta(seconds=lead_seconds)

    def __call__(self) -> HostNotice | None:
        """The notice, once the end is near."""
        now = datetime.now(UTC)
        self._ask(now)
        if self._ends_at is None or now < self._ends_at - self._lead:
            return None
        return HostNotice(action=TIME_LIMIT, deadline_at=self._ends_at, is_of_allocation=True)

    def _ask(self, now: datetime) -> None:
        if self._asked_at is not None and time.monotonic() - self._asked_at < _ASK_SECONDS:
            return
        is_first = self._asked_at is None
        self._asked_at = time.monotonic()
        found = self._allocation.ends_at()
        self._ends_at = found or self._ends_at
        if is_first and found is not None:
            part = (found - now) * self._lead_part
            self._lead = min(self._lead, part)


def is_time_limit(reason: str) -> bool:
    """Whether a stop's reason is that the allocation's time is over."""
    return reason == TIME_LIMIT
