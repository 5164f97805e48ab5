"""Wires a worker together: opens the store, loads the job, makes the launch, and runs it."""

from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from perdure.cli.allocations import batch_system, found_allocation
from perdure.cli.keys import sealing_of
from perdure.cli.several_nodes import look_at, node_count
from perdure.clock import SystemClock, pause
from perdure.engines.base import Engine
from perdure.engines.local import LocalEngine
from perdure.engines.tokens import parse_token
from perdure.errors import JobMissing, PerdureError
from perdure.journal.writer import JournalWriter
from perdure.manager.job_view import JobView, ViewParts, this_hosts_capacity
from perdure.manager.presence import has_live_manager
from perdure.manager.stored_jobs import read_job
from perdure.manager.turns import TurnMaker, TurnParts
from perdure.store import layout
from perdure.store.delivery.delivery_places import opener_of
from perdure.store.layout import JobId, LaunchId
from perdure.store.opening import Store, open_store
from perdure.store.packs.tiers import LocalTier, open_tier
from perdure.store.records.job_document import JobDocument
from perdure.template.outline import JobOutline
from perdure.worker.collecting import collect_seldom
from perdure.worker.context import LaunchContext
from perdure.worker.job_records import JobRecords
from perdure.worker.launch import Launch, Wiring
from perdure.worker.led_sessions import LedSession
from perdure.worker.loading import load
from perdure.worker.notices import InBackground, Source, notice_source
from perdure.worker.output import OutputLog
from perdure.worker.processes import TOKEN_VARIABLE
from perdure.worker.stops import StopBoard
from perdure.worker.task_environment import base_environment
from perdure.worker.task_roots import outside_roots
from perdure.worker.workspaces.openjd import library_rules

if TYPE_CHECKING:
    from perdure.cli.allocated import Allocated
    from perdure.cli.old_slurm.step_images import StepImages

#: For tests: where the instance metadata service is.
_IMDS_VARIABLE = "PERDURE_IMDS_URL"


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """What the engine says to the worker."""

    store: str
    job: str
    launch: str
    token: str
    logs: Path
    sessions: Path
    gpus: str | None = None
    restarts: int = 0


def work(options: WorkerOptions, environment: Mapping[str, str], board: StopBoard) -> int:
    """Run one launch; blocks until it has ended. Returns what the process is to exit with.

    Raises:
        HomeError, StoreDamaged, TemplateError: the store or the job cannot be used.
    """
    collect_seldom()
    store = open_store(options.store, write=True)
    document = read_job(store, JobId(options.job))
    job = load(document)
    clock = SystemClock()
    allocated = _allocated(options, store, document, job, environment)
    launch: LaunchId | None = LaunchId(options.launch)
    if allocated is not None:
        launch = allocated.launch(LaunchId(options.launch))
    if launch is None:
        return 0
    records = JobRecords(store.driver, document.job, clock=clock, pause=pause)
    step = _step_of(records, launch)
    options.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    session_root = _sessions(options, document, environment) / launch
    session_root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if "LSB_JOBID" in environment:
        _leave_note(options, launch, document.options.engine, environment)
    log = OutputLog(options.logs / f"{launch}.log", document.options.log_limit_bytes)
    tier, tier_trouble = _local_tier(store, document)
    nodes = look_at(environment, session_root, outside_roots(document, job))
    context = LaunchContext(
        document=document,
        job=job,
        step=job.step(step),
        driver=store.driver,
        clock=clock,
        launch=launch,
        token=options.token,
        journal=JournalWriter(store.driver, layout.journal(document.job, launch)),
        log=log,
        board=board,
        environment=base_environment(
            document, environment, python_dir=options.sessions / "bin", gpus=options.gpus
        ),
        session_root=session_root,
        led=LedSession(session_root),
        path_mapping=library_rules(document.path_mapping),
        sealing=sealing_of(document, environment),
        tier=tier,
        tier_trouble=tier_trouble,
        steps=nodes.steps,
        refusal=nodes.refusal,
        unshared=nodes.unshared,
        deliver=opener_of(place) if (place := document.options.deliver) is not None else None,
    )
    images = _images(options, document, context, environment)
    wiring = Wiring(pause=pause, notices=_notices(document, environment))
    if images is not None:
        wiring = replace(wiring, after_commit=images.committed, about=images.about)
    with (
        nullcontext() if allocated is None else allocated.watched(board),
        images or nullcontext(),
    ):
        Launch(context, records, wiring).run()
    context.led.close()
    with suppress(OSError):  # folders that are to be kept
        session_root.rmdir()
    if allocated is not None:
        return allocated.leave(launch, board.stops_all())
    if board.stops_all() is None:
        _turn_if_unmanaged(options, store, context, environment)
    return 0


def _leave_note(
    options: WorkerOptions, launch: LaunchId, engine: str, environment: Mapping[str, str]
) -> None:
    """For `echkpnt.perdure`, where the job of LSF is one with checkpoints."""
    from perdure.engines.lsf.checkpoint_notes import CheckpointNote, leave_note

    note = CheckpointNote(
        store=options.store,
        job=options.job,
        launch=launch,
        token=options.token,
        engine=engine,
        index=environment.get("LSB_JOBINDEX", "0"),
    )
    if trouble := leave_note(note, environment):
        print(f"perdure-worker: {trouble}", flush=True)


def _images(
    options: WorkerOptions,
    document: JobDocument,
    context: LaunchContext,
    environment: Mapping[str, str],
) -> "StepImages | None":
    """The checkpoint files of the old names, where the job is a step of the old command line."""
    if document.options.image_dir is None or "SLURM_JOB_ID" not in environment:
        return None
    from perdure.cli.old_slurm.step_images import StepImages

    return StepImages(document, options.store, context.driver, context.steps, environment)


def _sessions(
    options: WorkerOptions, document: JobDocument, environment: Mapping[str, str]
) -> Path:
    """Where session folders are made: beside the logs where several nodes have to see them."""
    if document.options.temporary_dir is not None or node_count(environment) == 1:
        return options.sessions
    return options.logs / "sessions"


def _notices(document: JobDocument, environment: Mapping[str, str]) -> Source | None:
    """Who says that this worker must end soon."""
    notice = document.options.notice
    if notice == "auto" and (allocation := found_allocation(environment)) is not None:
        from perdure.engines.allocation import TimeLimit

        return InBackground(TimeLimit(allocation))
    imds = environment.get(_IMDS_VARIABLE)
    return notice_source(notice, imds_url=imds) if imds else notice_source(notice)


def _allocated(
    options: WorkerOptions,
    store: Store,
    document: JobDocument,
    job: JobOutline,
    environment: Mapping[str, str],
) -> "Allocated | None":
    """What a worker on a cluster knows of its allocation; None for a worker of this host."""
    allocation = found_allocation(environment)
    if allocation is None or parse_token(options.token) is None:
        return None  # a process of a script's job, which is the host
    from perdure.cli.allocated import Allocated
    from perdure.cli.engines import cluster_engine, settle_command
    from perdure.cli.places import Places

    view = _view(store, document, job)
    its_own = replace(view.document.options, engine=batch_system(environment))
    home = Places.home_of(options.logs)
    settle = settle_command(document.job, home=home, store_url=options.store)
    engine = cluster_engine(its_own, follow=settle, own_job=allocation.job)
    view.start_by(engine, None)
    return Allocated(
        allocation, view, _turn_parts(options, store, engine, environment), options.token
    )


def _view(store: Store, document: JobDocument, job: JobOutline) -> JobView:
    """The job's view, with its log read."""
    view = JobView(
        ViewParts(driver=store.driver, document=document, job=job, clock=SystemClock(), pause=pause)
    )
    view.records.refresh()
    return view


def _turn_parts(
    options: WorkerOptions, store: Store, engine: Engine, environment: Mapping[str, str]
) -> TurnParts:
    """What a turn by this worker acts with; the workers that it starts have tokens of their own."""
    return TurnParts(
        store=options.store,
        driver=store.driver,
        engine=engine,
        logs=options.logs,
        sessions=options.sessions,
        environment={name: text for name, text in environment.items() if name != TOKEN_VARIABLE},
        clock=SystemClock(),
    )


def _local_tier(store: Store, document: JobDocument) -> tuple[LocalTier | None, str]:
    """Where saves are taken first on this host, or why they are not; "" where nobody wants it."""
    folder = document.options.local_store
    if folder is None:
        return None, ""
    try:
        return open_tier(store.driver, Path(folder)), ""
    except PerdureError as error:
        return None, f"saves go to the store at once: {error.message}"


def _turn_if_unmanaged(
    options: WorkerOptions, store: Store, context: LaunchContext, environment: Mapping[str, str]
) -> None:
    """A worker that ends its share and finds no live manager makes the turn itself."""
    if has_live_manager(store.driver, context.job_id):
        return
    view = _view(store, context.document, context.job)
    if view.records.state.is_outdated(context.launch):
        return  # the job goes on elsewhere
    engine = LocalEngine()
    view.start_by(engine, this_hosts_capacity())
    parts = _turn_parts(options, store, engine, environment)
    TurnMaker(view, parts, name=f"launch {context.launch}").make()


def _step_of(records: JobRecords, launch: LaunchId) -> int:
    """The step that the launch's intent names."""
    records.refresh()
    intent = records.state.launches.get(launch)
    if intent is None:
        raise JobMissing(
            f"job {records.job} has no launch {launch}", hint="Its worker has nothing to do."
        )
    return int(intent.step)
