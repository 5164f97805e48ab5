"""A job's outline says the same about its steps as the job."""

import subprocess
import sys
from pathlib import Path

import pytest

from perdure.template import load_job, read_document
from perdure.template.outline import StepOutline, decode_outline, encode_outline

EXAMPLES = Path(__file__).parents[3] / "examples"
DEMANDING = """\
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT]
name: Demanding
steps:
- name: First
  script: {actions: {onRun: {command: "true"}, onCheckpointResume: {command: "true"}}}
- name: Second
  dependencies: [{dependsOn: First}]
  hostRequirements:
    amounts: [{name: amount.worker.vcpu, min: 2, max: 4}, {name: amount.licences, min: 1}]
    attributes: [{name: attr.worker.os.family, anyOf: [linux]}]
  parameterSpace:
    taskParameterDefinitions:
    - {name: Frame, type: INT, range: "1-9:2"}
    - {name: Camera, type: STRING, range: [left, "right \\u00e9"]}
    combination: Camera * Frame
  script: {actions: {onRun: {command: "true"}}}
"""


def load(text, name="t.yaml"):
    document = read_document(text.encode("utf-8"), name=name)
    given = {"Output": "out"} if "Output" in text else {}
    return load_job(document, parameters=given, template_dir=EXAMPLES, current_dir=EXAMPLES)


def described(step):
    whole = {name: getattr(step, name) for name in StepOutline.__struct_fields__}
    space = whole.pop("space")
    tasks = None if space.is_adaptive else [space.task(n).to_json() for n in range(space.len)]
    return {**whole, "types": space.types, "names": space.names, "tasks": tasks}


@pytest.mark.parametrize(
    "text",
    [DEMANDING, *(path.read_text("utf-8") for path in sorted(EXAMPLES.glob("*.yaml")))],
)
def test_every_step_is_described_alike(text):
    job = load(text)
    outline = decode_outline(encode_outline(job))
    assert [described(step) for step in outline.steps] == [described(step) for step in job.steps]
    assert outline.step_named(job.steps[0].name).index == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"steps":[{"index":"1"}]}', '{"steps":[1]}'])
def test_what_is_none_is_said_to_be(text):
    with pytest.raises(ValueError, match=r"\S"):
        decode_outline(text)


def test_it_is_read_without_the_library_of_templates():
    code = (
        "import sys; from perdure.manager.facts_reading import read_facts;"
        " sys.exit(any(name.startswith('openjd') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
