"""A store in a bucket: S3, Google Cloud Storage or Azure, by obstore.

Theory of operation. An object store has what a store needs by itself: an object appears whole, and
a create (``If-None-Match: *`` and its like) is refused where one is there. What it lacks is a
reliable answer. A request may be done and its answer lost, so that everything turns on one rule:

    **Each request is sent once; whether it is sent again is decided here, by what it was.**

obstore's own retries are switched off, because a create that is sent twice may meet its own first
try and call it somebody else's. Reads, overwrites and deletions may be repeated as they are. A
create may be repeated, too, and then

- ``created``: the first try never took effect, nor will it: the object is ours;
- ``exists`` with no try before it of unknown outcome: it is somebody else's, `False`;
- ``exists`` behind a try of unknown outcome: ours or not, nobody here can tell: `PutUncertain`,
  and the caller, who knows its own bytes, puts again, reads, and decides.

How long it takes. A small request may take 5 s, and is tried for 5 s, or twice: a worker must
notice within two heartbeats that the store is out of reach. A pack may take a minute, then four,
then sixteen, for slow lines; a block or a page of a list half a minute, then two.

Credentials that are refused are read again, twice a call; when they stay refused the call fails as
if the store were out of reach, so that nothing is lost before somebody renews them.

Memory: an upload holds its object (`pack_limit_bytes`) until it is committed; see `pack_uploads`.

Threads: every call may come from any thread.

Source: docs/store-format.md "Drivers"; docs/decisions/110 to 114; the conditional writes of S3
(``If-None-Match``), Google (``x-goog-if-generation-match``) and Azure.
"""

import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from perdure.errors import HomeError
from perdure.store.drivers.driver import (
    Data,
    KeyMissing,
    Piece,
    PutUncertain,
    check_key,
    check_prefix,
    is_key,
    pieces,
)
from perdure.store.drivers.held_pieces import HeldPieces
from perdure.store.drivers.object_clients import Clients
from perdure.store.drivers.object_faults import Answer, Fault
from perdure.store.drivers.object_requests import BULK_BYTES, ONCE, READING, SMALL, Requests

if TYPE_CHECKING:
    from perdure.store.drivers.object_clients import Client

_T = TypeVar("_T")

PACK_LIMIT_BYTES = 32 << 20
_LISTED_AT_ONCE = 1000


class ObjectUpload(HeldPieces):
    """An object held in memory until it is committed; pieces may come from several threads."""

    def __init__(self, driver: "ObjectDriver", key: str) -> None:
        super().__init__()
        self._driver = driver
        self._key = key
        self._is_uncertain = False

    def commit(self) -> bool:
        """Create the object; durable when it returns. May be called again after `PutUncertain`."""
        with self._lock:
            if self._is_uncertain and self._driver.head(self._key) is not None:
                # Whoever asks again knows whose it is; it need not travel a second time.
                return False
            try:
                return self._driver.create(self._key, self._data)
            except PutUncertain:
                self._is_uncertain = True
                raise

    def abort(self) -> None:
        """Forget what was written."""
        with self._lock:
            self._data = bytearray()


class ObjectDriver:
    """A store in a bucket.

    Args:
        clients: how it is reached.
        url: what people call it.
        write: False: every call that would change something is refused.
        sleep: waits between two tries; for tests.
        monotonic: for how long was tried; for tests.
    """

    appends = False
    pack_limit_bytes = PACK_LIMIT_BYTES
    uploads_at_once = 2
    gets_at_once = 16
    look_seconds = 1.0
    bytes_per_second = 100e6

    def __init__(
        self,
        clients: Clients,
        *,
        url: str,
        write: bool = True,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self._clients = clients
        self._write = write
        self._requests = Requests(
            clients, called=f"the store {url}", url=url, sleep=sleep, monotonic=monotonic
        )
        self._readers_lock = threading.Lock()
        self._readers: ThreadPoolExecutor | None = None

    def put_if_absent(self, key: str, data: Data) -> bool:
        """Create ``key``; False if it exists."""
        return self.create(key, _joined(data))

    def create(self, key: str, whole: Piece) -> bool:
        """The same for bytes that are in one piece; they are not copied."""
        check_key(key)
        self._refuse_unless_writing()
        return self._requests.create(key, whole)

    def put(self, key: str, data: Data, *, in_place: bool = False) -> None:
        """Replace ``key``; with ``in_place`` it is tried once, for who tries again anyway."""
        check_key(key)
        self._refuse_unless_writing()
        self._requests.overwrite(key, _joined(data), ONCE if in_place else None)

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """The object's bytes, or a range of them.

        What has no known length is read up to 1 MiB first, so that a short timeout does for it.
        Only small objects are ever replaced: what is longer cannot change between two reads.
        """
        check_key(key)
        if length == 0:
            return self._empty(key)
        if length is not None:
            return self._requests.read(key, start, length)[0]
        first, size = self._requests.read(key, start, BULK_BYTES - 1)
        left = size - start - len(first)
        return first + self._requests.read(key, start + len(first), left)[0] if left > 0 else first

    def _empty(self, key: str) -> bytes:
        if self.head(key) is None:
            raise KeyMissing(key)
        return b""

    def get_into(self, key: str, start: int, buffer: memoryview) -> int:
        """Fill ``buffer`` with the object's bytes from ``start``; how many there were."""
        data = self.get(key, start, buffer.nbytes)
        buffer[: len(data)] = data
        return len(data)

    def get_many(self, keys: Iterable[str]) -> Iterator[bytes | None]:
        """The objects, up to `gets_at_once` asked for side by side."""
        asked = [*keys]
        if len(asked) == 1:
            return iter([self._get_or_none(asked[0])])
        with self._readers_lock:
            if self._readers is None:
                self._readers = ThreadPoolExecutor(self.gets_at_once, "perdure-reader")
            return self._readers.map(self._get_or_none, asked)

    def _get_or_none(self, key: str) -> bytes | None:
        try:
            return self.get(key)
        except KeyMissing:
            return None

    def list(self, prefix: str) -> Iterator[str]:
        """The keys below ``prefix``, sorted; what other programs put there is passed over."""
        check_prefix(prefix)

        def collect(client: "Client") -> list[str]:
            found = client.list(prefix or None, chunk_size=_LISTED_AT_ONCE)
            return [about["path"] for part in found for about in part]

        return iter(sorted(key for key in self._done(collect, prefix) if is_key(key)))

    def children(self, prefix: str) -> tuple[str, ...]:
        """The next parts of the keys below ``prefix``."""
        check_prefix(prefix)

        def collect(client: "Client") -> set[str]:
            found = client.list_with_delimiter(prefix or None)
            paths = [*found["common_prefixes"], *(about["path"] for about in found["objects"])]
            return {path.rstrip("/").rpartition("/")[2] for path in paths}

        return tuple(sorted(self._done(collect, prefix) - {""}))

    def delete(self, key: str) -> None:
        """Remove ``key``; no error when it is not there."""
        self.delete_all([key])

    def delete_all(self, keys: Iterable[str]) -> None:
        """Remove ``keys``, as many in one request as the cloud takes."""
        checked = [check_key(key) for key in keys]
        self._refuse_unless_writing()
        if not checked:
            return
        answer = self._requests.until_done(
            SMALL if len(checked) == 1 else READING, lambda client: client.delete(checked)
        )
        if not isinstance(answer, Answer):
            return
        if answer.fault is not Fault.MISSING:
            raise self._requests.error(answer, checked[0])
        if len(checked) > 1:
            # Where each goes in a request of its own, one that is gone ends the row.
            for key in checked:
                self.delete(key)

    def head(self, key: str) -> int | None:
        """The object's size."""
        check_key(key)
        return self._requests.size(key)

    def upload(self, key: str) -> ObjectUpload:
        """Begin an object that is written piece by piece."""
        self._refuse_unless_writing()
        return ObjectUpload(self, check_key(key))

    def append(self, key: str, data: bytes) -> None:
        """Refused: objects do not grow; a journal is a row of segments here."""
        raise NotImplementedError(key)

    def sync(self, key: str) -> None:
        """Refused, as `append` is."""
        raise NotImplementedError(key)

    def local_path(self, key: str) -> Path | None:  # noqa: ARG002 - no key is a file
        """None: who watches must look."""
        return None

    def sweep(
        self,
        prefix: str,  # noqa: ARG002 - nothing is left over
        *,
        older_than_seconds: float,  # noqa: ARG002
        skip: Container[str] = (),  # noqa: ARG002
    ) -> int:
        """Nothing is ever left over: no upload is in parts, and none is seen before it is whole."""
        return 0

    def close(self) -> None:
        """End the threads that read; obstore closes idle connections itself."""
        with self._readers_lock:
            readers, self._readers = self._readers, None
        if readers is not None:
            readers.shutdown()

    def _refuse_unless_writing(self) -> None:
        if not self._write:
            raise HomeError(
                f"the store {self.url} was opened for reading only",
                hint="Use a command that may change it, or another store.",
            )

    def _done(self, do: "Callable[[Client], _T]", key: str) -> _T:
        """What ``do`` gives; any fault is an error."""
        answer = self._requests.until_done(READING, do)
        if isinstance(answer, Answer):
            raise self._requests.error(answer, key)
        return answer


def _joined(data: Data) -> Piece:
    """All of ``data`` in one piece."""
    if isinstance(data, bytes | bytearray):
        return data
    return b"".join(pieces(data))
