"""Shares: which of a step's tasks are taken next, and which tasks a share has. Pure."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from perdure.store.layout import TaskKey
from perdure.store.records.job_log import TaskRef
from perdure.template.space import START, Cursor, TaskParameters, TaskSpace, task_key
from perdure.worker.job_records import Share


def next_share(
    space: TaskSpace,
    shares: Sequence[Share],
    *,
    limit: int | None,
    size: Callable[[int], int],
    count: Callable[[], int],
) -> dict[str, Any] | None:
    """The fields of the next share record, or None when nothing is left to take.

    Args:
        space: the step's tasks.
        shares: those taken so far, in order.
        limit: how many tasks of the step are to run; None: all.
        size: how many tasks a share takes, by how many remain.
        count: how many values the next adaptive chunk has.
    """
    if space.is_adaptive:
        return _next_chunk(space, shares, limit, count())
    total = space.len or 0
    total = total if limit is None else min(total, limit)
    first = max((last + 1 for share in shares for _, last in share.ranges), default=0)
    if first >= total:
        return None
    return {"tasks": [[first, min(first + size(total - first), total) - 1]]}


def _next_chunk(
    space: TaskSpace, shares: Sequence[Share], limit: int | None, count: int
) -> dict[str, Any] | None:
    """One chunk a share, cut where the last one ended."""
    if limit is not None and sum(len(share.values) for share in shares) >= limit:
        return None
    cursor: Cursor = shares[-1].cursor or START if shares else START
    found = space.next_chunk(cursor, count)
    if found is None:
        return None
    parameters, following = found
    return {"values": [parameters.texts()], "cursor": list(following)}


def tasks_of(share: Share, space: TaskSpace) -> Iterator[tuple[TaskRef, TaskParameters]]:
    """The tasks of a share, in order."""
    for first, last in share.ranges:
        for index in range(first, last + 1):
            parameters = space.task(index)
            key = TaskKey(task_key(parameters))
            yield TaskRef(task=key, index=index, share=share.number), parameters
    for values in share.values:
        parameters = space.typed(values)
        key = TaskKey(task_key(parameters))
        yield TaskRef(task=key, values=values, share=share.number), parameters
