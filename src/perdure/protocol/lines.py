r"""Cut a task's output into numbered lines, or find only those lines that may hold a message.

A line ends with ``\n``, ``\r\n`` or a lone ``\r``, as openjd-sessions reads it, so a progress bar
is many lines. Lines count from 1. A line of more than 64,000 characters is one discarded record:
neither its head nor its rest is ever taken for a message. A byte that is not UTF-8 counts as one
character.

A task may print millions of lines that say nothing to us. `LineSplitter.find` touches only those
that contain ``openjd_``: the others are counted by ``bytes.count``, never cut out. Memory is
bounded by the longest line allowed, whatever the task prints and however it arrives.
"""

import re

from msgspec import Struct

#: Source: openjd-sessions reads at most this many characters at once (LOG_LINE_MAX_LENGTH).
LINE_LIMIT_CHARACTERS = 64_000
#: No line within the limit has more bytes than this (UTF-8 has at most four a character).
_LINE_LIMIT_BYTES = 4 * LINE_LIMIT_CHARACTERS
#: What is kept of a discarded line: enough to say which message it would have been.
_HEAD_BYTES = 64
_BREAK = re.compile(rb"\r\n|\n|\r")
_MARK = b"openjd_"


class Line(Struct, frozen=True):
    """One line of output, without its end.

    Attributes:
        number: counted from 1.
        data: its bytes.
    """

    number: int
    data: bytes


class Overlong(Struct, frozen=True):
    """A line longer than the limit, of which only this is known.

    Attributes:
        number: counted from 1.
        size_bytes: its length.
        head: how it began.
    """

    number: int
    size_bytes: int
    head: bytes


class LineSplitter:
    """Splits a stream that arrives in pieces; any way of cutting it gives the same lines."""

    def __init__(self) -> None:
        self.lines_seen = 0
        self.overlong_seen = 0
        self._carry = bytearray()
        self._carry_bytes = 0
        self._after_return = False

    def feed(self, data: bytes) -> list[Line | Overlong]:
        """Every line that ``data`` completes."""
        start, found = self._complete_carried(data)
        while match := _BREAK.search(data, start):
            found.append(self._end_line(data[start : match.start()]))
            start = match.end()
        self._keep(data, start)
        return found

    def find(self, data: bytes) -> list[Line | Overlong]:
        """Of the lines that ``data`` completes, those that contain ``openjd_`` or are too long.

        The mark is found in any case of letters, because openjd-sessions fails an action that
        writes ``OPENJD_ENV: …``.
        """
        start, found = self._complete_carried(data)
        found = [line for line in found if isinstance(line, Overlong) or _is_marked(line.data)]
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if end > start:
            found += self._find_whole(data, start, end)
            start = end
        self._keep(data, start)
        return found

    def finish(self) -> list[Line | Overlong]:
        """The last line, if the stream ended without ending it."""
        self._after_return = False
        return [self._end_line(b"")] if self._carry_bytes else []

    def _complete_carried(self, data: bytes) -> tuple[int, list[Line | Overlong]]:
        """Finish the line that earlier pieces began; where the next one starts."""
        start = 1 if self._after_return and data.startswith(b"\n") else 0
        if data:
            # A line that "\r" ended is given out at once; the "\n" of "\r\n" may come in the next
            # piece.
            self._after_return = data.endswith(b"\r")
        if not self._carry_bytes:
            return start, []
        match = _BREAK.search(data, start)
        if match is None:
            return start, []
        return match.end(), [self._end_line(data[start : match.start()])]

    def _find_whole(self, data: bytes, start: int, end: int) -> list[Line | Overlong]:
        """The marked and the overlong ones of the whole lines in ``data[start:end]``."""
        found: list[Line | Overlong] = []
        folded = data.lower()
        spans = _overlong_spans(data, start, end) if end - start > LINE_LIMIT_CHARACTERS else []
        hit = folded.find(_MARK, start, end)
        while hit >= 0 or spans:
            if spans and (hit < 0 or spans[0][0] <= hit):
                first, last = spans.pop(0)
            else:
                ended = max(data.rfind(b"\n", start, hit), data.rfind(b"\r", start, hit))
                first = max(ended + 1, start)
                last = _line_end(data, hit)
            self.lines_seen += _count_breaks(data, start, first)
            found.append(self._end_line(data[first:last]))
            start = last + (2 if data.startswith(b"\r\n", last) else 1)
            hit = folded.find(_MARK, start, end)
        self.lines_seen += _count_breaks(data, start, end)
        return found

    def _keep(self, data: bytes, start: int) -> None:
        """Carry the unfinished line at the end of ``data``; of one too long, only the head."""
        self._carry_bytes += len(data) - start
        if len(self._carry) <= _LINE_LIMIT_BYTES:
            self._carry += data[start : start + _LINE_LIMIT_BYTES + 1]

    def _end_line(self, rest: bytes) -> Line | Overlong:
        """The carried bytes and ``rest`` as one line."""
        self.lines_seen += 1
        size = self._carry_bytes + len(rest)
        data = bytes(self._carry) + rest if self._carry_bytes else rest
        self._carry, self._carry_bytes = bytearray(), 0
        if size > _LINE_LIMIT_BYTES or (
            size > LINE_LIMIT_CHARACTERS and _characters(data) > LINE_LIMIT_CHARACTERS
        ):
            self.overlong_seen += 1
            return Overlong(self.lines_seen, size, data[:_HEAD_BYTES])
        return Line(self.lines_seen, data)


def _is_marked(data: bytes) -> bool:
    """Whether a line may hold a message."""
    return _MARK in data.lower()


def _line_end(data: bytes, start: int) -> int:
    """Where the line that holds ``start`` ends; the caller knows that it does."""
    match = _BREAK.search(data, start)
    assert match is not None
    return match.start()


def _count_breaks(data: bytes, start: int, end: int) -> int:
    r"""How many lines end within ``data[start:end]``, which does not cut a ``\r\n``."""
    returns = data.count(b"\r", start, end)
    pairs = data.count(b"\r\n", start, end) if returns else 0
    return data.count(b"\n", start, end) + returns - pairs


def _overlong_spans(data: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """Where the lines stand that are too long; looks at one place in 64,000 bytes otherwise."""
    spans: list[tuple[int, int]] = []
    while end - start > LINE_LIMIT_CHARACTERS:
        limit = start + LINE_LIMIT_CHARACTERS + 1
        last = max(data.rfind(b"\n", start, limit), data.rfind(b"\r", start, limit))
        if last < 0:
            last = _line_end(data, start)
            if _characters(data[start:last]) > LINE_LIMIT_CHARACTERS:
                spans.append((start, last))
        start = last + (2 if data.startswith(b"\r\n", last) else 1)
    return spans


def _characters(data: bytes) -> int:
    """Characters of UTF-8 text, each byte that is none counting as one."""
    return len(data.decode("utf-8", "surrogateescape"))
