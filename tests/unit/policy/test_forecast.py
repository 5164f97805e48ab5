"""What is told about room after a job's first checkpoint."""

from datetime import UTC, datetime, timedelta

import pytest

from perdure.policy.forecast import FirstSave, forecast, sentences, when

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
GIB = 1 << 30


def first(**changed) -> FirstSave:
    known = {
        "size_bytes": 10 * GIB,
        "stored_bytes": 10 * GIB,
        "after": timedelta(minutes=10),
        "kept": 3,
        "tasks": 1,
        "side_by_side": 1,
        "free_bytes": 1000 * GIB,
    }
    return FirstSave(**{**known, **changed})


def said(**changed) -> str:
    known = first(**changed)
    return "\n".join(sentences(known, forecast(known, NOW)))


@pytest.mark.parametrize(
    ("changed", "per_task", "job", "fits"),
    [
        ({}, 30, 30, True),
        ({"tasks": 10}, 30, 300, True),
        ({"tasks": 10, "free_bytes": 289 * GIB}, 30, 300, False),
        ({"tasks": 10, "free_bytes": 290 * GIB}, 30, 300, True),  # the first is there already
        ({"stored_bytes": 0}, 0, 0, True),
        ({"free_bytes": None}, 30, 30, None),
        ({"kept": 1}, 10, 10, True),
    ],
)
def test_what_is_needed(changed, per_task, job, fits):
    found = forecast(first(**changed), NOW)
    assert (found.per_task_bytes, found.job_bytes) == (per_task * GIB, job * GIB)
    assert found.fits is fits
    assert (found.full_at is None) == (fits is not False)


@pytest.mark.parametrize(
    ("free", "side_by_side", "minutes"), [(100, 1, 100), (100, 2, 50), (0, 1, 0), (5, 1, 5)]
)
def test_when_it_will_be_full(free, side_by_side, minutes):
    known = first(tasks=1000, free_bytes=free * GIB, side_by_side=side_by_side)
    assert forecast(known, NOW).full_at == NOW + timedelta(minutes=minutes)


def test_the_day_and_the_hour_are_told():
    text = said(tasks=1000, free_bytes=9280 * GIB)
    assert "the store will be full on Sunday at 22:40Z, in 6 days: free" in text
    assert "3 kept ones need up to 30.0 GiB a task and 29.3 TiB for all 1000 tasks" in text
    assert "9.1 TiB are free" in text
    assert "--files adopt" in text


@pytest.mark.parametrize(
    ("ahead", "said"),
    [
        (timedelta(), "at 12:00Z, in 0 seconds"),
        (timedelta(seconds=20), "at 12:00Z, in 20 seconds"),
        (timedelta(hours=3), "at 15:00Z, in 3 hours"),
        (timedelta(hours=16, minutes=10), "on Tuesday at 04:10Z, in 16 hours"),
        (timedelta(days=9), "on Wednesday at 12:00Z, in 9 days"),
    ],
)
def test_a_moment_is_said_with_its_zone_and_how_far_it_is(ahead, said):
    assert when(NOW + ahead, ahead) == said


@pytest.mark.parametrize(
    "changed",
    [
        {"free_bytes": 100_000 * GIB},
        {"stored_bytes": 0},
        {"is_adopted": True, "free_bytes": 1},
        {"free_bytes": None},
    ],
)
def test_plenty_of_room_is_not_worth_a_word(changed):
    assert said(**changed) == ""


def test_a_large_one_gets_a_hint_at_the_other_policy():
    text = said(size_bytes=60 * GIB, stored_bytes=60 * GIB, free_bytes=100_000 * GIB)
    assert text.startswith("if the program writes each checkpoint under a new name, --files adopt")
    text = said(size_bytes=60 * GIB, stored_bytes=60 * GIB, free_bytes=None)
    assert "180.0 GiB a task" in text
