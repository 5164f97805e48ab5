"""A job: a template with its parameters applied, ready to be run.

Everything in it follows from texts (the template's, the environments', the parameters') that the
store keeps; every process makes it anew with `load.load_job` and gets the same. The library's own
objects are carried as they are, for its sessions, and looked into by nobody else.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from msgspec import Struct

from perdure.template.actions import Action, ActionName
from perdure.template.outline import JobOutline, StepOutline
from perdure.template.symbols import Symbols


class EnvironmentScope(Enum):
    """Where an environment comes from; they are entered in this order."""

    #: given beside the template, on the command line
    EXTERNAL = "external"
    #: the template's ``jobEnvironments``
    JOB = "job"
    #: a step's ``stepEnvironments``
    STEP = "step"


class Environment(Struct, frozen=True, kw_only=True):
    """An environment in the order in which it is entered.

    Attributes:
        identifier: unique in the job; for ``Session.enter_environment``.
        name: as written.
        scope: where it comes from.
        model: for the session. Timeouts and cancelations are taken out, since the worker keeps
            them itself, except where a wrap environment around this one is shown them.
        actions: those that it has, as written.
        wrapped_by: the identifier of the environment whose hooks run instead of its actions.
        symbols: for `resolve_action` and the session's ``resolved_symtab``.
    """

    identifier: str
    name: str
    scope: EnvironmentScope
    model: Any
    actions: Mapping[ActionName, Action]
    wrapped_by: str | None
    symbols: Symbols

    @property
    def wraps(self) -> bool:
        """Whether it runs the actions inside of it by its own (WRAP_ACTIONS)."""
        return ActionName.ON_WRAP_TASK_RUN in self.actions


class Step(StepOutline, frozen=True, kw_only=True):
    """A step of the job.

    Attributes:
        environments: its own, entered after the job's.
        run: its ``onRun``.
        resume: its ``onCheckpointResume``; None: it is not resumable.
        run_script: for ``Session.run_task``; timeout and cancelation are taken out, except where a
            wrap environment is shown them.
        resume_script: the same whose ``onRun`` is the resume action.
        wrapped_by: the identifier of the environment whose hook runs instead of its actions.
        symbols: for `resolve_action`; with `Symbols.with_checkpoint` for the resume action.
    """

    environments: tuple[Environment, ...]
    run: Action
    resume: Action | None
    run_script: Any
    resume_script: Any | None
    wrapped_by: str | None
    symbols: Symbols


class JobParameter(Struct, frozen=True, kw_only=True):
    """A job parameter with its value: text, or what JSON makes of an EXPR type."""

    name: str
    type: str
    value: Any
    description: str | None = None


class Job(JobOutline, frozen=True, kw_only=True):
    """A template with its parameters applied.

    Attributes:
        name: resolved.
        extensions: those that the job template declares, CHECKPOINT included.
        environments: external ones first, then the job's, as `openjd run` enters them.
        steps: in the template's order.
        parameters: all of them, defaults applied, in the order of their definitions.
        session_parameters: the same, for ``Session(job_parameter_values=…)``.
        revision_extensions: for ``Session(revision_extensions=…)``.
        model: the library's job.
        symbols: what job-wide format strings see.
    """

    name: str
    extensions: tuple[str, ...]
    environments: tuple[Environment, ...]
    steps: tuple[Step, ...]
    parameters: tuple[JobParameter, ...]
    session_parameters: Mapping[str, Any]
    revision_extensions: Any
    model: Any
    symbols: Symbols

    def step(self, index: int) -> Step:
        """The step with this index, from 1."""
        return self.steps[index - 1]

    def step_named(self, name: str) -> Step | None:
        """The step with this name, if there is one."""
        return next((step for step in self.steps if step.name == name), None)

    @property
    def path_values(self) -> tuple[str, ...]:
        """The values of PATH and LIST[PATH] parameters: roots that the job itself names."""
        values: list[str] = []
        for parameter in self.parameters:
            if parameter.type == "PATH":
                values.append(str(parameter.value))
            elif parameter.type == "LIST[PATH]":
                values += [str(item) for item in parameter.value]
        return tuple(value for value in values if value)
