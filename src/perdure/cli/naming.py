"""What people call things: a job by its id, a unique prefix, its key or ``last``; tasks by name.

Finding a job loads no template, so that commands which only look start fast. What is ambiguous is
answered with the candidates, never guessed.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from perdure.clock import SystemClock, pause
from perdure.errors import JobMissing, UsageError
from perdure.manager.labels import split_checkpoint, split_task, split_values, task_label
from perdure.manager.stored_jobs import job_by_key, job_ids, newest_first, stored_job
from perdure.store import layout
from perdure.store.layout import JobId, TaskKey
from perdure.store.opening import Store
from perdure.store.records.job_document import JobDocument
from perdure.store.records.job_log import TaskRef
from perdure.worker.job_records import LineageId

if TYPE_CHECKING:
    from perdure.manager.job_view import JobView
    from perdure.manager.step_view import StepView

#: So many candidates are shown.
_SHOWN = 10
_KEY_PREFIX = re.compile(r"[0-9a-f]{2,16}")


def find_job(store: Store, name: str) -> JobDocument:
    """The job that ``name`` means: ``last``, an id, a key, or the beginning of one job's id.

    Raises:
        JobMissing: there is no such job.
        UsageError: several are meant; lists them.
    """
    driver = store.driver
    if name == "last":
        found = next(newest_first(driver), None)
        if found is None:
            raise JobMissing(f"the store {store.url} has no jobs", hint="Start one: perdure run")
        return found
    if layout.is_ulid(name.lower()):
        found = stored_job(driver, JobId(name.lower()))
        if found is not None:
            return found
    found = job_by_key(driver, name, clock=SystemClock(), pause=pause) if name else None
    return found if found is not None else _by_prefix(store, name)


def _by_prefix(store: Store, name: str) -> JobDocument:
    candidates = [job for job in job_ids(store.driver) if name and job.startswith(name.lower())]
    if len(candidates) > 1:
        listed = [document_line(stored_job(store.driver, job), job) for job in candidates[-_SHOWN:]]
        raise UsageError(
            f"{name!r} can mean {len(candidates)} jobs: {'; '.join(listed)}",
            hint="Give more of the id.",
            candidates=list(candidates),
        )
    found = stored_job(store.driver, candidates[0]) if candidates else None
    if found is None:
        raise _no_job(store, name)
    return found


def _no_job(store: Store, name: str) -> JobMissing:
    """Says which ids a name that is no id may have meant."""
    named = [d.job for d in newest_first(store.driver) if name and d.name == name]
    hint = "`perdure status` lists its jobs."
    if named:
        hint = f"Jobs are called by id; this name has {', '.join(named[:_SHOWN])}."
    return JobMissing(f"the store {store.url} has no job {name!r}", hint=hint, job=name)


def document_line(document: JobDocument | None, job: JobId) -> str:
    """A job in a list of candidates."""
    return f"{job} ({document.name})" if document is not None else job


class FoundTask(Struct, frozen=True, kw_only=True):
    """A task that was named."""

    step: "StepView"
    ref: TaskRef

    @property
    def lineage(self) -> LineageId:
        """Its lineage."""
        return LineageId(step=self.step.key, task=self.ref.task)

    @property
    def label(self) -> str:
        """As people call it."""
        return task_label(self.step.step.name, self.step.texts(self.ref))


def scope_of(view: "JobView", step: str | None, task: str | None) -> dict[str, Any]:
    """What the options ``--step`` and ``--task`` cover, as wishes are recorded.

    Raises:
        UsageError: there is no such step or task, or several are meant.
    """
    if task is not None:
        found = find_task(view, step, task)
        return {"step": found.step.key, "task": found.ref.task}
    if step is not None:
        return {"step": find_step(view, step).key}
    return {}


def find_step(view: "JobView", name: str) -> "StepView":
    """The step of that name, among those that run.

    Raises:
        UsageError: there is none.
    """
    for step in view.steps.values():
        if step.step.name == name:
            return step
    names = ", ".join(repr(step.step.name) for step in view.steps.values())
    raise UsageError(f"the job runs no step {name!r}", hint=f"Its steps are {names}.")


def find_task(view: "JobView", step: str | None, task: str) -> FoundTask:
    """The one task that is meant.

    Raises:
        UsageError: there is none, or there are several; lists them.
    """
    found = find_tasks(view, step, task)
    if len(found) == 1:
        return found[0]
    listed = "; ".join(f"{one.label} ({one.ref.task})" for one in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    raise UsageError(
        f"{task!r} can mean {len(found)} tasks: {listed}{more}",
        hint="Name one, like 'Step[Frame=12]', or by its key.",
        candidates=[one.ref.task for one in found[:_SHOWN]],
    )


def find_tasks(view: "JobView", step: str | None, task: str | None) -> Sequence[FoundTask]:
    """The tasks that are meant: ``Step[Frame=12]``, ``Step``, a key or the beginning of one.

    Without ``task`` those of ``step``, or all. At least one.

    Raises:
        UsageError: there is none.
    """
    steps = [find_step(view, step)] if step is not None else list(view.steps.values())
    if task is None:
        return [found for one in steps for found in all_tasks(one)]
    named = _named(steps, task, in_step=step is not None)
    if named:
        return named
    if _KEY_PREFIX.fullmatch(task):
        by_key = [f for one in steps for f in all_tasks(one) if f.ref.task.startswith(task)]
        if by_key:
            return by_key
    shown = ", ".join(found.label for found in _some(steps))
    raise UsageError(
        f"the job has no task {task!r}",
        hint=f"Tasks are called like {shown}, or by the beginning of their key.",
        task=task,
    )


def _some(steps: "Sequence[StepView]") -> Iterator[FoundTask]:
    """One task of each step, as examples."""
    for step in steps[:_SHOWN]:
        first = next(all_tasks(step), None)
        if first is not None:
            yield first


def _named(steps: "Sequence[StepView]", text: str, *, in_step: bool) -> list[FoundTask]:
    """The tasks that a name with values (or a step's name) means."""
    split = split_task(text, [step.step.name for step in steps])
    if split is None and in_step and "=" in text:
        split = (steps[0].step.name, text.removeprefix("[").removesuffix("]"))
    if split is None:
        return []
    name, inner = split
    step = next(one for one in steps if one.step.name == name)
    if not inner:
        return list(all_tasks(step))
    values = split_values(inner, step.step.space.names)
    return [] if values is None else _with_values(step, values)


def _with_values(step: "StepView", values: dict[str, str]) -> list[FoundTask]:
    """The tasks that have these values; of a chunk one of its values will do."""
    from perdure.template import task_key

    space = step.step.space
    if set(values) == set(space.names):
        ordered = {name: values[name] for name in space.names}
        key = TaskKey(task_key(ordered))
        index = space.find(ordered)
        if index is not None:
            return [FoundTask(step=step, ref=TaskRef(task=key, index=index))]
        known = step.watched.get(key)
        if known is not None:
            return [FoundTask(step=step, ref=known.ref)]
    return [found for found in all_tasks(step) if _fits(found, values)]


def _fits(found: FoundTask, values: dict[str, str]) -> bool:
    texts = found.step.texts(found.ref)
    space = found.step.step.space
    for name, text in values.items():
        if texts.get(name) == text:
            continue
        is_chunk = space.chunk is not None and name == space.chunk.parameter
        if not (is_chunk and text.lstrip("-").isdigit() and int(text) in space.chunk_values(texts)):
            return False
    return True


def all_tasks(step: "StepView") -> Iterator[FoundTask]:
    """Every task of the step, those that no share has taken included."""
    from perdure.template import task_key
    from perdure.worker.shares import tasks_of

    seen: set[TaskKey] = set()
    space = step.step.space
    if step.only is None and not space.is_adaptive:
        total = space.len or 0
        for index in range(total if step.limit is None else min(total, step.limit)):
            key = TaskKey(task_key(space.task(index)))
            seen.add(key)
            yield FoundTask(step=step, ref=TaskRef(task=key, index=index))
    elif step.only is None:
        for share in step.records.shares_read(step.key):
            for ref, _ in tasks_of(share, space):
                seen.add(ref.task)
                yield FoundTask(step=step, ref=ref)
    for key, watched in list(step.watched.items()):
        if key not in seen:
            yield FoundTask(step=step, ref=watched.ref)


def split_named_checkpoint(text: str) -> list[tuple[str, str, int | None]]:
    """The ways to read ``JOB/TASK@N``: job, task and sequence (None without ``@N``).

    Keys and names of steps may have slashes, so that there can be several.

    Raises:
        UsageError: it is none.
    """
    named, sequence = split_checkpoint(text)
    parts = named.split("/")
    ways = [
        ("/".join(parts[:at]), "/".join(parts[at:]), sequence)
        for at in range(1, len(parts))
        if parts[at]
    ]
    if not ways or not parts[0]:
        raise UsageError(
            f"{text!r} names no checkpoint",
            hint="Write JOB/TASK@N, like last/Render[Frame=12]@7; `perdure checkpoints JOB`"
            " lists them.",
        )
    return ways
