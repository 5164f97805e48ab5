"""Our tasks and chunks are the library's: same number, same order, same texts.

They are worked out anew in perdure, since what "task 7 of step 2" means must outlive any version of
the library; that both agree is what makes the templates portable.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openjd.model import (
    IntRangeExpr,
    StepParameterSpaceIterator,
    create_job,
    decode_job_template,
    preprocess_job_parameters,
)

from perdure.template.outline import JobOutline, StepOutline, decode_outline, encode_outline
from perdure.template.ranges import parse_ranges, range_text
from perdure.template.requirements import HostRequirements
from perdure.template.space import START
from perdure.template.step_spaces import task_space


@st.composite
def range_expressions(draw):
    parts, value = [], draw(st.integers(-20, 5))
    for _ in range(draw(st.integers(1, 5))):
        first = value + draw(st.integers(1, 4))
        last = first + draw(st.integers(0, 9))
        step = draw(st.integers(1, 4))
        parts.append(str(first) if first == last else f"{first}-{last}" + (f":{step}" * (step > 1)))
        value = last
    return ",".join(draw(st.permutations(parts)))


integer_ranges = range_expressions() | st.lists(st.integers(-9, 30), min_size=1, max_size=12)


def axis(name, values):
    return {"name": name, "type": "INT", "range": values}


@st.composite
def spaces(draw):
    """A parameterSpace: products, an association now and then, perhaps a chunk parameter."""
    names = ["A", "B", "C", "D"][: draw(st.integers(0, 3))]
    definitions = [axis(name, draw(integer_ranges)) for name in names]
    combination = None
    terms = list(names)
    if len(names) >= 2 and draw(st.booleans()):
        length = draw(st.integers(1, 4))
        for definition in definitions[:2]:
            values = st.lists(st.integers(0, 5), min_size=length, max_size=length)
            definition["range"] = draw(values)
        terms = [f"({names[0]}, {names[1]})", *names[2:]]
    if draw(st.booleans()) or not names:
        chunks = {
            "defaultTaskCount": draw(st.integers(1, 8)),
            "rangeConstraint": draw(st.sampled_from(["CONTIGUOUS", "NONCONTIGUOUS"])),
        }
        target = draw(st.sampled_from([None, 0, 60]))
        if target is not None:
            chunks["targetRuntimeSeconds"] = target
        definitions.append(
            {**axis("F", draw(integer_ranges)), "type": "CHUNK[INT]", "chunks": chunks}
        )
        terms.append("F")
    if len(terms) < len(definitions) or draw(st.booleans()):
        combination = " * ".join(draw(st.permutations(terms)))
    space = {"taskParameterDefinitions": draw(st.permutations(definitions))}
    return space if combination is None else {**space, "combination": combination}


def instantiated(space):
    template = decode_job_template(
        template={
            "specificationVersion": "jobtemplate-2023-09",
            "extensions": ["TASK_CHUNKING"],
            "name": "t",
            "steps": [
                {
                    "name": "s",
                    "parameterSpace": space,
                    "script": {"actions": {"onRun": {"command": "x"}}},
                }
            ],
        },
        supported_extensions=["TASK_CHUNKING"],
    )
    return create_job(job_template=template, job_parameter_values={}).steps[0].parameterSpace


def read_back(space):
    """The space as whoever has only the job's outline sees it."""
    step = StepOutline(
        index=1,
        name="s",
        dependencies=(),
        requirements=HostRequirements(),
        space=space,
        is_resumable=False,
    )
    return decode_outline(encode_outline(JobOutline(steps=(step,)))).step(1).space


def texts(parameters):
    return {name: value.value for name, value in parameters.items()}


def types(parameters):
    return {name: value.type.value for name, value in parameters.items()}


@given(spaces(), st.lists(st.integers(1, 9), min_size=3, max_size=3))
@settings(max_examples=200, deadline=None)
def test_tasks_are_the_library_s(space, counts):
    model = instantiated(space)
    theirs, ours = StepParameterSpaceIterator(space=model), read_back(task_space(model))
    assert ours.is_adaptive == theirs.chunks_adaptive
    if ours.is_adaptive:
        compare_adaptive(ours, theirs, counts)
        return
    assert ours.len == len(theirs)
    for index, expected in enumerate(theirs):
        task = ours.task(index)
        assert task.texts() == texts(expected)
        assert {name: value.type for name, value in task.values.items()} == types(expected)
        assert ours.contains(task)
        assert expected in theirs
        assert ours.task(ours.find(task)) == task
        assert task.for_session() == expected
    single = StepParameterSpaceIterator(space=model, chunks_task_count_override=1)
    assert ours.value_count == len(single)


def compare_adaptive(ours, theirs, counts):
    cursor = START
    for number in range(ours.value_count + 1):  # a chunk has at least one value
        count = counts[number % len(counts)]
        theirs.chunks_default_task_count = count
        expected = next(theirs, None)
        step = ours.next_chunk(cursor, count)
        if expected is None:
            assert step is None
            return
        task, cursor = step
        assert task.texts() == texts(expected)
        assert ours.contains(task)
    pytest.fail("chunks without end")


@given(st.sets(st.integers(-50, 80), min_size=1, max_size=30))
def test_range_texts_are_the_library_s(values):
    theirs = IntRangeExpr.from_list(sorted(values))
    assert range_text(values) == str(theirs)
    assert list(parse_ranges(range_text(values))) == sorted(values)


@given(range_expressions())
def test_range_expressions_are_the_library_s(text):
    assert list(parse_ranges(text)) == list(IntRangeExpr.from_str(text))


@pytest.mark.parametrize("text", ["1-5,3", "5-1", "1-5:0", "", "a", "1-", "1,1", "1-2-3"])
def test_what_is_no_range_expression_to_the_library_is_none_to_us(text):
    for parse in (parse_ranges, IntRangeExpr.from_str):
        with pytest.raises(ValueError):
            parse(text)


@given(spaces(), st.data())
@settings(max_examples=100, deadline=None)
def test_remainders_are_legal_to_the_library(space, data):
    model = instantiated(space)
    ours, theirs = read_back(task_space(model)), StepParameterSpaceIterator(space=model)
    if ours.chunk is None or ours.is_adaptive:
        return
    task = ours.task(data.draw(st.integers(0, ours.len - 1)))
    values = ours.chunk_values(task)
    left = data.draw(st.sets(st.sampled_from(values)))
    remainder = [ours.with_chunk(task, text) for text in ours.chunk_texts(left)]
    for part in remainder:
        assert part.for_session() in theirs
        assert ours.contains(part)
    covered = [value for part in remainder for value in ours.chunk_values(part)]
    assert sorted(covered) == sorted(left)


def test_a_preprocessed_value_has_a_type_and_a_value():
    template = decode_job_template(
        template={
            "specificationVersion": "jobtemplate-2023-09",
            "name": "t",
            "parameterDefinitions": [{"name": "N", "type": "INT", "default": 3}],
            "steps": [{"name": "s", "script": {"actions": {"onRun": {"command": "x"}}}}],
        }
    )
    from pathlib import Path

    values = preprocess_job_parameters(
        job_template=template,
        job_parameter_values={},
        job_template_dir=Path("/t"),
        current_working_dir=Path("/t"),
    )
    assert (values["N"].type.value, values["N"].value) == ("INT", "3")
