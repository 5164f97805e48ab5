"""Sets of integers as rows of Python ranges, and the range expressions that they are written as.

A chunk parameter may span millions of values; so nothing here expands a set in order to count it,
index it, or ask whether it holds a value. The texts are part of a chunk's identity (its task key)
and therefore made here and not by a library that may write them otherwise in its next version.

Source: Open Job Description 2023-09 §3.4.1.1.1 ``<IntRangeExpr>``; RFC 0001 (task chunking).
"""

import bisect
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

_ELEMENT = re.compile(r"\s*(-?[0-9]+)(?:\s*-\s*(-?[0-9]+)\s*(?::\s*(-?[0-9]+))?)?\s*")
#: Digits of one number; a frame number has fewer than ten.
_MAX_DIGITS = 18


class IntegerRow(Sequence[int]):
    """A row of integers, kept as ranges; the order is that in which they were given."""

    def __init__(self, ranges: Iterable[range]) -> None:
        self.ranges = tuple(part for part in ranges if len(part) > 0)
        self._ends = tuple(itertools.accumulate(len(part) for part in self.ranges))
        # Ranges of an expression are in order and apart, so a value is looked for in one of them;
        # of a list, which has at most 1,024 values, all are asked.
        firsts = [min(part[0], part[-1]) for part in self.ranges]
        lasts = [max(part[0], part[-1]) for part in self.ranges]
        is_apart = all(last < first for last, first in zip(lasts, firsts[1:], strict=False))
        self._firsts = firsts if is_apart else None

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> int:  # type: ignore[override] # no slices are needed
        if not 0 <= index < len(self):
            raise IndexError(f"{index} is not below {len(self)}")
        part = bisect.bisect_right(self._ends, index)
        before = self._ends[part - 1] if part else 0
        return self.ranges[part][index - before]

    def __iter__(self) -> Iterator[int]:
        return itertools.chain.from_iterable(self.ranges)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and next(self.positions(value), None) is not None

    def positions(self, value: int) -> Iterator[int]:
        """Where ``value`` stands in the row; more than once in a list that repeats it."""
        if self._firsts is not None:
            part = bisect.bisect_right(self._firsts, value) - 1
            candidates = range(max(part, 0), min(part + 1, len(self.ranges)))
        else:
            candidates = range(len(self.ranges))
        for part in candidates:
            if value in self.ranges[part]:
                before = self._ends[part - 1] if part else 0
                yield before + self.ranges[part].index(value)

    def part(self, start: int, stop: int) -> list[int]:
        """The values at ``start`` to ``stop``, expanded."""
        return [self[index] for index in range(start, stop)]


def parse_ranges(text: str) -> IntegerRow:
    """The values of a range expression such as ``1-5,8,10-20:2``, in ascending order.

    Raises:
        ValueError: it is none, or its parts overlap.
    """
    parts: list[range] = []
    for element in text.split(","):
        match = _ELEMENT.fullmatch(element)
        if match is None or any(len(digits or "") > _MAX_DIGITS for digits in match.groups()):
            raise ValueError(f"{text[:80]!r} is no range expression like 1-5,8,10-20:2")
        first, last, step = match.groups()
        start, end = int(first), int(first if last is None else last)
        stride = 1 if step is None else int(step)
        if stride == 0 or (end - start) * stride < 0:
            raise ValueError(f"{element.strip()!r} is a range that leads nowhere")
        part = range(start, end + (1 if stride > 0 else -1), stride)
        parts.append(part if stride > 0 else part[::-1])
    parts.sort(key=lambda part: part[0])
    for one, other in itertools.pairwise(parts):
        if one[-1] >= other[0]:
            raise ValueError(f"{text[:80]!r} names a value twice")
    return IntegerRow(parts)


def range_text(values: Iterable[int]) -> str:
    """The one range expression of ``values`` (at least one); written as the library writes it.

    Greedy: each part takes the step between its first two values and goes on as long as it fits;
    two values are a pair (``3,7``), not a range.
    """
    ordered = sorted(set(values))
    parts: list[str] = []
    start = 0
    while start < len(ordered):
        end = start + 1
        if end < len(ordered):
            step = ordered[end] - ordered[start]
            while end + 1 < len(ordered) and ordered[end + 1] - ordered[end] == step:
                end += 1
            parts.append(_part_text(ordered[start : end + 1], step))
            start = end + 1
        else:
            parts.append(str(ordered[start]))
            start = end
    return ",".join(parts)


def _part_text(values: list[int], step: int) -> str:
    if len(values) <= 2:
        return ",".join(str(value) for value in values)
    text = f"{values[0]}-{values[-1]}"
    return text if step == 1 else f"{text}:{step}"


def interval_text(first: int, last: int) -> str:
    """A contiguous chunk: always ``first-last``, also of one value."""
    return f"{first}-{last}"


def maximal_runs(values: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The runs of consecutive integers in ``values``, each as first and last, ascending."""
    ordered = sorted(set(values))
    for _, group in itertools.groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0]):
        run = [value for _, value in group]
        yield run[0], run[-1]
