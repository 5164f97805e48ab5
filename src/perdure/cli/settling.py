"""Turns by whoever comes, where no manager stays: at submit, and behind each array of workers."""

import os
import time
from collections.abc import Callable

from perdure.cli.allocations import job_of
from perdure.cli.managed import Managed, maker_of, managed_job, resume_all
from perdure.cli.places import Places
from perdure.manager.hooks import Hooks
from perdure.manager.submission import Submitted
from perdure.policy.states import Status
from perdure.policy.turn import Rest
from perdure.store.opening import Store
from perdure.worker.loading import load

#: A back-off up to so long is waited for; a longer one by a job of its own.
_WAITED_SECONDS = 20.0


def settle_job(managed: Managed, prepare: Callable[[], object] = lambda: None) -> Status | None:
    """Make turns until workers are under way or nothing goes on by itself: then its status.

    Blocks for a short back-off; a longer one is left to a job of its own. In a job of Slurm nothing
    is started of a job of perdure that has left Slurm since: what has ended is recorded only.

    Args:
        managed: the job.
        prepare: called once when all was read: wishes that the command means.
    """
    mine = job_of(os.environ)
    has_left = mine is not None and managed.view.document.options.engine == "local"
    maker = maker_of(managed, f"settle {mine or os.getpid()}", starts=not has_left)
    managed.view.refresh()
    prepare()
    while True:
        answer = maker.make()
        if isinstance(answer, Rest):
            Hooks(managed.view.document, managed.view, managed.environment).run()
            return answer.status
        if answer.seconds is None or has_left:
            return None  # workers are under way, and followed by a turn of their own
        logs = managed.places.logs(managed.view.document.job)
        if answer.seconds > _WAITED_SECONDS and managed.engine.follow_later(answer.seconds, logs):
            return None
        time.sleep(answer.seconds)


def start_on_engine(where: Places, store: Store, submitted: Submitted) -> None:
    """Start a job's first workers on an engine that needs nobody to stay.

    Raises:
        EngineUnavailable, EngineRefused: none were started; the job is in the store.
    """
    document = submitted.document
    managed = managed_job(where, store, document, load(document))
    settle_job(managed, prepare=lambda: submitted.is_new or resume_all(managed.view))
