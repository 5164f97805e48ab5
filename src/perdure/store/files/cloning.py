"""Copies of files that share their bytes: made in milliseconds, and nobody writes to them.

Where the file system can share extents between files (XFS, btrfs), a clone of a large file is taken
as soon as its save's line is read. The bytes are then read from the clone at leisure, whatever the
program does to its file: an in-place writer is not torn by being slow to read. The clone of the
last save is kept until the next one is taken: a block that lies at the same place of the disk in
both is the same block, and is not even read (FIEMAP). Until then the clone keeps the disk space of
what was overwritten.

Crash behaviour: clones lie in the session folder under perdure's own name, and go with it.

Source: FICLONE in ioctl_ficlone(2); FS_IOC_FIEMAP in the kernel's filesystems/fiemap.
"""

import errno
import fcntl
import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

_FICLONE = 0x40049409
_FIEMAP = 0xC020660B
_FIEMAP_FLAG_SYNC = 1
_HEAD = struct.Struct("=QQLLLL")
_EXTENT = struct.Struct("=QQQQQLLLL")
_EXTENTS_AT_ONCE = 256
_LAST = 0x1
_MERGED = 0x1000
_SHARED = 0x2000
#: An extent with any other flag (inline, compressed, not yet written) tells nothing.
_PLAIN = _LAST | _MERGED | _SHARED
_NO_CLONES = frozenset(
    {errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EPERM}
)


class Extent(Struct, frozen=True, array_like=True):
    """So many bytes of a file from ``logical`` on lie on the disk from ``physical`` on."""

    logical: int
    physical: int
    length: int


class CannotClone(OSError):
    """This file system shares no bytes between files."""


def clone(source: int, path: Path) -> None:
    """Make ``path`` a clone of the open file ``source``; it is not there before.

    Raises:
        CannotClone: it cannot be done here, now or later.
        OSError: it cannot be done now.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.ioctl(fd, _FICLONE, source)
    except OSError as error:
        path.unlink(missing_ok=True)
        if error.errno in _NO_CLONES:
            raise CannotClone(error.errno, error.strerror) from error
        raise
    finally:
        os.close(fd)


def open_clone(path: str) -> int:
    """A clone, open for reading."""
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)


def extents(fd: int) -> list[Extent] | None:
    """Where an open file lies on its disk; None where nobody can tell."""
    try:
        return list(_extents(fd))
    except (OSError, _UnclearError):
        return None


class _UnclearError(Exception):
    """An extent whose place tells nothing about its bytes."""


def _extents(fd: int) -> Iterator[Extent]:
    start = 0
    while True:
        room = _EXTENTS_AT_ONCE * _EXTENT.size
        request = bytearray(_HEAD.size + room)
        _HEAD.pack_into(
            request, 0, start, (1 << 64) - 1 - start, _FIEMAP_FLAG_SYNC, 0, _EXTENTS_AT_ONCE, 0
        )
        fcntl.ioctl(fd, _FIEMAP, request)
        count = _HEAD.unpack_from(request, 0)[3]
        for number in range(count):
            logical, physical, length, _, _, flags, *_ = _EXTENT.unpack_from(
                request, _HEAD.size + number * _EXTENT.size
            )
            if flags & ~_PLAIN:
                raise _UnclearError
            yield Extent(logical, physical, length)
            start = logical + length
            if flags & _LAST:
                return
        if count == 0:
            return


def unchanged_blocks(
    before: list[Extent], after: list[Extent], size: int, block_bytes: int
) -> list[bool]:
    """Which blocks of two clones lie at the same place of the disk, whole. Pure.

    Args:
        before: of the clone of the former version.
        after: of the clone of the version that is wanted.
        size: of both files, in bytes.
        block_bytes: of a block.
    """
    return [
        _covers(before, after, start, min(start + block_bytes, size))
        for start in range(0, size, block_bytes)
    ]


def _covers(before: list[Extent], after: list[Extent], start: int, end: int) -> bool:
    there = list(_within(after, start, end))
    is_all = sum(one.length for one in there) == end - start
    return is_all and there == list(_within(before, start, end))


def _within(all_: list[Extent], start: int, end: int) -> list[Extent]:
    """The extents between two offsets, cut there, and joined where they follow each other."""
    found: list[Extent] = []
    first = bisect_right(all_, start, key=lambda one: one.logical)
    for one in all_[max(first - 1, 0) :]:
        if one.logical >= end:
            break
        low, high = max(one.logical, start), min(one.logical + one.length, end)
        if low >= high:
            continue
        physical = one.physical + low - one.logical
        last = found[-1] if found else Extent(-1, -1, 0)
        if (last.logical + last.length, last.physical + last.length) == (low, physical):
            found[-1] = Extent(last.logical, last.physical, last.length + high - low)
        else:
            found.append(Extent(low, physical, high - low))
    return found
