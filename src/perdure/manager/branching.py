"""A person chooses from where a lineage goes on, or gives it another try.

A branch is put only when nobody holds the lineage: it is suspended first, its end waited for, the
log read to its end and the branch put at exactly the next number. It is done once, not a standing
wish; a commit that came before it is seen and refuses it. A branch also forgives: what counted
before it counts no more, and its back-off is over.

Source: docs/journal-format.md, "branch"; docs/decisions/145.
"""

import time

from msgspec import Struct

from perdure.errors import HomeBusy
from perdure.manager.job_view import JobView
from perdure.manager.labels import task_label
from perdure.manager.lineages import named_save
from perdure.manager.step_view import StepView, Watched
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
    _check_base(view, step, watched, base)
    _suspend(view, step, watched)
    while True:
        watched.is_stale = True
        view.refresh()
        _check_base(view, step, watched, base)
        record = {"kind": "branch", "base": base, "by": "user"}
        if isinstance(watched.log.append(record), Entry):
            break
    watched.is_stale = True
    assert watched.view is not None
    kept = kept_values(watched.view.past)
    lost = [v for v, support in kept.items() if support is not None and support > (base or 0)]
    return Branched(base=base, given_back=tuple(sorted(lost)))


class Forgiven(Struct, frozen=True, kw_only=True):
    """A task whose failures were forgotten; ``base`` is where it goes on from."""

    label: str
    base: int | None


def forgive(view: JobView, scope: Scope) -> tuple[Forgiven, ...]:
    """Forget what was tried in vain in the scope, by a person's word; the tasks concerned.

    Failed and held tasks get another try, those that wait for one get it at once, each from its
    newest good checkpoint. What runs is left alone.
    """
    forgiven: list[Forgiven] = []
    for step in view.steps.values():
        for task, watched in step.watched.items():
            if not scope.covers(Scope(step.key, task)) or watched.view is None:
                continue
            after = step.resumed(watched)
            if after is watched.view:
                continue
            base = after.lineage.point
            record = {"kind": "branch", "base": base, "by": "user"}
            if isinstance(watched.log.append(record), Entry):
                forgiven.append(Forgiven(label=_label(step, watched), base=base))
            watched.is_stale = True
    return tuple(forgiven)


def _check_base(view: JobView, step: StepView, watched: Watched, base: int | None) -> None:
    if base is None:
        return
    assert watched.view is not None
    label = _label(step, watched)
    named_save(watched.view.lineage, base, label=label, job=view.document.job)


def _label(step: StepView, watched: Watched) -> str:
    return task_label(step.step.name, step.texts(watched.ref))


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
