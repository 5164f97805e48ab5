"""Which steps of a job run, and how many of their tasks. Pure.

Source: `openjd run`'s ``--step``, ``--task-param``, ``--tasks``, ``--maximum-tasks`` and
``--[no-]run-dependencies``.
"""

from perdure.errors import UsageError
from perdure.store.layout import TaskKey
from perdure.store.records.job_document import Selection
from perdure.store.records.job_log import TaskRef
from perdure.template.outline import JobOutline, StepOutline
from perdure.template.space import task_key


def selected_steps(selection: Selection, job: JobOutline) -> dict[int, int | None]:
    """The indexes of the steps that run, each with how many tasks at most (None: all).

    Raises:
        UsageError: the job has no such step.
    """
    if selection.step is None:
        return {step.index: None for step in job.steps}
    step = job.step_named(selection.step)
    if step is None:
        names = ", ".join(repr(one.name) for one in job.steps)
        raise UsageError(f"the job has no step {selection.step!r}", hint=f"Its steps are {names}.")
    chosen: dict[int, int | None] = {}
    if selection.run_dependencies:
        chosen = dict.fromkeys(_before(step.index, job))
    return dict(sorted({**chosen, step.index: selection.maximum_tasks}.items()))


def selected_tasks(selection: Selection, step: StepOutline) -> tuple[TaskRef, ...] | None:
    """The tasks of the step that a person named, or None for all.

    Raises:
        ValueError: the step has no such task.
    """
    if selection.step != step.name or selection.tasks is None:
        return None
    found: list[TaskRef] = []
    for texts in selection.tasks:
        parameters = step.space.typed(texts)
        found.append(
            TaskRef(
                task=TaskKey(task_key(parameters)),
                index=step.space.find(parameters),
                values=parameters.texts(),
            )
        )
    return tuple(found)


def _before(index: int, job: JobOutline) -> set[int]:
    """Every step that the step depends on, directly or not."""
    found: set[int] = set()
    queue = list(job.step(index).dependencies)
    while queue:
        one = queue.pop()
        if one not in found:
            found.add(one)
            queue.extend(job.step(one).dependencies)
    return found
