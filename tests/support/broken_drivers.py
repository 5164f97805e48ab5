"""Drivers that break one promise each: what the contract and the fault harnesses must find.

Two kinds. Those in memory do a call wrongly, and anybody who looks can see it. Those in a folder
do everything right as long as the power stays on: `StepByStep` is a whole driver in its plainest
form, and each broken one leaves out, changes or moves one of its steps.

Source: docs/store-format.md "Drivers"; `contract.store.driver_contract` names what is promised.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from perdure.store.drivers.driver import Data, KeyMissing, check_key, pieces
from perdure.store.drivers.memory import MemoryDriver, MemoryUpload
from perdure.store.drivers.posix import PosixDriver
from perdure.store.drivers.posix_upload import PosixUpload
from perdure.store.opening import open_store

_FOLDER_MODE = 0o700
_FILE_MODE = 0o600


class Overwrites(MemoryDriver):
    """The second put wins."""

    def put_if_absent(self, key: str, data: Data) -> bool:
        is_new = self.head(key) is None
        self.put(key, data)
        return is_new


class SaysCreatedTwice(MemoryDriver):
    """Nothing is overwritten, but everybody is told that it was theirs."""

    def put_if_absent(self, key: str, data: Data) -> bool:
        super().put_if_absent(key, data)
        return True


class LosesWrites(MemoryDriver):
    """Every third object that is put is not there, and nobody says so."""

    def __init__(self) -> None:
        super().__init__()
        self._puts = itertools.count(1)

    def put_if_absent(self, key: str, data: Data) -> bool:
        return next(self._puts) % 3 == 0 or super().put_if_absent(key, data)


class LosesPieces(MemoryDriver):
    """Of an object in pieces the last one is lost."""

    def put_if_absent(self, key: str, data: Data) -> bool:
        taken = list(pieces(data))
        return super().put_if_absent(key, taken[:-1] if len(taken) > 1 else taken)


class ReadsStale(MemoryDriver):
    """What was read once is read so for ever."""

    def __init__(self) -> None:
        super().__init__()
        self._cached: dict[str, bytes] = {}

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        whole = self._cached.setdefault(key, super().get(key))
        return whole[start:] if length is None else whole[start : start + length]


class ReadsTruncated(MemoryDriver):
    """Of a large object only the beginning is read."""

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        return super().get(key, start, length)[:65536]


class ReadsShort(MemoryDriver):
    """A range is one byte short."""

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        data = super().get(key, start, length)
        return data if length is None else data[: length - 1]


class ReadsNothingAsEmpty(MemoryDriver):
    """What is not there is an empty object."""

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        with suppress(KeyMissing):
            return super().get(key, start, length)
        return b""


class DeletesNothing(MemoryDriver):
    """A delete does nothing."""

    def delete(self, key: str) -> None:
        check_key(key)


class ListsUnsorted(MemoryDriver):
    """As a file system lists."""

    def list(self, prefix: str) -> Iterator[str]:
        return iter(sorted(super().list(prefix), key=lambda key: key[::-1], reverse=True))


class ListsByText(MemoryDriver):
    """A prefix that is compared as text: "a" finds "ab"."""

    def list(self, prefix: str) -> Iterator[str]:
        return iter(sorted(key for key in super().list("") if key.startswith(prefix)))


class ListForgets(MemoryDriver):
    """The last key is not listed."""

    def list(self, prefix: str) -> Iterator[str]:
        return iter(list(super().list(prefix))[:-1])


class ShowsUploads(MemoryDriver):
    """Uploads are written under their own name."""

    def upload(self, key: str) -> MemoryUpload:
        self.put(key, b"")
        return super().upload(key)


class AppendsOver(MemoryDriver):
    """An append replaces what was there."""

    def append(self, key: str, data: bytes) -> None:
        self.put(key, data)


class TakesAnyName(MemoryDriver):
    """Names that are no keys are taken."""

    def put_if_absent(self, key: str, data: Data) -> bool:
        return self.objects.create(key, b"".join(pieces(data)))

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        held = self.objects.held[key]
        return held[start:] if length is None else held[start : start + length]


class HeadGuesses(MemoryDriver):
    """The size is rounded up to whole blocks."""

    def head(self, key: str) -> int | None:
        size = super().head(key)
        return None if size is None else -(-size // 512) * 512


class DropsEmptyObjects(MemoryDriver):
    """An object without bytes is none."""

    def put_if_absent(self, key: str, data: Data) -> bool:
        whole = b"".join(pieces(data))
        return not whole or super().put_if_absent(key, whole)


class NeverOverwritesInPlace(MemoryDriver):
    """A put in place keeps what is there."""

    def put(self, key: str, data: Data, *, in_place: bool = False) -> None:
        if not in_place or self.head(key) is None:
            super().put(key, data)


class _CommitsAnyhow(MemoryUpload):
    """The commit replaces what is there."""

    def commit(self) -> bool:
        self._driver.put(self._key, bytes(self._data))
        return True


class CommitsOverOthers(MemoryDriver):
    """An upload takes a name over."""

    def upload(self, key: str) -> MemoryUpload:
        return _CommitsAnyhow(self, check_key(key))


class _AbortsByCommit(MemoryUpload):
    """What was given up is there."""

    def abort(self) -> None:
        self.commit()


class CommitsAborted(MemoryDriver):
    """An aborted upload is put all the same."""

    def upload(self, key: str) -> MemoryUpload:
        return _AbortsByCommit(self, check_key(key))


class ShowsGrandchildren(MemoryDriver):
    """A listing that does not stop at the next slash."""

    def children(self, prefix: str) -> tuple[str, ...]:
        skipped = len(prefix) + 1 if prefix else 0
        return tuple(key[skipped:] for key in self.list(prefix))


class StepByStep(PosixDriver):
    """A put as a row of steps, each of which may be broken; as it stands here it is right."""

    def put_if_absent(self, key: str, data: Data) -> bool:
        path = self.root / check_key(key)
        temporary = self.written_file(path, b"".join(pieces(data)))
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        else:
            self.sync_names(path.parent)
            return True
        finally:
            temporary.unlink()

    def put(self, key: str, data: Data, *, in_place: bool = False) -> None:
        path = self.root / check_key(key)
        temporary = self.written_file(path, b"".join(pieces(data)))
        temporary.rename(path)
        self.sync_names(path.parent)

    def written_file(self, path: Path, data: bytes) -> Path:
        """A temporary file with that content, durable."""
        self.make_folders(path.parent)
        temporary = path.with_name(f".tmp-{os.urandom(8).hex()}")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
        try:
            start = 0
            while start < len(data):
                start += os.pwrite(fd, data[start:], start)
            self.sync_data(fd)
        finally:
            os.close(fd)
        return temporary

    def make_folders(self, folder: Path) -> None:
        """Make what is missing, durably."""
        if not folder.is_dir():
            self.make_folders(folder.parent)
            with suppress(FileExistsError):
                folder.mkdir(_FOLDER_MODE)
            self.sync_parent(folder.parent)

    def sync_data(self, fd: int) -> None:
        """Make the bytes durable."""
        os.fsync(fd)

    def sync_parent(self, folder: Path) -> None:
        """Make the name of a new folder durable."""
        self._sync_folder(folder)

    def sync_names(self, folder: Path) -> None:
        """Make the name of the object durable."""
        self._sync_folder(folder)

    def _sync_folder(self, folder: Path) -> None:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


class NeverSyncsData(StepByStep):
    """The bytes of an object are left to the kernel."""

    def sync_data(self, fd: int) -> None:
        pass


class NeverSyncsNames(StepByStep):
    """The names of objects are left to the kernel."""

    def sync_names(self, folder: Path) -> None:
        pass


class NeverSyncsParents(StepByStep):
    """The names of new folders are left to the kernel."""

    def sync_parent(self, folder: Path) -> None:
        pass


class NeverSyncs(NeverSyncsData, NeverSyncsNames, NeverSyncsParents):
    """No fsync at all."""


class SaysCreatedBeforeTheSync(StepByStep):
    """All syncs are done, but the last one of a put only with the next put."""

    _late: Path | None = None

    def put_if_absent(self, key: str, data: Data) -> bool:
        if self._late is not None:
            self._sync_folder(self._late)
        return super().put_if_absent(key, data)

    def sync_names(self, folder: Path) -> None:
        self._late = folder


class CallsFailedSyncsSuccesses(StepByStep):
    """An error of fsync is passed over."""

    def sync_data(self, fd: int) -> None:
        with suppress(OSError):
            os.fsync(fd)


class WritesOnce(StepByStep):
    """What a short write leaves over is not written."""

    def written_file(self, path: Path, data: bytes) -> Path:
        self.make_folders(path.parent)
        temporary = path.with_name(f".tmp-{os.urandom(8).hex()}")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
        try:
            os.pwrite(fd, data, 0)
            self.sync_data(fd)
        finally:
            os.close(fd)
        return temporary


class ReplacesInTwoSteps(StepByStep):
    """A put takes the old object away first: a torn rename."""

    def put(self, key: str, data: Data, *, in_place: bool = False) -> None:
        path = self.root / check_key(key)
        temporary = self.written_file(path, b"".join(pieces(data)))
        with suppress(FileNotFoundError):
            path.unlink()
        temporary.rename(path)
        self.sync_names(path.parent)


class WritesUnderItsName(StepByStep):
    """An object is created under its own name and then written."""

    def put_if_absent(self, key: str, data: Data) -> bool:
        path = self.root / check_key(key)
        self.make_folders(path.parent)
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
        except FileExistsError:
            return False
        try:
            self.sync_names(path.parent)
            for start, piece in _placed(data):
                os.pwrite(fd, piece, start)
            self.sync_data(fd)
        finally:
            os.close(fd)
        return True


class UploadsWithoutSync(StepByStep):
    """An upload is renamed into place, and that is all."""

    def upload(self, key: str) -> PosixUpload:
        return _Unsynced(self.root / check_key(key), self._access)


class _Unsynced(PosixUpload):
    """Visible at once, durable some time."""

    def commit(self) -> bool:
        self._end_file()
        self._temporary.rename(self._path)
        return True


class PutsLate(StepByStep):
    """A put if absent gets its name with the next delete or put: the order is not kept."""

    _late: tuple[str, bytes] | None = None

    def put_if_absent(self, key: str, data: Data) -> bool:
        late, self._late = self._late, (key, b"".join(pieces(data)))
        return late is None or super().put_if_absent(*late)

    def delete(self, key: str) -> None:
        super().delete(key)
        if self._late is not None:
            super().put_if_absent(*self._late)
            self._late = None


class SyncsNoJournal(StepByStep):
    """A sync of a journal does nothing."""

    def sync(self, key: str) -> None:
        check_key(key)


def _placed(data: Data) -> Iterator[tuple[int, bytes]]:
    start = 0
    for piece in pieces(data):
        yield start, bytes(piece)
        start += memoryview(piece).nbytes


def making_a_store(kind: type[PosixDriver]) -> Callable[[Path], PosixDriver]:
    """How a store is opened, made if it is not there, with a driver of that kind."""

    def opened(path: Path) -> PosixDriver:
        open_store(str(path), write=True, create=True).driver.close()
        return kind(path)

    return opened
