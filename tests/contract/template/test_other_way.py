"""The split against another way to the same rules: subclasses of the library's own models.

That way needs private parts of the library and cannot make jobs, so perdure does not go it. As a
second opinion it is worth having: both must agree on which templates are valid.
"""

# The library looks for references through typing.Union only, not through "X | None".
# ruff: noqa: UP007, UP045

import copy
import json
from typing import ClassVar, Optional, Union

import pytest
from openjd.model import DecodeValidationError, parse_model
from openjd.model import v2023_09 as model
from pydantic import Field

from perdure.errors import TemplateError
from perdure.template import check_template, read_document
from perdure.template.extensions import SIGNAL_NAMES, STOCK_EXTENSIONS

REFERENCES = {"|Task.Checkpoint.State", "|Task.Checkpoint.File"}


class Notify(model.CancelationMethodNotifyThenTerminate):
    signalToNotify: Optional[str] = Field(None, pattern="|".join(SIGNAL_NAMES))  # noqa: N815


class Action(model.Action):
    cancelation: Optional[Union[Notify, model.CancelationMethodTerminate]] = None
    checkpointCancelation: Optional[Union[Notify, model.CancelationMethodTerminate]] = None  # noqa: N815


class StepActions(model.StepActions):
    onRun: Action  # noqa: N815
    onCheckpointResume: Optional[Action] = None  # noqa: N815

    _template_field_inject_session: ClassVar = {"onCheckpointResume": REFERENCES}


class StepScript(model.StepScript):
    actions: StepActions


class StepTemplate(model.StepTemplate):
    script: Optional[StepScript] = None


class JobTemplate(model.JobTemplate):
    steps: list[StepTemplate]

    @staticmethod
    def supported_extension_names():
        return {*STOCK_EXTENSIONS, "CHECKPOINT"}


NOTIFY = {"mode": "NOTIFY_THEN_TERMINATE", "signalToNotify": "SIGUSR1"}
VALID = {
    "specificationVersion": "jobtemplate-2023-09",
    "extensions": ["CHECKPOINT"],
    "name": "t",
    "parameterDefinitions": [{"name": "N", "type": "INT", "default": 1}],
    "steps": [
        {
            "name": "s",
            "parameterSpace": {
                "taskParameterDefinitions": [{"name": "P", "type": "INT", "range": "1-3"}]
            },
            "script": {
                "embeddedFiles": [{"name": "F", "type": "TEXT", "data": "x"}],
                "actions": {
                    "onRun": {"command": "x", "checkpointCancelation": NOTIFY},
                    "onCheckpointResume": {"command": "x", "args": ["{{Task.Checkpoint.State}}"]},
                },
            },
        }
    ],
}


def changed(action, key, value):
    content = copy.deepcopy(VALID)
    content["steps"][0]["script"]["actions"][action][key] = value
    return content


CASES = [
    VALID,
    *(
        changed("onCheckpointResume", "args", [text])
        for text in (
            "{{Task.Checkpoint.File}} {{Task.Param.P}} {{Param.N}} {{Task.File.F}}",
            "{{Task.Checkpoint.Fil}}",
            "{{Task.Checkpoint}}",
            "{{Param.M}}",
            "{{Session.WorkingDirectory}}",
            "{{Env.File.F}}",
            "{{Task.RawParam.P}}",
            "{{Task.Param.Q}}",
            "{{",
        )
    ),
    changed("onRun", "args", ["{{Task.Checkpoint.State}}"]),
    changed("onRun", "command", "{{Task.Checkpoint.File}}"),
    changed("onRun", "checkpointCancelation", {"mode": "TERMINATE"}),
    changed("onRun", "checkpointCancelation", {"mode": "TERMINATE", "signalToNotify": "SIGINT"}),
    changed("onRun", "checkpointCancelation", {**NOTIFY, "notifyPeriodInSeconds": 601}),
    changed("onRun", "checkpointCancelation", {**NOTIFY, "notifyPeriodInSeconds": 600}),
    changed("onRun", "checkpointCancelation", {**NOTIFY, "signalToNotify": "SIGNO"}),
    changed("onRun", "cancelation", NOTIFY),
    changed("onRun", "extra", 1),
    changed("onCheckpointResume", "timeout", 0),
    changed("onCheckpointResume", "timeout", 1),
    changed("onCheckpointResume", "command", ""),
    changed("onCheckpointResume", "args", []),
    changed("onCheckpointResume", "checkpointCancelation", NOTIFY),
    changed("onCheckpointResume", "cancelation", {"mode": "NO"}),
]


def valid_to_subclasses(content):
    try:
        parse_model(
            model=JobTemplate,
            obj=copy.deepcopy(content),
            supported_extensions=[*STOCK_EXTENSIONS, "CHECKPOINT"],
        )
    except DecodeValidationError:
        return False
    return True


def valid_to_us(content):
    try:
        check_template(read_document(json.dumps(content).encode(), name="t.json"))
    except TemplateError:
        return False
    return True


@pytest.mark.parametrize("extensions", [["CHECKPOINT"], ["CHECKPOINT", "EXPR"]])
@pytest.mark.parametrize("content", CASES)
def test_both_agree(content, extensions):
    content = {**content, "extensions": extensions}
    assert valid_to_us(content) == valid_to_subclasses(content)


def test_both_verdicts_occur():
    verdicts = [valid_to_subclasses(content) for content in CASES]
    assert 5 < sum(verdicts) < len(verdicts) - 5
