"""What is stopped: the fold of a job log's suspend, cancel and resume records.

A scope is stopped when some suspend or cancel covers it and no later resume that covers it lifts
that number. A cancel is never lifted. What a person stopped stays stopped until a person resumes
it.

Source: docs/journal-format.md, stopped(scope); docs/store-format.md, "Job log".
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Self

from msgspec import Struct

from perdure.policy.outcome import By


class StopKind(Enum):
    """What a stop asks for."""

    #: Stop, keeping progress.
    SUSPEND = "suspend"
    #: Stop, abandoning.
    CANCEL = "cancel"


class Scope(Struct, frozen=True):
    """The job, one of its steps, or one task of a step."""

    step: int | None = None
    task: str | None = None

    @classmethod
    def of(cls, recorded: Mapping[str, Any]) -> Self:
        """As it stands in records: what is not there is not bounded."""
        return cls(recorded.get("step"), recorded.get("task"))

    def recorded(self) -> dict[str, Any]:
        """The opposite of `of`."""
        parts = {"step": self.step, "task": self.task}
        return {name: part for name, part in parts.items() if part is not None}

    def covers(self, other: "Scope") -> bool:
        """Whether all of ``other`` lies in this."""
        return (self.step is None or self.step == other.step) and (
            self.task is None or self.task == other.task
        )


#: The whole job.
JOB = Scope()


class Stop(Struct, frozen=True, kw_only=True):
    """A suspend or cancel record.

    Attributes:
        number: in the job log.
        is_now: without a notice.
    """

    number: int
    kind: StopKind
    scope: Scope = JOB
    by: By = By.USER
    is_now: bool = False


class Resume(Struct, frozen=True, kw_only=True):
    """A resume record; it lifts suspensions numbered at most ``lifts``."""

    number: int
    lifts: int
    scope: Scope = JOB


def _weight(stop: Stop) -> tuple[bool, bool, bool, int]:
    """Which of several stops decides: cancel, a person's, at once, the later one."""
    return (stop.kind is StopKind.CANCEL, stop.by is By.USER, stop.is_now, stop.number)


class Stops:
    """The stops and resumes of one job, in any order."""

    def __init__(self, records: Iterable[Stop | Resume] = ()) -> None:
        folded = tuple(records)
        self._stops = tuple(record for record in folded if isinstance(record, Stop))
        self._resumes = tuple(record for record in folded if isinstance(record, Resume))

    def stopped(self, scope: Scope = JOB) -> Stop | None:
        """What stops ``scope``; of several stops the weightiest."""
        standing = (
            stop
            for stop in self._stops
            if stop.scope.covers(scope) and not self._is_lifted(stop, scope)
        )
        return max(standing, key=_weight, default=None)

    def lifts(self) -> int:
        """What a resume given now lifts: every stop read so far."""
        return max((stop.number for stop in self._stops), default=0)

    def _is_lifted(self, stop: Stop, scope: Scope) -> bool:
        return stop.kind is StopKind.SUSPEND and any(
            resume.number > stop.number
            and resume.lifts >= stop.number
            and resume.scope.covers(scope)
            for resume in self._resumes
        )
