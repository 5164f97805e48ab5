"""What a lost share record must have said: by the shares around it, and by what was begun.

Shares take a step's tasks in order. So a share that stands between two others had all the tasks
between theirs; the last one had at least those that its worker began, and what it had besides is
taken anew. Whose it was, the journals say; where nobody began any of it, it does not matter.

Rules: every launch of the step is sealed and fenced before: a worker that is frozen, and knows of
the share, does nothing any more when it wakes. Shares of adaptive chunks, which were cut as the
work went on, are not told.

Source: docs/journal-format.md; docs/decisions/142.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from perdure.clock import Clock
from perdure.errors import StoreDamaged
from perdure.store import layout
from perdure.store.drivers.driver import Driver, KeyMissing
from perdure.store.layout import LaunchId, StepKey, TaskKey
from perdure.store.records.job_document import JobDocument
from perdure.store.records.record_format import decode_record_of
from perdure.template.space import TaskSpace, task_key
from perdure.worker.claiming import fence, seal
from perdure.worker.job_records import JobRecords
from perdure.worker.loading import load

#: First and last task of a share, by number of its record.
Ranges = Mapping[int, tuple[int, int]]


def lost_share(
    driver: Driver, document: JobDocument, key: str, clock: Clock, pause: Callable[[int], None]
) -> dict[str, Any] | None:
    """The fields of the share record that must have been at ``key``; None: they cannot be told.

    Nothing of the job runs. Blocks while its template is loaded and its journals are read.
    """
    step, number = layout.step_of(key), layout.record_number(key)
    space = load(document).step(step).space
    if space.is_adaptive:
        return None
    records = JobRecords(driver, document.job, clock=clock, pause=pause)
    records.refresh()
    launches = _ended_launches(records, step)
    if not launches:
        return None
    known = _known_ranges(driver, layout.shares(document.job, step))
    first, last = tasks_between(known, number, space.len or 0)
    begun = _begun(records, launches, step, space, range(first, last + 1))
    launch, end = taken_by(begun, first, last if number + 1 in known else None)
    tasks = [[first, end]] if end >= first else []
    return {"launch": launch or launches[0], "tasks": tasks}


def tasks_between(known: Ranges, number: int, total: int) -> tuple[int, int]:
    """The first and the last task that the share ``number`` can have had. Pure."""
    before = max((known[one][1] for one in known if one < number), default=-1)
    after = min((known[one][0] for one in known if one > number), default=total)
    return before + 1, after - 1


def taken_by(
    begun: Mapping[int, LaunchId], first: int, last: int | None
) -> tuple[LaunchId | None, int]:
    """Whose a share was, and its last task. Pure.

    Args:
        begun: by task, from ``first`` on, who began it.
        first: the share's first task.
        last: its last one, where that is known: the next share follows.

    Returns:
        None for a launch that is not known; a last task before ``first`` for no tasks.
    """
    launch = begun[min(begun)] if begun else None
    if last is not None:
        return launch, last
    end = first - 1
    for index in sorted(begun):
        if begun[index] != launch:
            break
        end = index
    return launch, end


def _ended_launches(records: JobRecords, step: StepKey) -> list[LaunchId]:
    """The launches of the step, each of which has ended now."""
    found = [one.launch for one in records.state.launches.values() if one.step == step]
    for launch in found:
        if launch not in records.state.fences and not records.account(launch).is_closed:
            seal(records, launch, by="repair")
            fence(records, launch)
    return found


def _known_ranges(driver: Driver, log: str) -> dict[int, tuple[int, int]]:
    """What the shares had that can be read."""
    known: dict[int, tuple[int, int]] = {}
    for number in (int(name) for name in driver.children(log) if name.isdigit()):
        key = layout.record_key(log, number)
        with suppress(StoreDamaged, KeyMissing):
            tasks = decode_record_of(driver.get(key), key=key).header.get("tasks")
            if tasks:
                known[number] = (int(tasks[0][0]), int(tasks[-1][1]))
    return known


def _begun(
    records: JobRecords, launches: list[LaunchId], step: StepKey, space: TaskSpace, among: range
) -> dict[int, LaunchId]:
    """Which of these tasks were begun for the first time, and by whom."""
    by_task: dict[TaskKey, LaunchId] = {}
    for launch in launches:
        for key in records.account(launch).attempts:
            if key.step == step and key.attempt == 1:
                by_task.setdefault(TaskKey(key.task), launch)
    keys = ((index, TaskKey(task_key(space.task(index)))) for index in among)
    return {index: by_task[task] for index, task in keys if task in by_task}
