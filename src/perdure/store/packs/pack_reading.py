"""Reading many blocks at once: in the order in which they lie, several at a time, each checked.

Theory of operation. Blocks are wanted by a restore in the order of files; they are read in the
order of packs, so that neighbours come in one piece: thousands of small files are a few reads, on
object storage a few requests. Several threads read, decompress and check side by side.

Memory: one block and a few pages for each thread; as much again where blocks are compressed.

Source: docs/store-format.md "Packs".
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from perdure.errors import StoreDamaged
from perdure.store.drivers.buffers import PAGE_BYTES, aligned_buffer, up_to_page
from perdure.store.drivers.driver import Driver, KeyMissing
from perdure.store.layout import PackId, pack_key
from perdure.store.packs.block_threads import BUFFER_BYTES, THREADS, BlockThreads
from perdure.store.packs.blocks import Damaged, StoredBlock, opened
from perdure.store.packs.sealing import PLAIN, Sealing

_T = TypeVar("_T")
_T_contra = TypeVar("_T_contra", contravariant=True)
#: Blocks that lie no farther apart are read in one piece.
_GAP_BYTES = 64 << 10
#: The most that is read in one piece; of a near store, where two processes share runs, less: the
#: last ones should end at one time.
_RANGE_BYTES = BUFFER_BYTES - 2 * PAGE_BYTES
_NEAR_RANGE_BYTES = 1 << 20
#: A far store is asked for so many at once: each of them has 4 MiB of memory, twice.
_MOST_THREADS = 8


class RunReader(Protocol[_T_contra]):
    """Takes the blocks of a whole range at once."""

    def buffer(self) -> memoryview:
        """Where it is read into, a block and two pages long; until `take` returns it is its own."""
        ...

    def take(
        self, wanted: Sequence[tuple[StoredBlock, _T_contra]], run: memoryview, start: int
    ) -> None:
        """The blocks, and the bytes of their pack from ``start``, not checked."""
        ...


class _Range(Struct, Generic[_T]):
    """Neighbours in one pack."""

    pack: PackId
    start: int
    end: int
    wanted: list[tuple[StoredBlock, _T]]


class PackReader:
    """Reads blocks of one lineage.

    Args:
        driver: of the store.
        packs: the lineage's packs prefix.
        sealing: how its blocks are encrypted.
    """

    def __init__(self, driver: Driver, packs: str, sealing: Sealing = PLAIN) -> None:
        self._driver = driver
        self._packs = packs
        self._sealing = sealing

    @property
    def reads_runs(self) -> bool:
        """Whether neighbouring small blocks are read one run after the other: of a near store."""
        return self._driver.gets_at_once == 1

    def read(
        self,
        wanted: Iterable[tuple[StoredBlock, _T]],
        use: Callable[[_T, memoryview | Damaged], None],
        runs: RunReader[_T] | None = None,
    ) -> None:
        """Give each wanted block's bytes to ``use``, with what it is wanted for; blocks.

        Args:
            wanted: in any order; blocks of zeros have no bytes to read.
            use: is called by several threads; the bytes are its own until it returns.
            runs: gets many small blocks that lie side by side in their place, of a near store.

        Raises:
            BaseException: the first that ``use`` or the store raised.
        """
        most_bytes = _NEAR_RANGE_BYTES if self.reads_runs else _RANGE_BYTES
        ranges = list(_ranges(wanted, most_bytes))
        if self.reads_runs:
            # What comes of many small blocks is Python's work: two threads of it hinder each other.
            small = [one for one in ranges if len(one.wanted) > 1]
            ranges = [one for one in ranges if len(one.wanted) == 1]
            self._read_small(small, use, runs)
        if not ranges:
            return
        most = max(THREADS, min(self._driver.gets_at_once, _MOST_THREADS))
        threads = BlockThreads(min(most, max(len(ranges), 1)))
        threads.run(iter(ranges), lambda one, buffer: self._read(one, buffer, use))

    def _read_small(
        self,
        small: list[_Range[_T]],
        use: Callable[[_T, memoryview | Damaged], None],
        runs: RunReader[_T] | None,
    ) -> None:
        if runs is not None:
            for one in small:
                self._read(one, runs.buffer(), use, runs)
        elif small:
            buffer = aligned_buffer(BUFFER_BYTES)
            for one in small:
                self._read(one, buffer, use)

    def _read(
        self,
        one: _Range[_T],
        buffer: memoryview,
        use: Callable[[_T, memoryview | Damaged], None],
        runs: RunReader[_T] | None = None,
    ) -> None:
        first = one.start - one.start % PAGE_BYTES
        length = up_to_page(one.end - first)
        if length > buffer.nbytes:  # no writer of ours lays blocks like that
            buffer = memoryview(bytearray(length))
        try:
            got = self._driver.get_into(pack_key(self._packs, one.pack), first, buffer[:length])
        except KeyMissing:
            self._damaged(one, use, f"the pack {one.pack} is not there")
            return
        except StoreDamaged as error:  # a bad sector: the checkpoint is as lost as by a flipped bit
            self._damaged(one, use, f"the pack {one.pack} cannot be read: {error.message}")
            return
        if runs is not None and got >= one.end - first and length <= BUFFER_BYTES:
            runs.take(one.wanted, buffer, first)
            return
        for block, purpose in one.wanted:
            start = block.offset - first
            stored = buffer[start : min(start + block.stored, got)]
            use(purpose, opened(block, stored, self._sealing))

    def _damaged(
        self, one: _Range[_T], use: Callable[[_T, memoryview | Damaged], None], reason: str
    ) -> None:
        for _block, purpose in one.wanted:
            use(purpose, Damaged(reason))


def _ranges(wanted: Iterable[tuple[StoredBlock, _T]], most_bytes: int) -> Iterator[_Range[_T]]:
    """The wanted blocks, neighbours together."""
    there = [(block, purpose) for block, purpose in wanted if block.pack is not None]
    there.sort(key=lambda item: (item[0].pack, item[0].offset))
    current: _Range[_T] | None = None
    for block, purpose in there:
        end = block.offset + block.stored
        if (
            current is not None
            and current.pack == block.pack
            and block.offset - current.end <= _GAP_BYTES
            and up_to_page(end) - current.start <= most_bytes
        ):
            current.end = max(current.end, end)
            current.wanted.append((block, purpose))
            continue
        if current is not None:
            yield current
        assert block.pack is not None
        current = _Range(block.pack, block.offset, end, [(block, purpose)])
    if current is not None:
        yield current
