"""Asking a job's programs to save now and go on; and waiting until they have.

The wish is a record in the job's log; the worker passes it on as the job's save signal, to programs
that catch it. A program that does not saves when it does by itself, and that save answers, too.

Source: docs/store-format.md, "Job log" (`ask`); docs/cli.md, `perdure checkpoint save`.
"""

import time
from collections.abc import Mapping

from perdure.manager.job_view import JobView
from perdure.policy.stops import Scope
from perdure.store.layout import StepKey, TaskKey
from perdure.worker.job_records import LineageId

_LOOK_SECONDS = 0.1

#: The last save of each task that is at work, 0 for none, by step and task.
Saved = Mapping[tuple[StepKey, TaskKey], int]


def ask(view: JobView, what: str, scope: Scope) -> None:
    """Record what a person asks about saves: ``save``, ``disable`` or ``enable``.

    Raises:
        HomeError, OutOfSpace: it cannot be recorded.
    """
    record = {"kind": "ask", "what": what, "scope": scope.recorded(), "by": "user"}
    while not view.records.append(record):
        pass


def at_work(view: JobView, scope: Scope) -> Saved:
    """The tasks of a view that was read, and what they have saved last."""
    found: dict[tuple[StepKey, TaskKey], int] = {}
    for step in view.steps.values():
        tasks = {*step.running, *(t for t, watched in step.watched.items() if watched.is_running)}
        for task in tasks:
            if scope.covers(Scope(step.key, task)):
                found[step.key, task] = view.records.last_save(LineageId(step=step.key, task=task))
    return found


def wait_for_saves(view: JobView, before: Saved, seconds: float) -> Saved:
    """Wait until each task has saved again, or is at work no more; those that did neither.

    Blocks, at most ``seconds``.

    Raises:
        HomeError: the store cannot be read.
    """
    until = time.monotonic() + seconds
    while True:
        view.refresh()
        left = {
            name: last
            for name, last in at_work(view, Scope()).items()
            if name in before and last <= before[name]
        }
        if not left or time.monotonic() >= until:
            return left
        time.sleep(max(_LOOK_SECONDS, view.records.driver.look_seconds))
