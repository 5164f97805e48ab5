"""The lines of a journal. Pure.

Source: docs/journal-format.md, "Journals". A line is canonical JSON, a tab, the first sixteen hex
digits of its BLAKE3, and a line feed. What a dying writer left (a cut last line) does not count,
nor does anything behind it.
"""

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec
from blake3 import blake3
from msgspec import Struct

FORMAT = 1
_DIGITS = 16
#: A longer line is damage: the longest real ones list the values of a chunk.
LINE_LIMIT_BYTES = 8 * 1024 * 1024


class Kind(Enum):
    """What a journal's line says."""

    #: Who writes this journal; always the first line.
    OPENED = "opened"
    #: An attempt is about to start.
    BEGUN = "begun"
    #: The task called values of its chunk complete.
    REPORTED = "reported"
    #: Values whose files are durable: never run again.
    KEPT = "kept"
    #: What `perdure why` shows beside the outcome.
    NOTED = "noted"
    #: How an attempt ended.
    OUTCOME = "outcome"
    #: Nothing of this attempt is left, and this launch adds nothing more to its lineage.
    RELEASED = "released"
    #: Everything that this launch ever held is released.
    CLOSED = "closed"


class JournalRecord(Struct, frozen=True, kw_only=True):
    """One line: its kind, its fields, and the offset in the journal at which it ends."""

    kind: Kind
    fields: Mapping[str, Any]
    end: int


class Parsed(Struct, frozen=True, kw_only=True):
    """What a stretch of journal says.

    Attributes:
        records: the good lines, in order.
        length: offset behind the last good line: what counts, and where a reader goes on.
        damaged_at: offset of a complete line that does not match, or None. A cut last line is no
            damage: its writer may still be writing it.
    """

    records: tuple[JournalRecord, ...]
    length: int
    damaged_at: int | None


def encode_line(kind: Kind, fields: Mapping[str, Any]) -> bytes:
    """One line of a journal, line feed included."""
    text = json.dumps(
        {"k": kind.value, **fields},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    ).encode("utf-8")
    return b"%s\t%s\n" % (text, blake3(text).hexdigest()[:_DIGITS].encode("ascii"))


def parse(data: bytes, *, start: int = 0) -> Parsed:
    """The lines in ``data``, which begins at offset ``start`` of the journal.

    Never raises: whatever does not read ends what counts. Kinds of later versions are passed over.
    """
    records: list[JournalRecord] = []
    position = 0
    while (end := data.find(b"\n", position)) >= 0:
        fields = _decode(data[position:end])
        if fields is None:
            return Parsed(
                records=tuple(records), length=start + position, damaged_at=start + position
            )
        position = end + 1
        kind = _KINDS.get(str(fields.pop("k", "")))
        if kind is not None:
            records.append(JournalRecord(kind=kind, fields=fields, end=start + position))
    too_long = len(data) - position > LINE_LIMIT_BYTES
    return Parsed(
        records=tuple(records),
        length=start + position,
        damaged_at=start + position if too_long else None,
    )


_KINDS: Mapping[str, Kind] = {kind.value: kind for kind in Kind}


def _decode(line: bytes) -> dict[str, Any] | None:
    """The fields of one line without its line feed, or None if it is not what was written."""
    text, tab, digits = line.rpartition(b"\t")
    if not tab or blake3(text).hexdigest()[:_DIGITS].encode("ascii") != digits:
        return None
    try:
        fields = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None
