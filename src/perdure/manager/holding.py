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
    record = {"kind": "suspend", "scope": scope.recorded(), "by": "user", "reason": why}
    while view.stops.stopped(scope) is None:
        view.records.append(record)
