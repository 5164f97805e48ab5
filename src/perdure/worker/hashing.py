"""The digests of adopted files: each new file is read once, slowly, beside the task.

A thread reads what was adopted, at a bounded speed and at the lowest priority, and gives the digest
to whoever adds it to the log. What is not read when the attempt ends stays without one: such a file
is known by its size and time.

Source: design 6, "Files policy"; docs/decisions/107.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from perdure.errors import PerdureError
from perdure.store.drivers.buffers import aligned_buffer
from perdure.store.drivers.posix_files import fill
from perdure.store.files.adopting import adopted
from perdure.store.files.roots import Place, Roots, open_regular_fd
from perdure.store.manifests.manifest import BLOCK_BYTES, Kept, Manifest, file_digest
from perdure.store.packs.block_threads import LOWEST_PRIORITY
from perdure.store.packs.sealing import Sealing

#: So fast at most: a tenth of a disk.
BYTES_PER_SECOND = 200e6


class Digests(Struct, frozen=True, kw_only=True):
    """Digests of a checkpoint's adopted files.

    Attributes:
        sequence: the checkpoint's.
        by_entry: by the number of the entry in its manifest.
        by_hold: by the files' second names.
    """

    sequence: int
    by_entry: dict[int, bytes]
    by_hold: dict[str, bytes]


class Hasher:
    """Runs from the first adopted file to `close`.

    Args:
        roots: where the job's files may lie.
        sealing: how digests are made.
        done: called by the thread with what was read.
    """

    def __init__(self, roots: Roots, sealing: Sealing, done: Callable[[Digests], None]) -> None:
        self._roots = roots
        self._sealing = sealing
        self._done = done
        self._waiting: deque[tuple[int, Manifest]] = deque()
        self._wake = threading.Condition()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def put(self, sequence: int, manifest: Manifest) -> None:
        """Read what of a committed checkpoint has no digest yet. Never blocks."""
        if all(entry.digest for entry in adopted(manifest)):
            return
        with self._wake:
            self._waiting.append((sequence, manifest))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="perdure-hash", daemon=True)
                self._thread.start()
            self._wake.notify()

    def close(self) -> None:
        """End the thread, soon; blocks until it has ended."""
        with self._wake:
            self._is_closed = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
        known: dict[str, bytes] = {}
        while True:
            with self._wake:
                while not self._waiting and not self._is_closed:
                    self._wake.wait()
                if self._is_closed:
                    return
                sequence, manifest = self._waiting.popleft()
            found = self._read(manifest, known)
            if found:
                holds = {manifest.entries[index].hold: digest for index, digest in found.items()}
                known |= holds
                self._done(Digests(sequence=sequence, by_entry=found, by_hold=holds))

    def _read(self, manifest: Manifest, known: dict[str, bytes]) -> dict[int, bytes]:
        """The digests by entry, as far as they could be made."""
        found: dict[int, bytes] = {}
        for index, entry in enumerate(manifest.entries):
            if entry.kept is not Kept.ADOPTED or entry.digest:
                continue
            digest = known.get(entry.hold) if entry.hold else None
            place = self._roots.find(manifest.roots[entry.root], entry.path)
            if digest is None and place is not None:
                with suppress(OSError, PerdureError):
                    digest = self._digest(place, entry.size, entry.mtime_ns)
            if digest is not None:
                found[index] = digest
        return found

    def _digest(self, place: Place, size: int, mtime_ns: int) -> bytes | None:
        """The file's digest; None where it is another version, or there is no time."""
        fd = open_regular_fd(place)
        try:
            if not _is_version(fd, size, mtime_ns):
                return None
            digests: list[bytes] = []
            buffer = aligned_buffer(BLOCK_BYTES)
            for start in range(0, size, BLOCK_BYTES):
                data = buffer[: min(BLOCK_BYTES, size - start)]
                if fill(fd, start, data) < data.nbytes or not self._may_go_on(data.nbytes):
                    return None
                digests.append(self._sealing.digest(data))
            return file_digest(digests) if _is_version(fd, size, mtime_ns) else None
        finally:
            os.close(fd)

    def _may_go_on(self, count: int) -> bool:
        """Wait as long as so many bytes may take; False when it is to end."""
        with self._wake:
            return not self._wake.wait_for(
                lambda: self._is_closed, timeout=count / BYTES_PER_SECOND
            )


def _is_version(fd: int, size: int, mtime_ns: int) -> bool:
    found = os.fstat(fd)
    return (found.st_size, found.st_mtime_ns) == (size, mtime_ns)
