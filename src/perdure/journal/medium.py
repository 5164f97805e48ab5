"""What a journal needs of a store: the driver's calls that it uses, and rows of segments.

`perdure.journal` does not know `perdure.store`; any object with these calls will do. On a store
that appends, a journal is one object; elsewhere it is a row of segments ``KEY.<n>``, one put a
flush, and offsets count through all of them.
"""

from collections.abc import Iterator
from typing import Protocol


class Medium(Protocol):
    """The calls of a store's driver that journals and heartbeats use."""

    appends: bool

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

    def head(self, key: str) -> int | None:
        """The object's size, or None."""
        ...


def segment_key(key: str, number: int) -> str:
    """Where the ``number``-th segment (from 1) of a journal is."""
    return f"{key}.{number:010d}"


def read_from(medium: Medium, key: str, start: int, *, fresh: bool = False) -> bytes:
    """The journal's bytes from offset ``start`` on; empty where there are none (yet).

    Args:
        medium: the store.
        key: the journal's key.
        start: how far it was read before.
        fresh: open the object even where its size says that there is nothing new: network file
            systems may show an old size, but not to whoever opens a file anew.
    """
    if medium.appends:
        size = medium.head(key)
        is_worth_it = size is not None and (fresh or size > start)
        return medium.get(key, start) if is_worth_it else b""
    return b"".join(_segments_from(medium, key, start))


def length(medium: Medium, key: str) -> int:
    """How many bytes the journal has, of all segments; 0 for none."""
    if medium.appends:
        return medium.head(key) or 0
    return sum(size for _number, size in _segments(medium, key))


def _segments_from(medium: Medium, key: str, start: int) -> Iterator[bytes]:
    """The bytes of the segments from offset ``start`` on."""
    offset = 0
    for number, size in _segments(medium, key):
        if offset + size > start:
            yield medium.get(segment_key(key, number), max(0, start - offset))
        offset += size


def _segments(medium: Medium, key: str) -> Iterator[tuple[int, int]]:
    """The numbers and sizes of the segments."""
    number = 1
    while (size := medium.head(segment_key(key, number))) is not None:
        yield number, size
        number += 1
