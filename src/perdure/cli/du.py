"""``perdure du``: how much space jobs take, and what lies beside the store."""

import json
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from perdure.cli.places import json_option, places, where_options
from perdure.cli.tables import console, plain, show_table
from perdure.sizes import size_text as size

if TYPE_CHECKING:
    from perdure.cli.looking import Looked
    from perdure.store.layout import JobId


@click.command()
@click.argument("job", required=False)
@json_option
@where_options
def du(**given: Any) -> int:
    """Show how much space all jobs take, or JOB."""
    from perdure.cli.looking import look_into
    from perdure.manager.stored_jobs import job_ids
    from perdure.store.room import free_in

    looked = look_into(places(given["home"], given["store"]))
    driver = looked.store.driver
    jobs = job_ids(driver) if given["job"] is None else (looked.job(given["job"]).job,)
    rows = [_usage(looked, job) for job in jobs]
    total = sum(row["total_bytes"] for row in rows)
    free = free_in(driver)
    if given["as_json"]:
        described = {"store": looked.store.url, "jobs": rows, "total_bytes": total}
        print(json.dumps({**described, "free_bytes": free}))
        return 0
    show_table(
        console(),
        ("JOB", "CHECKPOINTS", "RECORDS", "LOGS", "OBJECTS", "TOTAL", "NAME"),
        [
            (
                row["job"],
                size(row["checkpoint_bytes"]),
                size(row["record_bytes"]),
                size(row["log_bytes"]),
                str(row["objects"]),
                size(row["total_bytes"]),
                plain(row["name"] or ""),
            )
            for row in rows
        ],
        right=("CHECKPOINTS", "RECORDS", "LOGS", "OBJECTS", "TOTAL"),
    )
    print(f"{size(total)} in all{'' if free is None else f'; {size(free)} are free'}")
    _show_beside(rows)
    return 0


def _show_beside(rows: list[dict[str, Any]]) -> None:
    """What the columns do not show: space that is let go, and files that are not in the store."""
    waiting, adopted = (sum(row[n] for row in rows) for n in ("waiting_bytes", "adopted_bytes"))
    if waiting:
        print(
            f"{size(waiting)} of it are of pruned checkpoints: a prune frees them when a minute is"
            " over."
        )
    if adopted:
        print(
            f"Not in it: {size(adopted)} of files that checkpoints hold where the program wrote"
            " them (--files adopt)."
        )


def _usage(looked: "Looked", job: "JobId") -> dict[str, Any]:
    """What a job takes in the store and in this home."""
    from perdure.clock import pause
    from perdure.errors import PerdureError
    from perdure.manager.stored_jobs import stored_job
    from perdure.manager.usage import usage
    from perdure.store import layout

    driver = looked.store.driver
    sums = {"checkpoint_bytes": 0, "record_bytes": 0}
    objects = 0
    for prefix in (layout.job_prefix(job), layout.lineages_prefix(job)):
        for key in driver.list(prefix):
            name = "checkpoint_bytes" if "/packs/" in key else "record_bytes"
            sums[name] += driver.head(key) or 0
            objects += 1
    logs = looked.places.logs(job)
    log_bytes = sum(p.stat().st_size for p in logs.glob("*")) if logs.is_dir() else 0
    try:
        document = stored_job(driver, job)
    except PerdureError:
        document = None
    adopts = document is not None and document.options.files == "adopt"
    found = usage(driver, job, adopts=adopts, clock=looked.clock, pause=pause)
    return {
        "job": job,
        "name": document.name if document is not None else None,
        **sums,
        "log_bytes": log_bytes,
        "objects": objects,
        "total_bytes": sum(sums.values()) + log_bytes,
        **to_builtins(found),
    }
