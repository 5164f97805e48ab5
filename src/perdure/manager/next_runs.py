"""The intent of an element's next run, recorded by the run before it.

For a batch system that says only afterwards why it ended a job: what the element worked at belongs
to its next run until the batch system says that there is none.
"""

from collections.abc import Mapping
from typing import Any

from ulid import ULID

from perdure.manager.job_view import JobView
from perdure.store.layout import LaunchId


def record_next_run(view: JobView, launch: LaunchId, token: str, ids: Mapping[str, Any]) -> bool:
    """Record that what ``launch`` worked at waits for the run with ``token``.

    Idempotent. Returns False where nothing is left of its step.

    Args:
        view: of the job, read on.
        launch: of the run that ends.
        token: of the next one.
        ids: by which the engine will know it.

    Raises:
        HomeError, OutOfSpace: it cannot be recorded.
    """
    while all(intent.token != token for intent in view.records.state.launches.values()):
        view.refresh()
        before = view.records.state.launches[launch]
        step = view.steps[before.step]
        tasks = step.last_held_by(launch, view.stops)
        if not tasks and not step.unshared():
            return False
        refs = [view.records.named(step.key, step.watched[task].ref).to_json() for task in tasks]
        record = {
            "kind": "launch",
            "launch": LaunchId(str(ULID()).lower()),
            "token": token,
            "step": before.step,
            "tasks": refs,
            "shares": before.shares,
            "resources": dict(before.resources),
        }
        view.records.append(record)
    while token not in view.records.state.launched:
        view.records.append({"kind": "launched", "token": token, "ids": dict(ids)})
    return True
