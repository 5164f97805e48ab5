"""From texts to a job: decode, apply the parameters, resolve all that can be resolved beforehand.

Every process of a job does this anew, so it must give the same each time and cost little: no task
is enumerated (`space`), and the library's part is a few milliseconds a step.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from openjd.model import (
    DecodeValidationError,
    JobWithSymbolTables,
    RevisionExtensions,
    create_job_with_symbol_tables,
    parse_model,
    preprocess_job_parameters,
)
from openjd.model.v2023_09 import Action as LibraryAction
from openjd.model.v2023_09 import StepScript

from perdure.errors import UsageError
from perdure.template.actions import Action, ActionName, WrittenCancelation
from perdure.template.decode import DecodedEnvironment, DecodedJob, decode_environment, decode_job
from perdure.template.document import Document
from perdure.template.extensions import (
    ALL_EXTENSIONS,
    ENVIRONMENT_ACTIONS,
    SUGAR_KEYS,
    SUSPENSION,
)
from perdure.template.job import Environment, EnvironmentScope, Job, JobParameter, Step
from perdure.template.locations import Location, path_text
from perdure.template.split import Split
from perdure.template.step_spaces import host_requirements, task_space
from perdure.template.symbols import Symbols
from perdure.template.translation import library_problems

#: Taken out of what a session gets: the worker keeps clocks and sends signals itself.
_KEPT_BY_WORKER: Mapping[str, None] = {"timeout": None, "cancelation": None}


def load_job(
    document: Document,
    *,
    parameters: Mapping[str, str],
    environments: Sequence[Document] = (),
    template_dir: Path,
    current_dir: Path,
    extensions: Collection[str] = ALL_EXTENSIONS,
) -> Job:
    """The job that the texts describe.

    Args:
        document: the job template.
        parameters: values as texts; those not given have their defaults.
        environments: environment templates, in the order in which they are entered.
        template_dir: absolute; PATH defaults are relative to it and stay inside of it.
        current_dir: absolute; PATH values are relative to it.
        extensions: those that templates may declare.

    Raises:
        TemplateError: a template is not valid; with all problems.
        UsageError: the parameters do not fit.
    """
    decoded = decode_job(document, extensions=extensions)
    around = [decode_environment(one, extensions=extensions) for one in environments]
    values = _parameter_values(decoded, around, parameters, template_dir, current_dir)
    created = _created(decoded, around, values)
    return _JobMaker(decoded, around, created, values).job()


def _parameter_values(
    decoded: DecodedJob,
    around: list[DecodedEnvironment],
    parameters: Mapping[str, str],
    template_dir: Path,
    current_dir: Path,
) -> dict[str, Any]:
    try:
        return preprocess_job_parameters(
            job_template=decoded.model,
            job_parameter_values=dict(parameters),
            job_template_dir=template_dir,
            current_working_dir=current_dir,
            environment_templates=[one.model for one in around],
        )
    except ValueError as exc:
        known = [definition.name for definition in decoded.model.parameterDefinitions or []]
        hint = f"The template's parameters: {', '.join(known)}." if known else "It has none."
        raise UsageError(
            f"{decoded.document.name}: the job parameters do not fit the template: {exc}", hint=hint
        ) from exc


def _created(
    decoded: DecodedJob, around: list[DecodedEnvironment], values: dict[str, Any]
) -> JobWithSymbolTables:
    try:
        return create_job_with_symbol_tables(
            job_template=decoded.model,
            job_parameter_values=values,
            environment_templates=[one.model for one in around],
        )
    except (DecodeValidationError, ValueError) as error:
        document = decoded.document
        document.refuse(tuple(library_problems(error, document, decoded.split.stock)))


class _Place(Struct, frozen=True, kw_only=True):
    """Where an environment stands, and what its format strings see."""

    scope: EnvironmentScope
    identifier: str
    location: Location
    split: Split
    symbols: Symbols


class _JobMaker:
    """Puts a job together from what the library made and what the split took out."""

    def __init__(
        self,
        decoded: DecodedJob,
        around: list[DecodedEnvironment],
        created: JobWithSymbolTables,
        values: dict[str, Any],
    ) -> None:
        self._decoded = decoded
        self._around = around
        self._created = created
        self._model: Any = created.job
        self._values = values
        self._symbols = Symbols(table=created.job_symbol_table)
        self._stock_names = [str(name.value) for name in self._model.extensions or []]

    def job(self) -> Job:
        environments = self._job_environments()
        model = self._model
        declared = tuple(self._decoded.document.content.get("extensions") or ())
        return Job(
            name=str(model.name),
            extensions=declared,
            environments=environments,
            steps=tuple(
                self._step(index, step, environments) for index, step in enumerate(model.steps)
            ),
            parameters=self._parameters(),
            session_parameters=self._values,
            revision_extensions=self._revision_extensions(),
            model=model,
            symbols=self._symbols,
        )

    def _revision_extensions(self) -> RevisionExtensions:
        """What the session obeys: the extensions that any of the templates declares."""
        names = list(self._stock_names)
        for one in self._around:
            names += [name for name in one.model.extensions or [] if name not in names]
        return RevisionExtensions(spec_rev=self._model.revision, supported_extensions=names)

    def _parameters(self) -> tuple[JobParameter, ...]:
        known = self._model.parameters or {}
        return tuple(
            JobParameter(
                name=name,
                type=value.type.value,
                value=value.value,
                description=known[name].description if name in known else None,
            )
            for name, value in self._values.items()
        )

    def _job_environments(self) -> tuple[Environment, ...]:
        made: list[Environment] = []
        for number, one in enumerate(self._around):
            place = _Place(
                scope=EnvironmentScope.EXTERNAL,
                identifier=f"external-{number}",
                location=("environment",),
                split=one.split,
                symbols=self._symbols,
            )
            made.append(self._environment(one.model.environment, place, made))
        for number, model in enumerate(self._model.jobEnvironments or []):
            place = _Place(
                scope=EnvironmentScope.JOB,
                identifier=f"job-{number}",
                location=("jobEnvironments", number),
                split=self._decoded.split,
                symbols=self._symbols,
            )
            made.append(self._environment(model, place, made))
        return tuple(made)

    def _environment(
        self, model: Any, place: "_Place", outer: Sequence[Environment]
    ) -> Environment:
        wrapper = _wrapper(outer)
        written = model.script.actions if model.script is not None else None
        actions: dict[ActionName, Action] = {}
        for name in ENVIRONMENT_ACTIONS:
            one = getattr(written, name, None)
            if one is not None:
                where = (*place.location, "script", "actions", name)
                actions[ActionName(name)] = _action(ActionName(name), one, where, place.split, None)
        made = Environment(
            identifier=place.identifier,
            name=str(model.name),
            scope=place.scope,
            model=model if wrapper is not None else _without_clocks(model, tuple(actions)),
            actions=actions,
            wrapped_by=wrapper,
            symbols=place.symbols,
        )
        if made.wraps and wrapper is not None:
            problem = self._decoded.document.problem(
                () if place.scope is EnvironmentScope.EXTERNAL else place.location,
                f"the environments {_name(outer, wrapper)!r} and {made.name!r} both wrap actions",
                "Only one environment around a task may define onWrap… actions.",
            )
            self._decoded.document.refuse((problem,))
        return made

    def _step(self, position: int, model: Any, outer: tuple[Environment, ...]) -> Step:
        symbols = Symbols(table=self._created.step_symbol_tables[str(model.name)])

        environments: list[Environment] = []
        for number, one in enumerate(model.stepEnvironments or []):
            place = _Place(
                scope=EnvironmentScope.STEP,
                identifier=f"step-{position + 1}-{number}",
                location=("steps", position, "stepEnvironments", number),
                split=self._decoded.split,
                symbols=symbols,
            )
            environments.append(self._environment(one, place, (*outer, *environments)))
        wrapper = _wrapper((*outer, *environments))
        names = {str(step.name): index for index, step in enumerate(self._model.steps, start=1)}
        run_place = self._run_place(position)
        resume, resume_script = self._resume(position, wrapper)
        return Step(
            index=position + 1,
            name=str(model.name),
            dependencies=tuple(names[str(one.dependsOn)] for one in model.dependencies or []),
            environments=tuple(environments),
            requirements=host_requirements(model.hostRequirements),
            space=task_space(model.parameterSpace),
            is_resumable=resume is not None,
            run=self._task_action(ActionName.ON_RUN, model.script.actions.onRun, run_place),
            resume=resume,
            run_script=_task_script(model.script, wrapper),
            resume_script=resume_script,
            wrapped_by=wrapper,
            symbols=symbols,
        )

    def _run_place(self, position: int) -> Location:
        step = self._decoded.split.stock["steps"][position]
        for key in SUGAR_KEYS:
            if step.get(key) is not None:
                return ("steps", position, key)
        return ("steps", position, "script", "actions", "onRun")

    def _resume(self, position: int, wrapper: str | None) -> tuple[Action | None, Any]:
        split = self._decoded.split
        place = ("steps", position, "script", "actions")
        written = split.resumes.get(place)
        if written is None:
            return None, None
        own = split.stock["steps"][position]["script"]
        script = parse_model(
            model=StepScript,
            obj={**own, "actions": {"onRun": written}},
            supported_extensions=self._stock_names,
        )
        name = ActionName.ON_CHECKPOINT_RESUME
        action = self._task_action(name, script.actions.onRun, (*place, name.value))
        return action, _task_script(script, wrapper)

    def _task_action(self, name: ActionName, model: Any, place: Location) -> Action:
        split = self._decoded.split
        suspension = split.suspensions.get(place)
        parsed = None
        if suspension is not None:
            parsed = parse_model(
                model=LibraryAction,
                obj={"command": "true", "cancelation": suspension},
                supported_extensions=self._stock_names,
            ).cancelation
        return _action(name, model, place, split, parsed)


def _action(name: ActionName, model: Any, place: Location, split: Split, suspension: Any) -> Action:
    return Action(
        name=name,
        path=path_text(place),
        timeout=model.timeout,
        cancelation=_written(model.cancelation, split.signals.get((*place, "cancelation"))),
        checkpoint_cancelation=_written(suspension, split.signals.get((*place, SUSPENSION))),
    )


def _written(model: Any, signal_name: str | None) -> WrittenCancelation | None:
    if model is None:
        return None
    mode = model.mode
    return WrittenCancelation(
        mode=mode if hasattr(mode, "resolve_value") else str(mode.value),
        notify_period_seconds=getattr(model, "notifyPeriodInSeconds", None),
        signal_name=signal_name,
    )


def _task_script(script: Any, wrapper: str | None) -> Any:
    """The script for the session; a wrap environment is shown the action as written."""
    if wrapper is not None:
        return script
    actions = script.actions
    run = actions.onRun.model_copy(update=_KEPT_BY_WORKER)
    return script.model_copy(update={"actions": actions.model_copy(update={"onRun": run})})


def _without_clocks(model: Any, names: tuple[ActionName, ...]) -> Any:
    if not names:
        return model
    actions = model.script.actions
    changed = {
        name.value: getattr(actions, name.value).model_copy(update=_KEPT_BY_WORKER)
        for name in names
    }
    script = model.script.model_copy(update={"actions": actions.model_copy(update=changed)})
    return model.model_copy(update={"script": script})


def _wrapper(outer: Sequence[Environment]) -> str | None:
    return next((one.identifier for one in outer if one.wraps), None)


def _name(outer: Sequence[Environment], identifier: str) -> str:
    return next(one.name for one in outer if one.identifier == identifier)
