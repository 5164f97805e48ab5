"""Reading all of a checkpoint, and saying by name which files are damaged.

Source: design "What must always hold", 4; docs/store-format.md.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from perdure.store.drivers.driver import Driver
from perdure.store.manifests.manifest import Manifest
from perdure.store.packs.blocks import Damaged, StoredBlock, damaged_file, stored_block
from perdure.store.packs.pack_reading import PackReader
from perdure.store.packs.sealing import PLAIN, Sealing
from perdure.store.restore.left_files import lost_adopted


class Damage(Struct, frozen=True, kw_only=True):
    """A file of a checkpoint that cannot be restored, and why, in one sentence."""

    path: str
    reason: str


def verify_checkpoint(
    driver: Driver, packs: str, manifest: Manifest, sealing: Sealing = PLAIN
) -> tuple[Damage, ...]:
    """What of a checkpoint is damaged; nothing, if every byte is what was saved.

    Blocks while everything is read, each block once, and adopted files where they are.

    Args:
        driver: of the store.
        packs: the lineage's packs prefix.
        manifest: the checkpoint's.
        sealing: how its blocks are encrypted (`perdure.store.packs.sealing.check_key` was called).
    """
    judged = damaged_blocks(driver, packs, blocks_of([manifest]), sealing)
    return (*damages(manifest, judged), *adopted_damages(manifest, sealing))


def blocks_of(manifests: Iterable[Manifest]) -> frozenset[StoredBlock]:
    """The blocks that checkpoints of one lineage rest on, each once."""
    return frozenset(
        stored_block(manifest, block)
        for manifest in manifests
        for entry in manifest.entries
        for block in entry.blocks
    )


def damaged_blocks(
    driver: Driver, packs: str, blocks: Iterable[StoredBlock], sealing: Sealing = PLAIN
) -> dict[StoredBlock, str]:
    """Which of these blocks are not what was stored, and why; blocks while they are read."""
    judged: dict[StoredBlock, str] = {}

    def judge(block: StoredBlock, data: memoryview | Damaged) -> None:
        if isinstance(data, Damaged):
            judged[block] = data.reason

    PackReader(driver, packs, sealing).read(((block, block) for block in blocks), judge)
    return judged


def damages(manifest: Manifest, judged: Mapping[StoredBlock, str]) -> tuple[Damage, ...]:
    """The files of a checkpoint that need a damaged block."""
    return tuple(_damages(manifest, judged))


def adopted_damages(manifest: Manifest, sealing: Sealing = PLAIN) -> tuple[Damage, ...]:
    """The adopted files of a checkpoint that are not on this host as they were saved."""
    return tuple(
        Damage(path=str(error.fields["file"]), reason=error.message)
        for error in lost_adopted(manifest, sealing)
    )


def _damages(manifest: Manifest, judged: Mapping[StoredBlock, str]) -> Iterator[Damage]:
    """The files that need a damaged block, each once."""
    for entry in manifest.entries:
        for block in entry.blocks:
            reason = judged.get(stored_block(manifest, block)) if judged else None
            if reason is not None:
                path = manifest.shown_path(entry)
                yield Damage(path=path, reason=damaged_file(path, reason).message)
                break
