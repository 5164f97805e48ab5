"""What a share record said that is lost, by what stands around it."""

import pytest

from clock_kit import HandClock
from looking_kit import CHUNKS, JOB, LAUNCH, HandMade, never
from perdure.journal.journal_format import Kind
from perdure.manager.lost_shares import lost_share, taken_by, tasks_between
from perdure.store import layout
from perdure.store.layout import LaunchId, StepKey

OTHER = LaunchId("01jdxyz0000000000000000002")
VALUES = {"Frame": "1", "Camera": "left,top"}


@pytest.mark.parametrize(
    ("known", "number", "expected"),
    [
        ({}, 1, (0, 39)),
        ({1: (0, 4), 3: (8, 9)}, 2, (5, 7)),
        ({1: (0, 4)}, 2, (5, 39)),
        ({2: (5, 9)}, 1, (0, 4)),
        ({1: (0, 4), 2: (5, 39)}, 3, (40, 39)),
        ({1: (0, 4), 4: (8, 9)}, 3, (5, 7)),
    ],
)
def test_a_share_lies_between_those_around_it(known, number, expected):
    assert tasks_between(known, number, 40) == expected


@pytest.mark.parametrize(
    ("begun", "last", "expected"),
    [
        ({}, None, (None, 4)),
        ({}, 9, (None, 9)),
        ({5: LAUNCH, 6: LAUNCH}, None, (LAUNCH, 6)),
        ({5: LAUNCH, 7: LAUNCH}, None, (LAUNCH, 7)),
        ({5: LAUNCH, 6: OTHER}, None, (LAUNCH, 5)),
        ({5: LAUNCH, 6: OTHER}, 9, (LAUNCH, 9)),
    ],
)
def test_whose_it_was_is_told_by_who_began_it(begun, last, expected):
    assert taken_by(begun, 5, last) == expected


def damaged_share(made, number):
    key = layout.share(JOB, StepKey(1), number)
    made.driver.put(key, b"no record")
    return key


def told(made, key):
    return lost_share(made.driver, made.document, key, HandClock(), never)


def made_of_three():
    made = HandMade()
    for launch in (LAUNCH, OTHER):
        made.launch(launch)
    made.share(0, 4)
    made.share(5, 9, launch=OTHER)
    made.share(10, 12)
    made.begun(made.key(5), VALUES, launch=OTHER)
    made.begun(made.key(10), VALUES)
    made.begun(made.key(11), VALUES)
    return made


def test_one_between_others_had_all_that_they_have_not():
    made = made_of_three()
    assert told(made, damaged_share(made, 2)) == {"launch": OTHER, "tasks": [[5, 9]]}


def test_the_last_one_had_what_was_begun():
    made = made_of_three()
    assert told(made, damaged_share(made, 3)) == {"launch": LAUNCH, "tasks": [[10, 11]]}


def test_two_side_by_side_are_told_one_after_the_other():
    made = made_of_three()
    second, third = damaged_share(made, 2), damaged_share(made, 3)
    first_told = told(made, second)
    assert first_told == {"launch": OTHER, "tasks": [[5, 5]]}
    made.driver.delete(second)
    made.driver.delete(third)
    made.share(5, 5, launch=OTHER)
    assert told(made, third) == {"launch": LAUNCH, "tasks": [[6, 11]]}


def test_every_launch_of_the_step_has_ended_before():
    made = made_of_three()
    made.journal(Kind.CLOSED, launch=OTHER)
    told(made, damaged_share(made, 2))
    entries = made.log(layout.job_log(JOB)).entries
    ends = [(e.kind, e.header["launch"]) for e in entries if e.kind in ("seal", "fence")]
    assert ends == [("seal", LAUNCH), ("fence", LAUNCH)]


def test_those_of_adaptive_chunks_are_not_told():
    adaptive = CHUNKS.replace("defaultTaskCount: 5", "defaultTaskCount: 5, targetRuntimeSeconds: 9")
    made = HandMade(template=adaptive)
    made.launch()
    made.share(0, 0)
    assert told(made, damaged_share(made, 1)) is None


def test_where_no_launch_is_known_nobody_can_have_taken_it():
    made = HandMade()
    assert told(made, damaged_share(made, 1)) is None
