"""Records: the bytes of every object of a store but packs, journals and heartbeats. Pure.

Source: docs/store-format.md, "Records". What is written is checked when read: a record whose digest
does not match is damaged and says so with its key; a greater format number is refused, untouched.
"""

import json
from collections.abc import Mapping
from typing import Any

from blake3 import blake3
from msgspec import Struct

from perdure.errors import FormatTooNew, StoreDamaged

FORMAT = 1
#: A header longer than this is damage: the largest real one describes a share of many tasks.
HEADER_LIMIT_BYTES = 16 * 1024 * 1024
_MAGIC = b"perdure-record "
_DIGEST_HEX_DIGITS = 64
_TRAILER_BYTES = 1 + _DIGEST_HEX_DIGITS + 1  # LF, digest, LF


class Record(Struct, frozen=True, kw_only=True):
    """One record as read: what its writer said, and the bytes that came with it."""

    header: Mapping[str, Any]
    payload: bytes = b""

    @property
    def kind(self) -> str:
        """What the record is."""
        return str(self.header.get("kind", ""))

    @property
    def writer_id(self) -> str:
        """The random id by which its writer knows it again."""
        return str(self.header.get("id", ""))


def canonical_json(value: object, *, errors: str = "strict") -> bytes:
    """``value`` as JSON with sorted keys and no spaces, in UTF-8: equal values, equal bytes.

    Args:
        value: what is written.
        errors: what becomes of a lone surrogate, as `str.encode` says.

    Raises:
        ValueError: NaN or infinity, or a lone surrogate where that is an error.
    """
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode("utf-8", errors)


def encode_record(header: Mapping[str, Any], payload: bytes = b"") -> bytes:
    """The bytes of a record; ``kind``, ``id`` and ``at`` are the caller's to give."""
    described = {**header, "payload": len(payload)} if payload else dict(header)
    body = b"%s%d\n%s\n%s" % (_MAGIC, FORMAT, canonical_json(described), payload)
    return b"%s\n%s\n" % (body, blake3(body).hexdigest().encode("ascii"))


def decode_record(data: bytes, *, key: str) -> Record:
    """The record in ``data``, read from ``key`` (for the error's text).

    Raises:
        FormatTooNew: written by a later perdure.
        StoreDamaged: not what was written.
    """
    _check_first_line(data, key)
    body, trailer = data[:-_TRAILER_BYTES], data[-_TRAILER_BYTES:]
    if trailer != b"\n%s\n" % blake3(body).hexdigest().encode("ascii"):
        raise _damaged(key, "its digest does not match its bytes")
    first = body.find(b"\n") + 1
    end = body.find(b"\n", first)
    if end < 0 or end - first > HEADER_LIMIT_BYTES:
        raise _damaged(key, "it has no header of a possible length")
    header = _parse_header(body[first:end], key)
    payload = body[end + 1 :]
    if len(payload) != header.get("payload", 0):
        raise _damaged(key, "its payload is shorter or longer than its header says")
    return Record(header=header, payload=payload)


def decode_record_of(data: bytes, *, key: str) -> Record:
    """The record in ``data``, which must have been written to be at ``key``.

    Records of a log say where they belong: two that were swapped are right, each by itself. Those
    of the first perdures, and those that stand in for a damaged one, do not say it.

    Raises:
        FormatTooNew, StoreDamaged: as `decode_record`.
    """
    record = decode_record(data, key=key)
    own = record.header.get("key", key)
    if own != key:
        raise _damaged(key, f"what stands there was written as {own}")
    return record


def _check_first_line(data: bytes, key: str) -> None:
    """Refuse what is no record, or one of a later format."""
    end = data.find(b"\n", 0, len(_MAGIC) + 12)
    number = data[len(_MAGIC) : end]
    if not data.startswith(_MAGIC) or end < 0 or not number.isdigit():
        raise _damaged(key, "it does not begin like a record")
    if int(number) > FORMAT and _is_ours_but_for_its_number(data, end):
        raise _damaged(key, "its format's number is not what was written")
    if int(number) > FORMAT:
        raise FormatTooNew(
            f"{key} is written in format {int(number)}; this perdure reads up to {FORMAT}",
            hint="Use the perdure that wrote it, or a later one; nothing was changed.",
            key=key,
            format=int(number),
        )


def _is_ours_but_for_its_number(data: bytes, end: int) -> bool:
    """Whether the digest fits a format that we know: then the number is what was damaged."""
    rest, trailer = data[end:-_TRAILER_BYTES], data[-_TRAILER_BYTES:]
    digests = (blake3(b"%s%d%s" % (_MAGIC, n, rest)).hexdigest() for n in range(1, FORMAT + 1))
    return any(trailer == b"\n%s\n" % digest.encode("ascii") for digest in digests)


def _parse_header(line: bytes, key: str) -> dict[str, Any]:
    """The header's object."""
    try:
        header = json.loads(line)
    except ValueError as error:
        raise _damaged(key, "its header is no JSON") from error
    if not isinstance(header, dict):
        raise _damaged(key, "its header is no JSON object")
    return header


def _damaged(key: str, reason: str) -> StoreDamaged:
    """The error for an object that is not what was written."""
    return StoreDamaged(
        f"{key} is damaged: {reason}",
        hint="Run `perdure repair` to set damaged objects aside and to see what remains.",
        key=key,
    )
