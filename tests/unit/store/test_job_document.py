"""The job record: what was submitted comes back, and secrets are not in it."""

import json

from perdure.store.layout import JobId
from perdure.store.records.job_document import (
    JobDocument,
    Options,
    Selection,
    Text,
    from_header,
    split_variables,
)

FULL = JobDocument(
    job=JobId("j"),
    name="n",
    template=Text(name="t.yaml", text="steps: []\n"),
    parameters={"P": "1"},
    environments=(Text(name="e.yaml", text="x"),),
    extensions=("CHECKPOINT",),
    template_dir="/t",
    current_dir="/c",
    path_mapping=({"source_path": "/a"},),
    variables={"A": "b"},
    omitted=("TOKEN",),
    key="k",
    submitted_at="2026-01-01T00:00:00Z",
    selection=Selection(step="S", tasks=({"F": "1"},), maximum_tasks=2, run_dependencies=True),
    options=Options(
        workers=3,
        allow_roots=("/x",),
        append=("*.log",),
        hooks={"save": ("a", "b")},
        limits={"per_point": 5},
        step_limits={"S": {"per_point": 6}},
    ),
)


def through_json(document):
    return from_header(json.loads(json.dumps(document.to_header())))


def test_all_of_it_comes_back():
    assert through_json(FULL) == FULL
    small = JobDocument(
        job=JobId("j"), name="n", template=Text(name="t", text=""), template_dir="", current_dir=""
    )
    assert through_json(small) == small


def test_keys_of_later_versions_are_passed_over_and_missing_ones_have_their_defaults():
    header = json.loads(json.dumps(FULL.to_header()))
    header["sometime"] = 1
    header["options"] = {"workers": 2, "sometime": 1}
    header["selection"] = {"sometime": 1}
    header["template"]["sometime"] = 1
    read = from_header(header)
    assert read.options == Options(workers=2)
    assert read.selection == Selection()


def test_secrets_are_kept_by_name_only():
    kept, omitted = split_variables(
        {
            "HOME": "/h",
            "AWS_SECRET_ACCESS_KEY": "x",
            "my_token": "x",
            "DB_PASSWORD": "x",
            "PERDURE_JOB": "x",
            "Licence": "x",
        },
        omit=("licen*",),
    )
    assert kept == {"HOME": "/h"}
    assert omitted == ("AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "Licence", "my_token")
