"""``perdure rm``: jobs that are not needed any more, with all that they have."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.places import Places, json_option, places, where_options
from perdure.cli.tables import plain

if TYPE_CHECKING:
    from datetime import timedelta

    from perdure.cli.looking import Looked
    from perdure.manager.removing import Removal
    from perdure.store.records.job_document import JobDocument


@click.command()
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@click.option("--older", metavar="AGE", help="Jobs that ended so long ago: 30d, 12h.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--wait", is_flag=True, help="Wait until what runs of them has ended.")
@json_option
@where_options
def rm(**given: Any) -> int:
    """Remove jobs with their checkpoints and logs; what runs is never removed.

    With --older only jobs that have ended (succeeded, failed, canceled) are meant.
    """
    from perdure.cli.job_options import age
    from perdure.cli.looking import look_into
    from perdure.errors import UsageError
    from perdure.store.deleting import finish_removals

    if bool(given["jobs"]) == (given["older"] is not None):
        raise UsageError("name jobs, or give --older AGE", hint="perdure rm JOB…, or --older 30d")
    oldest = age(given["older"], of="--older") if given["older"] is not None else None
    looked = look_into(places(given["home"], given["store"]), write=True)
    if oldest is None:
        documents = _named_jobs(looked, given["jobs"])
    else:
        documents = list(_ended_before(looked, oldest))
    if not _may_remove(looked, documents, given, is_old=oldest is not None):
        return 1
    removed = [_remove(looked, document, wait=given["wait"]) for document in documents]
    finish_removals(looked.store.driver)
    if given["as_json"]:
        print(json.dumps({"removed": removed}))
    else:
        for job in removed:
            print(f"{job} is removed")
        if not removed:
            print("There was nothing to remove.")
    return 0


def _named_jobs(looked: "Looked", names: tuple[str, ...]) -> "list[JobDocument]":
    """The jobs of these names, each once; one whose record is damaged goes by its whole id."""
    from perdure.errors import JobMissing, StoreDamaged
    from perdure.store.deleting import remains
    from perdure.store.layout import JobId, is_ulid
    from perdure.store.records.job_document import JobDocument, Text

    found: dict[str, JobDocument] = {}
    for name in names:
        try:
            document = looked.job(name)
        except (JobMissing, StoreDamaged) as error:
            is_lost = is_ulid(name) and JobId(name) in remains(looked.store.driver).lost
            if not is_ulid(name) or (isinstance(error, JobMissing) and not is_lost):
                raise
            document = JobDocument(
                job=JobId(name),
                name="its record is damaged",
                template=Text(name="", text=""),
                template_dir="/",
                current_dir="/",
            )
        found[document.job] = document
    return list(found.values())


def _ended_before(looked: "Looked", oldest: "timedelta") -> "Iterator[JobDocument]":
    """Jobs that have ended, and that long ago. What was suspended keeps its progress."""
    from perdure.clock import from_text
    from perdure.errors import PerdureError
    from perdure.manager.stored_jobs import newest_first

    for document in newest_first(looked.store.driver):
        try:
            facts = looked.facts(document)
            settled_at = facts.settled_at
            is_old = settled_at is not None and looked.clock.now() - from_text(settled_at) > oldest
        except (PerdureError, ValueError):
            continue  # one that cannot be read is removed by its id, or not at all
        if is_old:
            yield document


def _may_remove(
    looked: "Looked", documents: "list[JobDocument]", given: dict[str, Any], *, is_old: bool
) -> bool:
    """Whether a person wants it: unfinished jobs, and those of an age, are asked about."""
    from perdure.errors import UsageError

    if given["yes"]:
        return True
    asked = documents if is_old else [d for d in documents if not _has_ended(looked, d)]
    if not asked:
        return True
    names = ", ".join(f"{d.job} ({plain(d.name)})" for d in asked)
    if not sys.stdin.isatty() or given["as_json"]:
        what = (
            "these jobs" if is_old else "these jobs, which have not ended and lose their progress"
        )
        raise UsageError(f"to remove {what}, say --yes: {names}")
    what = "Remove" if is_old else "These have not ended and lose their progress. Remove"
    return click.confirm(f"{what} {names}?")


def _has_ended(looked: "Looked", document: "JobDocument") -> bool:
    from perdure.errors import PerdureError

    try:
        return looked.facts(document).settled is not None
    except PerdureError:
        return False


def _remove(looked: "Looked", document: "JobDocument", *, wait: bool) -> str:
    from perdure.clock import pause
    from perdure.manager.removing import remove

    remove(looked.store.driver, _removal(looked.places, document, wait=wait), looked.clock, pause)
    looked.cache.forget(looked.store.store_id, document.job)
    return document.job


def _removal(where: Places, document: "JobDocument", *, wait: bool) -> "Removal":
    from perdure.manager.removing import Removal, Rooms

    options = document.options
    return Removal(
        job=document.job,
        heartbeat_seconds=options.heartbeat_seconds,
        rooms=Rooms(
            logs=where.logs(document.job),
            sessions=None if options.preserve else where.sessions(document),
            lock=where.locks / f"{document.job}.lock",
            local_store=Path(options.local_store) if options.local_store else None,
        ),
        wait=wait,
        adopts=options.files == "adopt",
    )
