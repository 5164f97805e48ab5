"""Reading all of a checkpoint, and saying by name which files are damaged.

Source: design "What must always hold", 4; docs/store-format.md.
"""

from msgspec import Struct

from perdure.errors import CheckpointCorrupt
from perdure.store.driver import Driver
from perdure.store.manifest import Manifest
from perdure.store.packs import StoredBlock, read_block, stored_block


class Damage(Struct, frozen=True, kw_only=True):
    """A file of a checkpoint that cannot be restored, and why, in one sentence."""

    path: str
    reason: str


def verify_checkpoint(driver: Driver, packs: str, manifest: Manifest) -> tuple[Damage, ...]:
    """What of a checkpoint is damaged; nothing, if every byte is what was saved.

    Blocks while everything is read, each block once.

    Args:
        driver: of the store.
        packs: the lineage's packs prefix.
        manifest: the checkpoint's.
    """
    damages: list[Damage] = []
    judged: dict[StoredBlock, str] = {}
    for entry in manifest.entries:
        path = manifest.shown_path(entry)
        for block in entry.blocks:
            stored = stored_block(manifest, block)
            if stored not in judged:
                judged[stored] = _judge(driver, packs, stored, path)
            if judged[stored]:
                damages.append(Damage(path=path, reason=judged[stored]))
                break
    return tuple(damages)


def _judge(driver: Driver, packs: str, block: StoredBlock, path: str) -> str:
    """What is wrong with one block, or ""."""
    try:
        read_block(driver, packs, block, of=path)
    except CheckpointCorrupt as error:
        return error.message
    return ""
