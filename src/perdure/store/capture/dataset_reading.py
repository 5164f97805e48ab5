"""Reading files into blocks, and only if all of a file is one version.

Theory of operation. A program may write a file again at any moment; what is read while it does so
is half of one version and half of another. So bytes count only if the file's stamp (device,
inode, size, mtime, ctime) is the expected one before the first and after the last byte is read.
The expected stamp is the one that the file had when the save's line was read, and its ctime must
not be later than that line: stamps that agree around the read alone are not enough, because the
program may have begun its next save before and died in the middle of it.

Small files are read one after the other, their folder opened once; the blocks of large ones by
several threads. A file that only ever grows at its end is taken up to the size that it had then.

Limits, said in the documents: a store through a memory map into a page that is dirty already moves
no stamp (`perdure.store.files.mapped_files` is where that is met); on some file systems two
versions of a file may carry one stamp for a while (`perdure.store.files.file_systems`).

Source: inode(7) on timestamps; design decision in docs/decisions/045.
"""

import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator

from blake3 import blake3
from msgspec import Struct

from perdure.store.capture.compressing import codec_for_file, codec_for_small
from perdure.store.compression import Codec
from perdure.store.drivers.posix_files import fill
from perdure.store.files.cloning import open_clone
from perdure.store.files.roots import OpenFolders, Place, Stamp, open_regular_fd
from perdure.store.manifests.manifest import BLOCK_BYTES, file_digest
from perdure.store.packs.block_threads import BlockThreads
from perdure.store.packs.blocks import StoredBlock
from perdure.store.packs.pack_writing import PackWriter

#: Files up to this size are read by the thread that asks, one after the other.
SMALL_BYTES = 64 << 10
#: So often it is asked whether the session may go on.
_PAUSE_EVERY = 64
_VANISHED = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE})


class Version(Struct, frozen=True, kw_only=True, gc=False):
    """One version of a file.

    Attributes:
        stamp: by which it is known again; its size is how many bytes were taken.
        mode: its permission bits.
        blocks: where they are; empty when only the digest was wanted.
        digest: `file_digest` of them.
        is_kept: whether the bytes were stored.
        is_racy: whether a later version may carry the same stamp: it was read too soon after it
            was written for the clock of its file system.
    """

    stamp: Stamp
    mode: int
    blocks: tuple[StoredBlock, ...]
    digest: bytes
    is_kept: bool
    is_racy: bool = False


class Wanted(Struct, frozen=True, kw_only=True, gc=False):
    """A version that is to be read.

    Attributes:
        place: where.
        number: by which whoever wants it knows it again.
        stamp: of the wanted version.
        grows: whether the file may have grown since, and is taken up to that size.
        is_kept: whether its bytes are stored; else only the digest is made.
        clone: where a copy of that very version lies that nobody writes to, or None.
        known: blocks that need not be read, by index; empty for none.
    """

    place: Place
    stamp: Stamp
    number: int = 0
    grows: bool = False
    is_kept: bool = True
    clone: str | None = None
    known: tuple[StoredBlock | None, ...] = ()


class Reading(Struct, frozen=True, kw_only=True):
    """How files are read.

    Attributes:
        mapped: inodes that the task may change through memory.
        pause: called between blocks.
        is_racy: whether a file with that stamp may be written again without another stamp.
        in_background: whether the task that runs beside is more important.
        only_clones_left: called when no file of the task is looked at any more.
    """

    mapped: frozenset[int]
    pause: Callable[[], None]
    is_racy: Callable[[Stamp], bool]
    in_background: bool = False
    only_clones_left: Callable[[], None] = lambda: None

    def settle(self, fd: int) -> None:
        """Make every later store through memory move the times of an open file."""
        # What was named is written back by now, which costs little again; what was met is not.
        if self.mapped and os.fstat(fd).st_ino in self.mapped:
            os.fsync(fd)


class DatasetReader:
    """Reads the versions of a dataset's files; for one thread.

    Args:
        writer: where blocks go.
        threads: who reads large files.
    """

    def __init__(self, writer: PackWriter, threads: BlockThreads) -> None:
        self._writer = writer
        self._threads = threads

    def read(
        self, wanted: Iterable[Wanted], how: Reading
    ) -> Iterator[tuple[Wanted, Version | None]]:
        """Each wanted version; None if it is torn: not there any more, or not yet whole.

        Blocks while they are read and their new blocks are written.

        Raises:
            SaveRefused: there is no regular file.
            OSError: it cannot be read; a file that has vanished is torn.
        """
        small: list[Wanted] = []
        large: list[Wanted] = []
        for one in wanted:
            is_small = one.stamp.size <= SMALL_BYTES and one.clone is None
            (small if is_small else large).append(one)
        if small:
            yield from self._read_small(small, how)
        if all(one.clone is not None for one in large):
            how.only_clones_left()
        if large:
            row = _Blocks(large, how, self._writer)
            try:
                self._threads.run(iter(row), row.read, in_background=how.in_background)
            finally:
                row.close()
            for one in large:
                yield one, row.versions.get(one.place)

    def _read_small(
        self, wanted: list[Wanted], how: Reading
    ) -> Iterator[tuple[Wanted, Version | None]]:
        """Small files, one after the other: one loop, without a call that is not needed."""
        codec = codec_for_small(self._writer.bytes_per_second)
        digest_of, add = self._writer.sealing.digest, self._writer.add_small
        try:
            with OpenFolders() as folders:
                for number, one in enumerate(wanted):
                    if not number % _PAUSE_EVERY:
                        how.pause()
                    found = _read_whole(one, folders, how)
                    if found is None:
                        yield one, None
                        continue
                    data, about = found
                    blocks: tuple[StoredBlock, ...] = ()
                    digest = digest_of(data) if data else b""
                    if data and one.is_kept:
                        blocks = (add(data, digest, codec),)
                    yield (
                        one,
                        Version(
                            stamp=one.stamp,
                            mode=about.st_mode & 0o777,
                            blocks=blocks,
                            digest=blake3(digest).digest(),
                            is_kept=one.is_kept,
                            is_racy=how.is_racy(one.stamp),
                        ),
                    )
        finally:
            self._writer.end_small()


def _read_whole(
    one: Wanted, folders: OpenFolders, how: Reading
) -> tuple[bytes, os.stat_result] | None:
    """The bytes of a small file, if they are of the wanted version."""
    size = one.stamp.size
    try:
        fd = folders.open(one.place)
    except OSError as error:
        if error.errno in _VANISHED:
            return None
        raise
    try:
        how.settle(fd)
        # A byte more than there should be: a file that grew meanwhile is another version.
        data = os.read(fd, size + 1)
        # The stamp was taken before: if it holds behind the reading, it held all the while.
        about = os.fstat(fd)
    finally:
        os.close(fd)
    if len(data) > size and one.grows:
        data = data[:size]
    return (data, about) if len(data) == size and _is_wanted(about, one) else None


class _OpenFile:
    """A large file whose blocks are being read."""

    def __init__(self, wanted: Wanted, fd: int, mode: int, codec: Codec) -> None:
        self.wanted = wanted
        self.fd = fd
        self.mode = mode
        self.codec = codec
        self.blocks: list[StoredBlock | None] = [None] * -(-wanted.stamp.size // BLOCK_BYTES)
        self.digests: list[bytes] = [b""] * len(self.blocks)
        self.left = len(self.blocks)
        self.is_torn = False


class _Blocks:
    """The blocks of large files, as a row of work; `versions` has those that are whole."""

    def __init__(self, wanted: list[Wanted], how: Reading, writer: PackWriter) -> None:
        self._wanted = wanted
        self._how = how
        self._writer = writer
        self._open: set[_OpenFile] = set()
        self._ending = threading.Lock()
        self.versions: dict[Place, Version] = {}

    def __iter__(self) -> Iterator[tuple[_OpenFile, int]]:
        for one in self._wanted:
            file = self._open_file(one)
            if file is None:
                continue
            for index in range(len(file.blocks)):
                if file.is_torn:
                    break
                yield file, index

    def _open_file(self, one: Wanted) -> _OpenFile | None:
        """The file with the wanted stamp, open; None if it is torn already."""
        try:
            fd = open_clone(one.clone) if one.clone is not None else open_regular_fd(one.place)
        except OSError as error:
            if error.errno in _VANISHED:
                return None
            raise
        try:
            self._how.settle(fd)
            about = os.fstat(fd)
            is_wanted = one.clone is not None or _is_wanted(about, one)
            codec = Codec.RAW
            if is_wanted and one.is_kept:
                codec = codec_for_file(fd, one.stamp.size, self._writer.bytes_per_second)
        except BaseException:
            os.close(fd)
            raise
        if not is_wanted:
            os.close(fd)
            return None
        file = _OpenFile(one, fd, about.st_mode, codec)
        self._open.add(file)
        return file

    def read(self, item: tuple[_OpenFile, int], buffer: memoryview) -> None:
        """Read one block, and store it; with the last one the file is looked at again."""
        file, index = item
        known = file.wanted.known[index] if file.wanted.known else None
        if known is not None:
            file.blocks[index], file.digests[index] = known, known.digest
        elif not self._read_block(file, index, buffer):
            file.is_torn = True
        self._how.pause()
        with self._ending:
            file.left -= 1
            if file.left:
                return
            self._open.discard(file)
        try:
            if not file.is_torn:
                self._end(file)
        finally:
            os.close(file.fd)

    def _read_block(self, file: _OpenFile, index: int, buffer: memoryview) -> bool:
        """Whether the block was there whole."""
        start = index * BLOCK_BYTES
        data = buffer[: min(BLOCK_BYTES, file.wanted.stamp.size - start)]
        if fill(file.fd, start, data) < data.nbytes:
            return False
        if file.wanted.is_kept:
            block = file.blocks[index] = self._writer.add(data, file.codec)
            file.digests[index] = block.digest
        else:
            file.digests[index] = self._writer.sealing.digest(data)
        return True

    def _end(self, file: _OpenFile) -> None:
        one = file.wanted
        if one.clone is None and not _is_wanted(os.fstat(file.fd), one):
            return
        blocks = tuple(block for block in file.blocks if block is not None)
        self.versions[one.place] = _version(one, file.mode, blocks, file.digests, self._how)

    def close(self) -> None:
        """Close what was not read to its end."""
        for file in self._open:
            os.close(file.fd)
        self._open.clear()


def _version(
    one: Wanted, mode: int, blocks: tuple[StoredBlock, ...], digests: list[bytes], how: Reading
) -> Version:
    return Version(
        stamp=one.stamp,
        mode=mode & 0o777,
        blocks=blocks,
        digest=file_digest(digests),
        is_kept=one.is_kept,
        is_racy=how.is_racy(one.stamp),
    )


def _is_wanted(found: os.stat_result, one: Wanted) -> bool:
    """Whether what was found is the wanted version, or has grown from it."""
    stamp = one.stamp
    if (
        found.st_ctime_ns == stamp.ctime_ns
        and found.st_mtime_ns == stamp.mtime_ns
        and found.st_size == stamp.size
        and found.st_ino == stamp.inode
        and found.st_dev == stamp.device
    ):
        return True
    is_same_file = (found.st_dev, found.st_ino) == (stamp.device, stamp.inode)
    return one.grows and is_same_file and found.st_size >= stamp.size
