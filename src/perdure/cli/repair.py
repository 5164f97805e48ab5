"""``perdure repair``: what dead processes left is finished, and what is damaged set aside."""

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from perdure.cli.places import json_option, places, where_options
from perdure.cli.tables import plain

if TYPE_CHECKING:
    from perdure.cli.looking import Looked
    from perdure.store.layout import JobId

_DAMAGED_EXIT = 8
#: Temporary names that were left so long ago are nobody's any more.
_LEFT_SECONDS = 3600.0


@click.command()
@json_option
@where_options
def repair(**given: Any) -> int:
    """Rebuild the cache, finish removals and prunes, and set damaged objects aside.

    Exits with 8 if something is damaged that could not be mended.
    """
    from perdure.cli.looking import look_into
    from perdure.manager.stored_jobs import all_job_ids
    from perdure.store.deleting import finish_removals

    looked = look_into(places(given["home"], given["store"]), write=True)
    had_cache = looked.cache.drop()
    finished = finish_removals(looked.store.driver)
    jobs = all_job_ids(looked.store.driver)
    swept = _sweep(looked, jobs)
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


def _sweep(looked: "Looked", jobs: "Sequence[JobId]") -> int:
    """What dead writers left; a job of which something may run is left alone.

    A living writer may touch its file as rarely as its task saves.
    """
    from perdure.clock import pause
    from perdure.manager.removing import is_busy
    from perdure.store import layout

    driver, clock = looked.store.driver, looked.clock
    busy = [job for job in jobs if is_busy(driver, job, clock, pause)]
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
    from perdure.cli.keys import sealing_of_job
    from perdure.errors import PerdureError
    from perdure.manager.checking import Checked, Depth, check_job
    from perdure.manager.repairing import repair as repair_findings

    driver, clock = looked.store.driver, looked.clock
    folder = looked.places.home / "damaged" / looked.store.store_id
    try:
        depth = Depth(sealing=sealing_of_job(driver, job))
        findings = list(check_job(driver, job, Checked(), depth))
        if any(finding.kind in ("record", "missing") for finding in findings):
            _refuse_busy(looked, job)
        lost = partial(_lost_share, looked, job)
        done = repair_findings(driver, findings, folder, clock, lost)
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


def _lost_share(looked: "Looked", job: "JobId", key: str) -> dict[str, Any] | None:
    """What a share that is lost must have said; None, where the job's record is lost, too."""
    from perdure.clock import pause
    from perdure.errors import PerdureError
    from perdure.manager.lost_shares import lost_share
    from perdure.manager.stored_jobs import read_job

    with suppress(PerdureError):
        document = read_job(looked.store, job)
        return lost_share(looked.store.driver, document, key, looked.clock, pause)
    return None


def _refuse_busy(looked: "Looked", job: "JobId") -> None:
    """A job that runs is not repaired under its feet.

    Raises:
        HomeBusy: something of it may run.
    """
    from perdure.clock import pause
    from perdure.manager.removing import refuse_busy

    refuse_busy(looked.store.driver, job, looked.clock, pause)
