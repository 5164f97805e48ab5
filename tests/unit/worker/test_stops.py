"""Who wants this launch to stop, and the action that is told."""

from threading import Event

import pytest

from perdure.store.layout import StepKey, TaskKey
from perdure.worker.machine import Intent
from perdure.worker.stops import Stop, StopBoard, wish

ONE, TWO, TASK = StepKey(1), StepKey(2), TaskKey("a")


def stop(intent=Intent.SUSPEND, by="user", **more):
    return Stop(intent=intent, by=by, **more)


@pytest.mark.parametrize(
    ("made", "covers"),
    [
        ({}, True),
        ({"step": ONE}, True),
        ({"step": TWO}, False),
        ({"step": ONE, "task": TASK}, True),
        ({"step": ONE, "task": TaskKey("b")}, False),
    ],
)
def test_what_a_stop_covers(made, covers):
    assert stop(**made).covers(ONE, TASK) is covers
    told = []
    board = StopBoard()
    board.subscribe(ONE, TASK, told.append)
    board.post(stop(**made))
    assert bool(told) is covers
    assert (board.stops_task(ONE, TASK) is not None) is covers


def test_a_stop_outlives_the_action_and_is_told_to_the_next():
    board, told = StopBoard(), []
    board.post(stop())
    board.subscribe(ONE, TASK, told.append)
    assert told == [stop()]
    board.unsubscribe()
    board.post(stop(by="host"))
    assert told == [stop()]


def test_a_launch_is_stopped_by_its_own_step_and_not_by_another():
    board = StopBoard()
    board.post(stop(step=TWO))
    assert board.stops_all(ONE) is None
    assert board.stops_all() is not None
    board.post(stop(step=ONE, task=TASK))
    assert board.stops_all(ONE) is None
    board.post(stop(step=ONE))
    assert board.stops_all(ONE) == stop(step=ONE)


def test_the_strongest_is_said():
    board = StopBoard()
    board.post(stop())
    board.post(stop(is_now=True))
    assert board.stops_all().is_now
    board.post(stop(Intent.CANCEL))
    assert board.stops_all().intent is Intent.CANCEL
    assert board.stops_task(ONE, TASK).intent is Intent.CANCEL


def test_wishes_are_told_once_and_forgotten_when_lifted():
    board, told = StopBoard(), []
    board.subscribe(ONE, TASK, told.append)
    suspended = wish(Intent.SUSPEND, "user", None, None, now=False)
    board.replace_wishes([suspended])
    board.replace_wishes([suspended])
    assert told == [suspended]
    board.post(stop(by="host", reason="SIGTERM"))
    board.replace_wishes([])
    assert board.stops_all() == stop(by="host", reason="SIGTERM")
    board.replace_wishes([suspended])
    assert told.count(suspended) == 2


def test_a_signal_handler_never_waits_for_the_lock():
    board, told = StopBoard(), Event()
    board.subscribe(ONE, TASK, lambda _stop: told.set())
    with board._lock:
        board.signal(stop(by="host"))
        assert not told.is_set()
    assert told.wait(30)
