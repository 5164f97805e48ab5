"""What a journal needs of a store: the driver's calls that it uses, and rows of segments.

`perdure.journal` does not know `perdure.store`; any object with these calls will do. On a store
that appends, a journal is one object; elsewhere it is a row of segments ``KEY.<n>``, one put a
flush, and offsets count through all of them.

A row is read by asking for the next segments, ever more at once as long as there are any: a look
at a row that has not grown is one request, and nobody lists. Segments never change, so that a
reader who keeps its `Row` never asks for one twice.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol


class Medium(Protocol):
    """The calls of a store's driver that journals and heartbeats use."""

    appends: bool
    gets_at_once: int

    def append(self, key: str, data: bytes) -> None:
        """Add ``data`` at the end of the object, all of it or nothing."""
        ...

    def sync(self, key: str) -> None:
        """Return once everything appended is durable."""
        ...

    def put(self, key: str, data: bytes, *, in_place: bool = False) -> None:
        """Replace the object."""
        ...

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Create the object unless it is there."""
        ...

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """The object's bytes, or a range of them."""
        ...

    def get_many(self, keys: Iterable[str]) -> Iterator[bytes | None]:
        """The objects, whole and in order; None for one that is not there."""
        ...

    def head(self, key: str) -> int | None:
        """The object's size, or None."""
        ...


def segment_key(key: str, number: int) -> str:
    """Where the ``number``-th segment (from 1) of a journal is."""
    return f"{key}.{number:010d}"


class Row:
    """How far a row of segments was read.

    Attributes:
        segments: how many.
        size: how many bytes they have.
    """

    def __init__(self) -> None:
        self.segments = 0
        self.size = 0


def read_from(
    medium: Medium, key: str, start: int, *, fresh: bool = False, row: Row | None = None
) -> bytes:
    """The journal's bytes from offset ``start`` on; empty where there are none (yet).

    Args:
        medium: the store.
        key: the journal's key.
        start: how far it was read before.
        fresh: open the object even where its size says that there is nothing new: network file
            systems may show an old size, but not to whoever opens a file anew.
        row: of this journal, kept by the reader between two reads; without, all segments are read.
    """
    if medium.appends:
        size = medium.head(key)
        is_worth_it = size is not None and (fresh or size > start)
        return medium.get(key, start) if is_worth_it else b""
    if row is None or row.size != start:
        row = Row()
    skipped = start - row.size
    return b"".join(_new_segments(medium, key, row))[skipped:]


def _new_segments(medium: Medium, key: str, row: Row) -> Iterator[bytes]:
    """The segments behind ``row``, which goes on with them."""
    at_once = 1
    while True:
        numbers = range(row.segments + 1, row.segments + 1 + at_once)
        for data in medium.get_many(segment_key(key, number) for number in numbers):
            if data is None:
                return
            row.segments += 1
            row.size += len(data)
            yield data
        at_once = min(2 * at_once, medium.gets_at_once)


def mark(medium: Medium, key: str, known: int = 0) -> int:
    """A number that is greater after each growth of the journal; 0 for none.

    Bytes of an object, segments of a row. It may lag behind, and is never ahead.

    Args:
        medium: the store.
        key: the journal's key.
        known: a mark that it had; the nearer, the fewer requests.
    """
    if medium.appends:
        return medium.head(key) or 0
    # A row has no gaps: leap until there is none, then halve what lies between.
    there, step = known, 1
    while medium.head(segment_key(key, there + step)) is not None:
        there, step = there + step, 2 * step
    while step > 1:
        step //= 2
        if medium.head(segment_key(key, there + step)) is not None:
            there += step
    return there
