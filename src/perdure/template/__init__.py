"""Open Job Description templates and the CHECKPOINT extension: load, validate, make a Job.

::

    document = read_document(Path("job.yaml").read_bytes(), name="job.yaml")
    check_template(document)
    job = load_job(document, parameters={"N": "30"}, template_dir=..., current_dir=...)
    job.steps[0].space.task(0)

Names are loaded when they are first used: the library behind them takes a fifth of a second. What a
job is without it is in `perdure.template.outline`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.template.actions import (
        Action,
        ActionName,
        Cancelation,
        NotifyThenTerminate,
        ResolvedAction,
        Terminate,
        WrittenCancelation,
        resolve_action,
        resolve_wrapped,
    )
    from perdure.template.chunks import ChunkSpec, chunk_values
    from perdure.template.command import CommandLine, command_job
    from perdure.template.decode import TemplateKind, check_template
    from perdure.template.document import Document, read_document
    from perdure.template.extensions import ALL_EXTENSIONS, SIGNAL_NAMES
    from perdure.template.job import Environment, EnvironmentScope, Job, JobParameter, Step
    from perdure.template.json_schema import schema
    from perdure.template.load import load_job
    from perdure.template.parameters import (
        parse_parameters,
        parse_task_parameters,
        parse_tasks,
    )
    from perdure.template.pathmapping import PathMappingRule, read_path_mapping
    from perdure.template.requirements import Amount, Attribute, HostRequirements
    from perdure.template.space import (
        START,
        Cursor,
        TaskKey,
        TaskParameters,
        TaskSpace,
        TaskValue,
        task_key,
    )
    from perdure.template.summary import JobSummary, StepSummary, summarize, summarize_step
    from perdure.template.symbols import Symbols

_MODULES: dict[str, tuple[str, ...]] = {
    "actions": (
        "Action",
        "ActionName",
        "Cancelation",
        "NotifyThenTerminate",
        "ResolvedAction",
        "Terminate",
        "WrittenCancelation",
        "resolve_action",
        "resolve_wrapped",
    ),
    "chunks": ("ChunkSpec", "chunk_values"),
    "command": ("CommandLine", "command_job"),
    "decode": ("TemplateKind", "check_template"),
    "document": ("Document", "read_document"),
    "extensions": ("ALL_EXTENSIONS", "SIGNAL_NAMES"),
    "job": ("Environment", "EnvironmentScope", "Job", "JobParameter", "Step"),
    "load": ("load_job",),
    "parameters": ("parse_parameters", "parse_task_parameters", "parse_tasks"),
    "pathmapping": ("PathMappingRule", "read_path_mapping"),
    "requirements": ("Amount", "Attribute", "HostRequirements"),
    "json_schema": ("schema",),
    "space": (
        "START",
        "Cursor",
        "TaskKey",
        "TaskParameters",
        "TaskSpace",
        "TaskValue",
        "task_key",
    ),
    "summary": ("JobSummary", "StepSummary", "summarize", "summarize_step"),
    "symbols": ("Symbols",),
}

__all__ = [
    "ALL_EXTENSIONS",
    "SIGNAL_NAMES",
    "START",
    "Action",
    "ActionName",
    "Amount",
    "Attribute",
    "Cancelation",
    "ChunkSpec",
    "CommandLine",
    "Cursor",
    "Document",
    "Environment",
    "EnvironmentScope",
    "HostRequirements",
    "Job",
    "JobParameter",
    "JobSummary",
    "NotifyThenTerminate",
    "PathMappingRule",
    "ResolvedAction",
    "Step",
    "StepSummary",
    "Symbols",
    "TaskKey",
    "TaskParameters",
    "TaskSpace",
    "TaskValue",
    "TemplateKind",
    "Terminate",
    "WrittenCancelation",
    "check_template",
    "chunk_values",
    "command_job",
    "load_job",
    "parse_parameters",
    "parse_task_parameters",
    "parse_tasks",
    "read_document",
    "read_path_mapping",
    "resolve_action",
    "resolve_wrapped",
    "schema",
    "summarize",
    "summarize_step",
    "task_key",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
