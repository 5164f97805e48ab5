"""A manifest as the header fields and the payload of a save's record. Pure.

`perdure.store.manifests.manifest_reading` is the way back.

Source: docs/store-format.md "Manifests".
"""

from typing import Any

import zstandard
from msgspec import UNSET

from perdure.errors import SaveRefused
from perdure.store.manifests.entry_paths import contradiction_in
from perdure.store.manifests.manifest import (
    Block,
    Entry,
    EntryType,
    Kept,
    Manifest,
    Root,
    RootKind,
    plain_json,
)
from perdure.store.manifests.manifest_rows import (
    BODY_LIMIT_BYTES,
    ENTRY_LIMIT,
    HASH,
    KEYED_HASH,
    PACKS,
    SEALED,
    BlockRow,
    FileRow,
    Row,
    WrittenBody,
)

#: Digests do not compress: a higher level takes longer and gives no less.
_BODY_LEVEL = 1
# Asked for each of many thousand files: an enum's member takes longer to find than to compare.
_FILE, _BYTES = EntryType.FILE, Kept.BYTES


def encode_manifest(manifest: Manifest) -> tuple[dict[str, Any], bytes]:
    """The header fields and the payload of the save that ``manifest`` describes.

    Raises:
        SaveRefused: it describes what could not be read again: too much, or a contradiction.
    """
    contradiction = contradiction_in(manifest)
    if contradiction is not None:
        raise SaveRefused(
            f"a save cannot be described: {contradiction}",
            hint="Files of kept values and of the save contradict each other: use other names.",
        )
    body = plain_json(
        WrittenBody(
            packs=[f"{PACKS}{pack}" for pack in manifest.packs],
            entries=[_encode_entry(entry) for entry in manifest.entries],
        )
    )
    if len(body) > BODY_LIMIT_BYTES or len(manifest.entries) > ENTRY_LIMIT:
        raise SaveRefused(
            f"a save of {len(manifest.entries)} files takes {len(body)} bytes to describe, and"
            f" {BODY_LIMIT_BYTES} are the most",
            hint="Declare fewer files, or pack them into one.",
        )
    header: dict[str, Any] = {
        "attempt": manifest.attempt,
        "launch": manifest.launch,
        "save": manifest.save,
        "content": manifest.content,
        "roots": [_encode_root(root) for root in manifest.roots],
        "size": manifest.size_bytes,
        "new": manifest.new_bytes,
        "files": len(manifest.entries),
        "hash": KEYED_HASH if manifest.key_id else HASH,
        "body": {"codec": "zstd", "size": len(body)},
    }
    if manifest.key_id:
        header["key_id"] = manifest.key_id
    if manifest.state is not None:
        header["state"] = manifest.state
    if manifest.file is not None:
        header["file"] = {"root": manifest.file.root, "path": manifest.file.path}
    return header, zstandard.ZstdCompressor(level=_BODY_LEVEL).compress(body)


def _encode_root(root: Root) -> dict[str, str]:
    match root.kind:
        case RootKind.SESSION:
            return {"kind": root.kind.value}
        case RootKind.OUTSIDE:
            return {"kind": root.kind.value, "path": root.path}


def _encode_entry(entry: Entry) -> Row | FileRow:
    if entry.type is _FILE and entry.kept is _BYTES:
        blocks = entry.blocks
        one = len(blocks) == 1  # half the time of a loop
        return FileRow(
            [_encode_block(blocks[0])] if one else [_encode_block(block) for block in blocks],
            entry.digest.hex(),
            entry.mode,
            entry.mtime_ns,
            entry.path,
            entry.root,
            entry.size,
        )
    r, p, t = entry.root, entry.path, entry.type.value
    match entry.type:
        case EntryType.FILE:
            return Row(
                r=r,
                p=p,
                t=t,
                m=entry.mode,
                n=entry.mtime_ns,
                s=entry.size,
                h=entry.digest.hex(),
                k=entry.kept.value,
                x=entry.hold or UNSET,
            )
        case EntryType.FOLDER:
            return Row(r=r, p=p, t=t, m=entry.mode, n=entry.mtime_ns)
        case EntryType.LINK:
            return Row(r=r, p=p, t=t, l=entry.target)
        case EntryType.ABSENT:
            return Row(r=r, p=p, t=t)


def _encode_block(block: Block) -> BlockRow:
    return (
        block.pack,
        block.offset,
        block.stored,
        block.codec + SEALED * block.is_sealed,
        block.digest.hex(),
        block.length,
    )
