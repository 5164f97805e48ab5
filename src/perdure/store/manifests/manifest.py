"""What a checkpoint is made of, as values. Pure.

A manifest describes all of a save: its state, its file, and every entry of its dataset with the
blocks that hold it. It needs no other manifest. `perdure.store.manifests.manifest_format` turns it
into the bytes of a save's record and back.

Source: docs/store-format.md "Manifests", "Content id"; decision 044 (how an entry is kept).
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import cached_property
from typing import Any

from blake3 import blake3
from msgspec import Struct, to_builtins
from msgspec.json import encode
from msgspec.structs import replace

from perdure.store.compression import Codec
from perdure.store.layout import LaunchId, PackId
from perdure.store.records.record_format import canonical_json

#: A block holds at most this much of one file.
BLOCK_BYTES = 4 << 20
#: The pack of a block that holds zeros only: no pack.
NO_PACK = -1


class EntryType(Enum):
    """What lies at an entry's path."""

    #: a regular file
    FILE = "f"
    #: a folder
    FOLDER = "d"
    #: a symbolic link that leads nowhere outside
    LINK = "l"
    #: declared by the task, and not there
    ABSENT = "a"


class Kept(Enum):
    """How much of a file a checkpoint has."""

    #: its bytes
    BYTES = ""
    #: what it was: an input, not changed since the lineage's first claim; never written
    INPUT = "i"
    #: what it was: the job's files policy leaves the bytes where they are
    RECORD = "r"
    #: where it is: the program's own file, held by a second name
    ADOPTED = "a"


class RootKind(Enum):
    """What paths are relative to."""

    #: the session folder, wherever it is now
    SESSION = "session"
    #: a folder outside of it
    OUTSIDE = "outside"


class Root(Struct, frozen=True, kw_only=True, gc=False):
    """What paths are relative to; ``path`` is absolute, "" for the session folder."""

    kind: RootKind
    path: str = ""

    def shown(self, path: str) -> str:
        """``path`` as people are told it: absolute, or relative to the session folder."""
        if self.kind is RootKind.SESSION:
            return path
        return f"{self.path.rstrip('/')}/{path}"


SESSION_ROOT = Root(kind=RootKind.SESSION)


class FileRef(Struct, frozen=True, kw_only=True):
    """The save's file: an index into the roots, and a path relative to that root."""

    root: int
    path: str


class Block(Struct, frozen=True, kw_only=True, gc=False):
    """A piece of one file.

    Attributes:
        pack: index into the manifest's packs; `NO_PACK` when all its bytes are zero.
        offset: where it begins in the pack.
        stored: how many bytes it takes there.
        codec: how they are to be read.
        digest: BLAKE3 of its ``length`` bytes, keyed where it is sealed.
        length: how many bytes of the file it is.
        is_sealed: whether it is encrypted.
    """

    pack: int
    offset: int
    stored: int
    codec: Codec
    digest: bytes
    length: int
    is_sealed: bool = False


class Entry(Struct, frozen=True, kw_only=True, gc=False):
    """One path of the dataset.

    Attributes:
        root: index into the manifest's roots.
        path: relative to it.
        type: what lies there.
        mode: permission bits.
        mtime_ns: when it was changed last, for the program that looks at it.
        size: of a file.
        digest: of a file (`file_digest`); b"" where it was not read.
        target: of a link.
        blocks: of a file whose bytes are kept.
        kept: how much of a file the checkpoint has.
        hold: of an adopted file, its second name in the same folder; "" where it has none.
    """

    root: int
    path: str
    type: EntryType
    mode: int = 0
    mtime_ns: int = 0
    size: int = 0
    digest: bytes = b""
    target: str = ""
    blocks: tuple[Block, ...] = ()
    kept: Kept = Kept.BYTES
    hold: str = ""


class Manifest(Struct, frozen=True, kw_only=True, dict=True):  # dict: its content id is kept
    """A checkpoint's description.

    Attributes:
        attempt, launch: who saved.
        save: the how-manieth save of the attempt, from 1; 0: perdure's own, before any.
        state: the save's text; None when it had none.
        file: the save's file; None when it had none.
        roots, packs: what entries and blocks refer to by index.
        entries: the dataset, sorted by root and path.
        new_bytes: how many bytes were stored for it.
        key_id: of the key by which its blocks are encrypted and its digests keyed; "" for none.
    """

    attempt: int
    launch: LaunchId
    save: int
    state: str | None = None
    file: FileRef | None = None
    roots: tuple[Root, ...] = (SESSION_ROOT,)
    packs: tuple[PackId, ...] = ()
    entries: tuple[Entry, ...] = ()
    new_bytes: int = 0
    key_id: str = ""

    @cached_property
    def content(self) -> str:
        """Its content id."""
        return content_id(self.state, self.file, self.roots, self.entries)

    @property
    def size_bytes(self) -> int:
        """How many bytes its files have."""
        file = EntryType.FILE
        return sum([entry.size for entry in self.entries if entry.type is file])

    def shown_path(self, entry: Entry | FileRef) -> str:
        """An entry's path as people are told it: absolute, or relative to the session folder."""
        return self.roots[entry.root].shown(entry.path)


def with_digests(manifest: Manifest, digests: Mapping[int, bytes]) -> Manifest:
    """The manifest with digests of adopted files that were made after it was written."""
    if not digests:
        return manifest
    entries = tuple(
        replace(entry, digest=digests[index])
        if index in digests and entry.kept is Kept.ADOPTED and not entry.digest
        else entry
        for index, entry in enumerate(manifest.entries)
    )
    return replace(manifest, entries=entries)


def above(path: str) -> Iterator[str]:
    """The folders that a path lies in, below its root, the nearest first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def file_digest(block_digests: Iterable[bytes]) -> bytes:
    """A file's digest: BLAKE3 over the digests of its blocks of `BLOCK_BYTES`."""
    return blake3(b"".join(block_digests)).digest()


def content_id(
    state: str | None, file: FileRef | None, roots: tuple[Root, ...], entries: Iterable[Entry]
) -> str:
    """What was saved, whenever and wherever: equal content, equal id (64 hex digits).

    Inputs do not count: they are not the task's.
    """
    paths = [root.path for root in roots]  # "" for the session folder; no outside path is empty
    file_type, link, input_kept = EntryType.FILE, EntryType.LINK, Kept.INPUT
    rows: list[tuple[Any, ...]] = []
    for entry in entries:
        if entry.kept is input_kept:
            continue
        if entry.type is file_type:
            # An adopted file that is not read yet is known by its version.
            content = entry.digest.hex() or entry.hold
            rows.append((paths[entry.root], entry.path, "f", entry.size, content))
        else:
            target = entry.target if entry.type is link else None
            rows.append((paths[entry.root], entry.path, entry.type.value, None, target))
    rows.sort()
    named = None if file is None else (paths[file.root], file.path)
    return blake3(plain_json((state, named, rows))).hexdigest()


def plain_json(value: object) -> bytes:
    r"""What `readable_json` gives, faster; for texts, whole numbers, None, rows and `Struct` only.

    The fields of a `Struct` stand in the order of their names, as sorted keys would.
    """
    try:
        return encode(value)
    except UnicodeEncodeError:
        return readable_json(to_builtins(value))


def readable_json(value: object) -> bytes:
    r"""``value`` as canonical JSON.

    File names that are no text (lone surrogates, by `os.fsdecode`) are written as ``\udcNN``.
    """
    return canonical_json(value, errors="backslashreplace")
