"""Turns by whoever comes, where no manager stays: at submit, and behind each array of workers."""

import os
import time
from collections.abc import Callable

from perdure.cli.allocations import job_of
from perdure.cli.managed import Managed, maker_of, managed_job, resume_all
from perdure.cli.places import Places
from perdure.errors import EngineRefused, EngineUnavailable
from perdure.manager.holding import hold
from perdure.manager.hooks import Hooks
from perdure.manager.job_view import JobView
from perdure.manager.submission import Submitted
from perdure.policy.snapshot import LaunchState
from perdure.policy.states import Status
from perdure.policy.stops import Scope
from perdure.policy.turn import Rest
from perdure.store.opening import Store
from perdure.worker.loading import load

#: A back-off up to so long is waited for; a longer one by a job of its own.
_WAITED_SECONDS = 20.0
#: A heartbeat that stands still is dead after three looks; one that moves is left for so long.
_LOOKS = 12
_LATER_SECONDS = 60.0
#: How often a batch system that does not answer is asked again.
_SILENT_SECONDS = 10.0


def settle_job(
    managed: Managed, prepare: Callable[[], object] = lambda: None, *, holds: bool = False
) -> Status | None:
    """Make turns until workers are under way or nothing goes on by itself: then its status.

    Blocks for a short back-off, and for as long as the heartbeat of a worker that the engine has
    lost must stand still to be dead; what takes longer is left to a job of its own. In a job of a
    batch system nothing is started of a job of perdure that has left it since: what has ended is
    recorded only.

    Args:
        managed: the job.
        prepare: called once when all was read: wishes that the command means.
        holds: nobody sees an error: a step whose workers the engine refuses is held, with why.

    Raises:
        EngineUnavailable, EngineRefused: workers could not be started.
    """
    mine = job_of(os.environ)
    has_left = mine is not None and managed.view.document.options.engine == "local"
    maker = maker_of(managed, f"settle {mine or os.getpid()}", starts=not has_left)
    managed.view.refresh()
    prepare()
    looks = 0
    while True:
        try:
            answer = maker.make()
        except EngineRefused as error:
            if not (holds and _hold_refused(managed.view, error)):
                raise
            continue
        except EngineUnavailable:
            if not holds:
                raise
            time.sleep(_SILENT_SECONDS)  # nobody comes behind this job: it waits for an answer
            continue
        if isinstance(answer, Rest):
            Hooks(managed.view.document, managed.view, managed.environment).run()
            return answer.status
        if has_left:
            return None  # the job goes on elsewhere
        looks += 1
        seconds = answer.seconds if answer.seconds is not None else _look_again(managed, looks)
        if seconds is None:
            return None  # workers are under way, and followed by a turn of their own
        logs = managed.places.logs(managed.view.document.job)
        if seconds > _WAITED_SECONDS and managed.engine.follow_later(seconds, logs):
            return None
        time.sleep(seconds)


def _look_again(managed: Managed, looks: int) -> float | None:
    """When to look at the heartbeats of workers that the engine has lost; None: it has all."""
    if not managed.view.lost_workers():
        return None
    interval = managed.view.document.options.heartbeat_seconds
    return min(interval, _WAITED_SECONDS) if looks <= _LOOKS else _LATER_SECONDS


def _hold_refused(view: JobView, error: EngineRefused) -> bool:
    """Hold the steps with workers that the engine does not have; whether there were any."""
    view.refresh()
    intents = view.records.state.launches.values()
    steps = {i.step for i in intents if view.launch_state(i) is LaunchState.INTENDED}
    open_steps = [step for step in sorted(steps) if view.stops.stopped(Scope(step)) is None]
    for step in open_steps:
        hold(view, Scope(step), f"its workers could not be started: {error.message}")
    return bool(open_steps)


def start_on_engine(where: Places, store: Store, submitted: Submitted) -> None:
    """Start a job's first workers on an engine that needs nobody to stay.

    Raises:
        EngineUnavailable, EngineRefused: none were started; the job is in the store.
    """
    document = submitted.document
    managed = managed_job(where, store, document, load(document))
    settle_job(managed, prepare=lambda: submitted.is_new or resume_all(managed.view))
