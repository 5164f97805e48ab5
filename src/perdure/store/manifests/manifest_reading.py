"""Reading a manifest: what is read is hostile until it is checked. Pure.

A checkpoint may have been imported. Every count and length is bounded before memory is given for
it, every path stays below its root, sizes agree with blocks, and blocks with their packs' limits.
A codec, hash or type that this version does not know is refused by name, never guessed.

Source: docs/store-format.md "Manifests".
"""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, DecodeError, ValidationError, convert
from msgspec.json import Decoder

from perdure.errors import CheckpointCorrupt, CheckpointError
from perdure.store.compression import Codec, inflate
from perdure.store.layout import LaunchId, PackId, is_pack_id, is_ulid
from perdure.store.manifests.entry_paths import (
    PATH_LIMIT_BYTES,
    contradiction_in,
    is_below,
    is_hold_name,
    stays_inside,
)
from perdure.store.manifests.manifest import (
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
)
from perdure.store.manifests.manifest_rows import (
    BODY_LIMIT_BYTES,
    ENTRY_LIMIT,
    HASH,
    KEYED_HASH,
    PACKS,
    SEAL_BYTES,
    SEALED,
    BlockRow,
    Body,
    Row,
)

STATE_LIMIT_BYTES = 48 << 10
_LARGEST_NUMBER = 1 << 63
_MODES = 0o777
_DIGEST_BYTES = 32
_CODECS = {int(codec): codec for codec in Codec}
_RAW = int(Codec.RAW)
# Asked for each of many thousand files: an enum's member takes longer to find than to compare.
_RAW_CODEC, _FILE = Codec.RAW, EntryType.FILE
_KEPT = {kept.value: kept for kept in Kept}
_BODY = Decoder(Body)


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


class _Reader:
    """Reads one manifest; every method checks what it returns."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._roots = 0
        self._packs = 0
        self._is_keyed = False

    def manifest(self, header: Mapping[str, Any], payload: bytes) -> Manifest:
        if header.get("hash") not in (HASH, KEYED_HASH):
            raise self._unknown(f"the hash {header.get('hash')!r}")
        self._is_keyed = header["hash"] == KEYED_HASH
        roots = tuple(self._root(root) for root in self._list(header, "roots", 10_000))
        self._check(len(set(roots)) == len(roots) and len(roots) > 0, "its roots")
        self._roots = len(roots)
        body = self._body(header, payload)
        self._check(max(len(body.packs), len(body.entries)) <= ENTRY_LIMIT, "its length")
        packs = tuple(self._pack(pack) for pack in body.packs)
        self._packs = len(packs)
        entries = tuple(self._entry(row) for row in body.entries)
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
            key_id=self._key_id(header),
        )
        self._check_whole(header, manifest)
        return manifest

    def _check_whole(self, header: Mapping[str, Any], manifest: Manifest) -> None:
        contradiction = contradiction_in(manifest)
        if contradiction is not None:
            raise self._corrupt(contradiction)
        self._check(header.get("files") == len(manifest.entries), "its number of entries")
        self._check(header.get("size") == manifest.size_bytes, "its size")
        self._check(header.get("content") == manifest.content, "its content id")

    def _body(self, header: Mapping[str, Any], payload: bytes) -> Body:
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
            return _decode_body(data)
        except (ValueError, RecursionError, ValidationError, DecodeError) as error:
            raise self._corrupt(f"its body is not as it should be: {error}") from error

    def _root(self, root: Any) -> Root:
        if not isinstance(root, dict):
            raise self._corrupt("a root is no object")
        match root.get("kind"):
            case "session":
                return Root(kind=RootKind.SESSION)
            case "outside":
                path = self._text(root, "path", PATH_LIMIT_BYTES)
                is_plain = path.startswith("/") and not path.startswith("//")
                self._check(is_plain and (path == "/" or is_below(path[1:])), f"root {path!r}")
                return Root(kind=RootKind.OUTSIDE, path=path)
            case other:
                raise self._unknown(f"the root {other!r}")

    def _pack(self, pack: str) -> PackId:
        name = pack.removeprefix(PACKS)
        self._check(pack == f"{PACKS}{name}" and is_pack_id(name), f"pack {pack!r}")
        return PackId(name)

    def _key_id(self, header: Mapping[str, Any]) -> str:
        if not self._is_keyed:
            return ""
        key_id = self._text(header, "key_id", 64)
        self._check(bool(key_id), "its key")
        return key_id

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

    def _entry(self, row: Row) -> Entry:
        return self._plain_file(row) or self._any_entry(row)

    def _plain_file(self, row: Row) -> Entry | None:
        """The entry of a file of one plain block, as nearly all are where there are many.

        None for anything else, and for whatever is not as it should be: `_any_entry` says what.
        """
        rows = row.b
        if row.t != "f" or rows is UNSET or len(rows) != 1 or row.k is not UNSET:
            return None
        pack, offset, stored, codec, text, length = rows[0]
        root, path, size, mode, moment = row.r, row.p, row.s, row.m, row.n
        if (
            self._is_keyed
            or size is UNSET
            or mode is UNSET
            or moment is UNSET
            or row.x is not UNSET
            or codec != _RAW
            or not 0 < size <= BLOCK_BYTES
            or not stored == length == size
            or not 0 <= pack < self._packs
            or not 0 <= offset < _LARGEST_NUMBER
            or not 0 <= root < self._roots
            or not 0 <= mode <= _MODES
            or not -_LARGEST_NUMBER <= moment < _LARGEST_NUMBER
            or len(text) != 2 * _DIGEST_BYTES
            or not is_below(path)
            or not self._is_short(path)
        ):
            return None
        try:
            digest = bytes.fromhex(text)
        except ValueError:
            return None
        whole = file_digest((digest,))
        if digest.hex() != text or whole.hex() != row.h:
            return None
        block = Block(
            pack=pack, offset=offset, stored=stored, codec=_RAW_CODEC, digest=digest, length=length
        )
        return Entry(
            root=root,
            path=path,
            type=_FILE,
            mode=mode,
            mtime_ns=moment,
            size=size,
            digest=whole,
            blocks=(block,),
        )

    def _any_entry(self, row: Row) -> Entry:
        root, path = row.r, row.p
        self._check(0 <= root < self._roots, f"the root of {path!r}")
        self._check_path(path)
        match row.t:
            case "f":
                return self._file_entry(row)
            case "d":
                return Entry(
                    root=root,
                    path=path,
                    type=EntryType.FOLDER,
                    mode=self._mode(row),
                    mtime_ns=self._moment(row),
                )
            case "l":
                target = row.l
                is_text = isinstance(target, str) and self._is_short(target)
                if not is_text or not stays_inside(path, str(target)):
                    raise self._corrupt(f"the link {path!r} to {target!r} cannot be")
                return Entry(root=root, path=path, type=EntryType.LINK, target=str(target))
            case "a":
                return Entry(root=root, path=path, type=EntryType.ABSENT)
            case other:
                raise self._unknown(f"an entry of type {other!r}")

    def _file_entry(self, row: Row) -> Entry:
        path, size = row.p, row.s
        kept = _KEPT.get("" if row.k is UNSET else row.k)
        if kept is None:
            raise self._unknown(f"a file kept as {row.k!r}")
        if size is UNSET or not 0 <= size < _LARGEST_NUMBER:
            raise self._corrupt(f"the size of {path!r} cannot be")
        is_kept = kept is Kept.BYTES
        blocks = self._blocks(row, size) if is_kept else ()
        digest = b""
        if is_kept or row.h != "":
            digest = self._digest("" if row.h is UNSET else row.h, path)
        if is_kept and digest != file_digest(block.digest for block in blocks):
            raise self._corrupt(f"the digest of {path!r} cannot be")
        return Entry(
            root=row.r,
            path=path,
            type=EntryType.FILE,
            mode=self._mode(row),
            mtime_ns=self._moment(row),
            size=size,
            digest=digest,
            blocks=blocks,
            kept=kept,
            hold=self._hold(row, kept),
        )

    def _hold(self, row: Row, kept: Kept) -> str:
        if row.x is UNSET:
            return ""
        if kept is not Kept.ADOPTED or not is_hold_name(row.x):
            raise self._corrupt(f"the second name of {row.p!r} cannot be")
        return row.x

    def _blocks(self, row: Row, size: int) -> tuple[Block, ...]:
        rows = row.b
        if rows is UNSET or len(rows) != -(-size // BLOCK_BYTES):
            raise self._corrupt(f"the blocks of {row.p!r} cannot be")
        if len(rows) == 1:
            return (self._block(rows[0], size, row.p),)
        lengths = [BLOCK_BYTES] * (len(rows) - 1) + [size - BLOCK_BYTES * (len(rows) - 1)]
        return tuple(
            self._block(one, length, row.p)
            for one, length in zip(rows, lengths if rows else (), strict=True)
        )

    def _block(self, row: BlockRow, wanted_length: int, path: str) -> Block:
        pack, offset, stored, number, digest, length = row
        is_sealed = bool(number & SEALED)
        codec = _CODECS.get(number & ~SEALED)
        if codec is None:
            raise self._unknown(f"codec {number}, which {path!r} is stored with")
        seal = SEAL_BYTES if is_sealed else 0
        is_possible = (
            length == wanted_length
            and NO_PACK <= pack < self._packs
            and 0 <= offset < _LARGEST_NUMBER
            and 0 <= stored <= BLOCK_BYTES + seal
            and (is_sealed == self._is_keyed or pack == NO_PACK)
        )
        if pack == NO_PACK:
            is_right = is_possible and (offset, stored, number) == (0, 0, 0)
        else:
            is_right = is_possible and (codec is not Codec.RAW or stored == length + seal)
        if not is_right:
            raise self._corrupt(f"a block of {path!r} cannot be")
        return Block(
            pack=pack,
            offset=offset,
            stored=stored,
            codec=codec,
            digest=self._digest(digest, path),
            length=length,
            is_sealed=is_sealed,
        )

    def _mode(self, row: Row) -> int:
        mode = row.m
        if mode is UNSET or not 0 <= mode <= _MODES:
            raise self._corrupt(f"the mode of {row.p!r} cannot be")
        return mode

    def _moment(self, row: Row) -> int:
        moment = row.n
        if moment is UNSET or not -_LARGEST_NUMBER <= moment < _LARGEST_NUMBER:
            raise self._corrupt(f"the time of {row.p!r} cannot be")
        return moment

    def _digest(self, value: str, path: str) -> bytes:
        try:
            digest = bytes.fromhex(value)
        except ValueError:
            digest = b""
        if len(digest) != _DIGEST_BYTES or digest.hex() != value:
            raise self._corrupt(f"a digest of {path!r} cannot be")
        return digest

    def _path(self, row: Mapping[str, Any], key: str) -> str:
        path = self._text(row, key, PATH_LIMIT_BYTES)
        self._check_path(path)
        return path

    def _check_path(self, path: str) -> None:
        if not is_below(path) or not self._is_short(path):
            raise self._corrupt(f"the path {path!r} cannot be")

    @staticmethod
    def _is_short(text: str) -> bool:
        """Whether it is text that can be a path's."""
        length = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        return length <= PATH_LIMIT_BYTES and "\0" not in text

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


def _decode_body(data: bytes) -> Body:
    """The body in ``data``.

    Raises:
        ValueError, RecursionError, ValidationError, DecodeError: it is none.
    """
    try:
        return _BODY.decode(data)
    except ValidationError:
        raise
    except DecodeError:  # names that are no text: lone surrogates
        return convert(json.loads(data), Body)
