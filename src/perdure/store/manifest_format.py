"""A manifest as the header fields and the payload of a save's record, and back. Pure.

What is read is hostile until it is checked: a checkpoint may have been imported. Every count and
length is bounded before memory is given for it, every path stays below its root, sizes agree with
blocks, and blocks with their packs' limits. A codec, hash or type that this version does not know
is refused by name, never guessed.

Source: docs/store-format.md "Manifests".
"""

import json
import re
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

import zstandard

from perdure.errors import CheckpointCorrupt, CheckpointError, SaveRefused
from perdure.store.compression import Codec, inflate
from perdure.store.layout import LaunchId, PackId, is_pack_id, is_ulid
from perdure.store.manifest import (
    BLOCK_BYTES,
    NO_PACK,
    Block,
    Entry,
    EntryType,
    FileRef,
    Kept,
    Manifest,
    Root,
    RootKind,
    file_digest,
    readable_json,
)

#: A body is never longer: one file of 4 TiB, or half a million small ones.
BODY_LIMIT_BYTES = 128 << 20
ENTRY_LIMIT = 1_000_000
STATE_LIMIT_BYTES = 48 << 10
PATH_LIMIT_BYTES = 4096
_LARGEST_NUMBER = 1 << 63
_MODES = 0o777
_PACKS = "packs/"
_HASH = "blake3"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_BODY_LEVEL = 3
_CODECS = frozenset(int(codec) for codec in Codec)


def encode_manifest(manifest: Manifest) -> tuple[dict[str, Any], bytes]:
    """The header fields and the payload of the save that ``manifest`` describes.

    Raises:
        SaveRefused: it describes what could not be read again: too much, or a contradiction.
    """
    contradiction = _contradiction(manifest)
    if contradiction is not None:
        raise SaveRefused(
            f"a save cannot be described: {contradiction}",
            hint="Files of kept values and of the save contradict each other: use other names.",
        )
    body = readable_json(
        {
            "packs": [f"{_PACKS}{pack}" for pack in manifest.packs],
            "entries": [_encode_entry(entry) for entry in manifest.entries],
        }
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
        "hash": _HASH,
        "body": {"codec": "zstd", "size": len(body)},
    }
    if manifest.state is not None:
        header["state"] = manifest.state
    if manifest.file is not None:
        header["file"] = {"root": manifest.file.root, "path": manifest.file.path}
    return header, zstandard.ZstdCompressor(level=_BODY_LEVEL).compress(body)


def decode_manifest(header: Mapping[str, Any], payload: bytes, *, name: str) -> Manifest:
    """The manifest in a save's record.

    Args:
        header: the record's.
        payload: the record's.
        name: how the checkpoint is called, for errors.

    Raises:
        CheckpointCorrupt: it is not what any perdure wrote.
        CheckpointError: a later perdure wrote it in a way that this one cannot read.
    """
    return _Reader(name).manifest(header, payload)


def _encode_root(root: Root) -> dict[str, str]:
    match root.kind:
        case RootKind.SESSION:
            return {"kind": root.kind.value}
        case RootKind.OUTSIDE:
            return {"kind": root.kind.value, "path": root.path}


def _encode_entry(entry: Entry) -> dict[str, Any]:
    row: dict[str, Any] = {"r": entry.root, "p": entry.path, "t": entry.type.value}
    match entry.type:
        case EntryType.FILE:
            row |= {"m": entry.mode, "n": entry.mtime_ns, "s": entry.size, "h": entry.digest.hex()}
            if entry.kept is Kept.BYTES:
                row["b"] = [_encode_block(block) for block in entry.blocks]
            else:
                row["k"] = entry.kept.value
        case EntryType.FOLDER:
            row |= {"m": entry.mode, "n": entry.mtime_ns}
        case EntryType.LINK:
            row["l"] = entry.target
        case EntryType.ABSENT:
            pass
    return row


def _encode_block(block: Block) -> list[Any]:
    return [
        block.pack,
        block.offset,
        block.stored,
        int(block.codec),
        block.digest.hex(),
        block.length,
    ]


class _Reader:
    """Reads one manifest; every method checks what it returns."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._roots = 0
        self._packs = 0

    def manifest(self, header: Mapping[str, Any], payload: bytes) -> Manifest:
        if header.get("hash") != _HASH:
            raise self._unknown(f"the hash {header.get('hash')!r}")
        roots = tuple(self._root(root) for root in self._list(header, "roots", 10_000))
        self._check(len(set(roots)) == len(roots) and len(roots) > 0, "its roots")
        self._roots = len(roots)
        body = self._body(header, payload)
        packs = tuple(self._pack(pack) for pack in self._list(body, "packs", ENTRY_LIMIT))
        self._packs = len(packs)
        entries = tuple(self._entry(row) for row in self._list(body, "entries", ENTRY_LIMIT))
        launch = header.get("launch")
        self._check(isinstance(launch, str) and is_ulid(launch), "its launch")
        manifest = Manifest(
            attempt=self._number(header, "attempt", least=1),
            launch=LaunchId(str(launch)),
            save=self._number(header, "save"),
            state=self._state(header),
            file=self._file(header),
            roots=roots,
            packs=packs,
            entries=entries,
            new_bytes=self._number(header, "new"),
        )
        self._check_whole(header, manifest)
        return manifest

    def _check_whole(self, header: Mapping[str, Any], manifest: Manifest) -> None:
        contradiction = _contradiction(manifest)
        if contradiction is not None:
            raise self._corrupt(contradiction)
        self._check(header.get("files") == len(manifest.entries), "its number of entries")
        self._check(header.get("size") == manifest.size_bytes, "its size")
        self._check(header.get("content") == manifest.content, "its content id")

    def _body(self, header: Mapping[str, Any], payload: bytes) -> Mapping[str, Any]:
        about = header.get("body")
        if not isinstance(about, dict):
            raise self._corrupt("it does not describe its body")
        size = self._number(about, "size", most=BODY_LIMIT_BYTES)
        match about.get("codec"):
            case "raw":
                data = payload
            case "zstd":
                try:
                    data = inflate(payload, size)
                except ValueError as error:
                    raise self._corrupt("its body cannot be decompressed") from error
            case other:
                raise self._unknown(f"the body codec {other!r}")
        self._check(len(data) == size, "the length of its body")
        try:
            body = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self._corrupt("its body is no JSON") from error
        if not isinstance(body, dict):
            raise self._corrupt("its body is no object")
        return body

    def _root(self, root: Any) -> Root:
        if not isinstance(root, dict):
            raise self._corrupt("a root is no object")
        match root.get("kind"):
            case "session":
                return Root(kind=RootKind.SESSION)
            case "outside":
                path = self._text(root, "path", PATH_LIMIT_BYTES)
                is_plain = path.startswith("/") and not path.startswith("//")
                self._check(is_plain and (path == "/" or _is_below(path[1:])), f"root {path!r}")
                return Root(kind=RootKind.OUTSIDE, path=path)
            case other:
                raise self._unknown(f"the root {other!r}")

    def _pack(self, pack: Any) -> PackId:
        is_one = isinstance(pack, str) and pack.startswith(_PACKS)
        self._check(is_one and is_pack_id(pack.removeprefix(_PACKS)), f"pack {pack!r}")
        return PackId(pack.removeprefix(_PACKS))

    def _state(self, header: Mapping[str, Any]) -> str | None:
        return self._text(header, "state", STATE_LIMIT_BYTES) if "state" in header else None

    def _file(self, header: Mapping[str, Any]) -> FileRef | None:
        if "file" not in header:
            return None
        file = header["file"]
        if not isinstance(file, dict):
            raise self._corrupt("its file is no object")
        root = self._number(file, "root", most=self._roots - 1)
        return FileRef(root=root, path=self._path(file, "path"))

    def _entry(self, row: Any) -> Entry:
        if not isinstance(row, dict):
            raise self._corrupt("an entry is no object")
        root, path = self._number(row, "r", most=self._roots - 1), self._path(row, "p")
        match row.get("t"):
            case "f":
                return self._file_entry(row, root, path)
            case "d":
                return Entry(
                    root=root,
                    path=path,
                    type=EntryType.FOLDER,
                    mode=self._number(row, "m", most=_MODES),
                    mtime_ns=self._number(row, "n", least=-_LARGEST_NUMBER),
                )
            case "l":
                target = self._text(row, "l", PATH_LIMIT_BYTES)
                self._check(stays_inside(path, target), f"the link {path!r} to {target!r}")
                return Entry(root=root, path=path, type=EntryType.LINK, target=target)
            case "a":
                return Entry(root=root, path=path, type=EntryType.ABSENT)
            case other:
                raise self._unknown(f"an entry of type {other!r}")

    def _file_entry(self, row: Mapping[str, Any], root: int, path: str) -> Entry:
        try:
            kept = Kept(row.get("k", ""))
        except ValueError:
            raise self._unknown(f"a file kept as {row.get('k')!r}") from None
        size = self._number(row, "s")
        is_kept = kept is Kept.BYTES
        rows = self._list(row, "b", size // BLOCK_BYTES + 1) if is_kept else []
        blocks = tuple(self._block(block, path) for block in rows)
        digest = self._digest(row.get("h"), path, may_be_empty=not is_kept)
        if is_kept:
            self._check_blocks(blocks, size, path)
            is_digest = digest == file_digest(block.digest for block in blocks)
            self._check(is_digest, f"the digest of {path!r}")
        return Entry(
            root=root,
            path=path,
            type=EntryType.FILE,
            mode=self._number(row, "m", most=_MODES),
            mtime_ns=self._number(row, "n", least=-_LARGEST_NUMBER),
            size=size,
            digest=digest,
            blocks=blocks,
            kept=kept,
        )

    def _check_blocks(self, blocks: tuple[Block, ...], size: int, path: str) -> None:
        whole, rest = divmod(size, BLOCK_BYTES)
        wanted = [BLOCK_BYTES] * whole + ([rest] if rest else [])
        self._check([block.length for block in blocks] == wanted, f"the blocks of {path!r}")

    def _block(self, row: Any, path: str) -> Block:
        if not isinstance(row, list) or len(row) != 6:
            raise self._corrupt(f"a block of {path!r} has not six values")
        names = ("pack", "offset", "stored", "codec", "digest", "length")
        values = dict(zip(names, row, strict=True))
        number = self._number(values, "codec")
        if number not in _CODECS:
            raise self._unknown(f"codec {number}, which {path!r} is stored with")
        block = Block(
            pack=self._number(values, "pack", least=NO_PACK, most=self._packs - 1),
            offset=self._number(values, "offset"),
            stored=self._number(values, "stored", most=BLOCK_BYTES),
            codec=Codec(number),
            digest=self._digest(values["digest"], path),
            length=self._number(values, "length", least=1, most=BLOCK_BYTES),
        )
        is_zero = block.pack == NO_PACK
        is_right = (
            (block.offset, block.stored, block.codec) == (0, 0, Codec.RAW)
            if is_zero
            else block.codec is not Codec.RAW or block.stored == block.length
        )
        self._check(is_right, f"a block of {path!r}")
        return block

    def _digest(self, value: Any, path: str, *, may_be_empty: bool = False) -> bytes:
        if may_be_empty and value == "":
            return b""
        is_digest = isinstance(value, str) and _DIGEST.fullmatch(value) is not None
        self._check(is_digest, f"a digest of {path!r}")
        return bytes.fromhex(value)

    def _path(self, row: Mapping[str, Any], key: str) -> str:
        path = self._text(row, key, PATH_LIMIT_BYTES)
        self._check(_is_below(path), f"the path {path!r}")
        return path

    def _text(self, row: Mapping[str, Any], key: str, most_bytes: int) -> str:
        value = row.get(key)
        if not isinstance(value, str) or "\0" in value:
            raise self._corrupt(f"{key!r} is no text")
        length = len(value.encode("utf-8", "surrogatepass"))
        self._check(length <= most_bytes, f"the length of {key!r}")
        return value

    def _number(
        self, row: Mapping[str, Any], key: str, *, least: int = 0, most: int = _LARGEST_NUMBER
    ) -> int:
        value = row.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self._corrupt(f"{key!r} is no number from {least} to {most}")
        return value

    def _list(self, row: Mapping[str, Any], key: str, most: int) -> list[Any]:
        value = row.get(key)
        if not isinstance(value, list) or len(value) > most:
            raise self._corrupt(f"{key!r} is no list of at most {most}")
        return value

    def _check(self, is_right: bool, what: str) -> None:  # noqa: FBT001 - reads as a statement
        if not is_right:
            raise self._corrupt(f"{what} cannot be")

    def _corrupt(self, reason: str) -> CheckpointCorrupt:
        return CheckpointCorrupt(
            f"checkpoint {self._name} cannot be used: its description is wrong: {reason}",
            hint="Resume from an older checkpoint: `perdure checkpoints` lists them.",
            checkpoint=self._name,
        )

    def _unknown(self, what: str) -> CheckpointError:
        return CheckpointError(
            f"checkpoint {self._name} uses {what}, which this perdure does not know",
            hint="Use the perdure that wrote it, or a later one.",
            checkpoint=self._name,
        )


def _contradiction(manifest: Manifest) -> str | None:
    """Why these entries cannot all be: a path twice, or below what is no folder (a link, say)."""
    paths = sorted((entry.root, entry.path) for entry in manifest.entries)
    for entry in manifest.entries:
        at = bisect_left(paths, (entry.root, entry.path))
        if paths[at + 1 : at + 2] == [paths[at]]:
            return f"{entry.path!r} is named twice"
        below = f"{entry.path}/"
        at = bisect_left(paths, (entry.root, below))
        is_parent = at < len(paths) and paths[at][1].startswith(below)
        if entry.type is not EntryType.FOLDER and is_parent and paths[at][0] == entry.root:
            return f"{entry.path!r} is a folder and something else too"
    return None


def stays_inside(path: str, target: str) -> bool:
    """Whether a link at ``path`` to ``target`` leads nowhere above the root, whatever is there.

    Only leading ``..`` are allowed, and no more of them than the link lies deep: behind a name that
    may itself be a link, ``..`` could lead anywhere.
    """
    parts = target.split("/")
    ups = 0
    while ups < len(parts) and parts[ups] == "..":
        ups += 1
    names = parts[ups:]
    is_plain = all(name not in ("", ".", "..") for name in names)
    return target == "." or (is_plain and bool(parts) and ups <= path.count("/"))


def _is_below(path: str) -> bool:
    """Whether ``path`` is relative, without empty parts, ``.`` and ``..``."""
    return all(part not in ("", ".", "..") for part in path.split("/"))
