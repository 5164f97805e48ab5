"""Exit codes of `run`, `resume` and `wait`: how the job ended."""

from perdure.manager.job_view import JobView
from perdure.policy.outcome import By
from perdure.policy.resuming import Held
from perdure.policy.states import State, Status
from perdure.policy.stops import JOB

SUCCEEDED = 0
FAILED = 1
NO_CHECKPOINT = 3
SUSPENDED = 75
CANCELED = 76
TIMED_OUT = 124
#: The host ended it, or is to go: nobody has to act, the same line goes on elsewhere.
TERMINATED = 143


def exit_code(status: Status, view: JobView) -> int:
    """What a command that managed the job exits with; where its host is to go, with 143."""
    stop = view.stops.stopped(JOB)
    if status.state is State.PENDING and stop is not None and stop.by is not By.USER:
        return TERMINATED
    return code_of(status.state, is_unusable=_has_nothing_usable(view))


def code_of(state: State, *, is_unusable: bool) -> int:
    """The exit code for a job that goes on by itself no more.

    Args:
        state: pending counts as suspended: what is left waits for a person, or for a host it fits.
        is_unusable: the job is held because no checkpoint can be used.
    """
    match state:
        case State.SUCCEEDED:
            return SUCCEEDED
        case State.FAILED:
            return FAILED
        case State.CANCELED:
            return CANCELED
        case State.SUSPENDED | State.PENDING | State.RUNNING:
            return NO_CHECKPOINT if is_unusable else SUSPENDED


def _has_nothing_usable(view: JobView) -> bool:
    return any(
        watched.decision is not None
        and isinstance(watched.decision.answer, Held)
        and watched.decision.answer.is_unusable
        for step in view.steps.values()
        for watched in step.watched.values()
    )
