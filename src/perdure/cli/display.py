"""What `perdure run` shows while it runs: the launches' logs, as `openjd run` shows them.

Each line gets the moment at which it is shown (``--timestamp-format``). Many lines at once cost one
replacement, not one a line.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from msgspec import Struct

_READ_BYTES = 1 << 20


class _Followed(Struct):
    """One log that is being shown."""

    offset: int = 0
    at_line_start: bool = True


class LogDisplay:
    """Shows what is new in a folder of logs.

    Args:
        folder: of the job's logs.
        timestamp: what stands before each line.
        write: gets the bytes to show.
    """

    def __init__(
        self, folder: Path, timestamp: Callable[[], bytes], write: Callable[[bytes], object]
    ) -> None:
        self._folder = folder
        self._timestamp = timestamp
        self._write = write
        self._logs: dict[Path, _Followed] = {}

    def skip_present(self) -> None:
        """Do not show what earlier runs printed."""
        for path in self._paths():
            self._logs[path] = _Followed(offset=path.stat().st_size)

    def show(self) -> bool:
        """Show what is new; whether there was anything."""
        found = False
        for path in self._paths():
            found = self._show_one(path) or found
        return found

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob("*.log")) if self._folder.is_dir() else []

    def _show_one(self, path: Path) -> bool:
        followed = self._logs.setdefault(path, _Followed())
        try:
            if path.stat().st_size <= followed.offset:
                return False
            with path.open("rb") as file:
                file.seek(followed.offset)
                while data := file.read(_READ_BYTES):
                    followed.offset += len(data)
                    self._write(self._stamped(followed, data))
        except OSError:
            return False
        return True

    def _stamped(self, followed: _Followed, data: bytes) -> bytes:
        """``data`` with the moment before each line."""
        stamp = self._timestamp()
        first = stamp if followed.at_line_start else b""
        followed.at_line_start = data.endswith(b"\n")
        body = data[:-1] if followed.at_line_start else data
        text = first + body.replace(b"\n", b"\n" + stamp)
        return text + b"\n" if followed.at_line_start else text


def timestamps(kind: str) -> Callable[[], bytes]:
    """What stands before a line: ``relative`` to now, ``local`` time, ``utc`` or ``none``."""
    started = monotonic()

    def relative() -> bytes:
        seconds = monotonic() - started
        whole = int(seconds)
        hours, minutes = whole // 3600, whole % 3600 // 60
        fraction = int((seconds - whole) * 1_000_000)
        return f"{hours}:{minutes:02d}:{whole % 60:02d}.{fraction:06d}\t".encode()

    def local() -> bytes:
        return f"{datetime.now().astimezone().isoformat(timespec='microseconds')}\t".encode()

    def utc() -> bytes:
        return f"{datetime.now(UTC).isoformat(timespec='microseconds')}\t".encode()

    def none() -> bytes:
        return b""

    return {"relative": relative, "local": local, "utc": utc, "none": none}[kind]
