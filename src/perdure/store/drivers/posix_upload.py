"""An object that is written piece by piece into a file that nobody sees before it has its name.

Theory of operation. The file has a temporary name in its own folder. Small pieces are gathered in
page-aligned memory and written when that is full; *aligned* pieces are written from where they are,
by the thread that brings them, around the page cache (O_DIRECT) where the file system can do that:
a checkpoint of many gigabytes must not push out of memory what the task works on. The bytes behind
the last piece, up to the end of its page, are cut off before the object gets its name.

A file system that refuses O_DIRECT, or a write by it (odd sizes of sectors, old network file
systems), is written through the page cache from then on: both ways may mix in one file, because no
page is ever written by both.

Threads: `PosixUpload.write` may be called by several threads at once; all of them have returned
before `commit`, `replace` or `abort` is called.

Source: docs/store-format.md "Drivers", "Packs"; link(2), rename(2), fsync(2), O_DIRECT in open(2).
"""

import errno
import fcntl
import os
import secrets
import threading
from contextlib import suppress
from pathlib import Path

from perdure.errors import HomeError, StoreUnavailable
from perdure.store.drivers.buffers import (
    PAGE_BYTES,
    aligned_buffer,
    aligned_copy,
    is_aligned,
    up_to_page,
)
from perdure.store.drivers.driver import Piece, PutUncertain
from perdure.store.drivers.posix_files import (
    NO_HARD_LINKS,
    Access,
    bypass_cache,
    create_file,
    in_our_words,
    make_folders,
    ours_for,
    sync_folder,
    write_all,
)

TEMPORARY = ".tmp-"
# Somebody who empties a folder may remove it just before a name is put there.
_FOLDER_TRIES = 5
_UNKNOWN_OUTCOME = frozenset({errno.ESTALE, errno.ETIMEDOUT, errno.EIO, errno.EINTR})
#: So many bytes of small pieces are gathered before they are written.
_GATHERED_BYTES = 1 << 20


class PosixUpload:
    """An object under its temporary name.

    Args:
        path: its name.
        access: its modes.
        around_cache: write around the page cache where that can be done; worth it for packs.
    """

    def __init__(self, path: Path, access: Access, *, around_cache: bool = False) -> None:
        self._path = path
        self._temporary, self._fd = _create_temporary(path, access)
        self._lock = threading.Lock()
        self._gathers = around_cache
        self._is_direct = around_cache and bypass_cache(self._fd)
        self._gathered: memoryview | None = None
        self._gathered_at = 0
        self._gathered_bytes = 0
        self._written_to = 0
        self._is_synced = False
        self._is_created: bool | None = None

    @property
    def size(self) -> int:
        """How many bytes were written so far."""
        if self._gathered_bytes:
            return self._gathered_at + self._gathered_bytes
        return self._written_to

    def write(self, piece: Piece, *, aligned: bool = False) -> int:
        """Add ``piece`` at the end, or ``aligned`` at the next page; where it begins.

        Blocks while an aligned piece, or what was gathered, is written.
        """
        data = memoryview(piece).cast("B")
        with in_our_words("write", self._path):
            with self._lock:
                if self._gathers and not aligned:
                    return self._gather(data)
                start = self._reserve(data.nbytes, aligned=aligned)
            if data:
                self._write_at(data, start)
        return start

    def _gather(self, data: memoryview) -> int:
        start = self._gathered_at + self._gathered_bytes
        self._is_synced = False
        if self._gathered is None:
            self._gathered = aligned_buffer(_GATHERED_BYTES)
        while data:
            room = _GATHERED_BYTES - self._gathered_bytes
            part = data[:room]
            self._gathered[self._gathered_bytes : self._gathered_bytes + part.nbytes] = part
            self._gathered_bytes += part.nbytes
            data = data[room:]
            if self._gathered_bytes == _GATHERED_BYTES:
                self._flush()
        return start

    def _reserve(self, size: int, *, aligned: bool) -> int:
        """Room for a piece; where it begins."""
        self._flush()
        start = up_to_page(self._gathered_at) if aligned else self._gathered_at
        self._written_to = start + size
        # What follows shares no page with an aligned piece.
        self._gathered_at = up_to_page(start + size) if aligned else start + size
        return start

    def _flush(self) -> None:
        """Write what was gathered, with zeros up to the end of its last page."""
        size = self._gathered_bytes
        self._is_synced = False
        if not size:
            return
        assert self._gathered is not None
        whole = up_to_page(size)
        self._gathered[size:whole] = bytes(whole - size)
        self._write_pages(self._gathered[:whole], self._gathered_at)
        self._written_to = self._gathered_at + size
        self._gathered_at += whole
        self._gathered_bytes = 0

    def _write_at(self, data: memoryview, start: int) -> None:
        whole = data.nbytes - data.nbytes % PAGE_BYTES
        if not self._is_direct:
            write_all(self._fd, data, start)
        elif is_aligned(data):
            self._write_pages(data[:whole], start)
            if whole < data.nbytes:
                self._write_pages(aligned_copy(data[whole:]), start + whole)
        else:
            self._write_pages(aligned_copy(data), start)

    def _write_pages(self, pages: memoryview, start: int) -> None:
        was_direct = self._is_direct  # another thread may find out at the same time
        try:
            write_all(self._fd, pages, start)
        except OSError as error:
            if error.errno != errno.EINVAL or not was_direct:
                raise
            self._use_cache()
            write_all(self._fd, pages, start)

    def _use_cache(self) -> None:
        """Write through the page cache from now on."""
        flags = fcntl.fcntl(self._fd, fcntl.F_GETFL)
        fcntl.fcntl(self._fd, fcntl.F_SETFL, flags & ~os.O_DIRECT)
        self._is_direct = False

    def commit(self) -> bool:
        """Make the object visible if its name is free; durable when it returns."""
        if self._is_created is None:
            self._sync()
            self._is_created = _link(self._temporary, self._path, self._fd)
        # Also when refused: it may be our own from a put whose sync failed.
        _sync_names(self._path)
        self.abort()
        return self._is_created

    def replace(self) -> None:
        """Make the object visible, whatever had its name; durable when it returns."""
        self._sync()
        with in_our_words("write", self._path):
            self._temporary.rename(self._path)
        _sync_names(self._path)

    def _sync(self) -> None:
        if self._fd < 0:
            raise StoreUnavailable(
                f"what was being written for {self._path} was given up", hint="It is tried again."
            )
        try:
            if not self._is_synced:
                self._end_file()
                os.fsync(self._fd)
        except OSError as error:
            # The kernel may have dropped the pages and would call a second sync a success.
            self.abort()
            raise ours_for(error, "write", self._path) from error
        self._is_synced = True

    def _end_file(self) -> None:
        """Write the rest, and cut off what fills its last page."""
        self._flush()
        if self._gathers and self._written_to % PAGE_BYTES:
            os.ftruncate(self._fd, self._written_to)

    def abort(self) -> None:
        """Remove the temporary name."""
        if self._fd >= 0:
            # Whatever close(2) says, the descriptor is gone, and what counts was synced before.
            fd, self._fd = self._fd, -1
            with suppress(OSError):
                os.close(fd)
            with suppress(OSError):
                self._temporary.unlink()


def _create_temporary(path: Path, access: Access) -> tuple[Path, int]:
    """A new file in ``path``'s folder, which is made if it is not there."""
    for _ in range(_FOLDER_TRIES):
        temporary = path.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
        try:
            return temporary, create_file(temporary, access)
        except FileNotFoundError:
            make_folders(path.parent, access)
    raise HomeError(
        f"the folder {path.parent} vanishes as soon as it is made",
        hint="Something else empties the store's folder: keep it away from there.",
    )


def _link(temporary: Path, path: Path, fd: int) -> bool:
    """Give the file its name; False if that name is another file's."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        # A link that was done before its reply was lost looks like this too.
        try:
            return os.path.samestat(path.stat(), os.fstat(fd))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise PutUncertain(str(path)) from error
    except FileNotFoundError as error:
        raise StoreUnavailable(
            f"somebody removed what was being written for {path}",
            hint="Keep other programs away from the store's folder; it is tried again.",
        ) from error
    except OSError as error:
        if error.errno in NO_HARD_LINKS:
            raise HomeError(
                f"the file system of {path.parent} makes no hard links, and nothing else there"
                " creates a file both whole and only once",
                hint="Use --store with a place on another file system.",
                path=str(path),
            ) from error
        if error.errno in _UNKNOWN_OUTCOME:
            raise PutUncertain(str(path)) from error
        raise ours_for(error, "write", path) from error
    return True


def _sync_names(path: Path) -> None:
    """Make the name of an object durable; it stands already, so that a failure is uncertain."""
    try:
        sync_folder(path.parent)
    except OSError as error:
        raise PutUncertain(str(path)) from error
