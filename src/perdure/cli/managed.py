"""Managing a job from a command: what `run`, `resume` and the detached manager share."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from msgspec import Struct, field

from perdure.cli.engines import capacity_of, engine_of
from perdure.cli.keys import sealing_of
from perdure.cli.places import Places
from perdure.clock import Clock, SystemClock, pause
from perdure.engines.base import Engine
from perdure.engines.local import LocalEngine
from perdure.manager.hooks import Hooks
from perdure.manager.job_view import JobView, ViewParts, document_now
from perdure.manager.managing import Manager, Orders
from perdure.manager.presence import Presence
from perdure.manager.turns import TurnMaker, TurnParts
from perdure.policy.states import Status
from perdure.store.drivers.driver import Driver
from perdure.store.opening import Store
from perdure.store.records.job_document import JobDocument
from perdure.template.outline import JobOutline
from perdure.worker.job_records import JobRecords
from perdure.worker.ticker import scope_of

#: A manager that a suspension ends is gone within this, unless a hook holds it up.
LEAVING_SECONDS = 10.0


class Managed(Struct, frozen=True, kw_only=True):
    """A job and what is needed to manage it.

    Attributes:
        view: with the engine that starts its workers.
        environment: variables that the workers bring their tasks.
        told: called with what people should know.
        noted: called with what turns do.
        patience_seconds: so long another manager of this host that is leaving is waited for.
    """

    places: Places
    store: Store
    view: JobView
    engine: Engine
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    told: Callable[[str], None] = lambda text: print(f"perdure: {text}", flush=True)
    noted: Callable[[str], None] = lambda _text: None
    clock: Clock = field(default_factory=SystemClock)
    patience_seconds: float = 0.0


def managed_job(
    where: Places,
    store: Store,
    document: JobDocument,
    job: JobOutline,
    local: LocalEngine | None = None,
) -> Managed:
    """The job with the engine that starts its workers now; only its log is read yet.

    Args:
        where: as the workers are told.
        store: the job's.
        document: the job as submitted.
        job: its outline.
        local: what starts workers on this host, if that is the engine; None: a new one.

    Raises:
        EngineRefused: this perdure does not know the engine.
    """
    view = JobView(
        ViewParts(driver=store.driver, document=document, job=job, clock=SystemClock(), pause=pause)
    )
    view.records.refresh()
    options = view.document.options
    engine = engine_of(where, document.job, options, local)
    view.start_by(engine, capacity_of(options))
    return Managed(places=where, store=store, view=view, engine=engine)


def present_document(driver: Driver, document: JobDocument) -> JobDocument:
    """The job as submitted, with the engine that a person chose since; reads the job's log."""
    records = JobRecords(driver, document.job, clock=SystemClock(), pause=pause)
    records.refresh()
    return document_now(document, records.state)


def maker_of(managed: Managed, name: str, *, starts: bool = True) -> TurnMaker:
    """The maker of the job's turns on this host."""
    document = managed.view.document
    return TurnMaker(
        managed.view,
        TurnParts(
            store=managed.places.store_url,
            driver=managed.store.driver,
            engine=managed.engine,
            logs=managed.places.logs(document.job),
            sessions=managed.places.sessions(document),
            environment=managed.environment,
            clock=managed.clock,
            told=managed.told,
            noted=managed.noted,
        ),
        name=name,
        starts=starts,
    )


def manage(
    managed: Managed,
    *,
    prepare: Callable[[], None],
    between: Callable[[float], object],
    orders: Orders,
) -> Status | None:
    """Manage the job until nothing goes on by itself.

    Args:
        managed: the job.
        prepare: called once when all was read, as the job's manager: wishes that the command means.
        between: shows what is new and waits.
        orders: what signals ask.

    Raises:
        HomeBusy: somebody else manages the job.
        OutOfSpace, StoreUnavailable: see `Manager.manage`.
        UsageError: the key of its checkpoints cannot be read.
    """
    view = managed.view
    sealing_of(view.document, managed.environment)  # said here, and not by each worker
    presence = Presence(
        managed.store.driver,
        view.document.job,
        locks=managed.places.locks,
        clock=managed.clock,
        interval_seconds=view.document.options.heartbeat_seconds,
        patience_seconds=managed.patience_seconds,
    )
    with presence:
        view.refresh()
        prepare()
        hooks = Hooks(view.document, view, managed.environment)
        manager = Manager(
            view,
            maker_of(managed, "manager"),
            managed.engine,
            orders,
            between=lambda seconds: _between(hooks, between, seconds),
            told=managed.told,
            troubled=presence.be_troubled,
        )
        status = manager.manage()
        view.refresh()
        hooks.run()
    return status


def _between(hooks: Hooks, between: Callable[[float], object], seconds: float) -> None:
    hooks.run()
    between(seconds)


@contextmanager
def listening(orders: Orders, *, of_lsf: bool = False) -> Iterator[None]:
    """SIGINT is a person's wish, SIGTERM and SIGHUP are the host's.

    Args:
        orders: what the signals ask.
        of_lsf: this is in a batch job of LSF, which ends jobs with SIGINT and warns with SIGUSR2.
    """

    def suspend(_number: int, _frame: FrameType | None) -> None:
        orders.suspend += 1

    def leave(_number: int, _frame: FrameType | None) -> None:
        orders.leave = True

    signal.signal(signal.SIGINT, leave if of_lsf else suspend)
    if of_lsf:
        signal.signal(signal.SIGUSR2, leave)
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)
    try:
        yield
    finally:
        for number in (
            *_SIGNALS,
            *((signal.SIGUSR2,) if of_lsf else ()),
        ):  # how the job ended is what the command exits with
            signal.signal(number, signal.SIG_IGN)


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def put_resume(view: JobView, scope: Mapping[str, Any], on_conflict: str | None) -> bool:
    """Record a person's resume; False where somebody stopped the job anew meanwhile."""
    lifts = view.stops.lifts()
    record = {"kind": "resume", "scope": dict(scope), "lifts": lifts}
    if on_conflict is not None:
        record["on_conflict"] = on_conflict
    while not view.records.append(record):
        if view.stops.lifts() > lifts:
            return False
    return True


def resume_all(view: JobView, on_conflict: str | None = None) -> bool:
    """Lift every stop that stands, by a person's word; whether there was one.

    With ``on_conflict`` the word is recorded also where nothing stands.

    False also where somebody stopped the job anew meanwhile: that is not ours to undo.
    """
    if not is_suspended(view) and on_conflict is None:
        return False
    return put_resume(view, {}, on_conflict)


def is_suspended(view: JobView) -> bool:
    """Whether a stop covers the job, a step or a task."""
    wishes = view.records.state.wishes
    scopes = [scope_of(wish) for wish in wishes if wish.kind == "suspend"]
    stops = view.stops
    return any(stops.stopped(scope) is not None for scope in scopes)
