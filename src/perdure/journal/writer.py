"""Writing a launch's journal: the one writer it ever has.

Lines are written at once and made durable in groups: whoever acts on a line asks for ``durable``.
A store that is full or out of reach stops no task: the lines wait in memory, in order, and are
written before any later one. Not for use by two threads at once without the lock that is in here.

Crash behaviour: what was appended survives the death of the process; what was synced survives the
death of the host; a cut last line does not count (see `journal_format`).
"""

import threading
from collections.abc import Mapping
from typing import Any

from perdure.errors import HomeError, OutOfSpace
from perdure.journal.journal_format import Kind, encode_line
from perdure.journal.medium import Medium, segment_key

#: Lines that wait while the store is away; beyond this new ones are not taken but counted.
MAX_WAITING_BYTES = 64 * 1024 * 1024


class JournalWriter:
    """Appends lines to one journal.

    Attributes:
        trouble: why lines are waiting in memory, or None.
        dropped: how many lines were not kept because too many were waiting.
    """

    def __init__(self, medium: Medium, key: str) -> None:
        self._medium = medium
        self._key = key
        self._lock = threading.Lock()
        self._waiting = bytearray()
        self._is_dirty = False
        self._segments = 0
        self._segment: bytes | None = None
        self.trouble: HomeError | OutOfSpace | None = None
        self.dropped = 0

    def append(self, kind: Kind, fields: Mapping[str, Any], *, durable: bool = False) -> bool:
        """Add one line; with ``durable``, return whether it is on the store's disk.

        Blocks for the write, and with ``durable`` for the sync. False means that the line waits in
        memory: the caller must not act on it as if it were kept.
        """
        with self._lock:
            line = encode_line(kind, fields)
            if len(self._waiting) + len(line) > MAX_WAITING_BYTES:
                self.dropped += 1
                return False
            self._waiting += line
            if self._medium.appends or durable:
                self._write()
            return self._sync() if durable else not self._waiting

    def sync(self) -> bool:
        """Write what waits and make everything durable; whether that was possible."""
        with self._lock:
            self._write()
            return self._sync()

    @property
    def is_dirty(self) -> bool:
        """Whether a sync would have something to do."""
        return self._is_dirty or bool(self._waiting)

    def _write(self) -> None:
        """Write the waiting lines; they go on waiting where that fails."""
        try:
            while self._waiting:
                written = self._append() if self._medium.appends else self._put_segment()
                del self._waiting[:written]
        except (HomeError, OutOfSpace) as error:
            self.trouble = error
            return
        self.trouble = None

    def _append(self) -> int:
        """Append all that waits; how much that was."""
        data = bytes(self._waiting)
        self._medium.append(self._key, data)
        self._is_dirty = True
        return len(data)

    def _put_segment(self) -> int:
        """Put one segment; how long it was.

        A put whose reply was lost is put again with the very same bytes: ours are the only puts
        here, so that a refusal then means that it was done.
        """
        if self._segment is None:
            self._segment = bytes(self._waiting)
        self._medium.put_if_absent(segment_key(self._key, self._segments + 1), self._segment)
        written = len(self._segment)
        self._segments += 1
        self._segment = None
        return written

    def _sync(self) -> bool:
        """Sync what was appended; False while something waits or the store is away."""
        if self._waiting:
            return False
        if self._is_dirty:
            try:
                self._medium.sync(self._key)
            except (HomeError, OutOfSpace) as error:
                self.trouble = error
                return False
            self._is_dirty = False
        return True
