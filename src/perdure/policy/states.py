"""States of tasks, steps and jobs, and how they add up.

A job is SUSPENDED only when a person asked or must choose (held); whatever else interrupts it, it
is PENDING and goes on by itself. What waits behind something suspended does not go on by itself, so
it counts as suspended for the job.

Source: design of perdure, "How an attempt ends", last part.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from msgspec import Struct

from perdure.policy.dependencies import in_order
from perdure.policy.outcome import AttemptState, By
from perdure.policy.resuming import Failed, Finished, Held, ResumeDecision
from perdure.policy.stops import Stop, StopKind


class State(Enum):
    """Of a task, a step or a job."""

    #: It goes on by itself.
    PENDING = "PENDING"
    #: An attempt of it is under way.
    RUNNING = "RUNNING"
    #: It waits for a person, and keeps its progress.
    SUSPENDED = "SUSPENDED"
    #: All of its work is done.
    SUCCEEDED = "SUCCEEDED"
    #: It was tried as often as it may be.
    FAILED = "FAILED"
    #: A person abandoned it, or it depends on what did not succeed.
    CANCELED = "CANCELED"

    @property
    def is_final(self) -> bool:
        """Whether it changes only by a person's wish."""
        return self in (State.SUCCEEDED, State.FAILED, State.CANCELED)


class TaskEvent(Enum):
    """What changes a task's state."""

    #: An attempt was claimed.
    START = "an attempt starts"
    #: It ended, and another one follows by itself.
    GO_ON = "it goes on by itself"
    #: Its work is done.
    FINISH = "its work is done"
    #: It was tried as often as it may be.
    GIVE_UP = "a limit is reached"
    #: A person must choose.
    HOLD = "a person must choose"
    #: A person suspended it.
    SUSPEND = "a person suspends"
    #: A person canceled it, or what it depends on did not succeed.
    CANCEL = "canceled, or a dependency did not succeed"
    #: A person resumed it, or chose a checkpoint.
    RESUME = "a person resumes"


#: The whole machine; what is not here is refused. A cancel is never lifted.
TRANSITIONS: Mapping[tuple[State, TaskEvent], State] = {
    (State.PENDING, TaskEvent.START): State.RUNNING,
    (State.PENDING, TaskEvent.FINISH): State.SUCCEEDED,
    (State.PENDING, TaskEvent.GIVE_UP): State.FAILED,
    (State.PENDING, TaskEvent.HOLD): State.SUSPENDED,
    (State.PENDING, TaskEvent.SUSPEND): State.SUSPENDED,
    (State.PENDING, TaskEvent.CANCEL): State.CANCELED,
    (State.RUNNING, TaskEvent.GO_ON): State.PENDING,
    (State.RUNNING, TaskEvent.FINISH): State.SUCCEEDED,
    (State.RUNNING, TaskEvent.GIVE_UP): State.FAILED,
    (State.RUNNING, TaskEvent.HOLD): State.SUSPENDED,
    (State.RUNNING, TaskEvent.SUSPEND): State.SUSPENDED,
    (State.RUNNING, TaskEvent.CANCEL): State.CANCELED,
    (State.SUSPENDED, TaskEvent.RESUME): State.PENDING,
    (State.SUSPENDED, TaskEvent.CANCEL): State.CANCELED,
    (State.FAILED, TaskEvent.RESUME): State.PENDING,
    (State.SUCCEEDED, TaskEvent.RESUME): State.PENDING,
}


class Status(Struct, frozen=True, kw_only=True):
    """A state, and why.

    Attributes:
        is_held: it waits for a person's choice, not only for a person's word.
        reason: one sentence, or "".
    """

    state: State
    is_held: bool = False
    reason: str = ""


def task_status(
    *, is_running: bool, last: AttemptState | None, decision: ResumeDecision, stop: Stop | None
) -> Status:
    """The status of one lineage.

    Args:
        is_running: whether an attempt of it is under way.
        last: how its last attempt ended.
        decision: where it would go on from.
        stop: what stops it, if anything.
    """
    is_canceled = last is AttemptState.CANCELED or (
        stop is not None and stop.kind is StopKind.CANCEL
    )
    match decision:
        case _ if is_running:
            return Status(state=State.RUNNING)
        case Finished(reason=reason):
            return Status(state=State.SUCCEEDED, reason=reason)
        case _ if is_canceled:
            return Status(state=State.CANCELED, reason="canceled")
        case Failed(reason=reason):
            return Status(state=State.FAILED, reason=reason)
        case Held(reason=reason):
            return Status(state=State.SUSPENDED, is_held=True, reason=reason)
        case _:
            return waiting_status(stop)


def waiting_status(stop: Stop | None) -> Status:
    """The status of what has work to do and does none now; of a task that nobody took, too."""
    match stop:
        case None:
            return Status(state=State.PENDING)
        case Stop(kind=StopKind.CANCEL):
            return Status(state=State.CANCELED, reason="canceled")
        case Stop(by=By.USER):
            return Status(state=State.SUSPENDED, reason="a person suspended it")
        case _:
            return Status(state=State.PENDING, reason=f"stopped by the {stop.by.value}")


class Counts(Struct, frozen=True, kw_only=True):
    """How many tasks of a step are in which state; ``held`` of the suspended."""

    pending: int = 0
    running: int = 0
    suspended: int = 0
    succeeded: int = 0
    failed: int = 0
    canceled: int = 0
    held: int = 0

    @property
    def total(self) -> int:
        """All tasks of the step."""
        states = (self.pending, self.running, self.suspended)
        return sum(states) + self.succeeded + self.failed + self.canceled

    @property
    def is_settled(self) -> bool:
        """Whether every task is in a final state."""
        return not (self.pending or self.running or self.suspended)


def count(statuses: Iterable[Status]) -> Counts:
    """Add up tasks."""
    tally = dict.fromkeys(State, 0)
    held = 0
    for status in statuses:
        tally[status.state] += 1
        held += status.is_held
    return Counts(**{state.value.lower(): n for state, n in tally.items()}, held=held)


def step_status(counts: Counts) -> Status:
    """The status of a step: the first row that applies."""
    is_held = counts.held > 0
    if counts.running:
        return Status(state=State.RUNNING, is_held=is_held)
    if counts.pending:
        return Status(state=State.PENDING, is_held=is_held)
    if counts.suspended:
        return Status(state=State.SUSPENDED, is_held=is_held)
    if counts.failed:
        return Status(state=State.FAILED, reason=f"{_tasks(counts.failed)} failed")
    if counts.canceled:
        return Status(state=State.CANCELED, reason=f"{_tasks(counts.canceled)} canceled")
    return Status(state=State.SUCCEEDED)


def _tasks(number: int) -> str:
    """So many tasks, in words."""
    return f"{number} task" if number == 1 else f"{number} tasks"


class StepInJob(Struct, frozen=True, kw_only=True):
    """A step as its job sees it; ``name`` is what people call it."""

    index: int
    name: str
    status: Status
    dependencies: tuple[int, ...] = ()


def job_status(steps: Iterable[StepInJob], *, stop: Stop | None = None) -> Status:
    """The status of a job: the first row that applies.

    Args:
        steps: all of them.
        stop: what stops the whole job, if anything.
    """
    listed = tuple(steps)
    states = {step.status.state for step in listed}
    is_held = any(step.status.is_held for step in listed)
    if State.RUNNING in states:
        return Status(state=State.RUNNING, is_held=is_held)
    if states <= {State.SUCCEEDED}:
        return Status(state=State.SUCCEEDED)
    if stop is not None and stop.kind is StopKind.CANCEL:
        return Status(state=State.CANCELED, reason="canceled")
    if _goes_on(listed):
        return Status(state=State.PENDING, is_held=is_held)
    if State.SUSPENDED in states:
        return Status(state=State.SUSPENDED, is_held=is_held)
    if State.FAILED in states:
        failed = [step.name for step in listed if step.status.state is State.FAILED]
        word = "step" if len(failed) == 1 else "steps"
        return Status(state=State.FAILED, reason=f"{word} {', '.join(failed)} failed")
    return Status(state=State.CANCELED, reason="what was not canceled is done")


def _goes_on(steps: tuple[StepInJob, ...]) -> bool:
    """Whether some pending step goes on by itself: nothing before it waits for a person."""
    by_index = {step.index: step for step in steps}
    going: set[int] = set()
    for index in in_order({step.index: step.dependencies for step in steps}):
        step = by_index[index]
        if step.status.state is State.PENDING and all(
            before in going or by_index[before].status.state is State.SUCCEEDED
            for before in step.dependencies
        ):
            going.add(index)
    return bool(going)
