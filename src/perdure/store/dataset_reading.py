"""Reading one file into blocks, and only if all of it is one version. For one thread.

Theory of operation. A program may write a file again at any moment; what is read while it does so
is half of one version and half of another. So bytes count only if the file's stamp (device,
inode, size, mtime, ctime) is the expected one before the first and after the last byte is read.
The expected stamp is the one that the file had when the save's line was read, and its ctime must
not be later than that line: stamps that agree around the read alone are not enough, because the
program may have begun its next save before and died in the middle of it.

A file that only ever grows at its end is taken up to the size that it had then.

Limits, said in the documents: a store through a memory map into a page that is dirty already
moves no stamp (``settle`` is where that is cured); kernels before 6.13 move stamps in ticks of up
to 10 ms, so that a file that is read right after it was written is read again after such a tick
(`tick_ns`).

Source: inode(7) on timestamps; design decision in docs/decisions/045.
"""

import errno
import os
import re
from collections.abc import Callable, Iterator

from blake3 import blake3
from msgspec import Struct

from perdure.store.manifest import BLOCK_BYTES, file_digest
from perdure.store.packs import PackWriter, StoredBlock
from perdure.store.roots import Place, Stamp, open_regular

_FINE_STAMPS_SINCE = (6, 13)
_TICK_NS = 20_000_000


class Version(Struct, frozen=True, kw_only=True):
    """One version of a file.

    Attributes:
        stamp: by which it is known again; its size is how many bytes were taken.
        mode: its permission bits.
        blocks: where they are; empty when only the digest was wanted.
        digest: `file_digest` of them.
        is_kept: whether the bytes were stored.
    """

    stamp: Stamp
    mode: int
    blocks: tuple[StoredBlock, ...]
    digest: bytes
    is_kept: bool


class Reading(Struct, frozen=True, kw_only=True):
    """How files are read.

    Attributes:
        settle: called with an open file before it is stamped.
        pause: called between blocks.
    """

    settle: Callable[[int], None]
    pause: Callable[[], None]


def read_version(
    place: Place,
    expected: Stamp,
    *,
    grows: bool,
    writer: PackWriter | None,
    how: Reading,
) -> Version | None:
    """The version of the file at ``place`` that has the stamp ``expected``; None if it is torn.

    Args:
        place: where.
        expected: of the wanted version.
        grows: whether the file may have grown since, and is taken up to the expected size.
        writer: where the blocks go; None: only the digest is made.
        how: see `Reading`.

    Raises:
        SaveRefused: there is no regular file.
        OSError: it cannot be read; a file that has vanished is torn.
    """
    try:
        with open_regular(place) as fd:
            return _read(fd, expected, grows=grows, writer=writer, how=how)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.ESTALE):
            return None
        raise


def tick_ns(release: str) -> int:
    """How long two versions of a file may carry one stamp, on a kernel of that release."""
    numbers = re.match(r"(\d+)\.(\d+)", release)
    is_fine = numbers is not None and (int(numbers[1]), int(numbers[2])) >= _FINE_STAMPS_SINCE
    return 0 if is_fine else _TICK_NS


def _read(
    fd: int, expected: Stamp, *, grows: bool, writer: PackWriter | None, how: Reading
) -> Version | None:
    how.settle(fd)
    found = os.fstat(fd)
    if not _is_version(Stamp.of(found), expected, grows=grows):
        return None
    blocks: list[StoredBlock] = []
    digests: list[bytes] = []
    for data in read_blocks(fd, expected.size):
        if writer is None:
            digests.append(blake3(data).digest())
        else:
            blocks.append(writer.add(data))
            digests.append(blocks[-1].digest)
        how.pause()
    after = Stamp.of(os.fstat(fd))
    if not _is_version(after, expected, grows=grows) or not is_whole(digests, expected.size):
        return None
    return Version(
        stamp=expected,
        mode=found.st_mode & 0o777,
        blocks=tuple(blocks),
        digest=file_digest(digests),
        is_kept=writer is not None,
    )


def _is_version(found: Stamp, wanted: Stamp, *, grows: bool) -> bool:
    """Whether what was found is the wanted version, or has grown from it."""
    if found == wanted:
        return True
    is_same_file = (found.device, found.inode) == (wanted.device, wanted.inode)
    return grows and is_same_file and found.size >= wanted.size


def is_whole(digests: list[bytes], size: int) -> bool:
    """Whether there is a digest of every block of ``size`` bytes."""
    return len(digests) == -(-size // BLOCK_BYTES)


def read_blocks(fd: int, size: int) -> Iterator[bytes]:
    """The first ``size`` bytes, block by block; ends early where the file does."""
    for start in range(0, size, BLOCK_BYTES):
        length = min(BLOCK_BYTES, size - start)
        data = os.pread(fd, length, start)
        while len(data) < length:
            more = os.pread(fd, length - len(data), start + len(data))
            if not more:
                return
            data += more
        yield data
