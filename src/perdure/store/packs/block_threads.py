"""A few threads that work off a row of pieces of work, each with a private buffer of one block.

They are started for one row and end with it. In the background they run at the lowest priority: the
task owns the cores. What is urgent (a notice was given, the task has ended) runs at the worker's
own, since a process without rights can never raise it again.

Memory: one block for each thread (two: 8 MiB), kept from row to row.

Source: setpriority(2): on Linux it holds for one thread.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

from perdure.store.drivers.buffers import PAGE_BYTES, aligned_buffer
from perdure.store.manifests.manifest import BLOCK_BYTES

#: Hashing goes at the speed of two threads; the disk takes no more than that.
THREADS = 2
#: A block, and room to begin and end at pages.
BUFFER_BYTES = BLOCK_BYTES + 2 * PAGE_BYTES
LOWEST_PRIORITY = 19
_T = TypeVar("_T")


class BlockThreads:
    """Works off rows; for one row at a time."""

    def __init__(self, count: int = THREADS) -> None:
        self._buffers: list[memoryview] = []
        self._count = count

    def run(
        self,
        row: Iterator[_T],
        work: Callable[[_T, memoryview], None],
        *,
        in_background: bool = False,
    ) -> None:
        """Do ``work`` with each item of ``row`` and a buffer of one block; blocks until the end.

        Args:
            row: is advanced by one thread at a time.
            work: is called by all of them.
            in_background: at the lowest priority.

        Raises:
            BaseException: the first that ``row`` or ``work`` raised; the rest of the row is left.
        """
        while len(self._buffers) < self._count:
            self._buffers.append(aligned_buffer(BUFFER_BYTES))
        running = _Row(row, work)
        threads = [
            threading.Thread(
                target=running.work_off,
                args=(buffer, in_background),
                name="perdure-blocks",
                daemon=True,
            )
            for buffer in self._buffers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if running.failure is not None:
            raise running.failure


class _Row:
    """One row that several threads work off."""

    def __init__(self, row: Iterator[_T], work: Callable[[_T, memoryview], None]) -> None:
        self._row = row
        self._work = work
        self._lock = threading.Lock()
        self.failure: BaseException | None = None

    def work_off(self, buffer: memoryview, in_background: bool) -> None:  # noqa: FBT001 - a thread's
        """Take item after item."""
        if in_background:
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
        try:
            while True:
                with self._lock:
                    if self.failure is not None:
                        return
                    try:
                        item = next(self._row)
                    except StopIteration:
                        return
                self._work(item, buffer)
        except BaseException as error:  # noqa: BLE001 - raised again by whoever started the row
            with self._lock:
                self.failure = self.failure or error
