"""Resuming a job by a person's word: what is lifted and forgiven, and from where it goes on."""

import sys
import time
from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from perdure.cli.detached import start_manager
from perdure.cli.jobs import open_job
from perdure.cli.keys import sealing_of
from perdure.cli.managed import LEAVING_SECONDS, Managed, put_resume
from perdure.cli.naming import find_tasks, scope_of
from perdure.cli.places import Places
from perdure.cli.settling import settle_job
from perdure.engines.local import LocalEngine
from perdure.errors import CheckpointMissing, UsageError
from perdure.manager.branching import Forgiven, branch, forgive
from perdure.manager.job_view import JobView
from perdure.manager.presence import live_manager
from perdure.policy.states import State
from perdure.policy.stops import JOB, Scope, StopKind
from perdure.store.layout import JobId

_Found = TypeVar("_Found")
#: So many tasks are named.
_TOLD_TASKS = 5
_LOOK_SECONDS = 0.05


def resume_job(where: Places, given: dict[str, Any], engine: LocalEngine) -> int:
    """Carry the command out; the exit code.

    Raises:
        JobMissing, UsageError, CheckpointMissing: it cannot be done; nothing was changed.
        EngineUnavailable, EngineRefused: the new engine would not take the job's workers.
    """
    from perdure.cli.running import Shown, go_on

    if given["parameters"] and given["as_new"] is None:
        raise UsageError(
            "-p needs --as new: a job's parameters never change",
            hint="Add --as new: the old job stays as it is.",
        )
    managed = open_job(where, given["job"], write=True, local=engine)
    sealing_of(managed.view.document)  # a wrong key is said before anything is tried with it
    if given["as_new"] is not None:
        from perdure.cli.renewing import renew

        return renew(managed, given)
    _refuse_settled(managed.view)
    if given["engine"] is not None or given["slurm"] or given["lsf"]:
        from perdure.cli.moving import move

        managed = move(managed, given, engine)
    _wait_for_leaving(managed)
    _record(managed.view, given)
    if given["detach"]:
        return detach(where, managed)
    return go_on(replace(managed, patience_seconds=LEAVING_SECONDS), Shown.by(given))


def _wait_for_leaving(managed: Managed) -> None:
    """Let the manager of a suspended job leave first: it would go on with its own variables."""
    view = managed.view
    if view.stops.stopped(JOB) is None:
        return
    until = time.monotonic() + LEAVING_SECONDS
    while time.monotonic() < until and live_manager(managed.store.driver, view.document.job):
        time.sleep(_LOOK_SECONDS)


def detach(where: Places, managed: Managed) -> int:
    """Let the job go on by itself; print its id."""
    document = managed.view.document
    if document.options.engine == "local":
        start_manager(where, document.job, resume=False)
    else:
        settle_job(managed)
    print(document.job)
    return 0


def _record(view: JobView, given: dict[str, Any]) -> None:
    """What goes into the logs before anything runs."""
    scope = scope_of(view, given["step"], given["task"])
    if given["base"] is None and scope and view.stops.stopped(JOB) is not None:
        raise UsageError(
            "the whole job is suspended, and with it this part",
            hint=f"perdure resume {view.document.job}",
        )
    if given["base"] is not None:
        found = only_one(find_tasks(view, given["step"], given["task"]))
        done = branch(view, found.step, found.ref, base_of(given["base"], view.document.job))
        scope = {}  # it is to go on from there, whatever was suspended
        if done.given_back:
            values = ", ".join(str(value) for value in done.given_back)
            _say(f"these values were complete and run again: {values}")
    else:
        tell_forgiven(forgive(view, Scope.of(scope)))
    if not put_resume(view, scope, given["conflict"]):
        raise UsageError(
            "somebody stopped the job anew meanwhile", hint="Give the command again to undo it."
        )


def tell_forgiven(forgiven: Sequence[Forgiven]) -> None:
    """Say which tasks begin anew to count, and from where they go on."""
    for task in forgiven[:_TOLD_TASKS]:
        start = "the beginning" if task.base is None else f"checkpoint {task.base}"
        _say(f"{task.label}: what was tried before counts no more; it goes on from {start}")
    if len(forgiven) > _TOLD_TASKS:
        _say(f"and so do {len(forgiven) - _TOLD_TASKS} more tasks")


def _say(text: str) -> None:
    print(f"perdure: {text}", file=sys.stderr)


def _refuse_settled(view: JobView) -> None:
    state = view.settled(None)
    if state is State.SUCCEEDED:
        raise UsageError(
            "the job has succeeded", hint="`perdure resume JOB --as new` runs it as a new job."
        )
    if state is State.CANCELED or _is_canceled(view):
        raise UsageError(
            "the job was canceled: that is never undone",
            hint="`perdure resume JOB --as new` runs it as a new job.",
        )


def _is_canceled(view: JobView) -> bool:
    stop = view.stops.stopped(JOB)
    return stop is not None and stop.kind is StopKind.CANCEL


def only_one(found: Sequence[_Found]) -> _Found:
    """The one task that ``--from`` is for.

    Raises:
        UsageError: none or several are meant.
    """
    if len(found) != 1:
        raise UsageError(
            f"--from is for one task, and {len(found)} are meant",
            hint="Name it: --task 'Step[Frame=12]'.",
        )
    return found[0]


def base_of(text: str, job: JobId) -> int | None:
    """``SEQ`` or ``start``."""
    if text == "start":
        return None
    if not text.isdigit():
        raise CheckpointMissing(
            f"{text!r} is no checkpoint's number", hint=f"See: perdure checkpoints {job}"
        )
    return int(text)
