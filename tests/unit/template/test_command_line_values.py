"""Parameters, tasks and path mapping rules as people write them."""

import json

import pytest

from perdure.errors import UsageError
from perdure.template import (
    PathMappingRule,
    parse_parameters,
    parse_task_parameters,
    parse_tasks,
    read_path_mapping,
)


def test_names_and_values():
    given = ["A=1", " B=x=y ", "C=", "A=2", "D=two\nlines"]
    assert parse_parameters(given) == {"A": "2", "B": "x=y", "C": "", "D": "two\nlines"}
    assert parse_parameters([]) == {}


def test_inline_json_and_files(tmp_path):
    (tmp_path / "p.yaml").write_text("A: 1\nB: [1, 'x']\nC: yes\nD: 1.5\nE: 'yes'\n")
    (tmp_path / "p.json").write_text('{"A": 7}')
    assert parse_parameters([f"file://{tmp_path}/p.yaml"]) == {
        "A": "1",
        "B": '[1, "x"]',
        "C": "true",
        "D": "1.5",
        "E": "yes",
    }
    given = [f"file://{tmp_path}/p.yaml", f"file://{tmp_path}/p.json", '{"B": "z"}']
    assert parse_parameters(given)["A"] == "7"
    assert parse_parameters(given)["B"] == "z"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("novalue", "no job parameter"),
        ("=x", "no job parameter"),
        ("{bad}", "not valid JSON"),
        ('{"A": null}', "null is no parameter value"),
        ('{"A": {"b": 1}}', "no parameter value"),
        ('{"A": 1, "A": 2}', "second time"),
        ("file:///nowhere/at/all.yaml", "cannot be read"),
        ("file:///", "cannot be read"),
    ],
)
def test_what_is_no_parameter(argument, message):
    with pytest.raises(UsageError, match=message) as caught:
        parse_parameters([argument])
    assert caught.value.hint


def test_a_parameter_file_that_is_wrong(tmp_path):
    (tmp_path / "p.yaml").write_text("- 1\n")
    with pytest.raises(UsageError, match="not a mapping"):
        parse_parameters([f"file://{tmp_path}/p.yaml"])


def test_one_task():
    assert parse_task_parameters(["Frame=1-5", " Camera=a=b"]) == {"Frame": "1-5", "Camera": "a=b"}
    for wrong in (["x"], ["A="], ["=1"]):
        with pytest.raises(UsageError, match="no task parameter"):
            parse_task_parameters(wrong)
    with pytest.raises(UsageError, match="more than once"):
        parse_task_parameters(["A=1", "A=2"])


def test_several_tasks(tmp_path):
    tasks = [{"Frame": 1, "Camera": "a"}, {"Frame": 2, "Camera": "b"}]
    expected = ({"Frame": "1", "Camera": "a"}, {"Frame": "2", "Camera": "b"})
    assert parse_tasks(json.dumps(tasks)) == expected
    (tmp_path / "t.json").write_text(json.dumps(tasks))
    (tmp_path / "t.yaml").write_text("- Frame: 1\n  Camera: a\n- {Frame: 2, Camera: b}\n")
    for name in ("t.json", "t.yaml"):
        assert parse_tasks(f"file://{tmp_path}/{name}") == expected


@pytest.mark.parametrize("text", ["x", "{}", "[1]", "[[]]", '[{"A": null}]', "file:///nowhere"])
def test_what_are_no_tasks(text):
    with pytest.raises(UsageError):
        parse_tasks(text)


def test_a_task_file_that_is_wrong(tmp_path):
    (tmp_path / "t.yaml").write_text("a: [\n")
    with pytest.raises(UsageError, match="no list of tasks"):
        parse_tasks(f"file://{tmp_path}/t.yaml")


RULES = {
    "version": "pathmapping-1.0",
    "path_mapping_rules": [
        {"source_path_format": "posix", "source_path": "/mnt", "destination_path": "/data"},
        {"source_path_format": "URI", "source_path": "s3://b/c", "destination_path": "/s3"},
    ],
}


def test_path_mapping_rules(tmp_path):
    expected = (
        PathMappingRule(source_path_format="POSIX", source_path="/mnt", destination_path="/data"),
        PathMappingRule(source_path_format="URI", source_path="s3://b/c", destination_path="/s3"),
    )
    assert read_path_mapping(json.dumps(RULES)) == expected
    for name in ("pm.json", "pm"):
        (tmp_path / name).write_text(json.dumps(RULES))
        assert read_path_mapping(f"file://{tmp_path}/{name}") == expected
    assert tuple(PathMappingRule.from_json(rule.to_json()) for rule in expected) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": "2"}, "the version is '2'"),
        ({"path_mapping_rules": {}}, "no list"),
        ({"path_mapping_rules": [5]}, "rule 1: a rule has just the keys"),
        ({"path_mapping_rules": [{}]}, "just the keys"),
        (
            {"path_mapping_rules": [{**RULES["path_mapping_rules"][0], "extra": "x"}]},
            "just the keys",
        ),
        (
            {"path_mapping_rules": [{**RULES["path_mapping_rules"][0], "source_path": ""}]},
            "not empty",
        ),
        (
            {"path_mapping_rules": [{**RULES["path_mapping_rules"][0], "source_path_format": "x"}]},
            "one of POSIX",
        ),
        (
            {"path_mapping_rules": [{**RULES["path_mapping_rules"][1], "source_path": "s3:/b"}]},
            "scheme://",
        ),
    ],
)
def test_what_are_no_rules(change, message):
    with pytest.raises(UsageError, match=message):
        read_path_mapping(json.dumps({**RULES, **change}))


@pytest.mark.parametrize("text", ["", "[]", "{", "file:///nowhere"])
def test_what_is_no_rules_document(text):
    with pytest.raises(UsageError, match="path mapping rules"):
        read_path_mapping(text)
