"""The allocation that a worker runs in: when it ends, why it was ended, and how it comes again.

Asked by the worker itself, about its own job. An element of an array is named by the array's id and
its index: by its own job id Slurm takes the last element for the whole array.

Source: scontrol(1) "requeue", squeue(1) "%e"; docs/engines.md.
"""

import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import Self

from perdure.engines.slurm.commands import slurm
from perdure.engines.slurm.slurm_format import (
    Cause,
    cause_of_end,
    kill_wait_seconds,
    parse_fields,
    parse_settings,
)
from perdure.errors import EngineError
from perdure.worker.notices import HostNotice

#: What a task gets to save before its time limit, unless its allocation is short.
LEAD_SECONDS = 180.0
#: Of a short allocation no more than this part.
LEAD_PART = 0.4
#: A limit may be changed while the job runs; so often it is asked for.
_ASK_SECONDS = 60.0
#: So long Slurm is waited for after it was asked to put the job back (KillWait is 30 s).
_END_SECONDS, _LOOK_SECONDS = 600.0, 5.0
_ACTION = "time limit"


class Allocation:
    """The Slurm job, or the element of an array, that this process runs in."""

    def __init__(self, job: str, restarts: int) -> None:
        self.job = job
        self.restarts = restarts

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self | None:
        """By what Slurm puts into a job's environment; None where this is no job of Slurm's."""
        array, index = environment.get("SLURM_ARRAY_JOB_ID"), environment.get("SLURM_ARRAY_TASK_ID")
        job = environment.get("SLURM_JOB_ID")
        if job is None:
            return None
        restarts = int(environment.get("SLURM_RESTART_COUNT") or 0)
        return cls(f"{array}_{index}" if array and index else job, restarts)

    def ids(self) -> dict[str, str]:
        """By which the engine knows it."""
        return {"engine": "slurm", "job": self.job}

    def ends_at(self) -> datetime | None:
        """When Slurm ends it; None where there is no limit, or Slurm does not answer."""
        with suppress(EngineError, ValueError):
            text = slurm(["squeue", "-h", "-j", self.job, "-o", "%e"]).strip()
            return datetime.fromisoformat(text).astimezone(UTC)
        return None

    def killed_at(self) -> datetime | None:
        """When its processes are killed, once it was told to end; None where that is not known."""
        end = self.ends_at()
        if end is None:
            return None
        with suppress(EngineError):
            settings = parse_settings(slurm(["scontrol", "show", "config"]))
            return end + timedelta(seconds=kill_wait_seconds(settings))
        return end

    def cause(self) -> Cause:
        """Why Slurm told it to end, asked just then."""
        fields: dict[str, str] = {}
        with suppress(EngineError):
            fields = parse_fields(slurm(["scontrol", "-o", "show", "job", self.job]))
        return cause_of_end(fields, self.restarts, datetime.now())  # noqa: DTZ005 - as Slurm's are

    def last_words(self) -> str:
        """What Slurm says of it now, for people who look later; "" where it does not answer."""
        with suppress(EngineError):
            return slurm(["scontrol", "show", "job", self.job]).strip()
        return ""

    def requeue(self) -> None:
        """Put it back into Slurm's queue; Slurm ends its processes soon.

        Raises:
            EngineRefused: it may not be put back.
            EngineUnavailable: Slurm does not answer.
        """
        slurm(["scontrol", "requeue", self.job])

    def wait_for_the_end(
        self, *, until_killed: bool, is_replaced: Callable[[], bool] = lambda: False
    ) -> None:
        """Do nothing until Slurm ends this process: one that leaves by itself has "completed".

        Args:
            until_killed: stay also when Slurm asks to leave, as it does some seconds before: what
                is behind this command in a script must not run.
            is_replaced: asked every few seconds: whether the next run has begun. Then nobody here
                will end this one: its node is lost to Slurm.
        """
        ended = threading.Event()

        def leave(_number: int, _frame: FrameType | None) -> None:
            if not until_killed:
                ended.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, leave)
        until = time.monotonic() + _END_SECONDS
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
        return HostNotice(action=_ACTION, deadline_at=self._ends_at, is_of_allocation=True)

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
    """Whether a stop was this source's."""
    return reason == _ACTION
