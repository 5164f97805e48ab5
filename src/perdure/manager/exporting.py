"""A checkpoint as one portable file: a plain tar, readable without perdure.

::

    perdure-checkpoint/about.json   format, job, step, task, sequence, when, content id, state, file
    perdure-checkpoint/record       the save's record as it stands in the store, digest included;
                                    of an encrypted job with plain digests instead of keyed ones
    files/session/PATH              what the task had in its session folder
    files/outside/PATH              what it had elsewhere, by its whole path

`perdure.manager.importing` believes nothing of it that the record's digests do not prove.

Source: docs/store-format.md, "Exported checkpoints".
"""

import io
import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from perdure.errors import HomeError, UsageError
from perdure.store.compression import Codec
from perdure.store.drivers.driver import Driver
from perdure.store.drivers.posix_files import in_our_words, sync_folder
from perdure.store.manifests.manifest import (
    NO_PACK,
    Entry,
    EntryType,
    FileRef,
    Kept,
    Manifest,
    RootKind,
    file_digest,
)
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.packs.blocks import read_block, stored_block
from perdure.store.packs.sealing import PLAIN, Sealing, check_key
from perdure.store.records.record_format import decode_record, encode_record
from perdure.store.restore.left_files import read_adopted

EXPORT_FORMAT = 1
OWN_FOLDER = "perdure-checkpoint"
ABOUT = f"{OWN_FOLDER}/about.json"
RECORD = f"{OWN_FOLDER}/record"
FILES = "files"


class Export(Struct, frozen=True, kw_only=True):
    """What is exported.

    Attributes:
        packs: the lineage's packs prefix.
        record: the save's record, as bytes of the store.
        about: what people read first; ``format`` is added.
        sealing: how its blocks are encrypted; in the file they are not.
        name: how the checkpoint is called.
    """

    driver: Driver
    packs: str
    manifest: Manifest
    record: bytes
    about: dict[str, Any]
    sealing: Sealing = PLAIN
    name: str = ""


def export(order: Export, path: Path) -> int:
    """Write the file; its size. Blocks; every byte is checked as it is read.

    Raises:
        UsageError: there is a file of that name.
        CheckpointCorrupt: the checkpoint is damaged; no file is left.
        CheckpointError: it is encrypted with another key.
        OutOfSpace, HomeError: the file cannot be written; none is left.
    """
    check_key(order.sealing, order.manifest, order.name)
    temporary = path.with_name(f".{path.name}.perdure-partial")
    try:
        with in_our_words("write", path):
            with temporary.open("xb") as file, _tar(file) as tar:
                _write(order, tar)
                file.flush()
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            os.link(temporary, path)
            sync_folder(path.parent)
    except FileExistsError as error:
        raise UsageError(
            f"{path} is there already", hint="Give another name, or remove it first."
        ) from error
    except OSError as error:
        raise HomeError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()
    return path.stat().st_size


def member_name(manifest: Manifest, entry: Entry | FileRef) -> str:
    """The name that an entry has in the file."""
    root = manifest.roots[entry.root]
    if root.kind is RootKind.SESSION:
        return f"{FILES}/session/{entry.path}"
    return f"{FILES}/outside{root.shown(entry.path)}"


def _tar(file: io.BufferedWriter) -> tarfile.TarFile:
    return tarfile.open(
        fileobj=file, mode="w|", format=tarfile.PAX_FORMAT, errors="surrogateescape"
    )


def _write(order: Export, tar: tarfile.TarFile) -> None:
    record, content = order.record, order.manifest.content
    if order.sealing.key_id:
        record, content = _plain_record(order)
    described = {"format": EXPORT_FORMAT, **order.about, "content": content}
    _add_bytes(tar, ABOUT, json.dumps(described, indent=1).encode("utf-8") + b"\n")
    _add_bytes(tar, RECORD, record)
    for entry in order.manifest.entries:
        if entry.kept in (Kept.BYTES, Kept.ADOPTED):
            _add(order, tar, entry)


def _plain_record(order: Export) -> tuple[bytes, str]:
    """The record of an encrypted checkpoint as if it had none, and its content id.

    All is read once more for that: the digests stand before the bytes, and nobody can check keyed
    ones without the key.
    """
    entries = tuple(_plain_entry(order, entry) for entry in order.manifest.entries)
    plain = replace(order.manifest, entries=entries, key_id=PLAIN.key_id)
    header, payload = encode_manifest(plain)
    before = decode_record(order.record, key=RECORD).header
    kept = {name: value for name, value in before.items() if name not in ("key_id", "payload")}
    return encode_record({**kept, **header}, payload), plain.content


def _plain_entry(order: Export, entry: Entry) -> Entry:
    if entry.type is not EntryType.FILE or entry.kept not in (Kept.BYTES, Kept.ADOPTED):
        return replace(entry, digest=b"")  # what is only recorded has a digest that nobody can use
    digests = tuple(PLAIN.digest(data) for data in _blocks(order, entry))
    blocks = tuple(
        replace(block, digest=digest, stored=block.length, codec=Codec.RAW, is_sealed=False)
        if block.pack != NO_PACK
        else replace(block, digest=digest)
        for block, digest in zip(entry.blocks, digests, strict=False)
    )
    return replace(entry, digest=file_digest(digests), blocks=blocks)


def _add_bytes(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o600
    tar.addfile(info, io.BytesIO(data))


def _add(order: Export, tar: tarfile.TarFile, entry: Entry) -> None:
    info = tarfile.TarInfo(member_name(order.manifest, entry))
    info.mode = entry.mode
    info.mtime = entry.mtime_ns // 1_000_000_000
    match entry.type:
        case EntryType.FILE:
            info.size = entry.size
            tar.addfile(info, _EntryReader(_blocks(order, entry)))
        case EntryType.FOLDER:
            info.type = tarfile.DIRTYPE
            tar.addfile(info)
        case EntryType.LINK:
            info.type = tarfile.SYMTYPE
            info.linkname = entry.target
            tar.addfile(info)
        case EntryType.ABSENT:
            pass


def _blocks(order: Export, entry: Entry) -> Iterator[bytes]:
    if entry.kept is Kept.ADOPTED:
        yield from read_adopted(order.manifest, entry, order.sealing)
    shown = order.manifest.shown_path(entry)
    for block in entry.blocks:
        stored = stored_block(order.manifest, block)
        yield read_block(order.driver, order.packs, stored, of=shown, sealing=order.sealing)


class _EntryReader(io.BufferedIOBase):
    """A file's blocks as something to read from."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = b""

    def read(self, size: int | None = -1, /) -> bytes:
        """The next ``size`` bytes, fewer at the end."""
        wanted = -1 if size is None else size
        parts: list[bytes] = []
        while wanted:
            if not self._rest:
                self._rest = next(self._blocks, b"")
                if not self._rest:
                    break
            part = self._rest if wanted < 0 else self._rest[:wanted]
            self._rest = self._rest[len(part) :]
            parts.append(part)
            wanted -= len(part) if wanted > 0 else 0
        return b"".join(parts)
