"""What a job would do, counted: the data of `perdure summary`, named as `openjd summary` names it.

Tasks are counted with each value of a chunk parameter as one.
"""

from typing import Any

from msgspec import Struct, to_builtins

from perdure.errors import UsageError
from perdure.template.job import Environment, EnvironmentScope, Job, Step


class ParameterSummary(Struct, frozen=True, kw_only=True):
    """A job or task parameter; a task parameter has no one value."""

    name: str
    type: str
    value: Any = None
    description: str | None = None


class EnvironmentSummary(Struct, frozen=True, kw_only=True):
    """An environment, and the step that it belongs to ("root": the job)."""

    name: str
    parent: str
    description: str | None = None


class StepSummary(Struct, frozen=True, kw_only=True):
    """A step; ``resumable`` is perdure's own."""

    name: str
    description: str | None
    parameter_definitions: tuple[ParameterSummary, ...]
    total_tasks: int
    environments: tuple[EnvironmentSummary, ...]
    dependencies: tuple[str, ...]
    resumable: bool


class JobSummary(Struct, frozen=True, kw_only=True):
    """A whole job."""

    name: str
    parameter_definitions: tuple[ParameterSummary, ...]
    total_steps: int
    total_tasks: int
    total_environments: int
    root_environments: tuple[EnvironmentSummary, ...]
    steps: tuple[StepSummary, ...]


def summarize(job: Job) -> JobSummary:
    """``job``, counted."""
    steps = tuple(_step(job, step) for step in job.steps)
    roots = tuple(_environment(one, "root") for one in job.environments)
    return JobSummary(
        name=job.name,
        parameter_definitions=tuple(
            ParameterSummary(
                name=one.name, type=one.type, value=one.value, description=one.description
            )
            for one in job.parameters
        ),
        total_steps=len(steps),
        total_tasks=sum(step.total_tasks for step in steps),
        total_environments=len(roots) + sum(len(step.environments) for step in steps),
        root_environments=roots,
        steps=steps,
    )


def summarize_step(job: Job, name: str) -> StepSummary:
    """The step called ``name``, counted.

    Raises:
        UsageError: the job has no such step.
    """
    step = job.step_named(name)
    if step is None:
        known = ", ".join(one.name for one in job.steps)
        raise UsageError(f"the job {job.name!r} has no step {name!r}", hint=f"It has {known}.")
    return _step(job, step)


def to_json(summary: JobSummary | StepSummary) -> dict[str, Any]:
    """A JSON-able value with the names that `openjd summary --output json` uses."""
    data: dict[str, Any] = to_builtins(summary)
    steps = data.get("steps")
    for step in [data] if steps is None else steps:
        step["dependencies"] = [{"step_name": name} for name in step["dependencies"]]
    return data


def _step(job: Job, step: Step) -> StepSummary:
    return StepSummary(
        name=step.name,
        description=job.model.steps[step.index - 1].description,
        parameter_definitions=tuple(
            ParameterSummary(name=name, type=step.space.types[name]) for name in step.space.names
        ),
        total_tasks=step.space.value_count,
        environments=tuple(_environment(one, step.name) for one in step.environments),
        dependencies=tuple(job.step(index).name for index in step.dependencies),
        resumable=step.is_resumable,
    )


def _environment(environment: Environment, parent: str) -> EnvironmentSummary:
    external = environment.scope is EnvironmentScope.EXTERNAL
    return EnvironmentSummary(
        name=environment.name,
        parent="external" if external else parent,
        description=environment.model.description,
    )
