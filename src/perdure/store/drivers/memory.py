"""A store in memory, for tests: as strict as the others, and able to fail in every way they can.

Several drivers may stand on the same `Objects`, each with its own troubles, as several hosts stand
on one store (`MemoryDriver.sibling`). Before every call a driver asks its ``before`` hook, with the
`Call` and the key; the hook lets things happen by raising:

- any error of ours (`StoreUnavailable`, `OutOfSpace`…): the call fails and has no effect;
- `LoseReply`: the put takes effect, or not, and the caller is told `PutUncertain`;
- `LandLater`: the caller is told `PutUncertain` now, and the put takes effect when the test says
  `Objects.land`, if its key is still absent then;
- `ServeStale`: the read is answered from an earlier `Objects.snapshot`.

A hook that wants a call to wait blocks: it is called without the lock.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import ClassVar, TypeAlias

from perdure.store.drivers.driver import (
    Data,
    KeyMissing,
    PutUncertain,
    check_key,
    check_prefix,
    get_one_by_one,
    pieces,
)
from perdure.store.drivers.held_pieces import HeldPieces

_PACK_LIMIT_BYTES = 64 << 20


class Call(Enum):
    """What a driver is about to do."""

    #: create a key
    PUT_IF_ABSENT = "put_if_absent"
    #: replace a key
    PUT = "put"
    #: read a key
    GET = "get"
    #: look for keys
    LIST = "list"
    #: remove a key
    DELETE = "delete"
    #: ask for a size
    HEAD = "head"
    #: add to a journal
    APPEND = "append"
    #: make a journal durable
    SYNC = "sync"


Hook: TypeAlias = Callable[[Call, str], None]


class LoseReply(Exception):
    """Raised by a hook: do the put (or not), and do not say so."""

    def __init__(self, *, applied: bool) -> None:
        super().__init__(applied)
        self.applied = applied


class LandLater(Exception):
    """Raised by a hook: do the put at the next `Objects.land`, and do not say so."""


class ServeStale(Exception):
    """Raised by a hook: answer this read from ``snapshot``."""

    def __init__(self, snapshot: Mapping[str, bytes]) -> None:
        super().__init__()
        self.snapshot = snapshot


class Objects:
    """What drivers of one memory store share."""

    _named: ClassVar[dict[str, "Objects"]] = {}
    _naming: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.held: dict[str, bytes] = {}
        self.late: list[tuple[str, bytes]] = []

    @classmethod
    def named(cls, name: str) -> "Objects":
        """The objects of ``memory://name``: the same for all of this process."""
        with cls._naming:
            return cls._named.setdefault(name, cls())

    def snapshot(self) -> dict[str, bytes]:
        """All objects as they are now, to be served stale later."""
        with self.lock:
            return dict(self.held)

    def land(self) -> list[bool]:
        """Let the late puts take effect, in order; whether each created its key."""
        with self.lock:
            late, self.late = self.late, []
            return [self.create(key, data) for key, data in late]

    def create(self, key: str, data: bytes) -> bool:
        """Put ``key`` if absent."""
        with self.lock:
            if key in self.held:
                return False
            self.held[key] = data
            return True


class MemoryUpload(HeldPieces):
    """An object held in memory until it is committed."""

    def __init__(self, driver: "MemoryDriver", key: str) -> None:
        super().__init__()
        self._driver = driver
        self._key = key

    def commit(self) -> bool:
        """Put the object if absent."""
        return self._driver.put_if_absent(self._key, self._data)

    def abort(self) -> None:
        """Forget what was written."""
        self._data = bytearray()


class MemoryDriver:
    """A store in memory; see the module for ``before``."""

    uploads_at_once = 1
    gets_at_once = 1
    look_seconds = 0.0
    bytes_per_second = 1e10

    def __init__(
        self,
        objects: Objects | None = None,
        *,
        before: Hook | None = None,
        appends: bool = True,
        pack_limit_bytes: int = _PACK_LIMIT_BYTES,
        url: str = "memory://",
    ) -> None:
        self.objects = Objects() if objects is None else objects
        self.before = before
        self.appends = appends
        self.pack_limit_bytes = pack_limit_bytes
        self.url = url

    def sibling(self, *, before: Hook | None = None) -> "MemoryDriver":
        """Another driver of the same store, as another host would have."""
        return MemoryDriver(
            self.objects,
            before=before,
            appends=self.appends,
            pack_limit_bytes=self.pack_limit_bytes,
            url=self.url,
        )

    def put_if_absent(self, key: str, data: Data) -> bool:
        """Create ``key``; False if it exists."""
        check_key(key)
        whole = b"".join(pieces(data))
        try:
            self._ask(Call.PUT_IF_ABSENT, key)
        except LoseReply as lost:
            if lost.applied:
                self.objects.create(key, whole)
            raise PutUncertain(key) from None
        except LandLater:
            with self.objects.lock:
                self.objects.late.append((key, whole))
            raise PutUncertain(key) from None
        return self.objects.create(key, whole)

    def put(self, key: str, data: Data, *, in_place: bool = False) -> None:  # noqa: ARG002 - memory has always room
        """Replace ``key``."""
        check_key(key)
        whole = b"".join(pieces(data))
        try:
            self._ask(Call.PUT, key)
        except LoseReply as lost:
            if lost.applied:
                self._set(key, whole)
            raise PutUncertain(key) from None
        self._set(key, whole)

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """The object's bytes, or a range of them."""
        held = self._seen(Call.GET, check_key(key)).get(key)
        if held is None:
            raise KeyMissing(key)
        return held[start:] if length is None else held[start : start + length]

    def get_into(self, key: str, start: int, buffer: memoryview) -> int:
        """Fill ``buffer`` with the object's bytes from ``start``; how many there were."""
        data = self.get(key, start, buffer.nbytes)
        buffer[: len(data)] = data
        return len(data)

    def get_many(self, keys: Iterable[str]) -> Iterator[bytes | None]:
        """The objects, one after the other."""
        return get_one_by_one(self, keys)

    def list(self, prefix: str) -> Iterator[str]:
        """The keys below ``prefix``, sorted."""
        below = f"{check_prefix(prefix)}/" if prefix else ""
        keys = sorted(self._seen(Call.LIST, prefix))
        first = bisect_left(keys, below)
        return iter([key for key in keys[first:] if key.startswith(below)])

    def children(self, prefix: str) -> tuple[str, ...]:
        """The next parts below ``prefix``."""
        skipped = len(prefix) + 1 if prefix else 0
        return tuple(sorted({key[skipped:].partition("/")[0] for key in self.list(prefix)}))

    def delete(self, key: str) -> None:
        """Remove ``key``."""
        self._ask(Call.DELETE, check_key(key))
        with self.objects.lock:
            self.objects.held.pop(key, None)

    def delete_all(self, keys: Iterable[str]) -> None:
        """Remove ``keys``, one after the other."""
        for key in keys:
            self.delete(key)

    def head(self, key: str) -> int | None:
        """The object's size."""
        held = self._seen(Call.HEAD, check_key(key)).get(key)
        return None if held is None else len(held)

    def upload(self, key: str) -> MemoryUpload:
        """Begin an object that is written piece by piece."""
        return MemoryUpload(self, check_key(key))

    def append(self, key: str, data: bytes) -> None:
        """Add ``data`` at the end of ``key``."""
        self._refuse_unless_appending()
        self._ask(Call.APPEND, check_key(key))
        with self.objects.lock:
            self.objects.held[key] = self.objects.held.get(key, b"") + data

    def sync(self, key: str) -> None:
        """Nothing: memory is as durable as it gets."""
        self._refuse_unless_appending()
        self._ask(Call.SYNC, check_key(key))

    def local_path(self, key: str) -> Path | None:  # noqa: ARG002 - no key is a file
        """None."""
        return None

    def sweep(self, prefix: str, *, older_than_seconds: float, skip: Container[str] = ()) -> int:  # noqa: ARG002 - nothing is left over
        """Nothing is ever left over."""
        return 0

    def close(self) -> None:
        """Nothing is open."""

    def _ask(self, call: Call, key: str) -> None:
        if self.before is not None:
            self.before(call, key)

    def _seen(self, call: Call, key: str) -> Mapping[str, bytes]:
        try:
            self._ask(call, key)
        except ServeStale as stale:
            return stale.snapshot
        return self.objects.snapshot() if call is Call.LIST else self.objects.held

    def _set(self, key: str, data: bytes) -> None:
        with self.objects.lock:
            self.objects.held[key] = data

    def _refuse_unless_appending(self) -> None:
        if not self.appends:
            msg = f"{self.url} cannot append"
            raise NotImplementedError(msg)
