"""Which checkpoints may be pruned.

Kept for certain: the point, the bases of the newest claim and branch, pinned ones, the last one
that verified, and whatever supports a kept value. Then the last three of all and the last three of
this branch (``--keep-last``), and what a person left by going back. Then those that are younger
than ``--keep-age``; where that is not given, newest first, the last one of each hour for a day and
of each day for a week, but only while the lineage stays under four times its newest checkpoint and
under a tenth of the free space. ``--keep-size`` bounds all of these: newest first, as many as lie
in packs of that size in all. When the disk is full only what is kept for certain stays.

Source: docs/journal-format.md, prune; docs/decisions/130, 138, 139; design of perdure, 3 (rule 3).
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from msgspec import Struct


class Retention(Struct, frozen=True, kw_only=True):
    """How many are kept.

    Attributes:
        last: so many newest ones.
        hourly: one an hour for so long.
        daily: one a day for so long.
        size_factor: hourly and daily ones only while the lineage is at most so many times as large
            as its newest checkpoint.
        free_share: and at most this part of the free space.
        age: all that are younger, instead of the hourly and daily ones; None: those.
        size_bytes: of all packs that the kept ones rest on; what is kept for certain may exceed it.
            None: no bound.
    """

    last: int = 3
    age: timedelta | None = None
    size_bytes: int | None = None
    hourly: timedelta = timedelta(days=1)
    daily: timedelta = timedelta(days=7)
    size_factor: float = 4.0
    free_share: float = 0.1


DEFAULT_RETENTION = Retention()


class Stored(Struct, frozen=True, kw_only=True):
    """A checkpoint that is not pruned yet.

    Attributes:
        size_bytes: what it describes.
        new_bytes: what was stored for it.
        is_verified: it was read back, or its bytes were checked while they were written.
        supports_kept: a kept value's files are in it and nowhere newer.
        packs: that it rests on; needed only where ``Retention.size_bytes`` is given.
    """

    sequence: int
    committed_at: datetime
    size_bytes: int = 0
    new_bytes: int = 0
    is_void: bool = False
    is_pinned: bool = False
    is_verified: bool = True
    supports_kept: bool = False
    packs: frozenset[str] = frozenset()


class Stock(Struct, frozen=True, kw_only=True):
    """All of a lineage's checkpoints, and what must stay.

    Attributes:
        point: where the lineage goes on from.
        bases: of the newest claim and the newest branch.
        left: from where the lineage would go on had nobody put the newest branch.
        free_bytes: on the store's file system; None where nobody can tell.
        pack_bytes: the sizes of packs; what is not named counts as nothing.
    """

    checkpoints: tuple[Stored, ...]
    point: int | None
    bases: frozenset[int] = frozenset()
    left: int | None = None
    free_bytes: int | None = None
    pack_bytes: Mapping[str, int] = {}


def victims(
    stock: Stock, *, now: datetime, retention: Retention = DEFAULT_RETENTION
) -> tuple[int, ...]:
    """The sequences to prune, oldest first.

    ``now`` only sorts checkpoints into hours and days; a wrong clock keeps others, never too few.
    """
    protected = _protected(stock)
    kept = protected | _last(stock, retention.last)
    by_age = sorted(stock.checkpoints, key=lambda stored: -stored.sequence)
    if retention.age is not None:
        kept |= {s.sequence for s in by_age if now - s.committed_at < retention.age}
    else:
        kept |= set(_roomy(by_age, stock, kept, now=now, retention=retention))
    if retention.size_bytes is not None:
        kept &= protected | _within(retention.size_bytes, by_age, stock, kept, protected)
    return _others(stock, kept)


def victims_when_full(stock: Stock) -> tuple[int, ...]:
    """The sequences to prune when nothing can be written any more, oldest first."""
    return _others(stock, _protected(stock))


def _protected(stock: Stock) -> set[int]:
    """What is never pruned."""
    kept = set(stock.bases)
    if stock.point is not None:
        kept.add(stock.point)
    kept |= {s.sequence for s in stock.checkpoints if s.is_pinned or s.supports_kept}
    on_branch = [s for s in stock.checkpoints if not s.is_void] or list(stock.checkpoints)
    newest = max((s.sequence for s in on_branch), default=None)
    verified = max((s.sequence for s in on_branch if s.is_verified), default=None)
    return kept | {sequence for sequence in (newest, verified) if sequence is not None}


def _last(stock: Stock, count: int) -> set[int]:
    """The newest of this branch and of all, and what was left: a person may want it back."""
    if count < 1:
        return set()
    kept = set() if stock.left is None else {stock.left}
    for found in (stock.checkpoints, [s for s in stock.checkpoints if not s.is_void]):
        kept.update(sorted(s.sequence for s in found)[-count:])
    return kept


def _roomy(
    by_age: list[Stored], stock: Stock, kept: set[int], *, now: datetime, retention: Retention
) -> Iterator[int]:
    """Hourly and daily ones beside those that are kept, newest first, while there is room."""
    room = _room(stock, retention)
    used = sum(stored.new_bytes for stored in by_age if stored.sequence in kept)
    for stored in _timed(by_age, now=now, retention=retention):
        if stored.sequence not in kept:
            used += stored.new_bytes
            if used > room:
                return
            yield stored.sequence


def _within(
    size_bytes: int, by_age: list[Stored], stock: Stock, kept: set[int], protected: set[int]
) -> set[int]:
    """The newest of the kept ones that fit in, beside those that stay for certain."""
    packs = _packs_of(stored for stored in by_age if stored.sequence in protected)
    fitting: set[int] = set()
    for stored in by_age:
        if stored.sequence not in kept or stored.sequence in protected:
            continue
        packs |= stored.packs
        if sum(stock.pack_bytes.get(pack, 0) for pack in packs) > size_bytes:
            break
        fitting.add(stored.sequence)
    return fitting


def _packs_of(checkpoints: Iterable[Stored]) -> set[str]:
    return {pack for stored in checkpoints for pack in stored.packs}


def _room(stock: Stock, retention: Retention) -> float:
    """How many bytes the lineage may hold for the hourly and daily ones to be kept."""
    newest = max(stock.checkpoints, key=lambda s: s.sequence, default=None)
    room = retention.size_factor * newest.size_bytes if newest is not None else 0.0
    if stock.free_bytes is not None:
        room = min(room, retention.free_share * stock.free_bytes)
    return room


def _timed(by_age: list[Stored], *, now: datetime, retention: Retention) -> Iterator[Stored]:
    """The last of each hour of the last day and of each day of the last week, newest first."""
    seen: set[tuple[str, datetime]] = set()
    for stored in by_age:
        age = now - stored.committed_at
        hour = stored.committed_at.replace(minute=0, second=0, microsecond=0)
        slots = []
        if age <= retention.hourly:
            slots.append(("hour", hour))
        if age <= retention.daily:
            slots.append(("day", hour.replace(hour=0)))
        if any(slot not in seen for slot in slots):
            yield stored
        seen.update(slots)


def _others(stock: Stock, kept: set[int]) -> tuple[int, ...]:
    """All that are not kept, oldest first."""
    return tuple(sorted(s.sequence for s in stock.checkpoints if s.sequence not in kept))
