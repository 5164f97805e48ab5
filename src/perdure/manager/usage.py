"""What of a job's space is not plain from a listing: what is pruned and waits, what is adopted.

Both follow from the logs of its lineages and their checkpoints' descriptions, which are read; what
cannot be read counts as nothing (`perdure verify` says what is wrong with it).

Source: docs/decisions/132 (the minute); `perdure.store.files.adopting`.
"""

from collections.abc import Callable

from msgspec import Struct

from perdure.clock import Clock
from perdure.errors import PerdureError
from perdure.manager.pruning import Manifests, lineages_of, pack_sizes
from perdure.store import layout
from perdure.store.drivers.driver import Driver
from perdure.store.files.adopting import adopted
from perdure.store.layout import JobId, PackId
from perdure.store.records.lineage import Lineage, fold_lineage
from perdure.store.records.log import Log


class Usage(Struct, frozen=True, kw_only=True):
    """Parts of a job's space.

    Attributes:
        waiting_bytes: of pruned checkpoints, in the store until a later prune deletes them.
        adopted_bytes: of files that checkpoints name where the program wrote them, each version
            once; they are not in the store.
    """

    waiting_bytes: int = 0
    adopted_bytes: int = 0


def usage(
    driver: Driver, job: JobId, *, adopts: bool, clock: Clock, pause: Callable[[int], None]
) -> Usage:
    """What the job's lineages say about its space; only with ``adopts`` files outside count."""
    waiting = adopted_bytes = 0
    for step, task in lineages_of(driver, job):
        log = Log(driver, layout.lineage_log(job, step, task), clock=clock, pause=pause)
        try:
            log.read()
            lineage = fold_lineage(log.entries, share=None)
            packs = [PackId(pack) for pack in lineage.pruned_at]
            if packs:
                waiting += sum(pack_sizes(driver, layout.packs(job, step, task), packs).values())
            if adopts:
                adopted_bytes += _adopted_bytes(log, lineage, task)
        except PerdureError:
            continue
    return Usage(waiting_bytes=waiting, adopted_bytes=adopted_bytes)


def _adopted_bytes(log: Log, lineage: Lineage, name: str) -> int:
    """The sizes of the versions that checkpoints hold, each once."""
    manifest = Manifests(log, name)
    found: dict[tuple[str, int, int], int] = {}
    for save in lineage.saves:
        if save.is_pruned:
            continue
        described = manifest(save.number)
        for entry in adopted(described):
            found[described.shown_path(entry), entry.size, entry.mtime_ns] = entry.size
    return sum(found.values())
