"""``perdure prune``: let go of checkpoints of tasks that no worker holds."""

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from perdure.cli.job_options import age_seconds, size_bytes
from perdure.cli.places import json_option, places, where_options
from perdure.cli.tables import console, plain, show_table
from perdure.sizes import size_text as size

if TYPE_CHECKING:
    from perdure.cli.looking import Looked
    from perdure.manager.pruning import PruneOrder
    from perdure.store.records.job_document import JobDocument

_BUSY_EXIT = 6


class _Row(Struct, frozen=True, kw_only=True):
    """What was done to one task's checkpoints, or to none of a job that cannot be read."""

    job: str
    step: str | None = None
    task: str | None = None
    key: str | None = None
    checkpoints: tuple[int, ...] = ()
    freed_bytes: int = 0
    waiting_bytes: int = 0
    held_by: str | None = None
    error: str | None = None
    exit_code: int = 0

    @property
    def says_something(self) -> bool:
        """Whether there is anything to tell about it."""
        is_done = bool(self.checkpoints or self.freed_bytes or self.waiting_bytes)
        return is_done or self.held_by is not None or self.error is not None


@click.command()
@click.argument("job", required=False)
@click.option("--task", metavar="T", help="Only of this task: Step[Frame=12], or its key.")
@click.option(
    "--keep-last", type=click.IntRange(min=1), help="So many of each task's newest are kept."
)
@click.option("--keep-age", metavar="AGE", help="And all that are younger: 12h, 7d.")
@click.option(
    "--keep-size", metavar="SIZE", help="At most so much of each task, beside what must stay."
)
@click.option(
    "--wait", is_flag=True, help="Wait until workers that hold tasks have ended, or stand still."
)
@click.option("--now", is_flag=True, help="Delete at once, also what somebody may be reading.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@json_option
@where_options
def prune(**given: Any) -> int:
    """Let go of older checkpoints of all jobs, or of JOB, by its own rules or by these.

    Where a worker holds a task, it does that itself after each save. What the next attempt starts
    from, what the last one started from, and what is pinned always stays.
    """
    from perdure.cli.looking import look_into
    from perdure.errors import UsageError

    if given["task"] is not None and given["job"] is None:
        raise UsageError("--task needs a JOB", hint="perdure prune JOB --task T")
    _checked(given)
    looked = look_into(places(given["home"], given["store"]), write=not given["dry_run"])
    if given["job"] is not None:
        rows = list(_pruned(looked, looked.job(given["job"]), given))
    else:
        rows = [row for document in _all_jobs(looked) for row in _tried(looked, document, given)]
    if given["as_json"]:
        print(json.dumps(_described(rows, given)))
    else:
        _show(rows, is_dry=given["dry_run"])
    is_refused = given["job"] is not None and any(row.held_by is not None for row in rows)
    if is_refused:
        return _BUSY_EXIT
    return next((row.exit_code for row in rows if row.exit_code), 0)


def _checked(given: dict[str, Any]) -> None:
    """Read the rules before anything is opened."""
    given["keep_age"] = age_seconds(given["keep_age"], of="--keep-age")
    if given["keep_size"]:
        given["keep_size"] = size_bytes(given["keep_size"], of="--keep-size")


def _all_jobs(looked: "Looked") -> "Iterator[JobDocument]":
    from perdure.errors import PerdureError
    from perdure.manager.stored_jobs import job_ids, stored_job

    for job in job_ids(looked.store.driver):
        try:
            document = stored_job(looked.store.driver, job)
        except PerdureError:
            continue  # `perdure verify` says what is wrong with it
        if document is not None:
            yield document


def _tried(looked: "Looked", document: "JobDocument", given: dict[str, Any]) -> list[_Row]:
    """One job of many: one that cannot be read holds up no other."""
    from perdure.errors import PerdureError

    try:
        return list(_pruned(looked, document, given))
    except PerdureError as error:
        return [_Row(job=document.job, error=error.message, exit_code=error.exit_code)]


def _pruned(looked: "Looked", document: "JobDocument", given: dict[str, Any]) -> Iterator[_Row]:
    from perdure.cli.naming import find_tasks
    from perdure.errors import PerdureError
    from perdure.manager.lineages import read_lineage, stored_lineages
    from perdure.manager.pruning import LineagePruner

    view = looked.view(document)
    view.refresh()
    if given["task"] is None:
        lineages = list(stored_lineages(view))
    else:
        lineages = [
            read_lineage(view, one.step, one.ref) for one in find_tasks(view, None, given["task"])
        ]
    pruner = LineagePruner(view, _order(document, given), looked.clock)
    for lineage in lineages:
        row = _Row(
            job=document.job,
            step=view.job.step(lineage.step).name,
            task=lineage.label,
            key=lineage.task,
        )
        try:
            done = pruner.prune(lineage)
        except PerdureError as error:
            yield _with(row, error=error.message, exit_code=error.exit_code)
        else:
            yield _with(
                row,
                checkpoints=done.checkpoints,
                freed_bytes=done.freed_bytes,
                waiting_bytes=done.waiting_bytes,
                held_by=done.held_by,
            )


def _with(row: _Row, **more: Any) -> _Row:
    from msgspec.structs import replace

    return replace(row, **more)


def _order(document: "JobDocument", given: dict[str, Any]) -> "PruneOrder":
    """The job's rules, and those of the command line in their place."""
    from msgspec.structs import replace

    from perdure.manager.pruning import PruneOrder
    from perdure.worker.pruning import GRACE, retention_of

    retention = retention_of(document.options)
    if given["keep_last"] is not None:
        retention = replace(retention, last=given["keep_last"])
    if given["keep_age"] is not None:
        retention = replace(retention, age=timedelta(seconds=given["keep_age"]))
    if given["keep_size"] is not None:
        retention = replace(retention, size_bytes=given["keep_size"])
    grace = timedelta() if given["now"] else GRACE
    return PruneOrder(
        retention=retention,
        grace=grace,
        is_dry=given["dry_run"],
        wait=time.sleep if given["wait"] else None,
    )


def _described(rows: list[_Row], given: dict[str, Any]) -> dict[str, Any]:
    from msgspec import to_builtins

    return {
        "dry_run": given["dry_run"],
        "tasks": [_without_exit_code(to_builtins(row)) for row in rows],
        "freed_bytes": sum(row.freed_bytes for row in rows),
        "waiting_bytes": sum(row.waiting_bytes for row in rows),
    }


def _without_exit_code(row: dict[str, Any]) -> dict[str, Any]:
    del row["exit_code"]  # it is the command's
    return row


def _show(rows: list[_Row], *, is_dry: bool) -> None:
    told = [row for row in rows if row.says_something]
    if told:
        show_table(
            console(),
            ("JOB", "TASK", "PRUNED", "FREED", "LATER", ""),
            [
                (
                    row.job,
                    plain(row.task or ""),
                    " ".join(f"@{number}" for number in row.checkpoints),
                    size(row.freed_bytes),
                    size(row.waiting_bytes),
                    plain(_note(row)),
                )
                for row in told
            ],
            right=("FREED", "LATER"),
        )
    freed, waiting = (sum(getattr(row, name) for row in rows) for name in _SUMS)
    print(f"{size(freed)} {'would be' if is_dry else 'are'} freed.")
    if rows and not any(row.says_something for row in rows):
        print(_ALWAYS_KEPT)
    if waiting:
        print(f"{size(waiting)} may still be read: a prune in a minute frees them, or --now.")


#: Said where nothing goes, so that nobody looks for the rule that would let these go.
_ALWAYS_KEPT = (
    "Whatever the rules, these stay: the checkpoint that a task's next attempt starts from, the one"
    " that its last attempt started from, the newest, what is pinned, and, but for --keep-size,"
    " the one that going back (`resume --from`) left."
)
_SUMS = ("freed_bytes", "waiting_bytes")


def _note(row: _Row) -> str:
    if row.error is not None:
        return row.error
    return "a worker holds it, and prunes it itself" if row.held_by is not None else ""
