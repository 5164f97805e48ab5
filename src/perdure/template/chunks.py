"""How the values of a chunk parameter become chunks.

Formed evenly, not greedily: 20 values in chunks of at most 6 are four chunks of five. A contiguous
chunk never spans a gap. Chunk *n* is found by arithmetic, without forming those before it.

Where chunks begin and end is part of what the store means by "task n of step s": it must never
change, so it is worked out here and only compared with the library's way (tests/contract).

Source: RFC 0001 (task chunking); `divide_chunk_sizes` of openjd-model for the even division.
"""

import bisect
import itertools
from collections.abc import Iterable

from msgspec import Struct

from perdure.template.ranges import (
    IntegerRow,
    interval_text,
    maximal_runs,
    parse_ranges,
    range_text,
)


class ChunkSpec(Struct, frozen=True, kw_only=True):
    """A step's ``chunks``, with its format strings resolved.

    Attributes:
        parameter: the name of the chunk parameter.
        default_task_count: how many values a chunk has at most to begin with.
        target_runtime_seconds: chunks are sized so that one runs this long; None: they are not.
        is_contiguous: ``rangeConstraint`` is CONTIGUOUS.
    """

    parameter: str
    default_task_count: int
    target_runtime_seconds: int | None
    is_contiguous: bool

    @property
    def is_adaptive(self) -> bool:
        """Whether chunks are cut on the fly, as earlier ones show how long a value takes."""
        return self.target_runtime_seconds is not None

    def texts(self, values: Iterable[int]) -> tuple[str, ...]:
        """The fewest chunks of exactly ``values`` that the range constraint allows."""
        if self.is_contiguous:
            return tuple(interval_text(first, last) for first, last in maximal_runs(values))
        text = range_text(values)
        return (text,) if text else ()


def chunk_values(text: str) -> tuple[int, ...]:
    """The values of one chunk, ascending.

    Raises:
        ValueError: ``text`` is no range expression.
    """
    return tuple(parse_ranges(text))


class _Division(Struct, frozen=True, kw_only=True):
    """``count`` values from position ``start`` on, divided evenly into ``chunks`` chunks."""

    start: int
    count: int
    chunks: int

    def bounds(self, index: int) -> tuple[int, int]:
        """First position and the one behind the last of chunk ``index``."""
        small, leftovers = divmod(self.count, self.chunks)

        # Leftover i goes to chunk i * chunks // leftovers; so many of them lie before a chunk.
        def begin(chunk: int) -> int:
            return chunk * small + -(-chunk * leftovers // self.chunks)

        return self.start + begin(index), self.start + begin(index + 1)


class FormedChunks:
    """All chunks of a row of values, by index; formed when asked for."""

    def __init__(self, values: IntegerRow, spec: ChunkSpec) -> None:
        self._values = values
        self._is_contiguous = spec.is_contiguous
        size = max(spec.default_task_count, 1)
        pieces = _contiguous_pieces(values) if spec.is_contiguous else [(0, len(values), False)]
        self._divisions = tuple(
            _Division(start=start, count=count, chunks=count if singles else -(-count // size))
            for start, count, singles in pieces
            if count > 0
        )
        self._ends = tuple(itertools.accumulate(part.chunks for part in self._divisions))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> str:
        if not 0 <= index < len(self):
            raise IndexError(f"{index} is not below {len(self)}")
        which = bisect.bisect_right(self._ends, index)
        before = self._ends[which - 1] if which else 0
        start, stop = self._divisions[which].bounds(index - before)
        if self._is_contiguous:
            return interval_text(self._values[start], self._values[stop - 1])
        return range_text(self._values.part(start, stop))

    def position(self, text: str) -> int | None:
        """Which chunk has exactly the text ``text``; None: not one of these."""
        try:
            first = next(iter(parse_ranges(text)))
        except (ValueError, StopIteration):
            return None
        for value_position in self._values.positions(first):
            index = self._chunk_at(value_position)
            if self[index] == text:
                return index
        return None

    def _chunk_at(self, position: int) -> int:
        starts = [part.start for part in self._divisions]
        which = bisect.bisect_right(starts, position) - 1
        part = self._divisions[which]
        low, high = 0, part.chunks - 1
        while low < high:
            middle = (low + high + 1) // 2
            if part.bounds(middle)[0] <= position:
                low = middle
            else:
                high = middle - 1
        return (self._ends[which - 1] if which else 0) + low


def _contiguous_pieces(values: IntegerRow) -> list[tuple[int, int, bool]]:
    """Runs without a gap as (first position, count, False); rows of single values with True."""
    pieces: list[tuple[int, int, bool]] = []
    last: int | None = None
    position = 0
    for part in values.ranges:
        rest = part
        if pieces and last is not None and rest[0] == last + 1:
            rest = _extend(pieces, rest)
        if len(rest) > 0:
            start = position + len(part) - len(rest)
            is_run = rest.step == 1 or len(rest) == 1
            if is_run:
                pieces.append((start, len(rest), False))
            else:
                # The last one stays apart: the next range may go on from it.
                pieces.append((start, len(rest) - 1, True))
                pieces.append((start + len(rest) - 1, 1, False))
        last = part[-1]
        position += len(part)
    return pieces


def _extend(pieces: list[tuple[int, int, bool]], part: range) -> range:
    """Let the last run take what continues it from ``part``; gives what is left of ``part``."""
    start, count, _ = pieces[-1]
    taken = len(part) if part.step == 1 else 1
    pieces[-1] = (start, count + taken, False)
    return part[taken:]
