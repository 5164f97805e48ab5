"""Workers that end before they begin are not started for ever."""

import secrets

import pytest

from clock_kit import HandClock
from looking_kit import JOB, LAUNCH, HandMade
from perdure.errors import EngineRefused, JobMissing
from perdure.journal.journal_format import Kind
from perdure.manager.starting import FIRST_PAUSE_SECONDS, LIMIT, Starts
from perdure.store import layout
from perdure.store.layout import LaunchId


class Started:
    """Starts over a hand-made job, and a clock that stands still."""

    def __init__(self):
        self.made = HandMade()
        self.view = self.made.view()
        self.clock = HandClock()
        self.starts = Starts(self.view, self.made.driver, self.clock)
        self.number = 0

    def worker_that_never_begins(self):
        self.number += 1
        launch = LaunchId(f"01jdxyz0000000000000009{self.number:03}")
        fields = {"step": 1, "tasks": [], "shares": True, "resources": {}}
        token = secrets.token_hex(8)
        self.made.record("launch", launch=launch, token=token, **fields)
        self.starts.add(launch)
        self.made.record("seal", launch=launch, by="test")
        self.made.record("fence", launch=launch, offset=0)
        self.view.refresh()
        return launch

    def worker_that_fails(self, trouble, *, attempts=0):
        self.number += 1
        launch = LaunchId(f"01jdxyz0000000000000009{self.number:03}")
        self.made.launch(launch)
        self.starts.add(launch)
        for number in range(attempts):
            self.made.begun(self.made.key(number), {}, launch=launch)
        self.made.journal(Kind.CLOSED, launch=launch, trouble=trouble)
        self.view.refresh()


def test_the_first_worker_is_started_at_once():
    assert Started().starts.pause() == 0


def test_a_worker_that_runs_keeps_nobody_waiting():
    started = Started()
    started.made.launch()
    started.starts.add(LAUNCH)
    started.view.refresh()
    assert started.starts.pause() == 0


def test_between_workers_that_never_begin_is_more_and_more_time():
    started = Started()
    for time in range(LIMIT - 1):
        started.worker_that_never_begins()
        assert started.starts.pause() == FIRST_PAUSE_SECONDS * 2**time
        started.clock.seconds += 0.25
        assert started.starts.pause() == FIRST_PAUSE_SECONDS * 2**time - 0.25
        started.clock.seconds += FIRST_PAUSE_SECONDS * 2**time
        assert started.starts.pause() == 0


def test_after_too_many_no_more_are_started_and_people_are_told_where_to_look():
    started = Started()
    for _ in range(LIMIT - 1):
        started.worker_that_never_begins()
        started.starts.pause()
    last = started.worker_that_never_begins()
    with pytest.raises(EngineRefused, match=f"{LIMIT} times in a row") as caught:
        started.starts.pause()
    assert f"{last}.out" in caught.value.hint


def test_one_that_an_error_ended_before_its_first_attempt_never_began():
    started = Started()
    for _ in range(LIMIT - 1):
        started.worker_that_fails("the store is damaged")
        started.starts.pause()
    started.worker_that_fails("the store is damaged")
    with pytest.raises(EngineRefused, match=r"in a row: the store is damaged"):
        started.starts.pause()


def test_one_that_an_error_ended_after_an_attempt_has_begun():
    started = Started()
    for _ in range(LIMIT + 1):
        started.worker_that_fails("the store is damaged", attempts=1)
        assert started.starts.pause() == 0


def test_several_that_end_together_count_as_one_time():
    started = Started()
    for _ in range(LIMIT + 1):
        started.worker_that_never_begins()
    assert started.starts.pause() == FIRST_PAUSE_SECONDS


def test_one_that_begins_makes_good_for_those_before():
    started = Started()
    for _ in range(LIMIT - 1):
        started.worker_that_never_begins()
        started.starts.pause()
    started.made.launch()
    started.starts.add(LAUNCH)
    started.view.refresh()
    assert started.starts.pause() == 0
    started.worker_that_never_begins()
    assert started.starts.pause() == FIRST_PAUSE_SECONDS


def test_a_job_that_was_removed_is_left_alone():
    started = Started()
    started.worker_that_never_begins()
    started.made.driver.delete(layout.job_record(JOB))
    with pytest.raises(JobMissing, match="was removed"):
        started.starts.pause()
