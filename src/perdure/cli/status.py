"""``perdure status`` and ``perdure wait``: how jobs are, and waiting for one to end.

Both only look: they make no turns and write nothing but the cache.
"""

import json
import math
import shlex
import time
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.looking import Looked, Watching, look_into
from perdure.cli.places import Places, json_option, places, where_options
from perdure.cli.pointing import pointed
from perdure.cli.tables import bar, console, moment, plain, show_table, styled_state
from perdure.errors import HomeError, PerdureError, UsageError
from perdure.manager.facts import AttemptFacts
from perdure.manager.job_status import JobStatus
from perdure.manager.stored_jobs import job_ids, stored_job
from perdure.policy.states import Counts, State
from perdure.store.layout import JobId
from perdure.store.records.job_document import JobDocument

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

#: How often a job is looked at while it is waited for, where looking is cheap.
_LOOK_SECONDS = 0.25
#: Looking takes up at most this part of the time.
_LOOKING_SHARE = 0.1
#: So long whoever recorded the end is waited for: what follows may remove or resume the job.
_LEAVING_SECONDS = 10.0
_SHOWN_TASKS = 20
_ENDED = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELED, State.SUSPENDED})


@click.command()
@click.argument("job", required=False)
@click.option(
    "--attempts",
    type=click.Choice(["notable", "all"]),
    default="notable",
    show_default=True,
    help="Of jobs of more than 1,000 tasks: those that went otherwise than well, or all.",
)
@json_option
@where_options
def status(**given: Any) -> int:
    """Show all jobs, or JOB: an id, the beginning of one, a key, or `last`."""
    where = places(given["home"], given["store"])
    if given["job"] is None:
        return _list(
            where,
            is_default=given["store"] is None and given["home"] is None,
            as_json=given["as_json"],
        )
    looked = look_into(where)
    document = looked.job(given["job"])
    found = looked.status(document, every_attempt=given["attempts"] == "all")
    if given["as_json"]:
        print(json.dumps(found.to_json()))
    else:
        show_status(console(), found)
    return 0


@click.command()
@click.argument("job")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="S",
    help="Wait at most so many seconds; then exit with 124.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the job's status as one JSON object.")
@where_options
def wait(**given: Any) -> int:
    """Wait until JOB has ended or waits for a person; exit as it ended.

    0 succeeded, 1 failed, 3 held because no checkpoint can be used, 75 suspended or held for a
    person's choice, 76 canceled, 124 the time is over.
    """
    from perdure.cli.exits import TIMED_OUT, code_of

    if given["timeout"] is not None and math.isnan(given["timeout"]):
        raise UsageError("--timeout nan is no time", hint="Give seconds: --timeout 60.")
    looked = look_into(places(given["home"], given["store"]))
    found, has_ended = _wait(looked, looked.job(given["job"]), given["timeout"])
    if given["as_json"]:
        print(json.dumps(found.to_json()))
    else:
        out = console()
        out.print(f"{found.document.job}: ", styled_state(found.status.state.value), sep="")
        if found.status.reason:
            out.print(pointed(plain(found.status.reason)))
    return code_of(found.status.state, is_unusable=found.is_unusable) if has_ended else TIMED_OUT


def _wait(looked: Looked, document: JobDocument, timeout: float | None) -> tuple[JobStatus, bool]:
    """The status at the end, and whether that was the job's and not the time's."""
    watching = Watching(looked, document)
    deadline = None if timeout is None else time.monotonic() + timeout
    was_told, ended = False, None
    while True:
        began = time.monotonic()
        found = watching.status()
        if found.status.state in _ENDED:
            ended = ended if ended is not None else began
            if not found.is_worked_on or began - ended >= _LEAVING_SECONDS:
                return found, True
        elif not found.is_worked_on and not was_told:
            was_told = True
            click.echo(f"perdure: {pointed(found.status.reason)}", err=True)
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            return found, ended is not None
        pause = max(_LOOK_SECONDS, watching.look_seconds, (now - began) / _LOOKING_SHARE)
        time.sleep(pause if deadline is None else min(pause, deadline - now))


def _list(where: Places, *, is_default: bool, as_json: bool) -> int:
    """All jobs of the store, the newest last."""
    try:
        looked = look_into(where)
    except HomeError:
        if not is_default or where.home.joinpath("store").exists():
            raise
        jobs: list[dict[str, Any]] = []
    else:
        jobs = [_listed(looked, job) for job in job_ids(looked.store.driver)]
    if as_json:
        print(json.dumps({"jobs": jobs}))
    elif not jobs:
        print(f"There are no jobs in {where.store_url}.")
    else:
        _show_list(jobs)
    return 0


def _listed(looked: Looked, job: JobId) -> dict[str, Any]:
    """One job in the list; one that cannot be read harms no other."""
    from perdure.cli.failing import described

    try:
        document = stored_job(looked.store.driver, job)
        if document is None:
            return _unread(job)
        found = looked.status(document)
    except PerdureError as error:
        return {**_unread(job), "error": described(error), "reason": error.message}
    return {
        "job": job,
        "key": document.key,
        "name": document.name,
        "state": found.status.state.value,
        "held": found.status.is_held,
        "reason": found.status.reason,
        "submitted_at": document.submitted_at,
        "settled_at": found.facts.settled_at,
        "tasks": _tasks(found),
        "error": None,
    }


def _unread(job: JobId) -> dict[str, Any]:
    names = ("key", "name", "state", "submitted_at", "settled_at", "tasks", "error")
    return {"job": job, **dict.fromkeys(names), "held": False, "reason": ""}


def _tasks(found: JobStatus) -> dict[str, int]:
    """The tasks of all steps, by state."""
    names = ("total", *Counts.__struct_fields__)
    counts = [step.facts.counts for step in found.steps]
    return {name: sum(int(getattr(one, name)) for one in counts) for name in names}


def _show_list(jobs: list[dict[str, Any]]) -> None:
    out = console()
    show_table(
        out,
        ("JOB", "STATE", "TASKS", "SUBMITTED", "KEY", "NAME"),
        [
            (
                job["job"],
                styled_state(job["state"] or "UNREADABLE", held=job["held"]),
                f"{job['tasks']['succeeded']}/{job['tasks']['total']}" if job["tasks"] else "",
                moment(job["submitted_at"]),
                plain(job["key"] or ""),
                plain(job["name"] or job["reason"]),
            )
            for job in jobs
        ],
        right=("TASKS",),
    )


def show_status(out: "Console", found: JobStatus) -> None:
    """A job for people."""
    document = found.document
    out.print(f"{plain(document.name)}  {document.job}", style="bold")
    key = f"  key {plain(document.key)}" if document.key else ""
    out.print("State: ", styled_state(found.status.state.value, held=found.status.is_held), sep="")
    if found.status.reason:
        out.print(f"       {pointed(plain(found.status.reason))}")
    out.print(f"Submitted {moment(document.submitted_at)}{key}")
    if found.facts.engine.name != "local" or found.facts.engine.changed_at is not None:
        out.print(_engine_line(found))
    out.print(_manager_line(found))
    for warning in found.warnings:
        out.print(f"! {plain(warning)}", style="red")
    out.print()
    _show_steps(out, found)
    _show_running(out, found)
    _show_tasks(out, found)


def _engine_line(found: JobStatus) -> str:
    engine = found.facts.engine
    words = f" {shlex.join(engine.options)}" if engine.options else ""
    since = f", since {moment(engine.changed_at)}" if engine.changed_at else ""
    return f"Engine: {plain(engine.name)}{plain(words)}{since}"


def _manager_line(found: JobStatus) -> str:
    manager = found.now.manager
    if manager is None:
        return "Manager: none"
    if manager["state"] == "gone" and not found.goes_on:
        return "Manager: none"  # it is not missed: there are no turns to make
    how = {"alive": "", "gone": " is gone", "unknown": " (another host)"}[manager["state"]]
    return f"Manager: process {manager['pid']} on {plain(str(manager['host']))}{how}"


def _show_steps(out: "Console", found: JobStatus) -> None:
    names = ("pending", "running", "suspended", "held", "failed", "canceled")
    rows = []
    for step in found.steps:
        counts = step.facts.counts
        others = ", ".join(f"{getattr(counts, n)} {n}" for n in names if getattr(counts, n))
        rows.append(
            (
                plain(step.facts.name),
                styled_state(step.status.state.value, held=step.status.is_held),
                bar(out, counts.succeeded, counts.total),
                f"{counts.succeeded}/{counts.total}",
                others,
            )
        )
    show_table(out, ("STEP", "STATE", "", "DONE", "OTHERS"), rows, right=("DONE",))


def _show_running(out: "Console", found: JobStatus) -> None:
    running = [a for a in found.facts.attempts if a.outcome is None]
    if not running:
        return
    out.print()
    show_table(
        out,
        ("RUNNING", "ATTEMPT", "FROM", "PROGRESS", "LAST CHECKPOINT", "SAYS"),
        [_running_row(out, attempt) for attempt in running[:_SHOWN_TASKS]],
        right=("ATTEMPT", "FROM"),
    )
    _show_more(out, len(running))


def _running_row(out: "Console", attempt: AttemptFacts) -> tuple[Any, ...]:
    return (
        plain(attempt.task),
        str(attempt.number),
        "start" if attempt.resumed_from is None else f"@{attempt.resumed_from}",
        _progress(out, attempt),
        moment(attempt.last_checkpoint_at) or "none",
        plain(attempt.reason or attempt.status or ""),
    )


def _progress(out: "Console", attempt: AttemptFacts | None) -> "RenderableType":
    """How far it is, or was when it was heard last."""
    if attempt is None or attempt.progress is None:
        return ""
    return bar(out, attempt.progress, 100.0)


def _show_tasks(out: "Console", found: JobStatus) -> None:
    """Tasks that are not done and do not run: why."""
    quiet = (State.SUCCEEDED.value, State.RUNNING.value)
    tasks = [task for task in found.facts.tasks if task.state not in quiet]
    if not tasks:
        return
    last = {attempt.key: attempt for attempt in found.facts.attempts}
    out.print()
    show_table(
        out,
        ("TASK", "STATE", "ATTEMPTS", "NEXT FROM", "PROGRESS", "WHY"),
        [
            (
                plain(task.task),
                styled_state(task.state, held=task.held),
                str(last[task.key].number) if task.key in last else "0",
                "" if task.base is None else f"@{task.base}",
                _progress(out, last.get(task.key)),
                plain(task.reason or (last[task.key].reason if task.key in last else "")),
            )
            for task in tasks[:_SHOWN_TASKS]
        ],
        right=("ATTEMPTS", "NEXT FROM"),
    )
    _show_more(out, len(tasks) + found.facts.tasks_left_out)
    out.print(pointed(f"\nMore: perdure why {found.document.job}"))


def _show_more(out: "Console", number: int) -> None:
    if number > _SHOWN_TASKS:
        out.print(f"and {number - _SHOWN_TASKS} more: perdure status JOB --json")
