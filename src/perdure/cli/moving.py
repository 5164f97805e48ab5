"""``perdure resume --engine``: another engine, or other options of it, in mid-life.

Theory of operation. The job record never changes; the choice is a record in the job's log, which
all that start workers go by from then on. Before it is put, what runs is suspended as by a person:
it saves, and leaves; what waits in the old engine's queue is taken back. Correctness does not rest
on that: no launch from before the record can start behind it (docs/journal-format.md), so that what
could not be taken back begins, sees that, and leaves.

Killed in between, it leaves the job suspended: `perdure resume` goes on with it.
"""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from perdure.cli.engines import capacity_of, engine_of
from perdure.cli.managed import Managed, maker_of
from perdure.engines.local import LocalEngine
from perdure.errors import EngineError, EngineRefused, UsageError
from perdure.manager.job_view import JobView
from perdure.manager.managing import interrupt_workers
from perdure.manager.submission import check_runnable
from perdure.policy.snapshot import LaunchState
from perdure.policy.stops import JOB
from perdure.store.records.job_document import Options
from perdure.store.records.job_log import LaunchIntent

_LOOK_SECONDS = 0.5
_WHY = "it is given another engine, or other options of it"


def engine_text(options: Options) -> str:
    """What starts workers, as people read it."""
    words = f" with {shlex.join(options.engine_options)}" if options.engine_options else ""
    return "this host" if options.engine == "local" else f"{options.engine}{words}"


def chosen_options(before: Options, given: Mapping[str, Any]) -> Options:
    """The job's options as ``--engine`` and ``--slurm`` mean them; the same where they say nothing.

    ``--slurm`` and ``--lsf`` take the place of all that was said of sbatch or bsub before, but for
    what the user's configuration file says.

    Raises:
        UsageError: the two do not fit, or cannot be read.
    """
    from perdure.cli.job_options import engine_options

    options = replace(before, engine=given["engine"] or before.engine)
    for own in ("slurm", "lsf"):
        found = engine_options(own, given[own], options.engine)
        if given[own] or (options.engine == own != before.engine and not options.engine_options):
            options = replace(options, **{own: found})
    return options


def move(managed: Managed, given: Mapping[str, Any], local: LocalEngine | None) -> Managed:
    """See that the job is at rest, and give it the engine; the same job with that engine.

    Blocks until what runs has saved and left. The job may stay suspended: resume it.

    Raises:
        UsageError: the options do not fit, or somebody resumed the job meanwhile.
        EngineUnavailable, EngineRefused: the engine would not take its workers; nothing was
            changed.
    """
    view = managed.view
    before = view.document.options
    options = chosen_options(before, given)
    if options == before:
        return managed
    _refuse_parts(given)
    engine = engine_of(managed.places, view.document.job, options, local)
    _check(managed, options)
    try:
        _bring_to_rest(managed)
        _record(view, options)
    except KeyboardInterrupt:
        _say("it stays suspended, and with the engine that it had")
        raise
    view.start_by(engine, capacity_of(options))
    _say(f"its workers are started by {engine_text(options)} (before: {engine_text(before)})")
    return replace(managed, engine=engine)


def _refuse_parts(given: Mapping[str, Any]) -> None:
    if given["step"] is not None or given["task"] is not None or given["base"] is not None:
        raise UsageError(
            "--engine, --slurm and --lsf are for the whole job",
            hint="Leave --step, --task and --from out; give them with a `perdure resume` behind"
            " this one.",
        )


def _check(managed: Managed, options: Options) -> None:
    """Refuse, before anything is stopped, what the new engine would never take."""
    view = managed.view
    check_runnable(replace(view.document, options=options), view.job, capacity_of(options))
    if options.engine == "slurm":
        from perdure.engines.slurm.engine import SlurmEngine

        SlurmEngine(options.slurm).check()


def _bring_to_rest(managed: Managed) -> None:
    """Suspend what is under way, take back what waits, and wait until nothing runs."""
    view = managed.view
    maker = maker_of(managed, f"process {os.getpid()}", starts=False)
    view.refresh()
    if all(view.has_ended(launch) for launch in view.records.state.launches):
        return
    _suspend(view)  # before the engine is asked: from here on nothing begins
    interrupt_workers(view, managed.engine, by_person=True)
    _withdraw(managed)
    told = 0
    while working := _under_way(view, LaunchState.LIVE, LaunchState.SILENT):
        if len(working) != told:
            told = len(working)
            _say(f"{_workers(told)} and then leave{'s' if told == 1 else ''}; this waits for that")
        managed.engine.wait(_LOOK_SECONDS)
        view.refresh()
        with suppress(EngineRefused):  # the old engine's commands are not here
            maker.make()  # records what has died
        if view.stops.stopped(JOB) is None:
            raise UsageError(
                "somebody resumed the job while it was brought to rest",
                hint="Give the command again.",
            )


def _under_way(view: JobView, *states: LaunchState) -> Sequence[LaunchIntent]:
    """The launches in these states, by what was read last."""
    intents = list(view.records.state.launches.values())
    return [intent for intent in intents if _state(view, intent) in states]


def _state(view: JobView, intent: LaunchIntent) -> LaunchState:
    """What is known of a launch; where its engine cannot be asked from here, it may be queued."""
    try:
        return view.launch_state(intent)
    except EngineRefused:
        return LaunchState.QUEUED


def _workers(number: int) -> str:
    return "a worker saves" if number == 1 else f"{number} workers save"


def _suspend(view: JobView) -> None:
    record = {"kind": "suspend", "scope": {}, "by": "user", "now": False, "reason": _WHY}
    while view.stops.stopped(JOB) is None:
        view.records.append(record)


def _withdraw(managed: Managed) -> None:
    """Take back what has not begun; what stays leaves by itself when it begins."""
    state = managed.view.records.state
    left: EngineError | None = None
    for intent in _under_way(managed.view, LaunchState.QUEUED):
        try:
            managed.engine.withdraw(state.launched.get(intent.token) or {})
        except EngineError as error:
            left = error
    if left is not None:
        _say(f"what is queued could not be taken back, and leaves when it begins: {left.message}")


def _record(view: JobView, options: Options) -> None:
    """Put the choice behind all that was read, while nothing runs."""
    chosen = {
        "engine": options.engine,
        "slurm": list(options.slurm),
        "lsf": list(options.lsf),
    }
    record = {"kind": "engine", "options": chosen, "by": "user"}
    while not view.records.append(record):
        view.refresh()
        if _under_way(view, LaunchState.LIVE, LaunchState.SILENT):
            raise EngineRefused(
                "somebody started the job's workers again meanwhile; its engine is as it was",
                hint="Give the command again.",
            )


def _say(text: str) -> None:
    with suppress(OSError):
        print(f"perdure: {text}", file=sys.stderr, flush=True)
