"""Pruning: what always stays, and what stays while there is room."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from perdure.policy.retention import Retention, Stock, Stored, victims, victims_when_full

NOW = datetime(2026, 11, 29, 12, 30, tzinfo=UTC)
OLD = NOW - timedelta(days=30)
LAST_ONLY = Retention(hourly=timedelta(), daily=timedelta())


def stored(sequence, **more):
    return Stored(**{"sequence": sequence, "committed_at": OLD, "size_bytes": 100, **more})


def stock(*checkpoints, **more):
    return Stock(**{"checkpoints": checkpoints, "point": checkpoints[-1].sequence, **more})


def ten(**special):
    return tuple(stored(n, **special.get(f"n{n}", {})) for n in range(1, 11))


def test_the_last_three_stay():
    assert victims(stock(*ten()), now=NOW) == (1, 2, 3, 4, 5, 6, 7)
    assert victims(stock(*ten()), now=NOW, retention=Retention(last=1)) == tuple(range(1, 10))


def test_an_empty_lineage_has_no_victims():
    nothing = Stock(checkpoints=(), point=None)
    assert victims(nothing, now=NOW) == ()
    assert victims_when_full(nothing) == ()


@pytest.mark.parametrize(
    ("special", "more"),
    [
        ({"n2": {"is_pinned": True}}, {}),
        ({"n2": {"supports_kept": True}}, {}),
        ({}, {"point": 2}),
        ({}, {"bases": frozenset({2})}),
        ({f"n{n}": {"is_verified": False} for n in range(3, 11)}, {}),
    ],
)
def test_what_is_protected_stays_even_when_the_disk_is_full(special, more):
    held = stock(*ten(**special), **more)
    assert 2 not in victims(held, now=NOW, retention=Retention(last=1))
    assert 2 not in victims_when_full(held)
    assert 1 in victims_when_full(held)


def test_a_full_disk_leaves_one_that_verified():
    assert victims_when_full(stock(*ten())) == tuple(range(1, 10))
    broken_newest = stock(*ten(n10={"is_verified": False}))
    assert victims_when_full(broken_newest) == tuple(range(1, 9))


def test_the_last_of_this_branch_stay_beside_the_last_of_all():
    void = {f"n{n}": {"is_void": True} for n in (7, 8, 9)}
    assert victims(stock(*ten(**void)), now=NOW) == (1, 2, 3, 4, 7)
    assert victims_when_full(stock(*ten(**void))) == tuple(range(1, 10))


def test_what_going_back_left_stays_until_the_disk_is_full():
    held = stock(*ten(n5={"is_void": True}), left=5)
    assert victims(held, now=NOW) == (1, 2, 3, 4, 6, 7)
    assert 5 in victims_when_full(held)
    little = stock(*HOURLY, pack_bytes=PACKS, left=5)
    assert 5 in victims(little, now=NOW, retention=Retention(size_bytes=50, age=timedelta()))


def test_one_an_hour_for_a_day_and_one_a_day_for_a_week():
    every_ten_minutes = tuple(
        stored(n, committed_at=NOW - timedelta(minutes=10 * (2_000 - n)), new_bytes=0)
        for n in range(1, 2_001)
    )
    left = set(range(1, 2_001)) - set(victims(stock(*every_ten_minutes), now=NOW))
    moments = sorted(NOW - timedelta(minutes=10 * (2_000 - n)) for n in left)
    hours = {moment.replace(minute=0) for moment in moments if NOW - moment < timedelta(days=1)}
    days = {moment.date() for moment in moments}
    assert len(hours) == 25  # the last day touches 25 hours
    assert len(days) == 8  # the last week touches 8 days
    assert len(left) <= 25 + 8 + 3


@pytest.mark.parametrize(
    ("free_bytes", "extra"), [(None, 3), (10_000, 3), (4_500, 3), (4_000, 3), (3_000, 2), (0, 0)]
)
def test_hourly_ones_only_while_there_is_room(free_bytes, extra):
    """The newest is 100 bytes, so the lineage may hold 400 or a tenth of what is free."""
    hourly = tuple(
        stored(n, committed_at=NOW - timedelta(hours=10 - n), new_bytes=100) for n in range(1, 11)
    )
    one = Retention(last=1)
    left = 10 - len(victims(stock(*hourly, free_bytes=free_bytes), now=NOW, retention=one))
    assert left == 1 + extra


def test_the_slots_are_off_when_asked():
    recent = tuple(
        stored(n, committed_at=NOW - timedelta(hours=n), new_bytes=0) for n in range(1, 9)
    )
    assert victims(stock(*recent), now=NOW, retention=LAST_ONLY) == (1, 2, 3, 4, 5)


HOURLY = tuple(
    stored(n, committed_at=NOW - timedelta(hours=10 - n), packs=frozenset({f"p{n}"}))
    for n in range(1, 11)
)
PACKS = {f"p{n}": 100 for n in range(1, 11)}


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        # The newest is NOW, the next one an hour older, and so on.
        ({"last": 2, "age": timedelta(hours=4)}, {7, 8, 9, 10}),
        ({"last": 6, "age": timedelta(hours=2)}, {5, 6, 7, 8, 9, 10}),
        ({"last": 1, "age": timedelta(seconds=1)}, {10}),
        ({"last": 1, "age": timedelta(days=900)}, set(range(1, 11))),
        ({"last": 8, "size_bytes": 350, "daily": timedelta()}, {8, 9, 10}),
        ({"last": 8, "size_bytes": 400, "daily": timedelta()}, {7, 8, 9, 10}),
        ({"last": 2, "size_bytes": 10_000, "age": timedelta()}, {9, 10}),
        ({"last": 8, "size_bytes": 1}, {10}),
        ({"last": 3, "age": timedelta(hours=9), "size_bytes": 500}, {6, 7, 8, 9, 10}),
    ],
)
def test_count_and_age_keep_and_size_bounds_them(options, kept):
    held = stock(*HOURLY, pack_bytes=PACKS)
    gone = victims(held, now=NOW, retention=Retention(**options))
    assert set(range(1, 11)) - set(gone) == kept


def test_a_pack_that_several_rest_on_counts_once():
    alike = tuple(replace(one, packs=frozenset({"p1", "p2"})) for one in HOURLY)
    held = stock(*alike, pack_bytes=PACKS)
    retention = Retention(last=5, size_bytes=200, age=timedelta())
    assert victims(held, now=NOW, retention=retention) == (1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    "more",
    [
        {"special": {2: {"is_pinned": True}}},
        {"special": {2: {"supports_kept": True}}},
        {"bases": frozenset({2})},
        {"point": 2},
    ],
)
def test_what_is_protected_stays_beyond_any_size_and_counts(more):
    special = more.pop("special", {})
    held = stock(
        *(replace(one, **special.get(one.sequence, {})) for one in HOURLY),
        pack_bytes=PACKS,
        **more,
    )
    little = Retention(last=8, size_bytes=50, age=timedelta())
    assert set(range(1, 11)) - set(victims(held, now=NOW, retention=little)) == {2, 10}
    three = Retention(last=8, size_bytes=300, age=timedelta())
    assert set(range(1, 11)) - set(victims(held, now=NOW, retention=three)) == {2, 9, 10}


def test_one_whose_clock_was_ahead_is_kept():
    ahead = tuple(replace(one, committed_at=NOW + timedelta(days=1)) for one in HOURLY)
    assert victims(stock(*ahead), now=NOW, retention=Retention(age=timedelta(hours=1))) == ()
