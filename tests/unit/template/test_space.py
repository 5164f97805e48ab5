"""Tasks by number, chunks by arithmetic, keys by content."""

import json

import pytest

from perdure.template.chunks import ChunkSpec, FormedChunks, chunk_values
from perdure.template.combination import parse_combination
from perdure.template.dimensions import Axis
from perdure.template.ranges import IntegerRow, parse_ranges, range_text
from perdure.template.space import START, TaskParameters, TaskSpace, TaskValue, task_key


def axis(name, values):
    return Axis.of_texts(name, "STRING", tuple(values))


def space(combination=None, **values):
    axes = {name: axis(name, texts) for name, texts in values.items()}
    return TaskSpace(axes, combination=combination)


def chunked(text, count, *, contiguous=True, target=None, **others):
    chunk = ChunkSpec(
        parameter="F",
        default_task_count=count,
        target_runtime_seconds=target,
        is_contiguous=contiguous,
    )
    axes = {name: axis(name, texts) for name, texts in others.items()}
    return TaskSpace(axes, names=(*axes, "F"), chunk=chunk, chunk_row=parse_ranges(text))


def listed(one):
    return ["".join(one.task(index).texts().values()) for index in range(one.len)]


def test_a_step_without_parameters_has_one_task():
    one = TaskSpace({})
    assert one.len == one.value_count == 1
    assert one.task(0).texts() == {}
    assert one.contains({})
    assert one.find({}) == 0
    assert task_key({}) == "6e46dd10defc9b56"


def test_the_rightmost_moves_fastest():
    assert listed(space(A="12", B="xyz")) == ["1x", "1y", "1z", "2x", "2y", "2z"]
    assert listed(space("B * A", A="12", B="xy")) == ["1x", "2x", "1y", "2y"]


def test_an_association_moves_together():
    one = space("(A, B) * C", A="12", B="xy", C="pq")
    assert listed(one) == ["1xp", "1xq", "2yp", "2yq"]
    nested = space("(A, B * C)", A="1234", B="xy", C="pq")
    assert listed(nested) == ["1xp", "2xq", "3yp", "4yq"]


def test_find_and_contains_are_the_inverse_of_task():
    one = space("(A, B) * C", A="12", B="xy", C="pqp")
    for index in range(one.len):
        parameters = one.task(index)
        assert one.contains(parameters)
        assert one.task(one.find(parameters)) == parameters
    assert not one.contains({"A": "1", "B": "y", "C": "p"})
    assert one.find({"A": "1", "B": "y", "C": "p"}) is None
    assert not one.contains({"A": "1", "B": "x"})
    assert not one.contains({"A": "1", "B": "x", "C": "p", "D": "p"})
    wrong_type = TaskParameters(
        values={
            name: TaskValue(type="INT", value=text) for name, text in one.task(0).texts().items()
        }
    )
    assert not one.contains(wrong_type)


def test_no_such_task():
    one = space(A="12")
    for index in (-1, 2):
        with pytest.raises(IndexError, match="there are 2 tasks"):
            one.task(index)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"A": "1"}, "lacks a value for B"),
        ({"A": "1", "B": "x", "C": "2"}, "no task parameter C; its parameters: A, B"),
        ({"A": "1", "B": "q"}, "no task with A=1, B=q; B is one of x, y$"),
        ({"A": "3", "B": "q"}, "A is one of 1, 2; B is one of x, y$"),
    ],
)
def test_a_task_named_by_texts(texts, message):
    one = space(A="12", B="xy")
    assert one.typed({"B": "y", "A": "1"}) == one.task(1)
    with pytest.raises(ValueError, match=message):
        one.typed(texts)


def test_the_values_that_there_are_are_named_shortened():
    with pytest.raises(ValueError, match="these values do not come together"):
        space("(A, B)", A="12", B="xy").typed({"A": "1", "B": "y"})
    many = space(A=[str(number) for number in range(1, 41)])
    with pytest.raises(
        ValueError, match=r"A is one of 1, 2, 3, 4, 5, 6, 7, 8, …, 40 \(40 values\)$"
    ):
        many.typed({"A": "99"})
    with pytest.raises(ValueError, match=f"one of {'x' * 40}…$"):
        space(A=["x" * 99]).typed({"A": "99"})


def test_parameters_as_json():
    parameters = space(A="1", B=["\u00e9 x"]).task(0)
    data = json.loads(json.dumps(parameters.to_json()))
    assert TaskParameters.from_json(data) == parameters
    for wrong in (None, [], {"A": "1"}, {"A": {"type": "INT"}}):
        with pytest.raises(ValueError, match="no task parameters"):
            TaskParameters.from_json(wrong)


def test_task_keys_are_of_names_and_texts_only():
    assert task_key({"A": "1", "B": "x"}) == task_key({"B": "x", "A": "1"})
    assert task_key({"A": "1"}) != task_key({"A": "01"})
    assert task_key(space(A="1").task(0)) == task_key({"A": "1"})
    # Golden: these are part of the store's format.
    assert task_key({"Frame": "1-5"}) == "1ee5a039ae4bfd44"
    assert task_key({"Name": "\u00e9"}) == "26cacd6dedddb3ba"


@pytest.mark.parametrize("text", ["A", "A*B", "(A,B)", " A * ( B , C*D ) "])
def test_combinations(text):
    assert parse_combination(text)


@pytest.mark.parametrize("text", ["", "A B", "*A", "A*", "(A)", "(A,B", "A,B", "A)", "A+B", "1"])
def test_no_combinations(text):
    with pytest.raises(ValueError, match="no combination"):
        parse_combination(text)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("5", [5]),
        ("-3--1", [-3, -2, -1]),
        (" 1 - 3 , 7 ", [1, 2, 3, 7]),
        ("10-1:-3", [1, 4, 7, 10]),
        ("9,1-3", [1, 2, 3, 9]),
        ("1-10:4", [1, 5, 9]),
    ],
)
def test_range_expressions(text, values):
    assert list(chunk_values(text)) == values


@pytest.mark.parametrize(
    "text", ["", "a", "1-", "5-1", "1-5:0", "1-5:-1", "1,1", "1-5,3", "1--", "9" * 30, "1;2"]
)
def test_no_range_expressions(text):
    with pytest.raises(ValueError):
        parse_ranges(text)


def test_a_row_of_integers_is_not_expanded():
    row = parse_ranges("1-1000000000,2000000000-3000000000:7")
    assert len(row) == 1_000_000_000 + 142_857_143
    assert row[1_000_000_000] == 2_000_000_000
    assert 2_000_000_007 in row
    assert 2_000_000_008 not in row
    assert list(row.positions(2_000_000_007)) == [1_000_000_001]
    assert "7" not in row
    with pytest.raises(IndexError):
        row[len(row)]
    assert list(IntegerRow([range(5, 6), range(1, 2), range(5, 6)]).positions(5)) == [0, 2]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([5], "5"),
        ([1, 2], "1,2"),
        ([3, 1, 2], "1-3"),
        ([1, 3, 5], "1-5:2"),
        ([4, 6, 7, 8, 9, 10], "4,6,7-10"),
        ([], ""),
    ],
)
def test_range_texts(values, text):
    assert range_text(values) == text


@pytest.mark.parametrize(
    ("text", "count", "contiguous", "chunks"),
    [
        ("1-20", 6, True, ["1-5", "6-10", "11-15", "16-20"]),
        ("1-5,7,9,11-20", 4, True, ["1-3", "4-5", "7-7", "9-9", "11-14", "15-17", "18-20"]),
        ("1-5,7,9,11-20", 4, False, ["1-4", "5-9:2", "11-14", "15-17", "18-20"]),
        ("1-3", 10, True, ["1-3"]),
        ("1-3", 1, True, ["1-1", "2-2", "3-3"]),
        ("1-9:2", 3, True, ["1-1", "3-3", "5-5", "7-7", "9-9"]),
        ("1-5,6-10:2", 3, True, ["1-3", "4-6", "8-8", "10-10"]),
    ],
)
def test_chunks_are_formed_evenly(text, count, contiguous, chunks):
    one = chunked(text, count, contiguous=contiguous)
    assert [one.task(index).texts()["F"] for index in range(one.len)] == chunks
    assert one.value_count == len(parse_ranges(text))
    assert [one.find({"F": chunk}) for chunk in chunks] == list(range(len(chunks)))
    assert one.find({"F": "1-2"}) is None


def test_a_hundred_million_frames_cost_nothing():
    one = chunked("1-100000000", 10, A="xy")
    assert one.len == 20_000_000
    assert one.task(19_999_999).texts() == {"A": "y", "F": "99999991-100000000"}
    assert one.find({"A": "y", "F": "99999991-100000000"}) == 19_999_999
    with pytest.raises(IndexError):
        FormedChunks(parse_ranges("1"), one.chunk)[1]


def test_any_part_of_a_chunk_is_contained():
    one = chunked("1-10,20", 4)
    for text in ("1-10", "3-4", "20-20"):
        assert one.contains({"F": text})
    for text in ("4", "1-2,3-4", "9-11", "x", "1-1000000000", "04-5"):
        assert not one.contains({"F": text})
    other = chunked("1-10,20", 4, contiguous=False)
    for text in ("4", "1,5,20", "1-10"):
        assert other.contains({"F": text})
    assert not other.contains({"F": "1,11"})


def test_a_remainder_is_split_as_the_constraint_demands():
    one, other = chunked("1-10", 10), chunked("1-10", 10, contiguous=False)
    assert one.chunk_texts([3, 4, 6, 7, 8, 9, 10]) == ("3-4", "6-10")
    assert other.chunk_texts([3, 4, 6, 7, 8, 9, 10]) == ("3,4,6-10",)
    assert one.chunk_texts([]) == other.chunk_texts([]) == ()
    whole = one.task(0)
    assert one.chunk_values(whole) == tuple(range(1, 11))
    assert one.with_chunk(whole, "3-4").texts() == {"F": "3-4"}
    assert one.contains(one.with_chunk(whole, "3-4"))
    plain = space(A="1")
    assert plain.chunk_values(plain.task(0)) == ()
    for call in (lambda: plain.chunk_texts([1]), lambda: plain.with_chunk(plain.task(0), "1-1")):
        with pytest.raises(ValueError, match="no chunk parameter"):
            call()


def cut(one, counts):
    cursor, found = START, []
    for count in counts:
        cursor = json.loads(json.dumps(cursor))  # a share record holds it
        step = one.next_chunk(cursor, count)
        if step is None:
            break
        parameters, cursor = step
        found.append("".join(parameters.texts().values()))
    return found


def test_adaptive_chunks_are_cut_from_a_cursor():
    one = chunked("1-40", 2, target=60)
    assert one.is_adaptive
    assert one.len is None
    assert one.value_count == 40
    assert one.find({"F": "1-2"}) is None
    assert cut(one, [2, 2, 10, 10, 10, 10, 10]) == ["1-2", "3-4", "5-14", "15-24", "25-34", "35-40"]
    with pytest.raises(ValueError, match="next_chunk"):
        one.task(0)
    with pytest.raises(ValueError, match="only with adaptive"):
        chunked("1-4", 2).next_chunk(START, 1)


def test_adaptive_chunks_end_at_gaps_and_move_innermost():
    one = chunked("1-3,7-8", 2, target=1, A="xy")
    assert cut(one, [2] * 9) == ["x1-2", "x3-3", "x7-8", "y1-2", "y3-3", "y7-8"]
    other = chunked("1-3,7-8", 2, target=1, contiguous=False, A="xy")
    assert cut(other, [4] * 9) == ["x1-3,7", "x8", "y1-3,7", "y8"]
    assert other.contains({"A": "x", "F": "1,8"})
    assert not other.contains({"A": "z", "F": "1,8"})
