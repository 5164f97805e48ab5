"""``perdure rm``, ``du``, ``verify`` and ``repair``: the store and the home, kept in order."""

import json
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from perdure.cli.places import Places, places, where_options
from perdure.cli.pointing import pointed
from perdure.cli.tables import console, plain, show_table
from perdure.sizes import size_text as size

if TYPE_CHECKING:
    from datetime import timedelta

    from perdure.cli.looking import Looked
    from perdure.manager.checking import Checked, Finding
    from perdure.manager.removing import Removal
    from perdure.policy.sampling import Subset
    from perdure.store.layout import JobId
    from perdure.store.packs.sealing import Sealing
    from perdure.store.records.job_document import JobDocument

_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_DAMAGED_EXIT = 8
#: Temporary names that were left so long ago are nobody's any more.
_LEFT_SECONDS = 3600.0


@click.command()
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@click.option("--older", metavar="AGE", help="Jobs that ended so long ago: 30d, 12h.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--wait", is_flag=True, help="Wait until what runs of them has ended.")
@_JSON
@where_options
def rm(**given: Any) -> int:
    """Remove jobs with their checkpoints and logs; what runs is never removed.

    With --older only jobs that have ended (succeeded, failed, canceled) are meant.
    """
    from perdure.cli.job_options import age
    from perdure.cli.looking import look_into
    from perdure.errors import UsageError

    if bool(given["jobs"]) == (given["older"] is not None):
        raise UsageError("name jobs, or give --older AGE", hint="perdure rm JOB…, or --older 30d")
    oldest = age(given["older"]) if given["older"] is not None else None
    looked = look_into(places(given["home"], given["store"]), write=True)
    if oldest is None:
        documents = _named_jobs(looked, given["jobs"])
    else:
        documents = list(_ended_before(looked, oldest))
    if not _may_remove(looked, documents, given, is_old=oldest is not None):
        return 1
    removed = [_remove(looked, document, wait=given["wait"]) for document in documents]
    _finish_removals(looked)
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


def _finish_removals(looked: "Looked") -> list[str]:
    """Removals that were killed on their way."""
    from perdure.store.deleting import remains, remove_job

    jobs = remains(looked.store.driver).removals
    for job in jobs:
        remove_job(looked.store.driver, job)
    return list(jobs)


@click.command()
@click.argument("job", required=False)
@_JSON
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


@click.command()
@click.argument("job", required=False)
@click.option(
    "--read-data-subset",
    "subset",
    metavar="N%|SIZE",
    help="All records, and of the checkpoints' blocks a random part: 10%, 5G.",
)
@click.option("--seed", type=click.IntRange(min=0), help="Of the random part: reads it once more.")
@_JSON
@where_options
def verify(**given: Any) -> int:
    """Read everything of all jobs, or of JOB, back and check it; exit with 8 if it is damaged."""
    from perdure.cli.looking import look_into
    from perdure.manager.checking import Checked, Depth, check_job

    subset = _subset(given["subset"], given["seed"])
    looked = look_into(places(given["home"], given["store"]))
    checked = Checked()
    jobs = _jobs_meant(looked, given["job"])
    part = None if subset is None else _part(looked, jobs, subset)
    findings = [
        finding
        for job in jobs
        for finding in check_job(
            looked.store.driver, job, checked, Depth(subset=part, sealing=_sealing(looked, job))
        )
    ]
    if given["as_json"]:
        seed = subset.seed if subset is not None else None
        described = {**to_builtins(checked), "subset": given["subset"], "seed": seed}
        print(json.dumps({**described, "damaged": to_builtins(findings)}))
    else:
        _show_checked(checked, subset, findings)
    return _DAMAGED_EXIT if findings else 0


def _sealing(looked: "Looked", job: "JobId") -> "Sealing":
    """How the job's blocks are encrypted; nothing, where the job or its key cannot be read."""
    from perdure.cli.keys import sealing_of
    from perdure.errors import PerdureError
    from perdure.manager.stored_jobs import stored_job
    from perdure.store.packs.sealing import PLAIN

    try:
        document = stored_job(looked.store.driver, job)
        return PLAIN if document is None else sealing_of(document)
    except PerdureError:
        return PLAIN


def _show_checked(
    checked: "Checked", subset: "Subset | None", findings: "Sequence[Finding]"
) -> None:
    read = "" if subset is None else f"{size(checked.read_bytes)} of the blocks of "
    print(
        f"Read {checked.records} records, {checked.journals} journals and"
        f" {read}{checked.checkpoints} checkpoints of {size(checked.size_bytes)}."
    )
    if checked.recorded_bytes:
        print(
            f"{size(checked.recorded_bytes)} of them are not in the store and were not read: they"
            " are only recorded (--files shared)."
        )
    if subset is not None:
        print(f"The same part is read again with --seed {subset.seed}.")
    if checked.locked:
        print(
            f"The bytes of {checked.locked} checkpoints were not read: they are encrypted with a"
            " key that is not here (PERDURE_KEY_FILE)."
        )
    for finding in findings:
        print(f"  {finding.key}: {plain(finding.reason)}")
    if findings:
        print(pointed("Run: perdure repair"))
    elif checked.locked:
        print("All that was read is what was written.")
    else:
        print(f"All of {'it' if subset is None else 'that part'} is what was written.")


def _subset(text: str | None, seed: int | None) -> "Subset | None":
    """``10%`` or ``5G``, with a seed that is drawn where none was given."""
    from perdure.cli.job_options import size_bytes
    from perdure.errors import UsageError
    from perdure.policy.sampling import Subset

    if text is None:
        if seed is not None:
            raise UsageError("--seed needs --read-data-subset")
        return None
    chosen = secrets.randbits(32) if seed is None else seed
    if not text.endswith("%"):
        return Subset(size_bytes=size_bytes(text), seed=chosen)
    try:
        part = float(text.removesuffix("%")) / 100
    except ValueError:
        part = 0.0
    if not 0 < part <= 1:
        raise UsageError(f"{text!r} is no part of a whole", hint="Write it like 10%, or like 5G.")
    return Subset(part=part, seed=chosen)


def _part(looked: "Looked", jobs: "Sequence[JobId]", subset: "Subset") -> "Subset":
    """The subset as a part of what is stored."""
    from perdure.manager.checking import stored_bytes

    if subset.part is not None:
        return subset
    return subset.of(sum(stored_bytes(looked.store.driver, job) for job in jobs))


def _jobs_meant(looked: "Looked", name: str | None) -> "tuple[JobId, ...]":
    """The job that is named; without a name all, also those whose record cannot be read."""
    from perdure.store.layout import JobId, is_ulid

    if name is None:
        return _all_jobs(looked)
    if is_ulid(name) and JobId(name) in _all_jobs(looked):
        return (JobId(name),)
    return (looked.job(name).job,)


def _all_jobs(looked: "Looked") -> "tuple[JobId, ...]":
    """All jobs, also those of which the record alone was lost."""
    from perdure.manager.stored_jobs import job_ids
    from perdure.store.deleting import remains

    return (*job_ids(looked.store.driver), *remains(looked.store.driver).lost)


@click.command()
@_JSON
@where_options
def repair(**given: Any) -> int:
    """Rebuild the cache, finish removals and prunes, and set damaged objects aside.

    Exits with 8 if something is damaged that could not be mended.
    """
    from perdure.cli.looking import look_into

    looked = look_into(places(given["home"], given["store"]), write=True)
    had_cache = looked.cache.drop()
    finished = _finish_removals(looked)
    swept = _sweep(looked)
    jobs = _all_jobs(looked)
    collected = sum(_collect(looked, job) for job in jobs)
    rows = [row for job in jobs for row in _repair_job(looked, job)]
    left = [row for row in rows if not row["mended"]]
    if given["as_json"]:
        described = {"cache_rebuilt": had_cache, "removals_finished": finished}
        described |= {"temporary_removed": swept, "packs_removed": collected, "damaged": rows}
        print(json.dumps(described))
        return _DAMAGED_EXIT if left else 0
    print("The cache is made anew when it is needed." if had_cache else "There was no cache.")
    for job in finished:
        print(f"The removal of {job} is finished.")
    if swept:
        print(f"{swept} files of writers that died were removed.")
    if collected:
        print(f"{collected} packs of pruned checkpoints were removed.")
    for row in rows:
        print(f"  {row['key']}: {plain(row['reason'])}")
        print(f"    {row['advice']}" + (f": {row['aside']}" if row["aside"] else ""))
    print(f"{len(rows)} objects are damaged." if rows else "Nothing is damaged.")
    return _DAMAGED_EXIT if left else 0


def _sweep(looked: "Looked") -> int:
    """What dead writers left; a job of which something may run is left alone.

    A living writer may touch its file as rarely as its task saves.
    """
    from perdure.clock import pause
    from perdure.manager.removing import is_busy
    from perdure.store import layout

    driver, clock = looked.store.driver, looked.clock
    busy = [job for job in _all_jobs(looked) if is_busy(driver, job, clock, pause)]
    prefixes = [f(job) for job in busy for f in (layout.job_prefix, layout.lineages_prefix)]
    return driver.sweep("", older_than_seconds=_LEFT_SECONDS, skip=frozenset(prefixes))


def _collect(looked: "Looked", job: "JobId") -> int:
    """What the job's prunes have left; one that cannot be read is told by `_repair_job`."""
    from perdure.clock import pause
    from perdure.errors import PerdureError
    from perdure.manager.pruning import collect_leftovers

    try:
        return collect_leftovers(looked.store.driver, job, looked.clock, pause)
    except PerdureError:
        return 0


def _repair_job(looked: "Looked", job: "JobId") -> list[dict[str, Any]]:
    """Repair one job; one that is at work, or of a later format, is told and left alone."""
    from perdure.errors import PerdureError
    from perdure.manager.checking import Checked, Depth, check_job
    from perdure.manager.repairing import repair as repair_findings

    driver, clock = looked.store.driver, looked.clock
    folder = looked.places.home / "damaged" / looked.store.store_id
    try:
        depth = Depth(sealing=_sealing(looked, job))
        findings = list(check_job(driver, job, Checked(), depth))
        if any(finding.kind in ("record", "missing") for finding in findings):
            _refuse_busy(looked, job)
        done = repair_findings(driver, findings, folder, clock)
        return [
            {
                **to_builtins(one.finding),
                "aside": str(one.aside) if one.aside is not None else None,
                "mended": one.is_mended,
                "advice": one.advice,
            }
            for one in done
        ]
    except PerdureError as error:
        reason = {"key": f"jobs/{job}", "kind": error.kind, "reason": error.message}
        return [{**reason, "aside": None, "mended": False, "advice": error.hint}]


def _refuse_busy(looked: "Looked", job: "JobId") -> None:
    """A job that runs is not repaired under its feet.

    Raises:
        HomeBusy: something of it may run.
    """
    from perdure.clock import pause
    from perdure.manager.removing import refuse_busy

    refuse_busy(looked.store.driver, job, looked.clock, pause)
