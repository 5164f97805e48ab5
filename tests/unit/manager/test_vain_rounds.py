"""Workers of a cluster that end before they begin are counted from the job's log."""

import pytest

from looking_kit import HandMade
from perdure.journal.journal_format import Kind
from perdure.manager.vain_rounds import FIRST_DELAY_SECONDS, delay_seconds, vain_rounds
from perdure.store.layout import LaunchId, StepKey

STEP = StepKey(1)


class Rounds:
    """A hand-made job whose launches are started in rounds."""

    def __init__(self):
        self.made = HandMade()
        self.number = 0

    def intents(self, count=1):
        launches = []
        for _ in range(count):
            self.number += 1
            launch = LaunchId(f"01jdxyz0000000000000009{self.number:03}")
            fields = {"step": 1, "tasks": [], "shares": True, "resources": {}}
            self.made.record("launch", launch=launch, token=f"{self.number:x}-0", **fields)
            launches.append(launch)
        return launches

    def end(self, *launches):
        for launch in launches:
            self.made.record("seal", launch=launch, by="test")
            self.made.record("fence", launch=launch, offset=0)

    def vain(self, count=1):
        self.end(*self.intents(count))

    def counted(self):
        view = self.made.view()
        view.refresh()
        return vain_rounds(view, STEP)


def test_before_the_first_nothing_was_in_vain():
    assert Rounds().counted() == 0


def test_workers_that_were_started_together_count_once():
    rounds = Rounds()
    rounds.vain(50)
    assert rounds.counted() == 1
    rounds.vain(50)
    rounds.vain()
    assert rounds.counted() == 3


def test_a_round_that_has_not_ended_is_not_in_vain_and_forgives_nothing():
    rounds = Rounds()
    rounds.vain()
    first, _second = rounds.intents(2)
    assert rounds.counted() == 1
    rounds.end(first)
    assert rounds.counted() == 2


def test_a_worker_that_begins_makes_good_for_all_before():
    rounds = Rounds()
    rounds.vain()
    rounds.vain()
    rounds.made.launch(LaunchId("01jdxyz0000000000000008001"))
    assert rounds.counted() == 0
    rounds.vain()
    assert rounds.counted() == 1


def test_one_that_an_error_ended_before_its_first_attempt_was_in_vain():
    rounds = Rounds()
    launch = LaunchId("01jdxyz0000000000000008001")
    rounds.made.launch(launch)
    rounds.made.journal(Kind.CLOSED, launch=launch, trouble="the store is damaged")
    assert rounds.counted() == 1


@pytest.mark.parametrize(("scope", "left"), [({}, 0), ({"step": 1}, 0), ({"step": 2}, 2)])
def test_a_persons_resume_forgets_what_was_before(scope, left):
    rounds = Rounds()
    rounds.vain()
    rounds.vain()
    rounds.made.record("resume", scope=scope, lifts=0)
    assert rounds.counted() == left


def test_each_round_in_vain_doubles_the_delay():
    assert delay_seconds(0) == 0
    assert delay_seconds(1) == FIRST_DELAY_SECONDS
    assert delay_seconds(2) == 2 * FIRST_DELAY_SECONDS
