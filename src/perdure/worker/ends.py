"""The ends of logs in the store: so that `perdure logs` says something when the home is gone.

One object a launch (or a row of segments, as journals have them), appended to as attempts end
otherwise than well, and bounded: what is kept of a launch is at most `LIMIT_BYTES`. An entry is a
header line of JSON and the bytes it announces.
"""

import json
from collections.abc import Iterator

from msgspec import Struct

from perdure.journal.bounded import BoundedObject
from perdure.journal.medium import Medium, read_from

LIMIT_BYTES = 4 << 20


class End(Struct, frozen=True, kw_only=True):
    """The end of one attempt's output."""

    step: int
    task: str
    attempt: int
    text: bytes


class EndsFile:
    """Writes the ends of one launch's attempts."""

    def __init__(self, medium: Medium, key: str) -> None:
        self._object = BoundedObject(medium, key, limit_bytes=LIMIT_BYTES)

    def add(self, step: int, task: str, attempt: int, text: bytes) -> None:
        """Append one end, unless too much was kept already.

        Raises:
            HomeError, OutOfSpace: the store does not take it.
        """
        if not text:
            return
        header = json.dumps({"step": step, "task": task, "attempt": attempt, "size": len(text)})
        self._object.append(header.encode("ascii") + b"\n" + text + b"\n")


def read_ends(medium: Medium, key: str) -> Iterator[End]:
    """The ends that a launch kept; stops at the first that is not whole."""
    data = read_from(medium, key, 0)
    position = 0
    while (line_end := data.find(b"\n", position)) >= 0:
        end = _end(data, position, line_end)
        if end is None:
            return
        yield end
        position = line_end + 1 + len(end.text) + 1


def _end(data: bytes, position: int, line_end: int) -> End | None:
    """The entry whose header stands between ``position`` and ``line_end``, if it is whole."""
    try:
        header = json.loads(data[position:line_end])
        size = int(header["size"])
        text = data[line_end + 1 : line_end + 1 + size]
        if size < 0 or len(text) < size:
            return None
        return End(
            step=int(header["step"]),
            task=str(header["task"]),
            attempt=int(header["attempt"]),
            text=text,
        )
    except (ValueError, KeyError, TypeError):
        return None
