"""Deleting: only what a record says is no longer needed, and never what a living checkpoint needs.

Rules: the prune record comes first, the data after it, by anyone who reads it; a pack is deleted
only if a prune record names it and no checkpoint that may still be restored refers to it. A job
that is removed says so first (``removed``), then its ``job`` record goes, then the rest: what is
left over is nobody's, and is removed by whoever comes by. Where the record is gone and nobody said
so it was lost, and the checkpoints that are still there are not ours to delete.

Crash behaviour: every call may be repeated; what is gone already is no error.

Source: docs/store-format.md "Deletion"; protocol "PRUNE".
"""

import secrets
from collections.abc import Collection, Iterable
from contextlib import suppress

from msgspec import Struct

from perdure.errors import OutOfSpace
from perdure.store import layout
from perdure.store.drivers.driver import Driver, PutUncertain
from perdure.store.layout import JobId, LaunchId, PackId
from perdure.store.manifests.manifest import Manifest
from perdure.store.packs.blocks import listed_packs, packs_of
from perdure.store.records.record_format import encode_record


class Deleted(Struct, frozen=True, kw_only=True):
    """What a deletion did.

    Attributes:
        packs: that were there and are gone.
        still_needed: that a prune record names although a living checkpoint refers to them.
    """

    packs: tuple[PackId, ...] = ()
    still_needed: tuple[PackId, ...] = ()


def packs_to_prune(
    victims: Iterable[Manifest],
    living: Iterable[Manifest],
    *,
    listed: Collection[PackId] = (),
    ended: Collection[LaunchId] = (),
) -> tuple[PackId, ...]:
    """The packs that a prune record for ``victims`` names.

    Args:
        victims: the checkpoints that go.
        living: all others that are not pruned.
        listed: packs that the store shows; those of ended launches that nobody refers to go too.
        ended: launches that have ended.
    """
    needed = packs_of(living)
    orphans = {pack for pack in listed if layout.pack_launch(pack) in ended}
    return tuple(sorted((packs_of(victims) | orphans) - needed))


def delete_pruned(
    driver: Driver, packs: str, *, pruned: Iterable[PackId], living: Iterable[Manifest]
) -> Deleted:
    """Delete the packs that prune records name.

    Args:
        driver: of the store.
        packs: the lineage's packs prefix.
        pruned: packs named by prune records that were *read* from the lineage's log.
        living: every checkpoint of the lineage that no prune record names.
    """
    needed = packs_of(living)
    named = set(pruned)
    there = [pack for pack in listed_packs(driver, packs) if pack in named]
    gone = [pack for pack in there if pack not in needed]
    driver.delete_all(layout.pack_key(packs, pack) for pack in gone)
    return Deleted(packs=tuple(gone), still_needed=tuple(sorted(named & needed)))


def remove_job(driver: Driver, job: JobId, *, at: str = "") -> int:
    """Remove a job with all its lineages; how many objects went.

    The caller has made sure that nothing of the job runs.

    Args:
        driver: of the store.
        job: which.
        at: when, for people.
    """
    begin_removal(driver, job, at=at)
    mark = layout.removal(job)
    driver.delete(layout.job_record(job))
    removed = 1
    for prefix in (layout.job_prefix(job), layout.lineages_prefix(job)):
        keys = [key for key in driver.list(prefix) if key != mark]
        driver.delete_all(keys)
        removed += len(keys)
        driver.sweep(prefix, older_than_seconds=0)
    driver.delete(mark)
    driver.sweep(layout.job_prefix(job), older_than_seconds=0)
    return removed


def begin_removal(driver: Driver, job: JobId, *, at: str = "") -> None:
    """Say that the job is being removed; on a full disk it has to go without a word."""
    key = layout.removal(job)
    record = encode_record({"kind": "removed", "id": secrets.token_hex(16), "at": at})
    with suppress(OutOfSpace, PutUncertain):
        driver.put_if_absent(key, record)


class Remains(Struct, frozen=True, kw_only=True):
    """Jobs without a record of which something is there.

    Attributes:
        removals: that were interrupted, or that nothing of worth is left of.
        lost: with records of checkpoints: the job's own was lost.
    """

    removals: tuple[JobId, ...] = ()
    lost: tuple[JobId, ...] = ()


def remains(driver: Driver) -> Remains:
    """What is left of jobs whose record is not there.

    A job is submitted by its record first. Only what the store shows is judged: the caller looks
    again before it removes.
    """
    names = {*driver.children(layout.JOBS), *driver.children(layout.LINEAGES)}
    jobs = sorted(JobId(name) for name in names if layout.is_ulid(name))
    gone = [job for job in jobs if driver.head(layout.job_record(job)) is None]
    lost = tuple(job for job in gone if _is_lost(driver, job))
    return Remains(removals=tuple(job for job in gone if job not in lost), lost=lost)


def finish_removals(driver: Driver) -> tuple[JobId, ...]:
    """Go on with removals that were killed; the jobs that are gone now."""
    jobs = remains(driver).removals
    for job in jobs:
        remove_job(driver, job)
    return jobs


def _is_lost(driver: Driver, job: JobId) -> bool:
    if driver.head(layout.removal(job)) is not None:
        return False
    return any("/log/" in key for key in driver.list(layout.lineages_prefix(job)))
