"""The data of `perdure summary` and `perdure schema`."""

import re
from pathlib import Path

import pytest

from perdure.errors import UsageError
from perdure.template import (
    TemplateKind,
    load_job,
    read_document,
    schema,
    summarize,
    summarize_step,
)
from perdure.template.summary import to_json

TEXT = b"""
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT, TASK_CHUNKING]
name: job
parameterDefinitions:
- {name: N, type: INT, default: 3, description: how many}
jobEnvironments:
- {name: e, variables: {A: b}, description: about e}
steps:
- name: one
  description: about one
  stepEnvironments:
  - {name: f, variables: {A: b}}
  parameterSpace:
    taskParameterDefinitions:
    - name: Frame
      type: CHUNK[INT]
      range: 1-20
      chunks: {defaultTaskCount: 6, rangeConstraint: CONTIGUOUS, targetRuntimeSeconds: 5}
    - {name: Camera, type: STRING, range: [a, b]}
  script:
    actions:
      onRun: {command: x}
      onCheckpointResume: {command: x}
- name: two
  dependencies: [{dependsOn: one}]
  script: {actions: {onRun: {command: x}}}
"""


@pytest.fixture
def job():
    document = read_document(TEXT, name="t.yaml")
    here = Path("/tmp")
    return load_job(document, parameters={}, template_dir=here, current_dir=here)


def test_a_job_counted(job):
    summary = summarize(job)
    assert (summary.total_steps, summary.total_tasks, summary.total_environments) == (2, 41, 2)
    one, two = summary.steps
    assert (one.total_tasks, one.resumable, two.resumable) == (40, True, False)
    data = to_json(summary)
    assert data["parameter_definitions"] == (
        {"name": "N", "type": "INT", "value": "3", "description": "how many"},
    )
    assert data["root_environments"][0] == {
        "name": "e",
        "parent": "root",
        "description": "about e",
    }
    assert data["steps"][1]["dependencies"] == [{"step_name": "one"}]
    types = [parameter["type"] for parameter in data["steps"][0]["parameter_definitions"]]
    assert types == ["CHUNK[INT]", "STRING"]


def test_one_step(job):
    assert summarize_step(job, "two") == summarize(job).steps[1]
    assert to_json(summarize_step(job, "two"))["dependencies"] == [{"step_name": "one"}]
    with pytest.raises(UsageError, match="no step 'three'") as caught:
        summarize_step(job, "three")
    assert caught.value.hint == "It has one, two."


def test_the_schema_has_the_extension_s_keys_where_they_may_stand():
    definitions = schema()["$defs"]
    assert "onCheckpointResume" in definitions["StepActions"]["properties"]
    assert definitions["StepActions"]["properties"]["onRun"] == {"$ref": "#/$defs/TaskAction"}
    assert "checkpointCancelation" in definitions["TaskAction"]["properties"]
    assert "checkpointCancelation" in definitions["SimpleAction"]["properties"]
    assert "checkpointCancelation" not in definitions["Action"]["properties"]
    for name in ("CancelationMethodNotifyThenTerminate", "CancelationMethodDeferred"):
        assert "signalToNotify" in definitions[name]["properties"]
    assert "signalToNotify" not in definitions["CancelationMethodTerminate"]["properties"]


def test_the_schema_of_environments():
    document = schema(TemplateKind.ENVIRONMENT)
    assert "environment" in document["properties"]
    notifying = document["$defs"]["CancelationMethodNotifyThenTerminate"]["properties"]
    assert "SIGUSR1" in notifying["signalToNotify"]["anyOf"][0]["enum"]


def patterns(value):
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "pattern" and isinstance(item, str):
                yield item
            else:
                yield from patterns(item)
    elif isinstance(value, list):
        for item in value:
            yield from patterns(item)


def test_patterns_are_those_of_json_schema():
    found = list(patterns(schema()))
    assert found
    for pattern in found:
        assert "(?-m:" not in pattern
        assert "\\z" not in pattern.lower()
        re.compile(pattern)
