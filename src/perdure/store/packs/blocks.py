"""Packs: the bytes of checkpoints, as blocks one after another in objects that never change.

What a block is and where it lies, which blocks a lineage has already, and reading one block,
checked. `pack_writing` writes them, `pack_reading` reads many.

Layout: blocks of 64 KiB and more begin at multiples of 4096, for a driver that bypasses the page
cache; smaller ones follow each other.

Source: docs/store-format.md "Packs".
"""

from collections.abc import Container, Iterable

from msgspec import Struct

from perdure.errors import CheckpointCorrupt
from perdure.store.compression import Codec, decompress
from perdure.store.drivers.driver import Driver, KeyMissing, Piece
from perdure.store.layout import PackId, is_pack_id, pack_key
from perdure.store.manifests.manifest import NO_PACK, Block, Kept, Manifest
from perdure.store.packs.sealing import PLAIN, Sealing


class StoredBlock(Struct, frozen=True, kw_only=True, gc=False):
    """A block and where it lies; ``pack`` is None for zeros.

    Attributes:
        pack, offset, stored, codec, is_sealed: where, and how to read it.
        digest, length: what it is.
    """

    pack: PackId | None
    offset: int = 0
    stored: int = 0
    codec: Codec = Codec.RAW
    digest: bytes
    length: int
    is_sealed: bool = False


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


def stored_block(manifest: Manifest, block: Block) -> StoredBlock:
    """``block`` of ``manifest`` with its pack by name."""
    return StoredBlock(
        pack=None if block.pack == NO_PACK else manifest.packs[block.pack],
        offset=block.offset,
        stored=block.stored,
        codec=block.codec,
        digest=block.digest,
        length=block.length,
        is_sealed=block.is_sealed,
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
        is_sealed=stored.is_sealed,
    )


def read_block(
    driver: Driver, packs: str, block: StoredBlock, *, of: str, sealing: Sealing = PLAIN
) -> bytes:
    """The bytes of ``block``, checked.

    Args:
        driver: of the store.
        packs: the lineage's packs prefix.
        block: where it lies and what it is.
        of: the file's name, for the error.
        sealing: how the checkpoint's blocks are encrypted.

    Raises:
        CheckpointCorrupt: they are not those that were saved, or not there.
    """
    if block.pack is None:
        return bytes(block.length)
    try:
        stored = driver.get(pack_key(packs, block.pack), block.offset, block.stored)
    except KeyMissing as error:
        raise damaged_file(of, f"the pack {block.pack} is not there") from error
    data = opened(block, memoryview(stored), sealing)
    if isinstance(data, Damaged):
        raise damaged_file(of, data.reason)
    return bytes(data)


class Damaged(Struct, frozen=True):
    """A block that is not what was stored, and why."""

    reason: str


def opened(block: StoredBlock, stored: memoryview, sealing: Sealing) -> memoryview | Damaged:
    """The bytes of a block that lies as ``stored``, checked."""
    if stored.nbytes != block.stored:
        return Damaged(f"the pack {block.pack} is too short")
    data: Piece = stored
    try:
        if block.is_sealed:
            data = sealing.unseal(stored, block.digest)
        if block.codec is not Codec.RAW:
            data = decompress(bytes(data), block.codec, block.length)
    except ValueError:
        return Damaged(f"a block in the pack {block.pack} is damaged")
    if sealing.digest(data) != block.digest:
        return Damaged(f"a block in the pack {block.pack} is damaged")
    return memoryview(data)


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
