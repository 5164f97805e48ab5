"""Packs: the bytes of checkpoints, as blocks one after another in objects that never change.

Theory of operation. A `PackWriter` serves one attempt. It is given one file's bytes block by block,
hashes the very buffer that it writes (so that what is stored is what the digest says, whatever
happens to the file meanwhile), and passes over blocks that hold zeros only and blocks that the
lineage has already. An object is opened at the first new block, rolled at the driver's limit, and
durable when `PackWriter.finish` returns, at the latest (`pack_uploads`): nothing names it before.

Rules: a pack's id is unique to its launch, so that two writers never meet in one; a block is only
ever taken over from a pack that no prune record names, given by the caller (`BlockIndex`); every
block that is read is checked.

Layout: blocks of 64 KiB and more begin at multiples of 4096, for a driver that bypasses the page
cache; smaller ones follow each other.

Source: docs/store-format.md "Packs"; Tridgell's rule that a copy is checked by its content.
"""

from collections.abc import Container, Iterable

from blake3 import blake3
from msgspec import Struct

from perdure.errors import CheckpointCorrupt
from perdure.store.compression import Codec, compress, decompress
from perdure.store.driver import Driver, KeyMissing, Upload
from perdure.store.layout import LaunchId, PackId, is_pack_id, pack_id, pack_key
from perdure.store.manifest import BLOCK_BYTES, NO_PACK, Block, Kept, Manifest
from perdure.store.pack_uploads import PackUploads

_ALIGNMENT = 4096
_ALIGNED_FROM_BYTES = 64 << 10
_MAGIC = b"perdure-pack 1\n"
_HEAD = _MAGIC + bytes(_ALIGNMENT - len(_MAGIC))
_ZEROS = bytes(BLOCK_BYTES)


class StoredBlock(Struct, frozen=True, kw_only=True):
    """A block and where it lies; ``pack`` is None for zeros.

    Attributes:
        pack, offset, stored, codec: where, and how to read it.
        digest, length: what it is.
    """

    pack: PackId | None
    offset: int = 0
    stored: int = 0
    codec: Codec = Codec.RAW
    digest: bytes
    length: int


class BlockIndex:
    """The blocks that a lineage has already, by digest."""

    def __init__(self) -> None:
        self._blocks: dict[bytes, StoredBlock] = {}

    def add(self, block: StoredBlock) -> None:
        """Know ``block`` from now on."""
        self._blocks.setdefault(block.digest, block)

    def add_manifest(self, manifest: Manifest, *, without: Container[PackId] = ()) -> None:
        """Know the blocks of a checkpoint that verified.

        Args:
            manifest: best the checkpoint that the attempt was restored from, every byte of which
                was read: a block of a damaged pack would damage all that come after.
            without: packs that a prune record names.
        """
        for entry in manifest.entries:
            for block in entry.blocks:
                if block.pack != NO_PACK and manifest.packs[block.pack] not in without:
                    self.add(stored_block(manifest, block))

    def forget(self, packs: Container[PackId]) -> None:
        """Know no block of ``packs`` any more: a prune record names them, or they are gone."""
        self._blocks = {
            digest: block for digest, block in self._blocks.items() if block.pack not in packs
        }

    def find(self, digest: bytes, length: int) -> StoredBlock | None:
        """The block with that content."""
        block = self._blocks.get(digest)
        return block if block is not None and block.length == length else None


class PackWriter:
    """Stores the blocks of one attempt's saves; for one thread.

    Args:
        driver: of the store.
        packs: the lineage's packs prefix.
        launch: whose packs these are.
        attempt: the same.
        index: what the lineage has already; grows with what is committed.
        codec: how new blocks are stored.
    """

    def __init__(
        self,
        driver: Driver,
        packs: str,
        *,
        launch: LaunchId,
        attempt: int,
        index: BlockIndex,
        codec: Codec = Codec.RAW,
    ) -> None:
        self._driver = driver
        self._packs = packs
        self._launch = launch
        self._attempt = attempt
        self._index = index
        self._codec = codec
        self._number = 0
        self._pack = PackId("")
        self._upload: Upload | None = None
        self._uploads = PackUploads(driver)
        self._pending: dict[bytes, StoredBlock] = {}
        self.new_bytes = 0

    def add(self, data: bytes) -> StoredBlock:
        """The block that holds ``data`` (at most `BLOCK_BYTES`), stored unless it is there."""
        assert 0 < len(data) <= BLOCK_BYTES
        digest = blake3(data).digest()
        if data[0] == 0 and data == _ZEROS[: len(data)]:
            return StoredBlock(pack=None, digest=digest, length=len(data))
        known = self._index.find(digest, len(data)) or self._pending.get(digest)
        if known is not None:
            return known
        codec, stored = compress(data, self._codec)
        block = self._write(stored, codec, digest, len(data))
        self._pending[digest] = block
        self.new_bytes += len(stored)
        return block

    def _write(self, stored: bytes, codec: Codec, digest: bytes, length: int) -> StoredBlock:
        upload = self._room_for(len(stored))
        if len(stored) >= _ALIGNED_FROM_BYTES and upload.size % _ALIGNMENT:
            upload.write(_ZEROS[: -upload.size % _ALIGNMENT])
        offset = upload.size
        upload.write(stored)
        return StoredBlock(
            pack=self._pack,
            offset=offset,
            stored=len(stored),
            codec=codec,
            digest=digest,
            length=length,
        )

    def _room_for(self, size: int) -> Upload:
        """The pack that is being written, a new one if that would grow beyond the limit."""
        limit = self._driver.pack_limit_bytes - size - _ALIGNMENT
        if self._upload is not None and self._upload.size > limit:
            self._commit()
        if self._upload is None:
            self._number += 1
            self._pack = pack_id(self._launch, self._attempt, self._number)
            self._upload = self._driver.upload(pack_key(self._packs, self._pack))
            self._upload.write(_HEAD)
        return self._upload

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
        """Make durable every block that `add` returned."""
        if self._upload is not None:
            self._commit()
        self._uploads.finish()
        for block in self._pending.values():
            self._index.add(block)
        self._pending.clear()
        self.new_bytes = 0

    def _commit(self) -> None:
        upload, self._upload = self._upload, None
        assert upload is not None
        self._uploads.start(self._pack, upload)

    def abandon(self) -> None:
        """Forget what was written since the last `finish`; its blocks are void.

        Packs that are committed already stay, named by nobody, until they are pruned.
        """
        if self._upload is not None:
            self._upload.abort()
            self._upload = None
        self._uploads.abandon()
        self._pending.clear()
        self.new_bytes = 0


def stored_block(manifest: Manifest, block: Block) -> StoredBlock:
    """``block`` of ``manifest`` with its pack by name."""
    return StoredBlock(
        pack=None if block.pack == NO_PACK else manifest.packs[block.pack],
        offset=block.offset,
        stored=block.stored,
        codec=block.codec,
        digest=block.digest,
        length=block.length,
    )


def number_packs(files: Iterable[Iterable[StoredBlock]]) -> dict[PackId, int]:
    """The packs of all blocks, each with the index it gets in a manifest."""
    names = {block.pack for blocks in files for block in blocks if block.pack is not None}
    return {name: index for index, name in enumerate(sorted(names))}


def to_block(stored: StoredBlock, numbers: dict[PackId, int]) -> Block:
    """``stored`` as a manifest holds it."""
    return Block(
        pack=NO_PACK if stored.pack is None else numbers[stored.pack],
        offset=stored.offset,
        stored=stored.stored,
        codec=stored.codec,
        digest=stored.digest,
        length=stored.length,
    )


def read_block(driver: Driver, packs: str, block: StoredBlock, *, of: str) -> bytes:
    """The bytes of ``block``, checked.

    Args:
        driver: of the store.
        packs: the lineage's packs prefix.
        block: where it lies and what it is.
        of: the file's name, for the error.

    Raises:
        CheckpointCorrupt: they are not those that were saved, or not there.
    """
    if block.pack is None:
        data = bytes(block.length)
    else:
        key = pack_key(packs, block.pack)
        try:
            stored = driver.get(key, block.offset, block.stored)
        except KeyMissing as error:
            raise damaged_file(of, f"the pack {block.pack} is not there") from error
        if len(stored) != block.stored:
            raise damaged_file(of, f"the pack {block.pack} is too short")
        try:
            data = decompress(stored, block.codec, block.length)
        except ValueError as error:
            raise damaged_file(of, f"a block in the pack {block.pack} is damaged") from error
    if blake3(data).digest() != block.digest:
        raise damaged_file(of, f"a block in the pack {block.pack} is damaged")
    return data


def damaged_file(name: str, reason: str) -> CheckpointCorrupt:
    """The error for a saved file whose bytes are not those that were saved."""
    return CheckpointCorrupt(
        f"the saved bytes of {name} are not what was written: {reason}",
        hint="Resume from an older checkpoint: `perdure checkpoints` lists them.",
        file=name,
    )


def packs_of(manifests: Iterable[Manifest]) -> frozenset[PackId]:
    """The packs that checkpoints need."""
    return frozenset(
        manifest.packs[block.pack]
        for manifest in manifests
        for entry in manifest.entries
        if entry.kept is Kept.BYTES
        for block in entry.blocks
        if block.pack != NO_PACK
    )


def listed_packs(driver: Driver, packs: str) -> tuple[PackId, ...]:
    """The packs of a lineage that the store shows."""
    return tuple(PackId(name) for name in driver.children(packs) if is_pack_id(name))
