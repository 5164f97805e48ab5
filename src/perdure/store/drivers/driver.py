"""What a store must be able to do: a flat space of keys and six calls.

Rules that every driver keeps, held to them by ``tests/contract/store``:

- an object appears whole or not at all; of all that ever put one key *if absent*, exactly one is
  told that it created it, and it is told so only when the object is durable;
- "not there" and "no more there" may be stale, so that nothing is concluded from them;
- a put whose outcome cannot be known raises `PutUncertain`: put the same again until it is known.

Beside the six calls there are conveniences: `Driver.children` (a listing that stops at the next
slash), `Driver.get_many` and `Driver.delete_all` (side by side, or in one request, where that is
faster), `Driver.upload` (an object written piece by piece, so that nobody holds a big one in
memory), and, for a folder only, `Driver.append` with `Driver.sync` for journals.

Source: docs/store-format.md "Drivers".
"""

import re
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Protocol, TypeAlias

from perdure.errors import HomeError, StoreUnavailable

Piece: TypeAlias = bytes | bytearray | memoryview
Data: TypeAlias = Piece | Iterable[Piece]

#: What `Upload.write` aligns to: the blocks of a disk that is written past the page cache.
ALIGNMENT = 4096

# A leading dot is the drivers' own: temporary names begin with one and are never keys.
_PART = r"[a-z0-9_-][a-z0-9._-]*"
_KEY = re.compile(rf"{_PART}(?:/{_PART})*")
_LONGEST_KEY = 512
_LONGEST_PART = 200


class KeyMissing(HomeError):
    """The store shows no object of this key."""

    kind = "key-missing"

    def __init__(self, key: str) -> None:
        super().__init__(f"the store has no object {key!r}", key=key)
        self.key = key


class PutUncertain(StoreUnavailable):
    """Nobody can say whether the put took effect; put the same again until it is known."""

    kind = "put-uncertain"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"the store did not say whether {key!r} was written",
            hint="The same is put again until the store answers.",
            key=key,
        )
        self.key = key


class Upload(Protocol):
    """An object that is being written; nobody sees it before `commit`."""

    @property
    def size(self) -> int:
        """How many bytes were written so far."""
        ...

    def write(self, piece: Piece, *, aligned: bool = False) -> int:
        """Add ``piece`` at the end; the offset at which it begins in the object.

        Several threads may call this at once; none of them is in it when the other methods are
        called.

        Args:
            piece: the bytes; may be changed as soon as this returns.
            aligned: begin at a multiple of 4096; zeros lie before it, and may lie behind it.
        """
        ...

    def commit(self) -> bool:
        """Make the object visible if its key is absent; True if this created it.

        Durable when it returns. May be called again after `PutUncertain`.
        """
        ...

    def abort(self) -> None:
        """Forget what was written; allowed at any time, also after `commit`."""
        ...


class Driver(Protocol):
    """How a store is reached. Safe to call from any thread.

    Attributes:
        url: what people call this store.
        appends: whether `append` and `sync` work here.
        pack_limit_bytes: how large an object may grow that is made of blocks.
        uploads_at_once: how many of those may be committed side by side, behind the back of who
            fills the next one; 1: its commit waits for nothing but the disk.
        gets_at_once: how many objects a reader should ask for side by side (`get_many`); 1: it
            gains nothing.
        look_seconds: how long who waits for something new should let pass between two looks; 0:
            a look costs nothing.
        bytes_per_second: how fast blocks are written here, before it was measured.
    """

    url: str
    appends: bool
    pack_limit_bytes: int
    uploads_at_once: int
    gets_at_once: int
    look_seconds: float
    bytes_per_second: float

    def put_if_absent(self, key: str, data: Data) -> bool:
        """Create ``key`` with ``data``; False if it exists, which then stays as it is.

        Raises:
            PutUncertain: it may have been created, or may yet be.
            OutOfSpace: no space or quota left; nothing was created.
        """
        ...

    def put(self, key: str, data: Data, *, in_place: bool = False) -> None:
        """Replace ``key`` by ``data``, whole and durable.

        Args:
            key: where.
            data: what.
            in_place: write over an object of the same size without asking for new space and
                without waiting for the disk: for heartbeats, whose readers check what they read.
        """
        ...

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """The object's bytes from ``start``, at most ``length`` of them; fewer at its end.

        Raises:
            KeyMissing: there is no such object, as far as the store shows.
        """
        ...

    def get_into(self, key: str, start: int, buffer: memoryview) -> int:
        """Fill ``buffer`` with the object's bytes from ``start``; how many there were.

        Raises:
            KeyMissing: there is no such object, as far as the store shows.
        """
        ...

    def get_many(self, keys: Iterable[str]) -> Iterator[bytes | None]:
        """The objects, whole and in order; None for one that the store does not show.

        Some may have been asked for that the caller did not come to.
        """
        ...

    def list(self, prefix: str) -> Iterator[str]:
        """The keys below ``prefix`` ("" for all), sorted; may be stale."""
        ...

    def children(self, prefix: str) -> tuple[str, ...]:
        """The next parts of the keys below ``prefix``, each once, sorted; may be stale."""
        ...

    def delete(self, key: str) -> None:
        """Remove ``key``; no error when it is not there."""
        ...

    def delete_all(self, keys: Iterable[str]) -> None:
        """Remove ``keys``, in as few requests as possible; some may be gone when it fails."""
        ...

    def head(self, key: str) -> int | None:
        """The object's size in bytes; None if there is none, as far as the store shows."""
        ...

    def upload(self, key: str) -> Upload:
        """Begin an object that is written piece by piece and then put if absent."""
        ...

    def append(self, key: str, data: bytes) -> None:
        """Add ``data`` at the end of ``key``, made when it is not there: all of it or nothing.

        Not durable before `sync`. One writer a key.

        Raises:
            OutOfSpace: also the room kept ahead for last words is used up.
        """
        ...

    def sync(self, key: str) -> None:
        """Make durable all that this driver appended to ``key``."""
        ...

    def local_path(self, key: str) -> Path | None:
        """Where ``key`` lies as a file of this host, to watch it; None if it is none."""
        ...

    def sweep(self, prefix: str, *, older_than_seconds: float, skip: Container[str] = ()) -> int:
        """Remove what dead writers left unfinished below ``prefix``; how many were removed.

        Folders in which nothing is go, too.

        Args:
            prefix: where; "" for all.
            older_than_seconds: what was touched later may be a living writer's.
            skip: prefixes below which nothing is removed.
        """
        ...

    def close(self) -> None:
        """Let go of open files; the driver is of no use afterwards."""
        ...


def is_key(text: str) -> bool:
    """Whether ``text`` can be a key."""
    return (
        len(text) <= _LONGEST_KEY
        and _KEY.fullmatch(text) is not None
        and all(len(part) <= _LONGEST_PART for part in text.split("/"))
    )


def check_key(key: str) -> str:
    """``key``, if it is one.

    Raises:
        ValueError: it is empty, too long, or has a part that is not made of ``[a-z0-9._-]``.
    """
    if not is_key(key):
        msg = f"{key[:_LONGEST_KEY]!r} is no key of a store"
        raise ValueError(msg)
    return key


def get_one_by_one(driver: Driver, keys: Iterable[str]) -> Iterator[bytes | None]:
    """`Driver.get_many` where asking side by side gains nothing."""
    for key in keys:
        try:
            yield driver.get(key)
        except KeyMissing:
            yield None


def check_prefix(prefix: str) -> str:
    """``prefix``, if it is "" or a key.

    Raises:
        ValueError: it is neither.
    """
    return prefix and check_key(prefix)


def pieces(data: Data) -> Iterator[Piece]:
    """``data`` piece by piece."""
    if isinstance(data, bytes | bytearray | memoryview):
        yield data
    else:
        yield from data
