"""The JSON schema of templates, for editors: the library's, with CHECKPOINT's keys in it.

Source: pydantic's `model_json_schema` of the library's models, as `openjd schema` prints it;
docs/checkpoint-extension.md for what is added.
"""

import copy
from typing import Any

from openjd.model.v2023_09 import EnvironmentTemplate, JobTemplate

from perdure.template.decode import TemplateKind
from perdure.template.extensions import RESUME_ACTION, SIGNAL, SIGNAL_NAMES, SUSPENSION

_NOTIFYING = ("CancelationMethodNotifyThenTerminate", "CancelationMethodDeferred")


def schema(kind: TemplateKind = TemplateKind.JOB) -> dict[str, Any]:
    """The JSON schema of templates of this kind."""
    model = JobTemplate if kind is TemplateKind.JOB else EnvironmentTemplate
    document: dict[str, Any] = model.model_json_schema()
    definitions = document["$defs"]
    for name in _NOTIFYING:
        definitions[name]["properties"][SIGNAL] = _signal()
    if kind is TemplateKind.JOB:
        _add_task_keys(definitions)
    readable: dict[str, Any] = _plain_patterns(document)
    return readable


def _add_task_keys(definitions: dict[str, Any]) -> None:
    """A task's actions can be suspended; an environment's, of the same shape otherwise, cannot."""
    task_action = copy.deepcopy(definitions["Action"])
    for holder in (task_action, definitions["SimpleAction"]):
        suspension = copy.deepcopy(holder["properties"]["cancelation"])
        suspension["title"] = "Checkpointcancelation"
        suspension["description"] = "How to stop the action so that it can be resumed (CHECKPOINT)."
        holder["properties"][SUSPENSION] = suspension
    definitions["TaskAction"] = {**task_action, "title": "TaskAction"}
    actions = definitions["StepActions"]["properties"]
    actions["onRun"] = _optional("TaskAction", None)
    actions[RESUME_ACTION] = _optional(
        "TaskAction", "Run instead of onRun when a task goes on from its checkpoint (CHECKPOINT)."
    )


def _optional(name: str, description: str | None) -> dict[str, Any]:
    reference: dict[str, Any] = {"$ref": f"#/$defs/{name}"}
    if description is None:
        return reference
    return {"anyOf": [reference, {"type": "null"}], "default": None, "description": description}


def _signal() -> dict[str, Any]:
    return {
        "anyOf": [{"type": "string", "enum": list(SIGNAL_NAMES)}, {"type": "null"}],
        "default": None,
        "description": "The signal that announces the end; SIGTERM if not given (CHECKPOINT).",
    }


def _plain_patterns(value: Any) -> Any:
    """Patterns as JSON schema (ECMA 262) writes them: no inline flags, ``$`` for the end."""
    if isinstance(value, dict):
        return {
            key: _plain_pattern(item)
            if key == "pattern" and isinstance(item, str)
            else _plain_patterns(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_plain_patterns(item) for item in value]
    return value


def _plain_pattern(pattern: str) -> str:
    return pattern.replace("(?-m:", "(?:").replace("\\Z", "$").replace("\\z", "$")
