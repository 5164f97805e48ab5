"""The log of one launch: all that its attempts print, in one append file, bounded in size.

Offsets count every byte that was ever in the log, so that an attempt's range stays true when the
middle of a long log is dropped: the head is kept, and of what follows the newest segments. The end
of each attempt's output is also kept in memory, for the store.

A full disk stops no task: what cannot be written is counted, and said at the next write that works.

Source: known failures K (10 GB of stdout; a requeue must not truncate the log).
"""

import os
from contextlib import suppress
from pathlib import Path

#: How much of a launch's output is kept, unless ``--log-limit`` says otherwise.
DEFAULT_LIMIT_BYTES = 1 << 30
#: How much of the end of an attempt's output goes into the store.
END_BYTES = 8 * 1024
_SEGMENTS = 2
_MODE = 0o600


class OutputLog:
    """Writes one launch's log; used by one thread at a time.

    Attributes:
        offset: where the next byte goes, counted from the launch's first.
        lost_bytes: what could not be written, in all.
    """

    def __init__(self, path: Path, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._path = path
        self._head_bytes = limit_bytes // 2
        self._segment_bytes = max(1, limit_bytes // (2 * _SEGMENTS))
        self._segments: list[Path] = []
        self._end = bytearray()
        self._file = _open(path)
        self._room = self._head_bytes
        self.offset = 0
        self.lost_bytes = 0
        self._untold_bytes = 0

    def write(self, data: bytes) -> None:
        """Add ``data``; never raises for a full disk."""
        self._end += data[-END_BYTES:]
        if len(self._end) > 2 * END_BYTES:
            del self._end[:-END_BYTES]
        if self._untold_bytes and not self._tell():
            self._lose(len(data))
            return
        while data:
            if self._room <= 0:
                self._next_segment()
            piece, data = data[: self._room], data[self._room :]
            self._write(piece)

    def say(self, text: str) -> None:
        """Add a line that no task printed."""
        self.write(text.encode("utf-8", "backslashreplace") + b"\n")

    def begin_attempt(self) -> int:
        """The offset at which an attempt's output begins; its end is collected anew."""
        self._end.clear()
        return self.offset

    def end_of_attempt(self) -> bytes:
        """The last bytes of the attempt's output."""
        return bytes(self._end[-END_BYTES:])

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def _tell(self) -> bool:
        """Say in the log how much was lost; False while that cannot be written either."""
        text = b"\nperdure: %d bytes of output were lost here\n" % self._untold_bytes
        if self._add(text) < len(text):
            return False
        self._untold_bytes = 0
        return True

    def _write(self, piece: bytes) -> None:
        """Write it, or count what of it is lost."""
        written = self._add(piece)
        if written < len(piece):
            self._lose(len(piece) - written)

    def _lose(self, size_bytes: int) -> None:
        self.lost_bytes += size_bytes
        self._untold_bytes += size_bytes

    def _add(self, data: bytes) -> int:
        """How much of it stands in the file now; the offset goes by that."""
        view = memoryview(data)
        with suppress(OSError):
            while view:
                view = view[os.write(self._file, view) :]
        written = len(data) - len(view)
        self.offset += written
        self._room -= written
        return written

    def _next_segment(self) -> None:
        """Go on in a new segment, named by its offset; the oldest goes."""
        try:
            path = self._path.with_name(f"{self._path.name}.{self.offset}")
            file = _open(path)
        except OSError:
            self._room = self._segment_bytes  # counted as lost, tried again a segment later
            return
        os.close(self._file)
        self._file = file
        self._room = self._segment_bytes
        self._segments.append(path)
        if len(self._segments) > _SEGMENTS:
            self._segments.pop(0).unlink(missing_ok=True)


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)


def read_log(path: Path, start: int, end: int | None = None) -> bytes:
    """The bytes of a launch's log from ``start`` to ``end``, without what was dropped or lost."""
    parts: list[bytes] = []
    for first, part in _parts(path):
        size = part.stat().st_size
        low = max(start, first)
        high = first + size if end is None else min(end, first + size)
        if low < high:
            with part.open("rb") as file:
                file.seek(low - first)
                parts.append(file.read(high - low))
    return b"".join(parts)


def _parts(path: Path) -> list[tuple[int, Path]]:
    """The head and the segments of a log, each with the offset at which it begins."""
    prefix = f"{path.name}."
    segments = [
        (int(part.name.removeprefix(prefix)), part)
        for part in path.parent.glob(f"{prefix}*")
        if part.name.removeprefix(prefix).isdigit()
    ]
    head = [(0, path)] if path.exists() else []
    return head + sorted(segments)
