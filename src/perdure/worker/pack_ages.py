"""How old packs are, for disks from which files are purged that nobody used for long.

Such purges look at the files' own times; touching files is forbidden at most sites, using them is
not. So nothing new rests on packs beyond an age (``--max-pack-age``): the next save writes their
blocks once more, and retention lets the old packs go.

A pack's age is that of its file where the store is a folder. Elsewhere, and for packs that this
attempt wrote itself, it is counted from when the pack was first named, or, of other attempts, from
when their launch began: that may be too long ago, never too short.

Source: docs/decisions/134.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from msgspec import Struct, field

from perdure.clock import Clock
from perdure.store import layout
from perdure.store.drivers.driver import Driver
from perdure.store.layout import LaunchId, PackId
from perdure.store.records.job_document import Options


class PackAges(Struct):
    """The ages of one lineage's packs.

    Attributes:
        packs: the lineage's packs prefix.
    """

    driver: Driver
    packs: str
    clock: Clock
    _named_at: dict[PackId, datetime] = field(default_factory=dict)

    def note(self, packs: Iterable[PackId], launch: LaunchId) -> None:
        """A checkpoint of this attempt was committed: those of its launch are at most that old."""
        now = self.clock.now()
        for pack in packs:
            if layout.pack_launch(pack) == launch:
                self._named_at.setdefault(pack, now)

    def older_than(self, age: timedelta, packs: Iterable[PackId]) -> frozenset[PackId]:
        """Those of ``packs`` that were written longer ago."""
        now = self.clock.now()
        return frozenset(pack for pack in packs if now - self._written_at(pack) > age)

    def _written_at(self, pack: PackId) -> datetime:
        path = self.driver.local_path(layout.pack_key(self.packs, pack))
        if path is not None:
            with suppress(OSError):
                return datetime.fromtimestamp(path.stat().st_mtime, tz=UTC)
        return self._named_at.get(pack) or layout.began_at(layout.pack_launch(pack))


def max_pack_age_of(options: Options) -> timedelta | None:
    """The bound that a job's options give."""
    seconds = options.max_pack_age_seconds
    return timedelta(seconds=seconds) if seconds is not None else None
