"""What somebody stopped by other means than a command of perdure stays stopped.

`scancel`, say: it is recorded as a person's suspension, with why, and lifted like one.
"""

from perdure.manager.job_view import JobView
from perdure.policy.stops import Scope


def hold(view: JobView, scope: Scope, why: str) -> None:
    """Suspend what the scope covers, unless it is stopped; ``why`` is shown to people.

    Raises:
        HomeError, OutOfSpace: it cannot be recorded.
    """
    parts = {"step": scope.step, "task": scope.task}
    covered = {name: part for name, part in parts.items() if part is not None}
    record = {"kind": "suspend", "scope": covered, "by": "user", "reason": why}
    while view.stops.stopped(scope) is None:
        view.records.append(record)
