"""Reading an open file block by block.

Source: preadv(2).
"""

import os
from collections.abc import Iterator

from perdure.store.manifests.manifest import BLOCK_BYTES


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
