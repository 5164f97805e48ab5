"""An object that is held in memory while it is written piece by piece."""

import threading

from perdure.store.drivers.driver import ALIGNMENT, Piece


class HeldPieces:
    """The bytes so far; pieces may come from several threads.

    Memory: all of them, up to the driver's ``pack_limit_bytes``.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._data = bytearray()

    @property
    def size(self) -> int:
        """How many bytes were written so far."""
        return len(self._data)

    def write(self, piece: Piece, *, aligned: bool = False) -> int:
        """Add ``piece`` at the end; the offset at which it begins.

        Args:
            piece: copied before this returns.
            aligned: begin at a multiple of 4096, with zeros before it.
        """
        with self._lock:
            if aligned:
                self._data += bytes(-len(self._data) % ALIGNMENT)
            offset = len(self._data)
            self._data += piece
        return offset
