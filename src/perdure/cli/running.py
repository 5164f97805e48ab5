"""Running a job in front: from its document to its exit code."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct
from msgspec.structs import replace

from perdure.cli.allocations import is_script, job_of
from perdure.cli.audience import Audience
from perdure.cli.display import LogDisplay, timestamps
from perdure.cli.engines import capacity_of
from perdure.cli.exits import SUSPENDED, TERMINATED, exit_code
from perdure.cli.job_options import check_places, told_at_submit
from perdure.cli.kept_options import kept_options
from perdure.cli.keys import sealing_of
from perdure.cli.managed import (
    Managed,
    is_suspended,
    listening,
    manage,
    managed_job,
    resume_all,
)
from perdure.cli.memory_growth import check_growth
from perdure.cli.news import News
from perdure.cli.places import Places
from perdure.cli.pointing import pointed
from perdure.cli.probing import probe_of
from perdure.cli.tables import print_structured
from perdure.clock import SystemClock, pause
from perdure.engines.local import LocalEngine
from perdure.manager.branching import forgive
from perdure.manager.job_view import JobView
from perdure.manager.managing import Orders
from perdure.manager.submission import check_runnable, submit
from perdure.policy.states import State, Status
from perdure.policy.stops import JOB
from perdure.store.records.job_document import JobDocument
from perdure.worker.loading import load
from perdure.worker.task_environment import missing_secrets

if TYPE_CHECKING:
    from perdure.cli.in_allocation import Script
    from perdure.manager.job_status import JobStatus

#: How often new output is shown.
_SHOW_SECONDS = 0.05


class Shown(Struct, frozen=True, kw_only=True):
    """How a run is shown.

    Attributes:
        timestamp_format: what stands before each line; None: as the kind of work has it.
        is_verbose: whether what perdure does is shown besides.
        on_conflict: what this command says about outside files in the way, or None.
    """

    output: str
    timestamp_format: str | None
    is_verbose: bool
    on_conflict: str | None

    @classmethod
    def by(cls, given: Mapping[str, Any]) -> Self:
        """As the options of `run` or `resume` say."""
        return cls(
            output="json" if given["as_json"] else given.get("output", "human-readable"),
            timestamp_format=given["timestamp_format"],
            is_verbose=given["verbose"],
            on_conflict=given["conflict"],
        )

    @property
    def is_human(self) -> bool:
        """Whether the tasks' output is shown."""
        return self.output == "human-readable"


def run_job(
    where: Places, document: JobDocument, shown: Shown, local: LocalEngine, *, again: bool
) -> int:
    """Submit the job (or find the one that this line means) and manage it in front."""
    job = load(document)
    document = replace(document, name=document.name or job.name)
    check_runnable(document, job, capacity_of(document.options))
    check_places(document.options, where)
    check_growth(document.options, job)
    store = where.open(write=True, create=True)
    submitted = submit(
        store.driver,
        document,
        SystemClock(),
        pause,
        again=again,
        probe=probe_of(document, store.driver),
        is_same=_is_of_one_script,
    )
    if not submitted.is_new:
        job = load(submitted.document)
        sealing_of(submitted.document)  # a wrong key is said before anything is tried with it
    managed = managed_job(where, store, submitted.document, job, local)
    view = managed.view
    if not submitted.is_new:
        for sentence in kept_options(document, view.document):
            _told(sentence)
    elif submitted.before is not None:
        _told(f"job {submitted.before.job} of this line has ended; this is a new one")
    if submitted.is_new and (policy := told_at_submit(submitted.document.options)) is not None:
        _told(policy)

    def prepare() -> None:
        if not submitted.is_new:
            _go_on_with(view, shown.on_conflict)

    return go_on(managed, shown, prepare)


def _is_of_one_script(document: JobDocument, known: JobDocument) -> bool:
    """Whether both were begun by one batch job: its script runs again when it was put back."""
    mine = job_of(document.variables)
    return mine is not None and job_of(known.variables) == mine


def go_on(managed: Managed, shown: Shown, prepare: Callable[[], None] = lambda: None) -> int:
    """Manage a job in front to its end; the exit code."""
    orders = Orders()
    audience = Audience(left=lambda: _hang_up(orders))
    noted = audience.tell if shown.is_verbose else managed.noted
    managed = replace(managed, told=audience.tell, noted=noted)
    view, engine = managed.view, managed.engine
    news = News(view, orders, audience.tell)
    display = LogDisplay(
        managed.places.logs(view.document.job),
        timestamps(shown.timestamp_format or ("none" if view.document.command else "relative")),
        audience.show,
    )
    display.skip_present()

    def between(seconds: float) -> None:
        until = monotonic() + seconds
        has_ended = False
        while not has_ended and not orders.are_new and (left := until - monotonic()) > 0:
            if shown.is_human:
                display.show()
                news.tell()
            has_ended = engine.wait(min(left, _SHOW_SECONDS))

    def begin() -> None:
        prepare()
        if shown.is_human:
            view.refresh()
            news.tell_waiting(managed.clock.now().timestamp())
            news.listen()

    for name in missing_secrets(view.document, managed.environment):
        audience.tell(f"the submitter's variable {name} was not kept, and is not set now")
    script = _script_of(view.document)
    is_of_lsf = script is not None and "LSB_JOBID" in os.environ
    try:
        with (
            listening(orders, of_lsf=is_of_lsf),
            nullcontext() if script is None else script.watched(orders),
        ):
            status = manage(managed, prepare=begin, between=between, orders=orders)
    finally:
        if shown.is_human:
            display.show()
            news.tell()
    _show_result(status, view, shown)
    if status is not None:
        return exit_code(status, view) or audience.exit_code
    if script is not None and not audience.exit_code and script.leave(view, audience.tell):
        return SUSPENDED
    return _code_of_leaving(audience, orders)


def _script_of(document: JobDocument) -> "Script | None":
    """The batch script that this command was started by, where it is the host."""
    if document.options.engine != "local" or not is_script(os.environ):
        return None
    from perdure.cli.in_allocation import script_of

    return script_of(os.environ, is_step=document.options.image_dir is not None)


def _hang_up(orders: Orders) -> None:
    """Nobody sees any more what goes on: as when the terminal is gone, unless a person spoke."""
    if not orders.suspend:
        orders.leave = True


def _code_of_leaving(audience: Audience, orders: Orders) -> int:
    """Ctrl-C ends the reader of a pipe, too: whichever is noticed first, it is a person's wish."""
    if not audience.exit_code:
        return TERMINATED
    is_suspended = orders.suspend and not orders.is_unrecorded
    return SUSPENDED if is_suspended else audience.exit_code


def _told(text: str) -> None:
    with suppress(OSError):  # a reader who has left is noticed once the job is managed
        print(f"perdure: {pointed(text)}", file=sys.stderr, flush=True)


def _go_on_with(view: JobView, on_conflict: str | None) -> None:
    """Whoever gives the line again wants the job to go on."""
    if view.settled(None) is not None:
        return
    if on_conflict is not None or is_suspended(view):
        from perdure.cli.resuming import tell_forgiven

        tell_forgiven(forgive(view, JOB))
    if resume_all(view, on_conflict):
        _told(f"job {view.document.job} goes on")


def _show_result(status: Status | None, view: JobView, shown: Shown) -> None:
    """How it ended, and what to do next."""
    if not shown.is_human:
        print_structured(result(status, view), shown.output)
        return
    document = view.document
    left = status or _left(view)
    state = f"{left.state.value}{' (held)' if left.is_held else ''}"
    if document.command:
        if left.state is State.SUCCEEDED and status is not None:
            return
        out = sys.stderr  # what the command printed is all that there is on standard output
        reason = f": {left.reason}" if left.reason else ""
        print(f"perdure: job {document.job} is {state}{reason}", file=out)
    else:
        out = sys.stdout
        _print_summary(view, left, state)
    for line in _next(status, view):
        print(pointed(line), file=out)
    out.flush()


def _print_summary(view: JobView, left: Status, state: str) -> None:
    print(f"\n--- Results of job {view.document.job} ---\n")
    print(f"Job: {view.document.name}")
    print(f"State: {state}")
    if left.reason:
        print(f"Reason: {left.reason}")
    for step in view.steps.values():
        counts = step.counts(view.stops)
        print(f"Step: {step.step.name}: {counts.succeeded} of {counts.total} tasks succeeded")
    print(flush=True)


def _next(status: Status | None, view: JobView) -> Iterator[str]:
    """What a person can do next."""
    document = view.document
    if status is not None and status.is_held:
        yield "It is held until you choose one of:"
        yield from (f"  {line}" for line in _choices(view))
    elif status is None and document.options.engine != "local":
        yield "It goes on by itself on the cluster."
    elif status is None or not status.state.is_final:
        yield f"It goes on with:  perdure resume {document.job}"
    if status is not None and (status.is_held or status.state in (State.FAILED, State.CANCELED)):
        yield f"See why:  perdure why {document.job}"


def _choices(view: JobView) -> tuple[str, ...]:
    """The lines that choose, for a job that is held."""
    from perdure.manager.explaining import choosing_commands

    return choosing_commands(_status_now(view))


def _left(view: JobView) -> Status:
    """What the job is whose turns were left off; its tasks may be over without a record of it."""
    now = _status_now(view).status
    reason = "its end is not recorded yet" if now.state.is_final else ""
    return Status(state=now.state, is_held=now.is_held, reason=reason)


def result(status: Status | None, view: JobView) -> dict[str, Any]:
    """The object that ``--json`` prints: what `status JOB --json` prints."""
    found = _status_now(view).to_json()
    return found if status is None else {**found, "state": status.state.value}


def _status_now(view: JobView) -> "JobStatus":
    """What `status JOB` shows now."""
    from perdure.manager.facts_reading import read_facts
    from perdure.manager.job_status import status_now

    facts, _ = read_facts(view)
    return status_now(view.records.driver, view.document, facts, SystemClock().now())
