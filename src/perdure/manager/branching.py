"""A person chooses from where a lineage goes on, or gives it another try.

A branch is put only when nobody holds the lineage: it is suspended first, its end waited for, the
log read to its end and the branch put at exactly the next number. It is done once, not a standing
wish; a commit that came before it is seen and refuses it. A branch also forgives: what counted
before it counts no more.

Source: docs/journal-format.md, "branch".
"""

import time

from msgspec import Struct

from perdure.errors import CheckpointMissing, HomeBusy
from perdure.manager.job_view import JobView
from perdure.manager.step_view import StepView, Watched
from perdure.policy.resuming import Failed, Held
from perdure.policy.stops import Scope
from perdure.store.records.job_log import TaskRef
from perdure.store.records.log import Entry
from perdure.worker.deciding import kept_values

_LOOK_SECONDS = 0.2
#: How long a suspended attempt is waited for beyond its own notice period.
_PATIENCE_SECONDS = 700.0


class Branched(Struct, frozen=True, kw_only=True):
    """A branch that was put.

    Attributes:
        given_back: values of the chunk that were kept beyond the base and run again.
    """

    base: int | None
    given_back: tuple[int, ...]


def branch(view: JobView, step: StepView, ref: TaskRef, base: int | None) -> Branched:
    """Let a lineage go on from ``base`` (None: the beginning).

    Blocks until the attempt under way, if any, has ended.

    Raises:
        CheckpointMissing: there is no such checkpoint, or it was pruned.
        HomeBusy: the attempt under way does not end.
    """
    watched = step.watch(ref)
    view.refresh()
    _check_base(watched, base)
    _suspend(view, step, watched)
    while True:
        watched.is_stale = True
        view.refresh()
        _check_base(watched, base)
        record = {"kind": "branch", "base": base, "by": "user"}
        if isinstance(watched.log.append(record), Entry):
            break
    watched.is_stale = True
    assert watched.view is not None
    kept = kept_values(watched.view.past)
    lost = [v for v, support in kept.items() if support is not None and support > (base or 0)]
    return Branched(base=base, given_back=tuple(sorted(lost)))


def forgive(view: JobView, scope: Scope) -> int:
    """Give failed and held lineages in the scope another try from their point; how many."""
    forgiven = 0
    for step in view.steps.values():
        for task, watched in step.watched.items():
            is_covered = scope.covers(Scope(step.key, task))
            if not is_covered or watched.decision is None or watched.view is None:
                continue
            if isinstance(watched.decision.answer, Failed | Held):
                point = watched.view.lineage.point
                record = {"kind": "branch", "base": point, "by": "user"}
                if isinstance(watched.log.append(record), Entry):
                    forgiven += 1
                watched.is_stale = True
    return forgiven


def _check_base(watched: Watched, base: int | None) -> None:
    if base is None:
        return
    assert watched.view is not None
    save = watched.view.lineage.save(base)
    if save is None or save.is_pruned:
        what = "was pruned" if save is not None else "does not exist"
        raise CheckpointMissing(
            f"checkpoint {base} of the task {what}", hint="See `perdure checkpoints JOB`."
        )


def _suspend(view: JobView, step: StepView, watched: Watched) -> None:
    """End the attempt that is under way, keeping its progress."""
    if not watched.is_running:
        return
    scope = {"step": step.key, "task": watched.ref.task}
    while not view.records.append({"kind": "suspend", "scope": scope, "by": "user"}):
        pass
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while watched.is_running:
        if time.monotonic() > deadline:
            raise HomeBusy(
                "the task's attempt does not end", hint="`perdure suspend --now` ends it at once."
            )
        time.sleep(_LOOK_SECONDS)
        watched.is_stale = True
        view.refresh()
