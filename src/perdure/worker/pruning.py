"""Letting go of a lineage's checkpoints: the record first, then a grace, then the data.

Whoever owns the lineage judges by the log as far as it was read and puts the record at exactly the
next number; what comes there first is read, and judged again. A prune record is the tombstone of
the packs that it names: nothing new ever rests on them. Their bytes stay for a grace, for those who
are just reading the checkpoint (`perdure checkpoint export`, another host's `verify`), and go when
somebody looks again: the owner at a later save, `perdure prune`, `perdure repair`. A full disk
waits for nobody.

Source: docs/journal-format.md, "prune"; docs/decisions/130 to 132.
"""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from msgspec import Struct, field

from perdure.clock import Clock, from_text
from perdure.policy.retention import Retention, Stock, Stored, victims, victims_when_full
from perdure.store import layout
from perdure.store.deleting import delete_pruned, packs_to_prune
from perdure.store.drivers.driver import Driver
from perdure.store.layout import LaunchId, PackId
from perdure.store.manifests.manifest import Manifest
from perdure.store.packs.blocks import listed_packs, packs_of
from perdure.store.records.job_document import Options
from perdure.store.records.lineage import Lineage, Save
from perdure.store.records.log import Entry, Log
from perdure.store.room import free_in

#: So long the data of a pruned checkpoint stays. Only readers that have just begun need it.
GRACE = timedelta(seconds=60)
#: An unnamed pack of a launch that no claim names (an import that died) is nobody's after so long.
_STRAY = timedelta(days=1)


def retention_of(options: Options) -> Retention:
    """What a job's options let go."""
    age = options.keep_age_seconds
    return Retention(
        last=options.keep_last,
        age=timedelta(seconds=age) if age is not None else None,
        size_bytes=options.keep_size_bytes,
    )


class Pruned(Struct, frozen=True, kw_only=True):
    """What a prune record named.

    Attributes:
        saves: checkpoints that are gone.
        packs: whose data may be deleted.
    """

    saves: tuple[int, ...] = ()
    packs: tuple[PackId, ...] = ()


class Pruner(Struct):
    """Prunes one lineage; its log belongs to the caller's thread.

    Attributes:
        packs: the lineage's packs prefix.
        lineage: the lineage as far as the log was read.
        manifest: of a checkpoint, by its number.
        in_flight: checkpoints that were taken and have no record yet: their packs stay.
    """

    driver: Driver
    packs: str
    log: Log
    clock: Clock
    retention: Retention
    lineage: Callable[[], Lineage]
    manifest: Callable[[int], Manifest]
    in_flight: Callable[[], Collection[Manifest]] = tuple
    _gone: set[str] = field(default_factory=set)

    def judge(self, lineage: Lineage, *, is_full: bool = False) -> tuple[int, ...]:
        """The checkpoints that retention lets go; with ``is_full`` all but what must stay."""
        stock = self._stock(lineage)
        if is_full:
            return victims_when_full(stock)
        return victims(stock, now=self.clock.now(), retention=self.retention)

    def unneeded(
        self,
        lineage: Lineage,
        gone: tuple[int, ...],
        *,
        ended: Collection[LaunchId],
        in_flight: Manifest | None = None,
    ) -> tuple[PackId, ...]:
        """The packs that nobody needs once ``gone`` are, and that no record names yet."""
        kept = (*self.in_flight(), *(() if in_flight is None else (in_flight,)))
        packs = packs_to_prune(
            [self.manifest(number) for number in gone],
            [*self._living(lineage, gone), *kept],
            listed=listed_packs(self.driver, self.packs),
            ended=ended,
        )
        return tuple(pack for pack in packs if pack not in lineage.pruned_at)

    def record(
        self,
        claim: int,
        *,
        ended: Collection[LaunchId],
        is_full: bool = False,
        in_flight: Manifest | None = None,
        strays_too: bool = False,
    ) -> Pruned:
        """Put the prune record as the owner by ``claim``; what it names, nothing if none was put.

        Args:
            claim: the number of the owner's claim.
            ended: launches that add nothing more to the lineage.
            is_full: the disk is: let go of all but what must stay.
            in_flight: a checkpoint that is captured and not yet put: its packs stay.
            strays_too: also put a record that names only packs which nobody ever named.
        """
        while True:
            lineage = self.lineage()
            if lineage.owner is None or lineage.owner.number != claim:
                return Pruned()
            gone = self.judge(lineage, is_full=is_full)
            if not gone and not strays_too:
                return Pruned()
            packs = self.unneeded(lineage, gone, ended=ended, in_flight=in_flight)
            if not gone and not packs:
                return Pruned()
            record = {"kind": "prune", "claim": claim, "saves": list(gone), "packs": list(packs)}
            if isinstance(self.log.append(record), Entry):
                return Pruned(saves=gone, packs=packs)

    def due(self, lineage: Lineage, *, grace: timedelta) -> frozenset[PackId]:
        """Packs that a record named at least ``grace`` ago, as far as they may still be there."""
        now = self.clock.now()
        return frozenset(
            PackId(pack)
            for pack, at in lineage.pruned_at.items()
            if pack not in self._gone and abs(now - moment(at)) >= grace
        )

    def collect(self, *, grace: timedelta = GRACE) -> tuple[PackId, ...]:
        """Delete the packs whose grace is over, looking at the log again; which were there."""
        if not self.due(self.lineage(), grace=grace):
            return ()
        self.log.read()
        lineage = self.lineage()
        due = self.due(lineage, grace=grace)
        deleted = delete_pruned(self.driver, self.packs, pruned=due, living=self.living())
        self._gone |= due - set(deleted.still_needed)
        return deleted.packs

    def _stock(self, lineage: Lineage) -> Stock:
        there = [save for save in lineage.saves if not save.is_pruned]
        packs: dict[int, frozenset[PackId]] = {}
        if self.retention.size_bytes is not None:
            packs = {save.number: packs_of([self.manifest(save.number)]) for save in there}
        return Stock(
            checkpoints=tuple(_stored(save, packs.get(save.number)) for save in there),
            point=lineage.point,
            bases=_bases(lineage),
            left=lineage.branches[-1].left if lineage.branches else None,
            free_bytes=free_in(self.driver),
            pack_bytes={
                pack: self.driver.head(layout.pack_key(self.packs, pack)) or 0
                for pack in frozenset().union(*packs.values())
            },
        )

    def living(self) -> list[Manifest]:
        """Every checkpoint that is not pruned, and those that have no record yet."""
        return [*self._living(self.lineage(), ()), *self.in_flight()]

    def _living(self, lineage: Lineage, gone: tuple[int, ...]) -> list[Manifest]:
        return [
            self.manifest(save.number)
            for save in lineage.saves
            if not save.is_pruned and save.number not in gone
        ]


def _bases(lineage: Lineage) -> frozenset[int]:
    """What the newest claim and the newest branch go on from."""
    claims = [claim.base for claim in lineage.claims[-1:]]
    branches = [branch.base for branch in lineage.branches[-1:]]
    return frozenset(base for base in (*claims, *branches) if base is not None)


def ended_launches(lineage: Lineage, *, but: LaunchId | None = None) -> frozenset[LaunchId]:
    """All launches that ever held the lineage, but for one's own: a claim came after their end."""
    return frozenset(claim.launch for claim in lineage.claims) - {but}


def stray_launches(
    packs: Collection[PackId], lineage: Lineage, now: datetime
) -> frozenset[LaunchId]:
    """Writers of packs that no claim names, and that began long ago: imports that died."""
    known = {claim.launch for claim in lineage.claims}
    launches = {layout.pack_launch(pack) for pack in packs} - known
    return frozenset(one for one in launches if now - layout.began_at(one) >= _STRAY)


def moment(text: str) -> datetime:
    """When a record was written; long ago where that cannot be read."""
    try:
        return from_text(text)
    except ValueError:
        return from_text("1970-01-01T00:00:00Z")


def _stored(save: Save, packs: Collection[PackId] | None) -> Stored:
    header = save.header
    return Stored(
        sequence=save.number,
        committed_at=moment(str(header.get("at", ""))),
        size_bytes=int(header.get("size", 0)),
        new_bytes=int(header.get("new", 0)),
        is_void=save.is_void,
        is_pinned=save.is_pinned,
        packs=frozenset(packs or ()),
    )
