"""Where files are delivered: what a folder and a bucket have in common, and the files to deliver.

A target keeps these rules, whatever it is:

- a name appears only with all of its bytes, which were read back from there and compared;
- `publish` with `Act.CREATE` never takes the place of something, with `Act.REPLACE` only of what
  `content` saw there;
- what was staged and did not get its name is removed by `drop`, or by the next attempt.

Source: docs/decisions/116.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, Self

from msgspec import Struct

from perdure.errors import CheckpointTorn, SaveRefused
from perdure.store.delivery.delivery import Act
from perdure.store.delivery.sequential_digest import Read
from perdure.store.drivers.posix_files import fill
from perdure.store.files.outside_decision import Content
from perdure.store.files.roots import Place, Stamp, open_regular_fd


class Source(Struct, frozen=True, kw_only=True):
    """A file to deliver.

    Attributes:
        place: where it is read, a regular file.
        stamp: the version that is delivered.
        mode: its permission bits.
        path: where it goes, below the target.
    """

    place: Place
    stamp: Stamp
    mode: int
    path: str


class Target(Protocol):
    """A folder or a bucket; for one attempt and one thread.

    Attributes:
        called: what people call it.
    """

    called: str

    def open(self) -> None:
        """Make it ready, and remove what this task's earlier attempts left unfinished.

        Raises:
            PerdureError: it cannot be used.
        """
        ...

    def own_path(self, path: Path) -> str | None:
        """Of a local path that lies in the target already: its path there; else None."""
        ...

    def size(self, path: str) -> int | None:
        """How many bytes the file at ``path`` has; None: nothing is there.

        Raises:
            DeliveryConflict: something else is there, or on the way.
        """
        ...

    def content(self, path: str, size: int) -> Content | None:
        """What the file at ``path`` holds, read back; None: it has not that size any more."""
        ...

    def stage(self, source: Source, *, is_wanted: bool) -> Content:
        """Read the source once; its content. Blocks.

        Args:
            source: which.
            is_wanted: whether it will be published; else only its content is told.

        Raises:
            CheckpointTorn: it is not the version that is to be delivered.
            OutOfSpace: and the like.
        """
        ...

    def publish(self, source: Source, wanted: Content, act: Act) -> bool:
        """Give a staged file its name; False: something else is there now. Blocks.

        Raises:
            CheckpointTorn: the source is not what it was.
            StoreDamaged: what was read back is not what was sent.
        """
        ...

    def finish(self) -> None:
        """Make the names durable."""
        ...

    def drop(self) -> None:
        """Remove what is staged; never raises."""
        ...

    def get_record(self, path: str, limit: int) -> bytes | None:
        """A record; None: there is none, or it is longer than ``limit``."""
        ...

    def put_record(self, path: str, data: bytes) -> None:
        """Put a record whole, durably, in the place of one that is there."""
        ...

    def remove_record(self, path: str) -> None:
        """Remove a record, if it is there."""
        ...


class OpenSource:
    """A source that is being read: one version, or `CheckpointTorn`."""

    def __init__(self, source: Source) -> None:
        self._source = source
        try:
            self.fd = open_regular_fd(source.place)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise changed_source(source.place) from error
        except OSError as error:
            raise _unreadable(source, error) from error

    def __enter__(self) -> Self:
        self.check()
        return self

    def __exit__(self, *_exception: object) -> None:
        os.close(self.fd)

    def check(self) -> None:
        """Raise `CheckpointTorn` unless it is still the version that is to be delivered."""
        if Stamp.of(os.fstat(self.fd)) != self._source.stamp:
            raise changed_source(self._source.place)

    def whole(self, digest: bytes | None) -> bytes:
        """``digest`` of all that was read, if it is of the version that is to be delivered.

        Raises:
            CheckpointTorn: it is not.
        """
        self.check()
        if digest is None:
            raise changed_source(self._source.place)
        return digest

    @property
    def read(self) -> Read:
        """Reads its blocks; where the file cannot be read, the error says so of this file."""
        reader = reader_of(self.fd)

        def read(start: int, length: int, buffer: memoryview) -> int:
            try:
                return reader(start, length, buffer)
            except OSError as error:
                raise _unreadable(self._source, error) from error

        return read


def reader_of(fd: int, *, is_direct: bool = False) -> Read:
    """Reads blocks of an open file; ``is_direct``: whole pages, as O_DIRECT needs them."""

    def read(start: int, length: int, buffer: memoryview) -> int:
        pages = buffer if is_direct else buffer[:length]
        return min(length, fill(fd, start, pages))

    return read


def _unreadable(source: Source, error: OSError) -> SaveRefused:
    return SaveRefused(
        f"{source.place.shown} cannot be read: {error.strerror}",
        hint="The task's user must be able to read what it declares.",
        path=source.place.shown,
    )


def changed_source(place: Place) -> CheckpointTorn:
    """The error for a file that is not what it was when it was met."""
    return CheckpointTorn(
        f"{place.shown} changes while it is being delivered",
        hint="End what writes to it, and resume the job.",
        path=place.shown,
    )


Check = Callable[[], None]
