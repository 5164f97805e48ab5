"""Runs of small files on their way to the disk: by the restore's own thread and a second process.

Source: docs/decisions/141.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from perdure.store.compression import Codec
from perdure.store.drivers.buffers import aligned_buffer
from perdure.store.packs.block_threads import BUFFER_BYTES
from perdure.store.packs.blocks import Damaged, StoredBlock, opened
from perdure.store.packs.sealing import Sealing
from perdure.store.restore.second_process import SecondProcess
from perdure.store.restore.small_files import SmallFile, SmallFileWriter
from perdure.store.restore.staging import StagedFile

#: A second process takes a tenth of a second of a core to start: so many files are worth it.
FILES_WORTH_IT = 4000
#: Rows of a run of files of a few hundred bytes; a run with more is written here.
_ROWS_BYTES = 1 << 20

# Asked for each of many thousand files: an enum's member takes longer to find than to compare.
_RAW = Codec.RAW
_Wanted = tuple[StoredBlock, tuple[StagedFile, int]]


class Runs:
    """Where runs are read into, and who writes their files; for one thread.

    Memory: one run, and with a second process two more.

    Args:
        files: how many small files there will be; 0 where nothing is read in runs.
        sealing: how the lineage's blocks are encrypted.
        use: takes blocks that are no small files, and those that are damaged.
    """

    def __init__(
        self,
        files: int,
        sealing: Sealing,
        use: Callable[[tuple[StagedFile, int], memoryview | Damaged], None],
    ) -> None:
        self._sealing = sealing
        self._use = use
        self._writer = SmallFileWriter()
        self._own = memoryview(b"")
        self._half: int | None = None
        self._under_way: dict[int, tuple[list[SmallFile], list[_Wanted]]] = {}
        self._helper: SecondProcess | None = None
        if files >= FILES_WORTH_IT and not sealing.key_id and len(os.sched_getaffinity(0)) > 1:
            with suppress(OSError):
                self._helper = SecondProcess(BUFFER_BYTES, _ROWS_BYTES)

    def buffer(self) -> memoryview:
        """Where the next run is to be read into; nobody else uses it."""
        if self._helper is not None:
            self._collect(self._helper, wait=False)
            self._half = self._helper.free_half()
            if self._half is not None:
                return self._helper.run_of(self._half)
        if not self._own:
            self._own = aligned_buffer(BUFFER_BYTES)
        return self._own

    def take(self, wanted: Sequence[_Wanted], run: memoryview, start: int) -> None:
        """Have the files of a run written, now or soon.

        Raises:
            CheckpointCorrupt, OutOfSpace and the like: of this run, or of one before it.
        """
        rows: list[SmallFile] = []
        of_rows: list[_Wanted] = []
        for one in wanted:
            block, (file, _index) = one
            entry = file.entry
            if block.codec is _RAW and not block.is_sealed and len(entry.blocks) == 1:
                folder, _slash, name = file.place.path.rpartition("/")
                rows.append(
                    SmallFile(
                        str(file.place.base),
                        folder,
                        name,
                        block.offset - start,
                        block.length,
                        block.digest,
                        entry.mode,
                        entry.mtime_ns,
                    )
                )
                of_rows.append(one)
            else:
                first = block.offset - start
                stored = run[first : first + block.stored]
                self._use(one[1], opened(block, stored, self._sealing))
        half, self._half = self._half, None
        if half is not None and self._helper is not None and self._helper.give(half, rows):
            self._under_way[half] = (rows, of_rows)
        else:
            self._write(rows, of_rows, run)

    def _write(self, rows: list[SmallFile], wanted: list[_Wanted], run: memoryview) -> None:
        damaged = self._writer.write(rows, run, self._sealing.digest)
        if damaged is not None:
            block, purpose = wanted[damaged]
            self._use(purpose, Damaged(f"a block in the pack {block.pack} is damaged"))

    def finish(self) -> None:
        """Wait until all are written; raises as `take` does."""
        if self._helper is not None:
            self._collect(self._helper, wait=True)

    def _collect(self, helper: SecondProcess, *, wait: bool) -> None:
        for half, is_written in helper.answers(wait=wait):
            rows, wanted = self._under_way.pop(half)
            if not is_written:
                self._write(rows, wanted, helper.run_of(half))

    def close(self) -> None:
        """Nobody writes any more."""
        self._writer.close()
        if self._helper is not None:
            self._helper.close()
