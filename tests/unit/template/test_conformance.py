"""The conformance templates: what is valid passes, what is not is refused with a place."""

import re
from pathlib import Path

import pytest
import yaml

from perdure.errors import TemplateError
from perdure.template import TemplateKind, check_template, load_job, read_document

ROOT = Path(__file__).parents[3] / "conformance" / "CHECKPOINT"
TEMPLATES = sorted([*ROOT.glob("job_templates/*"), *ROOT.glob("env_templates/*")])
JOBS = sorted(ROOT.glob("jobs/*"))
NAME = re.compile(r"ckpt-(\d(?:\.\d)?)--[a-z0-9-]+(\.invalid)?(\.test)?\.yaml")


def by_name(path):
    return path.name


@pytest.mark.parametrize("path", TEMPLATES, ids=by_name)
def test_templates(path):
    document = read_document(path.read_bytes(), name=path.name)
    if ".invalid." not in path.name:
        kind = TemplateKind.JOB if path.parent.name == "job_templates" else TemplateKind.ENVIRONMENT
        assert check_template(document) is kind
        return
    with pytest.raises(TemplateError) as caught:
        check_template(document)
    # One thing is wrong with each: so it is told once, where it is.
    (problem,) = caught.value.problems
    assert problem.path
    assert problem.line is not None


@pytest.mark.parametrize("path", JOBS, ids=by_name)
def test_jobs(path):
    test = yaml.safe_load(path.read_text())
    assert set(test) <= {"template", "parameters", "runOn", "interrupt", "expected"}
    assert set(test["expected"]) <= {"output", "forbidden", "taskFailure", "resume"}
    document = read_document(yaml.safe_dump(test["template"]).encode(), name=path.name)
    job = load_job(
        document,
        parameters=test.get("parameters", {}),
        template_dir=Path("/t"),
        current_dir=Path("/t"),
    )
    assert len(job.steps) == 1
    for interrupt in test.get("interrupt", []):
        assert interrupt["how"] in ("SUSPEND", "LOSE")
        assert interrupt["afterOutput"] in path.read_text()
    assert ("resume" in test["expected"]) == ("interrupt" in test)


@pytest.mark.parametrize("path", [*TEMPLATES, *JOBS], ids=by_name)
def test_names_say_the_section(path):
    match = NAME.fullmatch(path.name)
    assert match
    sections = (ROOT.parents[1] / "docs" / "checkpoint-extension.md").read_text()
    assert re.search(rf"^#+ {re.escape(match[1])}\.? ", sections, re.MULTILINE)


def test_there_are_both_kinds():
    invalid = [path for path in TEMPLATES if ".invalid." in path.name]
    assert len(invalid) > 20
    assert len(TEMPLATES) - len(invalid) > 20
