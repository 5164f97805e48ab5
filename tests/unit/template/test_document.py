"""Reading documents: what is refused, with which line, before anything is built."""

import json
import time

import pytest

from perdure.errors import TemplateError
from perdure.template.document import MAX_BYTES, MAX_DEPTH, MAX_NODES, read_document


def problems(text, name="t.yaml"):
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(TemplateError) as caught:
        read_document(data, name=name)
    return caught.value.problems


def only(text, name="t.yaml"):
    (problem,) = problems(text, name)
    return problem


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("a: 1", {"a": 1}),
        ("a: [1, 'x', 1.5, true, null, ~]", {"a": [1, "x", 1.5, True, None, None]}),
        ("a: yes\nb: 'yes'", {"a": True, "b": "yes"}),
        ("a: 0x10\nb: 010\nc: 1_000", {"a": 16, "b": 8, "c": 1000}),
        ("a: !!str 5\nb: !!int '5'", {"a": "5", "b": 5}),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}", {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}),
        ("a: &x {b: 1}\nd: {c: 3, <<: *x}", {"a": {"b": 1}, "d": {"c": 3, "b": 1}}),
        (
            "a: &x {k: 1}\nb: &y {k: 2, l: 3}\nd: {<<: [*x, *y]}",
            {"a": {"k": 1}, "b": {"k": 2, "l": 3}, "d": {"k": 1, "l": 3}},
        ),
        ("\ufeffa: 1", {"a": 1}),
        ("%YAML 1.1\n---\na: 1\n...\n", {"a": 1}),
        ("{}", {}),
    ],
)
def test_yaml_is_read_as_the_safe_loader_reads_it(text, content):
    assert read_document(text.encode(), name="t.yaml").content == content


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"a": [], "b": {}, "c": [[{}], 1, -1.5e3, 'x\n"\\/\u00e9\U0001f600', True, False, None]},
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_json_is_read(content, indent):
    text = json.dumps(content, indent=indent)
    assert read_document(text.encode(), name="T.JSON").content == content


@pytest.mark.parametrize(
    ("text", "path", "message", "line"),
    [
        ("", "", "not a mapping", None),
        ("- a", "", "not a mapping", None),
        ("just text", "", "not a mapping", None),
        ("a: 1\nb: 2\na: 3", "a", "second time (first on line 1)", 3),
        ("s:\n- x: {n: 1, n: 2}", "s[0] -> x -> n", "second time", 2),
        ("a: 2024-01-01", "a", "a date or time", 1),
        ("a: 2024-01-01T00:00:00Z", "a", "a date or time", 1),
        ("a:\n- .nan", "a[0]", "not a finite number", 2),
        ("a: -.inf", "a", "not a finite number", 1),
        ("a: !!binary aGk=", "a", "binary data", 1),
        ("a: !!set {x, y}", "a", "tag tag:yaml.org,2002:set", 1),
        ("a: !thing x", "a", "tag !thing", 1),
        ("a: !!python/object:os.system x", "a", "tag", 1),
        ("a: =", "a", "default-value sign", 1),
        ("a: <<", "a", "merge sign", 1),
        ("a: {<<: 5}", "a", "merges mappings only", 1),
        ("1: x", "", "1 is a key", 1),
        ("on: x", "", "True is a key", 1),
        ("? [a]\n: x", "", "a mapping or list is a key", 1),
        ("a: *b", "", "no anchor", 1),
        ("a: &x [*x]", "", "inside of itself", 1),
        ("a: 1\n---\nb: 2", "", "a second document", 2),
        ("a: [1", "", "not valid YAML", 2),
        ("a: 1\n\tb: 2", "", "not valid YAML", 2),
        ("a: \x01", "", "not valid YAML", None),
        ("a: !!int x", "a", "is no int", 1),
        ("a: " + "9" * 5000, "a", "is no int", 1),
    ],
)
def test_yaml_that_is_refused(text, path, message, line):

    problem = only(text)
    assert problem.path == path
    assert message in problem.message
    assert problem.line == line


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ('{"a": 1,\n "a": 2}', "second time (first on line 1)", 2),
        ('{"a": NaN}', "not a finite number", 1),
        ('{"a": -Infinity}', "not a finite number", 1),
        ('{"a": 1e999}', "not a finite number", 1),
        ('{"a": "\\ud800"}', "half of a surrogate pair", 1),
        ("[1]", "not a mapping", None),
        ("", "the text ends", None),
        ('{"a": 1', "the text ends", None),
        ('{"a": 1,}', "} stands where a key", 1),
        ('{"a" 1}', "1 stands where :", 1),
        ('{"a": 1 "b": 2}', "stands where , or", 1),
        ("{a: 1}", "stands where a key", 1),
        ('{"a": 01}', "is no JSON", 1),
        ('{"a": "x\ny"}', "is no JSON", 1),
        ('{"a": [1}', "} stands where", 1),
        ('{"a": maybe}', "no JSON value", 1),
        ("{} {}", "stands where nothing more", 1),
        ('{"a": "\\q"}', "not valid JSON", 1),
        ("a: 1", "a is no JSON value", 1),
        ("]", "stands where a value", 1),
        ('{"a": ' + "9" * 5000 + "}", "not valid JSON", 1),
    ],
)
def test_json_that_is_refused(text, message, line):
    problem = only(text, "t.json")
    assert message in problem.message
    assert problem.line == line


def test_all_problems_come_at_once():
    found = problems("a: 1\na: 2\nb: 2024-01-01\nc: {d: .nan, 5: x}\n")
    assert [problem.line for problem in found] == [2, 3, 4, 4]
    assert all(problem.advice for problem in found)


def test_an_alias_bomb_is_refused_before_it_is_built():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    started = time.process_time()
    problem = only("\n".join(lines))
    assert "aliases expanded" in problem.message
    assert problem.line == 6
    assert time.process_time() - started < 5  # built, it would be 10**30 values


@pytest.mark.parametrize("name", ["t.json", "t.yaml"])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 200, 200_000])
def test_a_deep_document_is_refused(name, depth):
    message = only("[" * depth + "]" * depth, name).message
    # libyaml has a limit of its own, and looks ahead: it may be faster than ours.
    assert f"more than {MAX_DEPTH} levels" in message or "maximum nesting depth" in message


def test_aliases_cannot_make_it_deep():
    lines = ["a0: &a0 " + "[" * 60 + "]" * 60, "a1: " + "[" * 60 + "*a0" + "]" * 60]
    assert "levels deep" in only("\n".join(lines)).message


@pytest.mark.parametrize("name", ["t.json", "t.yaml"])
def test_too_many_values_are_refused(name):
    text = '{"a": [' + "1," * MAX_NODES + "1]}"
    assert f"more than {MAX_NODES} values" in only(text, name).message


def test_a_document_that_is_too_large_is_refused_unread():
    assert str(MAX_BYTES) in only(b"#" * (MAX_BYTES + 1)).message


def test_text_that_is_not_utf8_is_refused_with_its_line():
    problem = only(b"a: 1\nb: \xff\n")
    assert (problem.line, problem.advice) == (2, "Save the file as UTF-8.")


def test_many_problems_are_counted_not_listed():
    found = problems("\n".join("a: .nan" for _ in range(500)))
    assert len(found) == 101
    assert "more problems" in found[-1].message


def test_lines_of_places():
    document = read_document(
        b"a:\n- x: 1\n  y:\n    - 2\n    - 3\nb: &m\n  k: 1\nc:\n  <<: *m\n", name="t.yaml"
    )
    assert document.line(("a",)) == 1
    assert document.line(("a", 0, "y", 1)) == 5
    assert document.line(("a", 0, "missing", "deeper")) == 2
    assert document.line(("b", "k")) == 7
    assert document.line(("c", "k")) == 8  # came by the merge: where the mapping is
    assert document.line(()) is None
