"""Pruning by command: lineages that no worker holds, and what earlier prunes have left.

A worker prunes its own lineage after each save. This is for all others: a housekeeping claim ends
the right of whoever held the lineage, then the prune record says what goes, then, when its grace is
over, the data goes. Killed anywhere in between it leaves what the next one, or a worker, goes on
with.

Source: docs/journal-format.md, "prune"; docs/decisions/131, 132.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta

from msgspec import Struct, field
from ulid import ULID

from perdure.clock import Clock
from perdure.journal.heartbeat import Stillness
from perdure.manager.job_view import JobView
from perdure.manager.lineages import StoredLineage
from perdure.policy.retention import Retention
from perdure.store import layout
from perdure.store.drivers.driver import Driver
from perdure.store.layout import JobId, LaunchId, PackId, StepKey, TaskKey
from perdure.store.manifests.manifest import Manifest
from perdure.store.manifests.manifest_reading import decode_manifest
from perdure.store.packs.blocks import listed_packs
from perdure.store.records.lineage import Lineage, fold_lineage
from perdure.store.records.log import Log
from perdure.worker.claiming import Busy, Claimant, Housekeeping, Identity
from perdure.worker.host import is_gone
from perdure.worker.job_records import LineageId
from perdure.worker.pruning import GRACE, Pruner, ended_launches, stray_launches

_LOOK_SECONDS = 0.5
_LEAST_LOOK_SECONDS = 0.05


class PruneOrder(Struct, frozen=True, kw_only=True):
    """What to do.

    Attributes:
        retention: which checkpoints are kept.
        grace: how long the data of what is pruned stays.
        is_dry: change nothing, only tell.
        wait: called with seconds while somebody holds a lineage, until it has ended or stood still
            for three intervals; None: what is held is left alone.
    """

    retention: Retention
    grace: timedelta = GRACE
    is_dry: bool = False
    wait: Callable[[float], None] | None = None


class LineagePruned(Struct, frozen=True, kw_only=True):
    """What was done to a lineage, or would be.

    Attributes:
        checkpoints: that are gone.
        freed_bytes: of packs that were deleted.
        waiting_bytes: of packs whose grace is not over.
        held_by: the launch that holds it: it prunes by itself, after each save.
    """

    checkpoints: tuple[int, ...] = ()
    freed_bytes: int = 0
    waiting_bytes: int = 0
    held_by: LaunchId | None = None


class Manifests(Struct):
    """The checkpoints of one lineage, read once."""

    log: Log
    name: str
    known: dict[int, Manifest] = field(default_factory=dict)

    def __call__(self, number: int) -> Manifest:
        """The description of that checkpoint."""
        if number not in self.known:
            record = self.log.fetch(number)
            self.known[number] = decode_manifest(
                record.header, record.payload, name=f"{self.name}@{number}"
            )
        return self.known[number]


class LineagePruner:
    """Prunes the lineages of one job; one object belongs to one thread.

    Args:
        view: the job, read.
        order: what to do.
        clock: for ages and graces.
    """

    def __init__(self, view: JobView, order: PruneOrder, clock: Clock) -> None:
        self._view = view
        self._order = order
        self._clock = clock
        options = view.document.options
        self._claimant = Claimant(
            view.records,
            Identity(launch=LaunchId(str(ULID()).lower()), token=""),
            stillness=Stillness(clock, options.heartbeat_seconds),
            is_gone=is_gone,
            is_stopped=lambda _step, _task: False,
        )

    def prune(self, stored: StoredLineage) -> LineagePruned:
        """Prune one lineage, if nobody holds it; delete what earlier prunes left.

        Raises:
            PerdureError: a checkpoint that has to be looked at cannot be read, or the store does
                not take the records.
        """
        if self._order.is_dry:
            return self._told(stored)
        held = self._claimant.keep_house(stored.ref, stored.step, self._is_wanted(stored))
        while isinstance(held, Busy) and self._order.wait is not None:
            self._order.wait(min(max(held.seconds, _LEAST_LOOK_SECONDS), _LOOK_SECONDS))
            held = self._claimant.keep_house(stored.ref, stored.step, self._is_wanted(stored))
        if not isinstance(held, Housekeeping):
            pruner = self._pruner(stored, stored.log)
            busy = held.launch if isinstance(held, Busy) else None
            return self._collected(stored, pruner, (), held_by=busy)
        pruner = self._pruner(stored, held.log)
        lineage = pruner.lineage()
        ended = self._ended(stored, lineage)
        pruned = pruner.record(held.claim, ended=ended, strays_too=True)
        return self._collected(stored, pruner, pruned.saves)

    def _is_wanted(self, stored: StoredLineage) -> Callable[[Lineage, Log], bool]:
        def is_wanted(lineage: Lineage, log: Log) -> bool:
            pruner = self._pruner(stored, log)
            gone = pruner.judge(lineage)
            return bool(gone or pruner.unneeded(lineage, gone, ended=self._ended(stored, lineage)))

        return is_wanted

    def _ended(self, stored: StoredLineage, lineage: Lineage) -> frozenset[LaunchId]:
        packs = listed_packs(self._view.records.driver, stored.packs)
        return ended_launches(lineage) | stray_launches(packs, lineage, self._clock.now())

    def _pruner(self, stored: StoredLineage, log: Log) -> Pruner:
        records = self._view.records

        def lineage() -> Lineage:
            return records.fold(log, share=records.share_of(stored.step, stored.ref))

        return Pruner(
            driver=records.driver,
            packs=stored.packs,
            log=log,
            clock=self._clock,
            retention=self._order.retention,
            lineage=lineage,
            manifest=Manifests(log, stored.label),
        )

    def _collected(
        self,
        stored: StoredLineage,
        pruner: Pruner,
        saves: tuple[int, ...],
        *,
        held_by: LaunchId | None = None,
    ) -> LineagePruned:
        driver = self._view.records.driver
        named = pack_sizes(driver, stored.packs, pruner.due(pruner.lineage(), grace=timedelta()))
        gone = pruner.collect(grace=self._order.grace)
        freed = sum(named.pop(pack, 0) for pack in gone)
        return LineagePruned(
            checkpoints=saves,
            freed_bytes=freed,
            waiting_bytes=sum(named.values()),
            held_by=held_by,
        )

    def _told(self, stored: StoredLineage) -> LineagePruned:
        """What would be done, as far as the logs were read; nothing is written."""
        driver = self._view.records.driver
        pruner, lineage = self._pruner(stored, stored.log), stored.lineage
        gone = pruner.judge(lineage)
        due = pruner.due(lineage, grace=self._order.grace)
        named = pruner.due(lineage, grace=timedelta())
        packs = pruner.unneeded(lineage, gone, ended=self._ended(stored, lineage))
        holder = self._holder(stored)
        if holder is not None:
            gone, packs = (), ()
        is_now = self._order.grace <= timedelta()
        return LineagePruned(
            checkpoints=gone,
            freed_bytes=_sum(driver, stored.packs, due | set(packs if is_now else ())),
            waiting_bytes=_sum(driver, stored.packs, (named - due) | set(() if is_now else packs)),
            held_by=holder,
        )

    def _holder(self, stored: StoredLineage) -> LaunchId | None:
        """The launch that has not ended, as far as it can be told without writing."""
        records = self._view.records
        lineage_id = LineageId(step=stored.step, task=stored.task)
        for past in records.past_claims(lineage_id, stored.lineage.claims):
            opened = records.account(past.claim.launch).opened
            if not past.is_ended and not (opened is not None and is_gone(opened)):
                return past.claim.launch
        return None


def collect_leftovers(
    driver: Driver, job: JobId, clock: Clock, pause: Callable[[int], None]
) -> int:
    """Delete the data that the job's prune records name and whose grace is over; how many packs.

    Needs no claim: whoever reads the record may do it. Only what is listed is looked at.
    """
    return sum(
        len(_leftovers(driver, job, step, task, clock, pause).collect())
        for step, task in lineages_of(driver, job)
        if driver.children(layout.packs(job, step, task))
    )


def _leftovers(
    driver: Driver,
    job: JobId,
    step: StepKey,
    task: TaskKey,
    clock: Clock,
    pause: Callable[[int], None],
) -> Pruner:
    log = Log(driver, layout.lineage_log(job, step, task), clock=clock, pause=pause)
    log.read()
    return Pruner(
        driver=driver,
        packs=layout.packs(job, step, task),
        log=log,
        clock=clock,
        retention=Retention(),
        # Who holds it does not matter: all that is not pruned is living.
        lineage=lambda: fold_lineage(log.entries, share=None),
        manifest=Manifests(log, task),
    )


def lineages_of(driver: Driver, job: JobId) -> Iterator[tuple[StepKey, TaskKey]]:
    """The lineages that the store shows."""
    prefix = layout.lineages_prefix(job)
    for step in driver.children(prefix):
        if not (len(step) == 4 and step.isascii() and step.isdigit()):
            continue
        for task in driver.children(f"{prefix}/{step}"):
            if layout.is_task_key(task):
                yield StepKey(int(step)), TaskKey(task)


def _sum(driver: Driver, prefix: str, packs: Iterable[PackId]) -> int:
    return sum(pack_sizes(driver, prefix, packs).values())


def pack_sizes(driver: Driver, prefix: str, packs: Iterable[PackId]) -> dict[PackId, int]:
    """The sizes of those packs that are there."""
    there = set(listed_packs(driver, prefix)) & set(packs)
    return {pack: driver.head(layout.pack_key(prefix, pack)) or 0 for pack in there}
