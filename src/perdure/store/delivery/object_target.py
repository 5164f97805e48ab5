"""Delivering into a bucket: digested first, put if the name is free, read back and compared.

Theory of operation. An object appears whole by itself, so that nothing is staged: a source is read
once for its digest, and again as it is sent, and must have the same one. Up to 32 MiB it is one
request, which the store refuses where the name exists. A larger one goes in parts, two of them on
their way; no cloud refuses those, so that the name is looked at right before: somebody who makes an
object of that name while the parts travel loses it. Each part may be sent again; a source that
changes meanwhile, or a stop, gives the upload up before anybody sees it.

What a killed worker leaves of an upload in parts is seen by nobody and costs until the bucket's
lifecycle rule for unfinished uploads removes it.

Memory: 32 MiB, or four parts of 16 MiB (above 140 GB: of a nine-thousandth of the file) and 12 MiB.

Source: docs/decisions/110, 116; S3's limits of 10,000 parts and 5 TiB.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3

from perdure.errors import StoreDamaged
from perdure.store.delivery.delivery import Act, object_name
from perdure.store.delivery.delivery_target import Check, OpenSource, Source, changed_source
from perdure.store.delivery.sequential_digest import SequentialDigest
from perdure.store.drivers.driver import KeyMissing
from perdure.store.drivers.object_clients import Clients, ObjectPlace, make_client
from perdure.store.drivers.object_faults import Answer
from perdure.store.drivers.object_requests import BULK_BYTES, SENDING, Requests
from perdure.store.drivers.posix_files import fill
from perdure.store.files.outside_decision import Content
from perdure.store.manifests.manifest import BLOCK_BYTES

if TYPE_CHECKING:
    from perdure.store.drivers.object_clients import Client

#: Up to here an object is one request.
ONE_REQUEST_BYTES = 32 << 20
PART_BYTES = 16 << 20
_PARTS_AT_ONCE = 2
#: S3 takes 10,000.
_MOST_PARTS = 9_000
_PART_RETRIES = 4


class BucketClients:
    """What all deliveries of a launch to one place share: connections, and credentials."""

    def __init__(self, place: ObjectPlace) -> None:
        self.plain = Clients(place)
        self.in_parts = Clients(place, partial(make_client, retries=_PART_RETRIES))


class ObjectTarget:
    """A bucket, or what lies below a prefix in one.

    Args:
        clients: how it is reached.
        url: what people call it.
        check: see `SequentialDigest`.
        sleep: waits between two tries; whatever it raises ends the call.
    """

    def __init__(
        self, clients: BucketClients, url: str, check: Check, sleep: Callable[[float], None]
    ) -> None:
        self.called = url
        self._check = check
        self._requests = Requests(clients.plain, called=url, url=url, sleep=sleep)
        self._part_requests = Requests(clients.in_parts, called=url, url=url, sleep=sleep)
        self._digest = SequentialDigest(check)
        self._seen: dict[str, str] = {}

    def open(self) -> None:
        """Nothing is to be made ready: a bucket that is not there says so."""

    def own_path(self, path: Path) -> str | None:  # noqa: ARG002 - no path of a host lies there
        """None."""
        return None

    def size(self, path: str) -> int | None:
        """How many bytes the object has."""
        return self._requests.size(object_name(path))

    def content(self, path: str, size: int) -> Content | None:
        """What it holds, read from there."""
        name = object_name(path)
        about = self._requests.about(name)
        if about is None or about.size != size:
            return None

        def read(start: int, length: int, buffer: memoryview) -> int:
            data, _size = self._requests.read(name, start, length)
            buffer[: len(data)] = data
            return len(data)

        try:
            digest = self._digest.of(size, read)
        except KeyMissing:
            return None
        self._seen[path] = about.version
        return None if digest is None else Content(size=size, digest=digest)

    def stage(self, source: Source, *, is_wanted: bool) -> Content:  # noqa: ARG002 - nothing is staged
        """Read the source for its digest."""
        with OpenSource(source) as opened:
            digest = opened.whole(self._digest.of(source.stamp.size, opened.read))
        return Content(size=source.stamp.size, digest=digest)

    def publish(self, source: Source, wanted: Content, act: Act) -> bool:
        """Send it, and read it back."""
        path, name = source.path, object_name(source.path)
        if act is Act.REPLACE and not self._is_as_seen(path):
            return False
        if wanted.size <= ONE_REQUEST_BYTES:
            if not self._send(name, self._whole(source, wanted), act):
                return False
        else:
            if act is Act.CREATE and self._requests.size(name) is not None:
                return False
            self._send_in_parts(name, source, wanted)
        if self.content(path, wanted.size) != wanted:
            raise StoreDamaged(
                f"{self.called.rstrip('/')}/{path} is not what was sent when it is read back",
                hint="See who else writes there, or use another --deliver place.",
                path=path,
            )
        return True

    def _is_as_seen(self, path: str) -> bool:
        about = self._requests.about(object_name(path))
        return about is None or about.version == self._seen[path]

    def _whole(self, source: Source, wanted: Content) -> bytearray:
        """All of a small source."""
        data = bytearray(wanted.size)
        with OpenSource(source) as opened:
            got = fill(opened.fd, 0, memoryview(data))
            opened.check()
        if got < wanted.size or blake3(data).digest() != wanted.digest:
            raise changed_source(source.place)
        return data

    def _send(self, name: str, data: bytearray, act: Act) -> bool:
        if act is Act.CREATE:
            return self._requests.create(name, data)
        self._requests.overwrite(name, data)
        return True

    def _send_in_parts(self, name: str, source: Source, wanted: Content) -> None:
        part = max(PART_BYTES, -(-wanted.size // _MOST_PARTS))

        def send(client: "Client") -> None:
            client.put(
                name,
                self._blocks(source, wanted),
                use_multipart=True,
                chunk_size=part,
                max_concurrency=_PARTS_AT_ONCE,
            )

        answer = self._part_requests.until_done(SENDING, send)
        if isinstance(answer, Answer):
            raise self._requests.error(answer, name)

    def _blocks(self, source: Source, wanted: Content) -> Iterator[bytearray]:
        """The source's bytes; what it raises gives the upload up."""
        hasher = blake3()
        with OpenSource(source) as opened:
            for start in range(0, wanted.size, BLOCK_BYTES):
                self._check()
                data = bytearray(min(BLOCK_BYTES, wanted.size - start))
                if fill(opened.fd, start, memoryview(data)) < len(data):
                    raise changed_source(source.place)
                hasher.update(data)
                yield data
            opened.check()
            if hasher.digest() != wanted.digest:
                raise changed_source(source.place)

    def finish(self) -> None:
        """An object is durable when it was put."""

    def drop(self) -> None:
        """Nothing is staged."""

    def get_record(self, path: str, limit: int) -> bytes | None:
        """A record."""
        name = object_name(path)
        try:
            data, size = self._requests.read(name, 0, BULK_BYTES - 1)
            if size > limit:
                return None
            while len(data) < size:
                more, _size = self._requests.read(name, len(data), BLOCK_BYTES)
                if not more:
                    return None
                data += more
        except KeyMissing:
            return None
        return data

    def put_record(self, path: str, data: bytes) -> None:
        """Put a record."""
        self._requests.overwrite(object_name(path), data)

    def remove_record(self, path: str) -> None:
        """Remove a record."""
        self._requests.delete(object_name(path))
