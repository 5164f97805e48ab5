"""Files of a restore before they have their names: written block by block, by several threads.

Each is written under a temporary name that is the same each time: beside its place, or, where
nothing of the checkpoint's name lies in the session folder yet, in a fresh folder that is then
renamed as a whole. Blocks that a restore which was killed has left are not written again.

Every folder on the way is opened without following links (`perdure.store.files.roots`).

Source: fallocate(2), openat(2); docs/decisions/049.
"""

import os
import shutil
import stat
import threading
from contextlib import suppress
from itertools import groupby

from msgspec import Struct

from perdure.errors import SaveRefused
from perdure.store.drivers.posix_files import fill, in_our_words, keep_room, write_all
from perdure.store.files.roots import OpenFolders, Place, open_parent, open_regular
from perdure.store.manifests.manifest import BLOCK_BYTES, Entry
from perdure.store.packs.sealing import PLAIN, Sealing
from perdure.store.restore.placing import make_folder, staged_name
from perdure.store.restore.small_files import NEW, finish, write_new

#: So many files of several blocks are kept open between their blocks.
_MOST_OPEN = 64
_AGAIN = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class StagedFile:
    """A file on its way; `place` is where it is staged."""

    def __init__(self, place: Place, entry: Entry) -> None:
        self.place = place
        self.entry = entry
        blocks = entry.blocks
        self.left = (
            int(blocks[0].pack >= 0)
            if len(blocks) == 1
            else sum(1 for block in blocks if block.pack >= 0)
        )
        self.fd = -1


class Staging:
    """The staged files of one restore; `write` may be called by several threads at once.

    Memory: one open folder a thread.
    """

    def __init__(self, sealing: Sealing = PLAIN) -> None:
        self._sealing = sealing
        self._made: set[str] = set()
        self._counting = threading.Lock()
        self._local = threading.local()
        self._folders: list[OpenFolders] = []
        self._open: set[StagedFile] = set()

    def begin(self, file: StagedFile) -> frozenset[int]:
        """Make room for a file; which of its blocks are there already, of a restore before.

        A file of one block is made when that comes.
        """
        self._make_parent(file.place)
        if len(file.entry.blocks) < 2 and file.left:
            return frozenset()
        there = self._left_before(file)
        file.left -= len(there)
        if not there:
            self._create(file)
        if not file.left:
            self._end(file)
        return there

    def _make_parent(self, place: Place) -> None:
        folder = place.path.rpartition("/")[0]
        key = f"{place.base}/{folder}"
        if key not in self._made:
            if folder:
                make_folder(next(place.parents()), makes_way=False)
            else:
                place.base.mkdir(parents=True, exist_ok=True)
            self._made.add(key)

    def _left_before(self, file: StagedFile) -> frozenset[int]:
        """The blocks of a staged file that a restore left which was killed, checked."""
        entry = file.entry
        found: set[int] = set()
        buffer = memoryview(bytearray(BLOCK_BYTES))
        with suppress(OSError, SaveRefused), open_regular(file.place) as fd:
            about = os.fstat(fd)
            if about.st_size != entry.size or about.st_nlink != 1:
                return frozenset()
            for index, block in enumerate(entry.blocks):
                data = buffer[: block.length]
                is_whole = fill(fd, index * BLOCK_BYTES, data) == block.length
                if is_whole and self._sealing.digest(data) == block.digest:
                    if block.pack >= 0:
                        found.add(index)
                elif block.pack < 0:  # what should be zeros is not: begin anew
                    return frozenset()
        return frozenset(found)

    def _create(self, file: StagedFile) -> None:
        with in_our_words("write", file.place.where):
            folder, name = self._open_folders.parent(file.place)
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            fd = os.open(name, NEW, 0o600, dir_fd=folder)
            try:
                os.ftruncate(fd, file.entry.size)
                _make_room(fd, file.entry)
            finally:
                os.close(fd)

    def write(self, file: StagedFile, index: int, data: memoryview) -> None:
        """Write one block; with its last one the file gets its mode and time."""
        with in_our_words("write", file.place.where):
            if len(file.entry.blocks) == 1:
                self._write_whole(file, data)
            else:
                self._write_block(file, index, data)

    def _write_whole(self, file: StagedFile, data: memoryview) -> None:
        folder, name = self._open_folders.parent(file.place)
        write_new(folder, name, data, file.entry.mode, file.entry.mtime_ns)

    def _write_block(self, file: StagedFile, index: int, data: memoryview) -> None:
        fd = self._opened(file)
        try:
            write_all(fd, data, index * BLOCK_BYTES)
        finally:
            with self._counting:
                file.left -= 1
                is_last = not file.left
                if is_last:
                    self._open.discard(file)
            try:
                if is_last:
                    finish(fd, file.entry.mode, file.entry.mtime_ns)
            finally:
                if is_last or fd != file.fd:
                    os.close(fd)

    def _opened(self, file: StagedFile) -> int:
        """The file, open: kept so until its last block, but for a few too many."""
        with self._counting:
            if file.fd >= 0:
                return file.fd
            folder, name = self._open_folders.parent(file.place)
            fd = os.open(name, _AGAIN, dir_fd=folder)
            if len(self._open) < _MOST_OPEN:
                file.fd = fd
                self._open.add(file)
            return fd

    def _end(self, file: StagedFile) -> None:
        """Give a file that needs no blocks its mode and time."""
        with in_our_words("write", file.place.where):
            folder, name = self._open_folders.parent(file.place)
            fd = os.open(name, _AGAIN, dir_fd=folder)
            try:
                finish(fd, file.entry.mode, file.entry.mtime_ns)
            finally:
                os.close(fd)

    @property
    def _open_folders(self) -> OpenFolders:
        """This thread's open folder."""
        found: OpenFolders | None = getattr(self._local, "folders", None)
        if found is None:
            found = self._local.folders = OpenFolders()
            self._folders.append(found)
        return found

    def close(self) -> None:
        """Close the folders and files; nobody writes any more."""
        for folders in self._folders:
            folders.close()
        for file in self._open:
            os.close(file.fd)


def _make_room(fd: int, entry: Entry) -> None:
    """Give a file all its room, but for blocks of zeros: a full disk is found before reading."""
    for is_hole, blocks in groupby(enumerate(entry.blocks), lambda item: item[1].pack < 0):
        if is_hole:
            continue
        indexes = [index for index, _block in blocks]
        length = sum(entry.blocks[index].length for index in indexes)
        if not keep_room(fd, indexes[0] * BLOCK_BYTES, length):
            return


def staged_beside(place: Place) -> Place:
    """Where a file is staged in its own folder."""
    folder, slash, _name = place.path.rpartition("/")
    return Place(root=place.root, base=place.base, path=f"{folder}{slash}{staged_name(place)}")


class FreshTop(Struct, frozen=True):
    """A first component of session paths that was not there, and its temporary name."""

    place: Place
    name: str

    def __hash__(self) -> int:  # once for each file that lies in it
        return hash(self.name)

    @classmethod
    def of(cls, place: Place) -> "FreshTop":
        """The first component of a place's path."""
        top = Place(root=place.root, base=place.base, path=place.path.partition("/")[0])
        return cls(top, staged_name(top))

    def staged(self, place: Place) -> Place:
        """Where a file that lies in it, or is it, is staged."""
        path = f"{self.name}{place.path[len(self.place.path) :]}"
        return Place(root=place.root, base=place.base, path=path)


def drop_fresh(top: FreshTop) -> None:
    """Remove what was staged for ``top``, a folder or a file, if anything."""
    name = top.name
    with suppress(OSError), open_parent(top.place) as (folder, _name):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            shutil.rmtree(name, ignore_errors=True, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
