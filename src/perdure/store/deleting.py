"""Deleting: only what a record says is no longer needed, and never what a living checkpoint needs.

Rules: the prune record comes first, the data after it, by anyone who reads it; a pack is deleted
only if a prune record names it and no checkpoint that may still be restored refers to it. A job
goes by its ``job`` record first: without it, what is left over is nobody's, and is removed by
whoever comes by.

Crash behaviour: every call may be repeated; what is gone already is no error.

Source: docs/store-format.md "Deletion"; protocol "PRUNE".
"""

from collections.abc import Collection, Iterable

from msgspec import Struct

from perdure.store import layout
from perdure.store.driver import Driver
from perdure.store.layout import JobId, LaunchId, PackId
from perdure.store.manifest import Manifest
from perdure.store.packs import listed_packs, packs_of


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


def remove_job(driver: Driver, job: JobId) -> int:
    """Remove a job with all its lineages, its record first; how many objects went.

    The caller has made sure that nothing of the job runs.
    """
    driver.delete(layout.job_record(job))
    removed = 1
    for prefix in (layout.job_prefix(job), layout.lineages_prefix(job)):
        keys = list(driver.list(prefix))
        driver.delete_all(keys)
        removed += len(keys)
    return removed


def unfinished_removals(driver: Driver) -> tuple[JobId, ...]:
    """Jobs whose record is gone and whose other objects are still there.

    A job is submitted by its record first, so these are removals that were interrupted. Only what
    the store shows is judged: the caller looks again before it removes.
    """
    names = {*driver.children(layout.JOBS), *driver.children(layout.LINEAGES)}
    jobs = sorted(JobId(name) for name in names if layout.is_ulid(name))
    return tuple(job for job in jobs if driver.head(layout.job_record(job)) is None)
