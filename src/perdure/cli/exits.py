"""Exit codes of `run` and `wait`: how the job ended."""

from perdure.manager.job_view import JobView
from perdure.policy.resuming import Held
from perdure.policy.states import State, Status

SUCCEEDED = 0
FAILED = 1
NO_CHECKPOINT = 3
SUSPENDED = 75
CANCELED = 76
TIMED_OUT = 124
#: The host ended it, or is to go: nobody has to act, the same line goes on elsewhere.
TERMINATED = 143


def exit_code(status: Status, view: JobView) -> int:
    """What a command that waited for the job exits with.

    A job that is held because no checkpoint can be used exits with 3, one that waits for a person
    otherwise with 75, one that the host stopped with 143.
    """
    match status.state:
        case State.SUCCEEDED:
            return SUCCEEDED
        case State.FAILED:
            return FAILED
        case State.CANCELED:
            return CANCELED
        case State.SUSPENDED:
            return NO_CHECKPOINT if _has_nothing_usable(view) else SUSPENDED
        case State.PENDING | State.RUNNING:
            return TERMINATED


def _has_nothing_usable(view: JobView) -> bool:
    return any(
        watched.decision is not None
        and isinstance(watched.decision.answer, Held)
        and watched.decision.answer.is_unusable
        for step in view.steps.values()
        for watched in step.watched.values()
    )
