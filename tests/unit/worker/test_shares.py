"""Which tasks are taken next, and which tasks a share has."""

from perdure.store.layout import LaunchId
from perdure.template.chunks import ChunkSpec
from perdure.template.dimensions import Axis
from perdure.template.ranges import parse_ranges
from perdure.template.space import TaskSpace, task_key
from perdure.worker.job_records import Share
from perdure.worker.shares import next_share, tasks_of


def plain(count):
    texts = tuple(str(n) for n in range(count))
    return TaskSpace({"A": Axis.of_texts("A", "STRING", texts)})


def adaptive(text):
    chunk = ChunkSpec(
        parameter="F", default_task_count=2, target_runtime_seconds=60, is_contiguous=True
    )
    return TaskSpace({}, names=("F",), chunk=chunk, chunk_row=parse_ranges(text))


def share(number, fields):
    cursor = fields.get("cursor")
    return Share(
        number=number,
        launch=LaunchId("l"),
        at="",
        ranges=tuple(tuple(pair) for pair in fields.get("tasks", ())),
        values=tuple(fields.get("values", ())),
        cursor=tuple(cursor) if cursor else None,
    )


def taken(space, *, limit=None, size=lambda remaining: 3, count=lambda: 2):
    shares = []
    while (fields := next_share(space, shares, limit=limit, size=size, count=count)) is not None:
        shares.append(share(len(shares) + 1, fields))
    return shares


def test_every_task_is_in_one_share_ever():
    shares = taken(plain(8))
    assert [one.ranges for one in shares] == [((0, 2),), ((3, 5),), ((6, 7),)]
    keys = [ref.task for one in shares for ref, _ in tasks_of(one, plain(8))]
    assert len(set(keys)) == 8


def test_a_share_is_as_large_as_what_remains_says():
    asked = []
    taken(plain(5), size=lambda remaining: asked.append(remaining) or 2)
    assert asked == [5, 3, 1]


def test_no_more_tasks_are_taken_than_the_job_selects():
    assert [one.ranges for one in taken(plain(8), limit=4)] == [((0, 2),), ((3, 3),)]
    assert taken(plain(8), limit=0) == []
    assert len(taken(adaptive("1-9"), limit=2)) == 2


def test_tasks_are_named_with_their_share():
    space = plain(3)
    refs = list(tasks_of(share(7, {"tasks": [[1, 2]]}), space))
    assert [(ref.index, ref.share, ref.task) for ref, _ in refs] == [
        (1, 7, task_key({"A": "1"})),
        (2, 7, task_key({"A": "2"})),
    ]


def test_adaptive_chunks_are_cut_where_the_last_one_ended():
    counts = iter([2, 3, 1, 9, 9])
    shares = taken(adaptive("1-8"), count=lambda: next(counts))
    assert [one.values[0]["F"] for one in shares] == ["1-2", "3-5", "6-6", "7-8"]
    ((ref, parameters),) = tasks_of(shares[1], adaptive("1-8"))
    assert ref.values == parameters.texts() == {"F": "3-5"}
    assert (ref.index, ref.share) == (None, 2)
