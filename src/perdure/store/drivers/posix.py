"""A store in a folder: durable by fsync, exclusive by `link()`, on local and network file systems.

Theory of operation. An object is written under a temporary name in its own folder, synced, linked
to its name, which the kernel refuses if the name exists, and the folder is synced; only then
"created" is said. The temporary name begins with a dot, so it is no key, and nobody sees it.
Whoever dies in between leaves a temporary file at most; `PosixDriver.sweep` removes it.

A network file system may do the link and lose the reply, and then say that the name exists: the
temporary file's own inode under that name tells (link(2), open(2) on O_EXCL and NFS).

Rules: nothing is ever opened for writing under its own name but journals and heartbeats. A file
system without hard links is refused: no other call there creates a name exclusively *and* with its
whole content.

Threads: every call may come from any thread; one key is appended to by one thread at a time.

Source: docs/store-format.md "Drivers"; link(2), rename(2), fsync(2), fallocate(2).
"""

import math
import os
import stat
import threading
import time
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from perdure.errors import HomeError, StoreUnavailable
from perdure.store.drivers.buffers import PAGE_BYTES
from perdure.store.drivers.driver import (
    Data,
    KeyMissing,
    check_key,
    check_prefix,
    get_one_by_one,
    pieces,
)
from perdure.store.drivers.posix_files import (
    PRIVATE,
    Access,
    create_file,
    fill,
    in_our_words,
    keep_room,
    make_folders,
    remove_empty_folders,
    sync_file,
    sync_folder,
    write_all,
)
from perdure.store.drivers.posix_upload import TEMPORARY, PosixUpload

_PACK_LIMIT_BYTES = 1 << 30
# Some hundred journal lines on a full disk; renewed when half of it is used.
_LAST_WORDS_BYTES = 64 << 10


class _Journal:
    """A file that is appended to by one writer, with room kept behind its end."""

    def __init__(self, path: Path, access: Access) -> None:
        self._path = path
        self._is_named_durably = True
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            make_folders(path.parent, access)
            self._fd = create_file(path, access)
            self._is_named_durably = False
        try:
            self._size = os.fstat(self._fd).st_size
        except OSError:
            os.close(self._fd)
            raise
        self._room_end = self._size
        self._keeps_room = True
        # What is not known to be durable: a sync that failed may have lost it, so that the next
        # one writes it again, the same bytes to the same place.
        self._unsynced = bytearray()
        self._is_lost = False

    def append(self, data: bytes) -> None:
        """Add ``data``, all of it or nothing."""
        self._make_room(len(data))
        try:
            write_all(self._fd, data, self._size)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, self._size)
            self._room_end = self._size
            raise
        self._size += len(data)
        self._unsynced += data

    def _make_room(self, needed: int) -> None:
        wanted = self._size + needed + _LAST_WORDS_BYTES // 2
        if not self._keeps_room or self._room_end >= wanted:
            return
        length = needed + _LAST_WORDS_BYTES
        try:
            self._keeps_room = keep_room(self._fd, self._size, length)
            self._room_end = self._size + length
        except OSError:
            if self._room_end < self._size + needed:
                raise

    def sync(self) -> None:
        """Make durable what was appended, and the file's name."""
        try:
            if self._is_lost:
                write_all(self._fd, self._unsynced, self._size - len(self._unsynced))
            os.fdatasync(self._fd)
        except OSError:
            self._is_lost = True
            raise
        self._is_lost = False
        self._unsynced.clear()
        if not self._is_named_durably:
            sync_folder(self._path.parent)
            self._is_named_durably = True

    def close(self) -> None:
        """Close the file, and give back the room that is not used.

        The room is given back only while the file is as long as we left it: what somebody else
        wrote is not ours to cut.
        """
        with suppress(OSError):
            if os.fstat(self._fd).st_size == self._size:
                os.ftruncate(self._fd, self._size)
        with suppress(OSError):  # what somebody relies on was synced
            os.close(self._fd)


class PosixDriver:
    """A store in the folder ``root``, which exists.

    Args:
        root: the folder.
        access: the modes of what is made in it.
        write: False: every call that would change something is refused.
    """

    appends = True
    pack_limit_bytes = _PACK_LIMIT_BYTES
    uploads_at_once = 1
    gets_at_once = 1
    look_seconds = 0.0
    bytes_per_second = 1.5e9

    def __init__(self, root: Path, *, access: Access = PRIVATE, write: bool = True) -> None:
        self.root = root
        self.url = str(root)
        self._access = access
        self._write = write
        self._mark = ""
        self._journals: dict[str, _Journal] = {}
        self._journals_lock = threading.Lock()

    def rely_on(self, mark: str) -> None:
        """From now on nothing counts as missing, and no folder is made, unless ``mark`` is there.

        A folder that was moved away or unmounted looks like an empty store: records seem never to
        have been, and what is written lands where nobody will look for it.
        """
        self._mark = mark

    def _check_is_there(self) -> None:
        if self._mark and not os.path.exists(f"{self.url}/{self._mark}"):  # noqa: PTH110 - often
            raise StoreUnavailable(
                f"the store {self.root} is not there any more",
                hint="Mount it, or move it back to where it was.",
                path=self.url,
            )

    def _check_folder_of(self, path: Path) -> None:
        """Before something is written: its folder may have to be made."""
        with in_our_words("write", path):
            if self._mark and not path.parent.is_dir():
                self._check_is_there()

    @property
    def is_shared(self) -> bool:
        """Whether what is made here is the group's, too."""
        return self._access.is_shared

    def put_if_absent(self, key: str, data: Data) -> bool:
        """Create ``key``; False if it exists."""
        with self._written(key, data) as upload:
            return upload.commit()

    def put(self, key: str, data: Data, *, in_place: bool = False) -> None:
        """Replace ``key``, whole and durably; ``in_place`` as `Driver.put` says."""
        path = self._path(key)
        self._refuse_unless_writing()
        if in_place and self._overwrite(path, b"".join(pieces(data))):
            return
        with self._written(key, data) as upload:
            upload.replace()

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """The object's bytes, or a range of them."""
        path = f"{self.url}/{check_key(key)}"  # a Path takes longer than the open
        with in_our_words("read", path):
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError):
                self._check_is_there()
                raise KeyMissing(key) from None
            try:
                size = _file_size(os.fstat(fd))
                if size is None:
                    raise KeyMissing(key)
                return _read_range(fd, start, size - start if length is None else length)
            finally:
                os.close(fd)

    def get_into(self, key: str, start: int, buffer: memoryview) -> int:
        """Fill ``buffer`` with the object's bytes from ``start``; how many there were.

        Around the page cache where the start is that of a page and the file system can do it: the
        packs of a checkpoint are read once.
        """
        path = f"{self.url}/{check_key(key)}"
        with in_our_words("read", path):
            try:
                fd = _open_object(path, key, around_cache=start % PAGE_BYTES == 0)
            except KeyMissing:
                self._check_is_there()
                raise
            try:
                return fill(fd, start, buffer)
            finally:
                os.close(fd)

    def get_many(self, keys: Iterable[str]) -> Iterator[bytes | None]:
        """The objects, one after the other."""
        return get_one_by_one(self, keys)

    def list(self, prefix: str) -> Iterator[str]:
        """The keys below ``prefix``, sorted."""
        return self._walk(self._folder(prefix), f"{prefix}/" if prefix else "")

    def children(self, prefix: str) -> tuple[str, ...]:
        """The next parts below ``prefix``."""
        return tuple(name for name, _is_folder in self._names_in(self._folder(prefix)))

    def delete(self, key: str) -> None:
        """Remove ``key``, and the folders that are empty then."""
        path = self._path(key)
        self._refuse_unless_writing()
        with in_our_words("remove", path):
            try:
                path.unlink()
            except (FileNotFoundError, NotADirectoryError):
                self._check_is_there()
                return
        remove_empty_folders(path.parent, self.root)

    def delete_all(self, keys: Iterable[str]) -> None:
        """Remove ``keys``, one after the other."""
        for key in keys:
            self.delete(key)

    def head(self, key: str) -> int | None:
        """The object's size."""
        path = self._path(key)
        with in_our_words("read", path):
            try:
                return _file_size(path.stat())
            except (FileNotFoundError, NotADirectoryError):
                self._check_is_there()
                return None

    def upload(self, key: str) -> PosixUpload:
        """Begin an object that is written piece by piece: a pack."""
        path = self._path(key)
        self._refuse_unless_writing()
        self._check_folder_of(path)
        with in_our_words("write", path):
            return PosixUpload(path, self._access, around_cache=True)

    def append(self, key: str, data: bytes) -> None:
        """Add ``data`` at the end of ``key``: all of it or nothing."""
        self._refuse_unless_writing()
        with in_our_words("write", f"{self.url}/{key}"):
            self._journal(key).append(data)

    def sync(self, key: str) -> None:
        """Make durable what was appended to ``key``, by this driver or by its one writer elsewhere.

        Of another one's journal nothing is kept open: only its writer knows how long it is.
        """
        path = self._path(key)
        with in_our_words("write", path):
            with self._journals_lock:
                journal = self._journals.get(key)
            if journal is not None:
                journal.sync()
            else:
                sync_file(path)

    def local_path(self, key: str) -> Path | None:
        """The object's file."""
        return self._path(key)

    def sweep(self, prefix: str, *, older_than_seconds: float, skip: Container[str] = ()) -> int:
        """Remove temporary names below ``prefix`` whose writers have left them that long ago."""
        self._refuse_unless_writing()
        folder = self._folder(prefix)
        newest = time.time() - older_than_seconds if older_than_seconds > 0 else math.inf
        removed = _sweep(folder, prefix, newest=newest, skip=skip)
        if folder != self.root and older_than_seconds <= 0:
            remove_empty_folders(folder, self.root)
        return removed

    def close(self) -> None:
        """Close the journals."""
        with self._journals_lock:
            journals, self._journals = self._journals, {}
        for journal in journals.values():
            journal.close()

    def _path(self, key: str) -> Path:
        return self.root / check_key(key)

    def _folder(self, prefix: str) -> Path:
        """The folder of the keys below ``prefix``."""
        return self._path(prefix) if check_prefix(prefix) else self.root

    @contextmanager
    def _written(self, key: str, data: Data) -> Iterator[PosixUpload]:
        """An upload of all of ``data``; given up behind the block, unless it got its name."""
        path = self._path(key)
        self._refuse_unless_writing()
        self._check_folder_of(path)
        with in_our_words("write", path):
            upload = PosixUpload(path, self._access)
        try:
            for piece in pieces(data):
                upload.write(piece)
            yield upload
        finally:
            upload.abort()

    def _refuse_unless_writing(self) -> None:
        if not self._write:
            raise HomeError(
                f"the store {self.root} was opened for reading only",
                hint="Use a command that may change it, or another store.",
            )

    def _journal(self, key: str) -> _Journal:
        with self._journals_lock:
            journal = self._journals.get(key)
            if journal is None:
                path = self._path(key)
                self._check_folder_of(path)
                journal = self._journals[key] = _Journal(path, self._access)
            return journal

    def _overwrite(self, path: Path, data: bytes) -> bool:
        """Write over a file of the same size; False where there is none."""
        with in_our_words("write", path):
            try:
                fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
            try:
                if os.fstat(fd).st_size != len(data):
                    return False
                os.pwrite(fd, data, 0)
            finally:
                os.close(fd)
        return True

    def _names_in(self, folder: Path) -> tuple[tuple[str, bool], ...]:
        """The parts of keys in ``folder``, sorted, and whether each is a folder itself."""
        names: tuple[tuple[str, bool], ...] = ()
        with (
            in_our_words("read", folder),
            suppress(FileNotFoundError, NotADirectoryError),
            os.scandir(folder) as found,
        ):
            shown = [entry for entry in found if not entry.name.startswith(".")]
            names = tuple(sorted((e.name, e.is_dir(follow_symlinks=False)) for e in shown))
        if not names:
            self._check_is_there()
        return names

    def _walk(self, folder: Path, below: str) -> Iterator[str]:
        # Sorted by whole key: "a-b" comes before "a/x", so that folders sort with their slash.
        for name, is_folder in sorted(
            self._names_in(folder), key=lambda item: f"{item[0]}/" if item[1] else item[0]
        ):
            if is_folder:
                yield from self._walk(folder / name, f"{below}{name}/")
            else:
                yield f"{below}{name}"


def _sweep(folder: Path, prefix: str, *, newest: float, skip: Container[str]) -> int:
    """Remove temporary names in ``folder`` and below, and folders that nothing is in."""
    removed = 0
    below = f"{prefix}/" if prefix else ""
    with suppress(OSError), os.scandir(folder) as found:
        for entry in list(found):
            with suppress(OSError):
                modified_at = entry.stat(follow_symlinks=False).st_mtime
                if entry.is_dir(follow_symlinks=False):
                    key = f"{below}{entry.name}"
                    if key not in skip:
                        removed += _sweep(Path(entry.path), key, newest=newest, skip=skip)
                        if modified_at <= newest:
                            Path(entry.path).rmdir()  # refused while something is in it
                elif entry.name.startswith(TEMPORARY) and modified_at <= newest:
                    Path(entry.path).unlink()
                    removed += 1
    return removed


def _file_size(found: os.stat_result) -> int | None:
    """The size of an object's file; None if it is a folder of keys."""
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _open_object(path: str, key: str, *, around_cache: bool) -> int:
    """The object, open for reading."""
    flags = os.O_RDONLY | os.O_CLOEXEC
    try:
        if around_cache:
            with suppress(OSError):  # a file system without O_DIRECT says so here
                return os.open(path, flags | os.O_DIRECT)
        return os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise KeyMissing(key) from None


def _read_range(fd: int, start: int, wanted: int) -> bytes:
    """``wanted`` bytes from ``start``; fewer at the end."""
    got: list[bytes] = []
    while wanted > 0 and (part := os.pread(fd, wanted, start)):
        got.append(part)
        start += len(part)
        wanted -= len(part)
    return got[0] if len(got) == 1 else b"".join(got)
