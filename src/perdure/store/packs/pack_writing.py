"""Writing packs: the new blocks of one attempt's saves, from as many threads as bring them.

Theory of operation. A `PackWriter` is given blocks in private memory. It hashes the very buffer
that it writes (so that what is stored is what the digest says, whatever happens to the file
meanwhile), and passes over blocks that hold zeros only and blocks that the lineage has already. An
object is opened at the first new block and rolled at the driver's limit; one that is full is
committed by the thread that found it so, while the others fill the next. `PackWriter.finish`
commits the last one: whoever dies before has made nothing visible.

Rules: a pack's id is unique to its launch, so that two writers never meet in one; a block is only
ever taken over from a pack that no prune record names, given by the caller (`BlockIndex`). Of two
threads that bring the same block at one moment, one writes it and the other waits.

Memory: what the driver's uploads hold (see there), and two runs of small blocks, of 1 MiB each:
one is written while the other is filled.

Source: docs/store-format.md "Packs"; Tridgell's rule that a copy is checked by its content.
"""

import threading
import time
from collections.abc import Container, Iterable
from contextlib import suppress
from typing import Protocol

from perdure.store.compression import Codec, compress
from perdure.store.drivers.buffers import PAGE_BYTES, aligned_buffer, up_to_page
from perdure.store.drivers.driver import Piece, Upload
from perdure.store.layout import LaunchId, PackId, pack_id, pack_key
from perdure.store.manifests.manifest import BLOCK_BYTES
from perdure.store.packs.blocks import BlockIndex, StoredBlock
from perdure.store.packs.pack_uploads import PackUploads
from perdure.store.packs.sealing import PLAIN, Sealing
from perdure.store.packs.write_behind import WriteBehind

#: So many bytes of small blocks are written at once.
_RUN_BYTES = 1 << 20
#: Blocks of at least so many bytes begin at a page.
_ALIGNED_FROM_BYTES = 64 << 10
_MAGIC = b"perdure-pack 1\n"
_HEAD = _MAGIC + bytes(PAGE_BYTES - len(_MAGIC))
_ZEROS = memoryview(bytes(BLOCK_BYTES))
#: So much must have been written before the measured speed counts more than the driver's word.
_MEASURED_BYTES = 16 << 20


class PackPlace(Protocol):
    """Where packs are written: a store's driver, or two tiers."""

    pack_limit_bytes: int
    uploads_at_once: int

    @property
    def bytes_per_second(self) -> float:
        """As `perdure.store.drivers.driver.Driver` says."""
        ...

    def upload(self, key: str) -> Upload:
        """Begin a pack."""
        ...

    def head(self, key: str) -> int | None:
        """The pack's size; None if it is not there."""
        ...


class _Pack:
    """A pack that is being written: how many threads are at it, and how large it gets by them."""

    def __init__(self, name: PackId, upload: Upload) -> None:
        self.name = name
        self.upload = upload
        self.writers = 0
        self.promised_bytes = PAGE_BYTES


def _promised(size: int) -> int:
    """The room that so many bytes may take."""
    return up_to_page(size) + PAGE_BYTES


class PackWriter:
    """Stores the blocks of one attempt's saves; `add` may be called by several threads at once.

    Args:
        driver: where packs are written.
        packs: the lineage's packs prefix.
        launch: whose packs these are.
        attempt: the same.
        index: what the lineage has already; grows with what is committed.
        sealing: how blocks are known and encrypted.
    """

    def __init__(
        self,
        driver: PackPlace,
        packs: str,
        *,
        launch: LaunchId,
        attempt: int,
        index: BlockIndex,
        sealing: Sealing = PLAIN,
    ) -> None:
        self.sealing = sealing
        self._driver = driver
        self._packs = packs
        self._launch = launch
        self._attempt = attempt
        self._index = index
        self._number = 0
        self._uploads = PackUploads(driver)
        self._line = threading.Lock()
        self._pack: _Pack | None = None
        self._full: list[_Pack] = []
        self._pending: dict[bytes, StoredBlock] = {}
        self._arriving: set[bytes] = set()
        self._changed = threading.Condition()
        self._written_bytes = 0
        self._writing_seconds = 0.0
        self._run = self._other_run = memoryview(b"")
        self._run_bytes = 0
        self._run_pack: _Pack | None = None
        self._run_start = self._run_end = 0
        self._behind = WriteBehind()
        self.new_bytes = 0

    @property
    def bytes_per_second(self) -> float:
        """How fast one thread's blocks go to the store, measured where enough were written."""
        is_told = self._driver.uploads_at_once > 1  # what is written is not what has come there
        if is_told or self._written_bytes < _MEASURED_BYTES or self._writing_seconds <= 0:
            return self._driver.bytes_per_second
        return self._written_bytes / self._writing_seconds

    def add(self, data: Piece, codec: Codec = Codec.RAW) -> StoredBlock:
        """The block that holds ``data`` (at most `BLOCK_BYTES`), stored unless it is there.

        Args:
            data: in memory that nobody changes meanwhile.
            codec: how it is stored, where that makes it smaller.
        """
        length = len(data)
        assert 0 < length <= BLOCK_BYTES
        digest = self.sealing.digest(data)
        if data[0] == 0 and data[-1] == 0 and data == _ZEROS[:length]:
            return StoredBlock(pack=None, digest=digest, length=length)
        known = self._known_or_ours(digest, length)
        if known is not None:
            return known
        block = None
        try:
            block = self._store(data, codec, digest)
        finally:
            with self._changed:
                self._arriving.discard(digest)
                if block is not None:
                    self._pending[digest] = block
                    self.new_bytes += block.stored
                self._changed.notify_all()
        return block

    def end_small(self) -> None:
        """The last `add_small` was called for now; from here on `add` may be called."""
        self._write_run()
        self._behind.wait()
        self._run_pack = None

    def add_small(self, data: bytes, digest: bytes, codec: Codec = Codec.RAW) -> StoredBlock:
        """As `add`, for a small file's only block, and while no other thread is in here.

        What it returned is written by `end_small` or `finish` at the latest.

        Args:
            data: as for `add`.
            digest: of ``data``, by this writer's sealing.
            codec: as for `add`.
        """
        length = len(data)
        if data[0] == 0 and data[-1] == 0 and data == _ZEROS[:length]:
            return StoredBlock(pack=None, digest=digest, length=length)
        known = self._index.find(digest, length) or self._pending.get(digest)
        if known is not None:
            return known
        packed: Piece = data
        if codec is not Codec.RAW:
            codec, packed = compress(data, codec)
        packed = self.sealing.seal(packed, digest)
        size = len(packed)
        if self._run_bytes + size > _RUN_BYTES:
            self._write_run()
        if not self._run_bytes:
            self._begin_run()
        assert self._run_pack is not None
        block = StoredBlock(
            pack=self._run_pack.name,
            offset=self._run_start + self._run_bytes,
            stored=size,
            codec=codec,
            digest=digest,
            length=length,
            is_sealed=bool(self.sealing.key_id),
        )
        self._run[self._run_bytes : self._run_bytes + size] = packed
        self._run_bytes += size
        self._pending[digest] = block
        self.new_bytes += size
        return block

    def _begin_run(self) -> None:
        """Where the next small blocks go: they follow each other, and are written at once."""
        if not self._run:
            self._run = aligned_buffer(_RUN_BYTES)
        if self._pack is not None and self._is_full(self._pack, _RUN_BYTES):
            self._behind.wait()  # it is committed with all its runs
        pack = self._enter(_RUN_BYTES)
        self._leave(pack, 0, 0.0)
        is_same = self._run_pack is pack
        self._run_start = up_to_page(self._run_end if is_same else pack.upload.size)
        self._run_pack = pack

    def _write_run(self) -> None:
        """Have the run written; blocks while the one before it is."""
        size, self._run_bytes = self._run_bytes, 0
        if not size:
            return
        assert self._run_pack is not None
        upload, piece, start = self._run_pack.upload, self._run[:size], self._run_start
        self._run_end = start + size

        def write() -> None:
            assert upload.write(piece, aligned=True) == start, "somebody else wrote into the run"

        self._behind.start(write)
        self._run, self._other_run = self._other_run, self._run

    def _known_or_ours(self, digest: bytes, length: int) -> StoredBlock | None:
        """The block that is there already; None: it is this thread's to write."""
        with self._changed:
            while True:
                known = self._index.find(digest, length) or self._pending.get(digest)
                if known is not None:
                    return known
                if digest not in self._arriving:
                    self._arriving.add(digest)
                    return None
                self._changed.wait()

    def _store(self, data: Piece, codec: Codec, digest: bytes) -> StoredBlock:
        packed: Piece = data
        if codec is not Codec.RAW:
            codec, packed = compress(bytes(data), codec)
        packed = self.sealing.seal(packed, digest)
        size = len(packed)
        pack = self._enter(size)
        began = time.monotonic()
        is_large = size >= _ALIGNED_FROM_BYTES
        try:
            offset = pack.upload.write(packed, aligned=is_large)
        finally:
            # Small pieces are gathered: they tell nothing about the store.
            took = time.monotonic() - began if is_large else 0.0
            self._leave(pack, size if is_large else 0, took)
        return StoredBlock(
            pack=pack.name,
            offset=offset,
            stored=size,
            codec=codec,
            digest=digest,
            length=len(data),
            is_sealed=bool(self.sealing.key_id),
        )

    def _enter(self, size: int) -> _Pack:
        """The pack to write to, a new one if that would grow beyond the limit."""
        full = None
        with self._changed:
            pack = self._pack
            if pack is None or self._is_full(pack, size):
                full, pack = pack, self._new_pack()
                self._pack = pack
            if full is not None:
                self._full.append(full)
            pack.promised_bytes += _promised(size)
            pack.writers += 1
        if full is not None:
            try:
                self._commit(full)
            except BaseException:
                self._leave(pack, 0, 0.0)
                raise
        return pack

    def _is_full(self, pack: _Pack, size: int) -> bool:
        """Whether so many bytes more would be too many."""
        return pack.promised_bytes + _promised(size) > self._driver.pack_limit_bytes

    def _leave(self, pack: _Pack, size: int, seconds: float) -> None:
        with self._changed:
            pack.writers -= 1
            self._written_bytes += size
            self._writing_seconds += seconds
            self._changed.notify_all()

    def _new_pack(self) -> _Pack:
        self._number += 1
        name = pack_id(self._launch, self._attempt, self._number)
        upload = self._driver.upload(pack_key(self._packs, name))
        upload.write(_HEAD)
        return _Pack(name, upload)

    def forget(self, packs: Container[PackId]) -> None:
        """Take over no block of ``packs`` any more."""
        self._index.forget(packs)

    def lost_packs(self, blocks: Iterable[StoredBlock]) -> frozenset[PackId]:
        """Which packs of finished ``blocks`` the store does not show: pruned behind our back."""
        packs = {block.pack for block in blocks if block.pack is not None}
        return frozenset(
            pack for pack in packs if self._driver.head(pack_key(self._packs, pack)) is None
        )

    def finish(self) -> None:
        """Make durable every block that `add` returned; no thread is in it any more."""
        self.end_small()
        if self._pack is not None:
            pack, self._pack = self._pack, None
            self._full.append(pack)
            self._commit(pack)
        self._uploads.finish()
        for block in self._pending.values():
            self._index.add(block)
        self._pending.clear()
        self.new_bytes = 0

    def _commit(self, pack: _Pack) -> None:
        """Send a full pack on its way, once all its blocks are written."""
        with self._changed:
            while pack.writers:
                self._changed.wait()
            self._full.remove(pack)
        began = time.monotonic()
        with self._line:
            self._uploads.start(pack.name, pack.upload)
        if pack.upload.size >= _MEASURED_BYTES:
            with self._changed:
                self._writing_seconds += time.monotonic() - began

    def abandon(self) -> None:
        """Forget what was written since the last `finish`; its blocks are void.

        Packs that are committed already stay, named by nobody, until they are pruned. No thread is
        in `add` any more.
        """
        with suppress(BaseException):
            self._behind.wait()
        self._run_pack = None
        if self._pack is not None:
            self._full.append(self._pack)
            self._pack = None
        for pack in self._full:
            pack.upload.abort()
        self._full.clear()
        self._uploads.abandon()
        self._run_bytes = 0
        self._pending.clear()
        self._arriving.clear()
        self.new_bytes = 0
