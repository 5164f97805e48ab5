"""Whatever the bytes are: a document, or a TemplateError that says why. Nothing else, ever."""

import json
import string

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.errors import TemplateError
from perdure.template import check_template, read_document

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=15,
)
YAML_PIECES = st.lists(
    st.sampled_from(
        [
            *("a", "b:", "- ", "\n", "  ", "&x ", "*x", "<<: ", "{", "}", "[", "]", ", ", "'", '"'),
            *("!!int ", "!!set ", "2024-01-01", ".nan", "? ", ": ", "#", "---\n", "...\n", "%"),
            *string.printable[:70],
        ]
    ),
    max_size=60,
).map("".join)
KEYS = [
    *("specificationVersion", "extensions", "name", "steps", "script", "actions", "onRun", "let"),
    *("onCheckpointResume", "command", "args", "cancelation", "checkpointCancelation", "mode"),
    *("signalToNotify", "notifyPeriodInSeconds", "parameterSpace", "taskParameterDefinitions"),
    *("range", "type", "chunks", "combination", "environment", "jobEnvironments", "variables"),
    *("parameterDefinitions", "default", "timeout", "bash", "embeddedFiles", "dependencies"),
]
WORDS = st.sampled_from(
    [
        *("jobtemplate-2023-09", "environment-2023-09", "CHECKPOINT", "EXPR", "TASK_CHUNKING"),
        *("FEATURE_BUNDLE_1", "INT", "CHUNK[INT]", "1-5", "TERMINATE", "NOTIFY_THEN_TERMINATE"),
        *("SIGUSR1", "{{Task.Checkpoint.State}}", "{{Param.N}}", "{{", "x"),
    ]
)
TEMPLATE_LIKE = st.recursive(
    WORDS | SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=25,
)
#: The long way down to an action, so that what stands there is reached, too.
STEPS = st.lists(
    st.fixed_dictionaries(
        {"name": st.just("s")},
        optional={
            "script": st.fixed_dictionaries(
                {"actions": st.dictionaries(st.sampled_from(KEYS), TEMPLATE_LIKE, max_size=4)}
            ),
            "bash": TEMPLATE_LIKE,
            "parameterSpace": TEMPLATE_LIKE,
            "onCheckpointResume": TEMPLATE_LIKE,
            "let": TEMPLATE_LIKE,
        },
    ),
    max_size=3,
)
TEMPLATES = st.fixed_dictionaries(
    {"specificationVersion": st.sampled_from(["jobtemplate-2023-09", "environment-2023-09"])},
    optional={
        "extensions": st.lists(WORDS, max_size=3) | TEMPLATE_LIKE,
        "name": TEMPLATE_LIKE,
        "steps": STEPS | TEMPLATE_LIKE,
        "jobEnvironments": TEMPLATE_LIKE,
        "environment": TEMPLATE_LIKE,
        "parameterDefinitions": TEMPLATE_LIKE,
    },
)


def read(data, name):
    refusal = None
    try:
        return read_document(data, name=name)
    except TemplateError as error:
        refusal = error
    assert refusal.problems
    assert str(refusal).startswith(name)
    return None


@given(st.binary(max_size=200), st.sampled_from(["t.yaml", "t.json"]))
def test_any_bytes(data, name):
    read(data, name)


@given(YAML_PIECES, st.sampled_from(["t.yaml", "t.json"]))
@settings(max_examples=300)
def test_any_text_that_looks_like_yaml(text, name):
    document = read(text.encode(), name)
    if document is not None:
        json.dumps(document.content, allow_nan=False).encode()


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=5), st.sampled_from([None, 1]))
def test_json_comes_back_as_it_was(content, indent):
    document = read_document(json.dumps(content, indent=indent).encode(), name="t.json")
    assert document.content == content
    assert json.dumps(document.content) == json.dumps(content)


@given(st.dictionaries(st.text(string.ascii_letters, max_size=8), VALUES, max_size=5))
def test_lines_of_json_are_those_of_its_keys(content):
    text = json.dumps(content, indent=1)
    document = read_document(text.encode(), name="t.json")
    lines = text.splitlines()
    for key in content:
        assert lines[document.line((key,)) - 1].startswith(f" {json.dumps(key)}:")


@given(TEMPLATES | st.dictionaries(st.sampled_from(KEYS), TEMPLATE_LIKE, max_size=6))
@settings(max_examples=300, deadline=None)
def test_any_template_is_valid_or_a_template_error(content):
    try:
        check_template(read_document(json.dumps(content).encode(), name="t.json"))
    except TemplateError as error:
        paths = [(problem.path, problem.message) for problem in error.problems]
        assert len(paths) == len(set(paths))
        assert not any("Task.Param.H" in message for _, message in paths)
