"""The plain BLAKE3 of a file of any size, its blocks read and used by two threads.

A plain digest, which other programs can check, takes the bytes in their order. So each block is
read and used (written, say) by whichever thread has it, and hashed when it is its turn; the memory
that was hashed is the very one that is used.

Memory: a block for each of two threads, and one for small files: 12 MiB, kept from file to file.
"""

import threading
from collections.abc import Callable, Iterator

from blake3 import blake3

from perdure.store.drivers.buffers import aligned_buffer
from perdure.store.manifests.manifest import BLOCK_BYTES
from perdure.store.packs.block_threads import BUFFER_BYTES, BlockThreads

#: Fills the memory, which begins at a page, with at most so many bytes from that position on, and
#: may put zeros, or what follows, behind them up to the next page; how many of them there were.
Read = Callable[[int, int, memoryview], int]
#: Takes the bytes at that position; they are its own until it returns.
Use = Callable[[int, memoryview], None]


class SequentialDigest:
    """Digests one file after the other; for one thread.

    Args:
        check: called between blocks, by any thread; whatever it raises ends the digest.
    """

    def __init__(self, check: Callable[[], None] = lambda: None) -> None:
        self._check = check
        self._threads = BlockThreads()
        self._buffer: memoryview | None = None

    def of(self, size: int, read: Read, use: Use = lambda _start, _data: None) -> bytes | None:
        """The digest of ``size`` bytes; None if there are fewer. Blocks.

        Raises:
            BaseException: the first that ``check``, ``read`` or ``use`` raised.
        """
        work = _Work(size, read, use)
        if size > BLOCK_BYTES:
            self._threads.run(self._starts(work), work.do)
        elif size:
            self._check()
            if self._buffer is None:
                self._buffer = aligned_buffer(BUFFER_BYTES)
            work.do(0, self._buffer)
        return None if work.is_short else work.hasher.digest()

    def _starts(self, work: "_Work") -> Iterator[int]:
        for start in range(0, work.size, BLOCK_BYTES):
            self._check()
            if work.is_short:
                return
            yield start


class _Work:
    """One file that is digested."""

    def __init__(self, size: int, read: Read, use: Use) -> None:
        self.size = size
        self.hasher = blake3()
        self.is_short = False
        self._read = read
        self._use = use
        self._turn = threading.Condition()
        self._next = 0
        self._is_given_up = False

    def do(self, start: int, buffer: memoryview) -> None:
        """Read, hash and use one block."""
        try:
            length = min(BLOCK_BYTES, self.size - start)
            if self._read(start, length, buffer) < length:
                self._give_up(is_short=True)
            elif self._hash(start, buffer[:length]):
                self._use(start, buffer[:length])
        except BaseException:
            self._give_up(is_short=False)
            raise

    def _hash(self, start: int, data: memoryview) -> bool:
        """Hash a block when all before it are; False: one of them never will be."""
        with self._turn:
            self._turn.wait_for(lambda: self._next == start or self._is_given_up)
            if self._is_given_up:
                return False
        self.hasher.update(data)  # nobody else's turn
        with self._turn:
            self._next = start + data.nbytes
            self._turn.notify_all()
        return True

    def _give_up(self, *, is_short: bool) -> None:
        with self._turn:
            self._is_given_up = True
            self.is_short = self.is_short or is_short
            self._turn.notify_all()
