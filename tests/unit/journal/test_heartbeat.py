"""Proof of life: only movement counts, on the observer's own clock."""

import pytest

from perdure.journal.heartbeat import (
    SENTENCE_LIMIT,
    SIZE_BYTES,
    Heartbeat,
    Stillness,
    read_heartbeat,
    shortened,
)
from perdure.store.drivers.memory import MemoryDriver


class Clock:
    def __init__(self):
        self.seconds = 0.0

    def monotonic(self):
        return self.seconds

    def now(self):
        raise AssertionError("no wall clock decides here")


def test_each_beat_moves_the_counter_in_an_object_of_one_size():
    driver = MemoryDriver()
    heartbeat = Heartbeat(driver, "h")
    for counter in (1, 2):
        heartbeat.beat({"task": "é" * counter})
        assert len(driver.get("h")) == SIZE_BYTES
        assert read_heartbeat(driver, "h") == {"counter": counter, "task": "é" * counter}


def test_words_that_are_too_long_leave_the_rest_to_be_shown():
    driver = MemoryDriver()
    Heartbeat(driver, "h").beat({"pid": 7, "trouble": "\N{SNOWMAN}" * 119})
    assert read_heartbeat(driver, "h") == {"counter": 1, "pid": 7}


def test_of_a_long_sentence_its_beginning_and_its_end_are_shown():
    sentence = f"cannot write {'/long' * 100}: No space left on device"
    short = shortened(sentence)
    assert len(short) <= SENTENCE_LIMIT
    assert (short[:12], short[-23:]) == ("cannot write", "No space left on device")
    assert shortened("short") == "short"


def test_what_is_too_long_to_show_is_dropped_and_the_counter_moves():
    driver = MemoryDriver()
    Heartbeat(driver, "h").beat({"status": "x" * SIZE_BYTES})
    assert read_heartbeat(driver, "h") == {"counter": 1}
    assert len(driver.get("h")) == SIZE_BYTES


def test_what_cannot_be_read_says_nothing():
    driver = MemoryDriver()
    assert read_heartbeat(driver, "h") is None
    for data in (b"", b"\xff\xfe", b"[1]", b'{"counter":'):
        driver.put("h", data)
        assert read_heartbeat(driver, "h") is None


def looked(stillness, clock, until, *counters):
    """Look at these launches' counters every second; what the last look said."""
    said = ()
    while clock.seconds < until:
        clock.seconds = min(clock.seconds + 1.0, until)
        said = tuple(stillness.observe(launch, counter) for launch, counter in counters)
    return said


def test_still_after_three_intervals_without_movement():
    clock = Clock()
    stillness = Stillness(clock, 10.0)
    assert stillness.seconds_left("a") == 30.0
    assert not stillness.observe("a", 1)
    assert looked(stillness, clock, 29.9, ("a", 1)) == (False,)
    assert round(stillness.seconds_left("a"), 3) == 0.1
    assert looked(stillness, clock, 30.1, ("a", 1)) == (True,)
    assert not stillness.has_moved("a")
    assert stillness.counter("a") == 1


def test_movement_begins_the_wait_anew():
    clock = Clock()
    stillness = Stillness(clock, 10.0)
    stillness.observe("a", 1)
    looked(stillness, clock, 25.0, ("a", 1))
    assert not stillness.observe("a", 2)
    assert stillness.has_moved("a")
    assert looked(stillness, clock, 54.0, ("a", 2)) == (False,)
    assert looked(stillness, clock, 55.0, ("a", 2)) == (True,)


def test_one_that_never_said_anything_counts_as_still_too():
    clock = Clock()
    stillness = Stillness(clock, 10.0)
    assert not stillness.observe("a", None)
    assert looked(stillness, clock, 30.0, ("a", None)) == (True,)
    assert stillness.counter("b") is None


def test_launches_are_judged_each_for_itself():
    clock = Clock()
    stillness = Stillness(clock, 10.0)
    stillness.observe("a", 1)
    looked(stillness, clock, 20.0, ("a", 1))
    stillness.observe("b", 1)
    assert looked(stillness, clock, 30.0, ("a", 1), ("b", 1)) == (True, False)


@pytest.mark.parametrize(
    ("interval", "away", "counted"), [(10.0, 3600.0, 10.0), (10.0, 9.0, 9.0), (0.5, 3600.0, 2.0)]
)
def test_time_in_which_nobody_looked_is_counted_as_one_look(interval, away, counted):
    """The store was out of reach for both: whoever comes back first must not seal the other."""
    clock = Clock()
    stillness = Stillness(clock, interval)
    stillness.observe("a", 1)
    clock.seconds = away
    assert stillness.observe("a", 1) is (counted >= 3 * interval)
    assert stillness.seconds_left("a") == max(0.0, 3 * interval - counted)
