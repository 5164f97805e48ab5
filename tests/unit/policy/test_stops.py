"""Stops: scopes, what a resume lifts, which of several stops decides."""

from itertools import product

import pytest

from perdure.policy.outcome import By
from perdure.policy.stops import JOB, Resume, Scope, Stop, StopKind, Stops

STEP, OTHER_STEP = Scope(1), Scope(2)
TASK, OTHER_TASK = Scope(1, "a"), Scope(1, "b")
SCOPES = (JOB, STEP, OTHER_STEP, TASK, OTHER_TASK)
COVERS = {
    JOB: set(SCOPES),
    STEP: {STEP, TASK, OTHER_TASK},
    OTHER_STEP: {OTHER_STEP},
    TASK: {TASK},
    OTHER_TASK: {OTHER_TASK},
}
SUSPEND, CANCEL = StopKind


@pytest.mark.parametrize(("outer", "inner"), list(product(SCOPES, repeat=2)))
def test_every_pair_of_scopes(outer, inner):
    assert outer.covers(inner) == (inner in COVERS[outer])


@pytest.mark.parametrize(("stop", "asked"), list(product(SCOPES, repeat=2)))
def test_a_stop_stops_what_it_covers(stop, asked):
    stops = Stops([Stop(number=1, kind=SUSPEND, scope=stop)])
    assert (stops.stopped(asked) is not None) == (asked in COVERS[stop])


@pytest.mark.parametrize(("resumed", "asked"), list(product(SCOPES, repeat=2)))
def test_a_resume_lifts_for_what_it_covers_only(resumed, asked):
    stops = Stops([Stop(number=1, kind=SUSPEND), Resume(number=2, lifts=1, scope=resumed)])
    assert (stops.stopped(asked) is None) == (asked in COVERS[resumed])


@pytest.mark.parametrize(
    ("records", "is_stopped"),
    [
        ([], False),
        ([Stop(number=3, kind=SUSPEND), Resume(number=4, lifts=3)], False),
        ([Stop(number=3, kind=SUSPEND), Resume(number=4, lifts=2)], True),
        ([Stop(number=3, kind=SUSPEND), Resume(number=2, lifts=9)], True),
        ([Stop(number=3, kind=CANCEL), Resume(number=4, lifts=3)], True),
        (
            [Stop(number=1, kind=SUSPEND), Resume(number=3, lifts=1), Stop(number=2, kind=SUSPEND)],
            True,
        ),
        (
            [Stop(number=1, kind=SUSPEND), Stop(number=2, kind=SUSPEND), Resume(number=3, lifts=2)],
            False,
        ),
    ],
)
def test_a_resume_lifts_only_what_it_had_read(records, is_stopped):
    assert (Stops(records).stopped() is not None) is is_stopped


def test_the_weightiest_stop_decides():
    host = Stop(number=5, kind=SUSPEND, by=By.HOST)
    person = Stop(number=1, kind=SUSPEND)
    at_once = Stop(number=2, kind=SUSPEND, is_now=True)
    cancel = Stop(number=3, kind=CANCEL, by=By.HOST)
    assert Stops([host, person]).stopped() == person
    assert Stops([host, person, at_once]).stopped() == at_once
    assert Stops([cancel, at_once]).stopped() == cancel


def test_what_a_resume_given_now_lifts():
    assert Stops().lifts() == 0
    assert Stops([Stop(number=4, kind=SUSPEND), Resume(number=9, lifts=4)]).lifts() == 4
