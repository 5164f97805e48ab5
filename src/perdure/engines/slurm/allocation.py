"""The allocation that a worker runs in: when it ends, why it was ended, and how it comes again.

Asked by the worker itself, about its own job. An element of an array is named by the array's id and
its index: by its own job id Slurm takes the last element for the whole array.

Source: scontrol(1) "requeue", squeue(1) "%e"; docs/engines.md.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Self

from perdure.engines.allocation import wait_to_be_ended
from perdure.engines.causes import Cause
from perdure.engines.slurm.commands import slurm
from perdure.engines.slurm.sentinel import Sentinel
from perdure.engines.slurm.slurm_format import (
    cause_of_end,
    kill_wait_seconds,
    parse_fields,
    parse_settings,
)
from perdure.errors import EngineError

#: So long Slurm is waited for after it was asked to put the job back (KillWait is 30 s).
_END_SECONDS = 600.0


class Allocation:
    """The Slurm job, or the element of an array, that this process runs in."""

    def __init__(self, job: str, restarts: int) -> None:
        self.job = job
        self.restarts = restarts
        self.exit_code = 0

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
        """Do nothing until Slurm ends this process (see `wait_to_be_ended`)."""
        wait_to_be_ended(_END_SECONDS, until_killed=until_killed, is_replaced=is_replaced)

    def first_word(self, told: Callable[[], None]) -> Sentinel:
        """A preemption is told to the job's steps first (see `sentinel`)."""
        return Sentinel(told)
