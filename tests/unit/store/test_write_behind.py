"""One write under way while the next piece is filled."""

import threading

import pytest

from perdure.store.packs.write_behind import WriteBehind


class Refused(Exception):
    """What a write raises."""


def refuse():
    raise Refused


def test_writes_are_done_in_order_and_all_of_them_before_the_wait_ends():
    behind, done = WriteBehind(), []
    for number in range(100):
        behind.start(lambda number=number: done.append(number))
    behind.wait()
    assert done == list(range(100))


def test_one_is_under_way_at_most():
    behind, go_on, second = WriteBehind(), threading.Event(), threading.Event()
    behind.start(go_on.wait)

    def start_another():
        behind.start(lambda: None)
        second.set()

    other = threading.Thread(target=start_another)
    other.start()
    assert not second.wait(0.05)
    go_on.set()
    other.join()
    assert second.is_set()
    behind.wait()


def test_an_error_is_raised_by_the_next_start_and_once():
    behind, done = WriteBehind(), []
    behind.start(refuse)
    with pytest.raises(Refused):
        behind.start(lambda: done.append("after the error"))
    behind.wait()
    assert done == []


def test_an_error_is_raised_by_the_wait_and_the_next_write_is_done():
    behind, done = WriteBehind(), []
    behind.start(refuse)
    with pytest.raises(Refused):
        behind.wait()
    behind.start(lambda: done.append("next"))
    behind.wait()
    assert done == ["next"]


def test_waiting_for_nothing_returns():
    WriteBehind().wait()


def test_no_thread_is_left_when_the_wait_ends():
    behind = WriteBehind()
    before = threading.active_count()
    behind.start(lambda: None)
    behind.wait()
    assert threading.active_count() == before
