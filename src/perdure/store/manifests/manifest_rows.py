"""The payload of a save's record as it is written: one row an entry, fields in sorted order. Pure.

Types only: what the values must be is checked by `perdure.store.manifests.manifest_reading`.

Source: docs/store-format.md "Manifests".
"""

from msgspec import UNSET, Struct, UnsetType

#: A body is never longer: one file of 4 TiB, or half a million small ones.
BODY_LIMIT_BYTES = 128 << 20
ENTRY_LIMIT = 1_000_000
HASH = "blake3"
#: BLAKE3 keyed by the key whose id the header has.
KEYED_HASH = "blake3-keyed"
#: Added to the codec of a block that is encrypted.
SEALED = 16
#: A sealed block is so much longer: a nonce of 96 bits and a tag of 128.
SEAL_BYTES = 12 + 16
#: What stands before a pack's id.
PACKS = "packs/"

#: pack, offset, stored, codec, digest, length
BlockRow = tuple[int, int, int, int, str, int]


class Row(Struct, kw_only=True, gc=False):
    """An entry as it is written; its fields are those of docs/store-format.md, in sorted order."""

    b: list[BlockRow] | UnsetType = UNSET
    h: str | UnsetType = UNSET
    k: str | UnsetType = UNSET
    l: str | UnsetType = UNSET  # noqa: E741 - the format's name
    m: int | UnsetType = UNSET
    n: int | UnsetType = UNSET
    p: str
    r: int
    s: int | UnsetType = UNSET
    t: str
    x: str | UnsetType = UNSET


class FileRow(Struct, gc=False):
    """The row of a file whose bytes are kept, as it is written: what `Row` with these gives."""

    b: list[BlockRow]
    h: str
    m: int
    n: int
    p: str
    r: int
    s: int
    t: str = "f"


class Body(Struct, kw_only=True, gc=False):
    """The payload; fields in sorted order."""

    entries: list[Row]
    packs: list[str]


class WrittenBody(Struct, kw_only=True, gc=False):
    """The same, to be written."""

    entries: list[Row | FileRow]
    packs: list[str]
