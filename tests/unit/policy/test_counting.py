"""What counts, what is progress, what is waited for."""

from itertools import count, product

import pytest

from perdure.policy.counting import (
    History,
    Limits,
    PastAttempt,
    back_off_seconds,
    possible_error,
    tally,
    weigh,
)
from perdure.policy.outcome import AttemptState, Cause

S = AttemptState


def history(*attempts, **marks):
    return History(
        attempts=tuple(
            PastAttempt(**{"number": number, "ran_seconds": 100.0, **attempt})
            for number, attempt in zip(count(1), attempts, strict=False)
        ),
        **marks,
    )


FAILED = {"state": S.FAILED, "cause": Cause.EXIT}
SUSPENDED = {"state": S.SUSPENDED}
LOST_A, LOST_B = {"state": S.LOST, "host": "a"}, {"state": S.LOST, "host": "b"}
NOT_STARTED = {"state": S.NOT_STARTED, "cause": Cause.SPAWN, "ran_seconds": 0.0}
NOT_VERIFIED = {"state": S.NOT_STARTED, "cause": Cause.NOT_VERIFIED, "ran_seconds": 0.0}


@pytest.mark.parametrize(
    ("state", "cause", "discarded", "limit"),
    list(product(S, (None, Cause.EXIT, Cause.NOT_VERIFIED), (False, True), (False, True))),
)
def test_which_single_attempt_counts(state, cause, discarded, limit):
    attempt = {
        "state": state,
        "cause": cause,
        "was_discarded": discarded,
        "limit_without_save": limit,
    }
    by_itself = state is S.FAILED or (state is S.NOT_STARTED and cause is Cause.NOT_VERIFIED)
    assert tally(history(attempt)).counted == int(by_itself or discarded or limit)


@pytest.mark.parametrize(
    ("attempts", "counted"),
    [
        ([LOST_A], 0),
        ([LOST_A, LOST_A, LOST_A], 0),
        ([LOST_A, LOST_B], 1),
        ([LOST_A, LOST_B, LOST_A, LOST_B], 3),
        ([LOST_A, {**LOST_B, "content": "x"}], 0),
        ([LOST_A, {**SUSPENDED, "kept": 1}, LOST_B], 0),
        ([SUSPENDED] * 50, 0),
        ([FAILED, SUSPENDED, FAILED, LOST_A, FAILED], 3),
        ([FAILED, FAILED, {**FAILED, "kept": 1}], 0),
        ([FAILED, {**SUSPENDED, "kept": 1}, FAILED], 1),
    ],
)
def test_what_a_row_of_attempts_amounts_to(attempts, counted):
    assert tally(history(*attempts)).counted == counted


@pytest.mark.parametrize(
    ("attempts", "is_progress"),
    [
        ([{**FAILED, "kept": 1}], True),
        ([{**FAILED, "saved": ("x",)}], True),
        ([{**FAILED, "saved": ("x",)}, {**FAILED, "saved": ("x",)}], False),
        ([{**FAILED, "saved": ("x",)}, {**FAILED, "saved": ("x", "y")}], True),
        ([FAILED, {**SUSPENDED, "saved": ("x",), "ran_seconds": 99.0}], False),
        ([FAILED, {**SUSPENDED, "saved": ("x",), "ran_seconds": 100.0}], True),
        ([SUSPENDED, {**FAILED, "saved": ("x",), "ran_seconds": 1.0}], True),
        ([FAILED], False),
    ],
)
def test_progress_is_a_kept_value_or_new_content_of_a_long_enough_run(attempts, is_progress):
    assert list(weigh(history(*attempts)))[-1].is_progress is is_progress


def test_points_are_counted_apart():
    counts = tally(history(FAILED, {**FAILED, "content": "x"}, {**FAILED, "content": "x"}))
    assert counts.by_point == {None: 1, "x": 2}
    assert not counts.is_exhausted("x", Limits())
    assert counts.is_exhausted("x", Limits(per_point=2))
    assert not counts.is_exhausted("y", Limits())


def test_a_person_forgives():
    attempts = [FAILED, LOST_A, LOST_B, FAILED]
    assert tally(history(*attempts)).counted == 3
    assert tally(history(*attempts, forgiven=3)).counted == 1
    assert tally(history(*attempts, forgiven=4)).counted == 0
    assert tally(history(FAILED, LOST_A, LOST_B, forgiven=2)).counted == 0


@pytest.mark.parametrize(
    ("attempts", "streak"),
    [
        ([NOT_STARTED], 1),
        ([NOT_STARTED] * 3, 3),
        ([NOT_STARTED, FAILED, NOT_STARTED], 1),
        ([NOT_STARTED, SUSPENDED], 0),
        ([NOT_STARTED, NOT_VERIFIED, NOT_STARTED], 2),
        ([NOT_STARTED, NOT_STARTED, {**SUSPENDED, "kept": 1}, NOT_STARTED], 1),
    ],
)
def test_attempts_in_a_row_that_could_not_start(attempts, streak):
    assert tally(history(*attempts)).not_started == streak


def test_the_last_one_to_blame_is_named():
    counts = tally(
        history({**FAILED, "reason": "one"}, SUSPENDED, {**NOT_STARTED, "reason": "two"})
    )
    assert counts.last.reason == "two"
    assert tally(history(SUSPENDED)).last is None


@pytest.mark.parametrize(
    ("attempts", "seconds"),
    [
        ([], 0),
        ([SUSPENDED], 0),
        ([FAILED], 5),
        ([FAILED] * 2, 10),
        ([FAILED] * 3, 20),
        ([FAILED] * 8, 600),
        ([FAILED] * 5_000, 600),
        ([NOT_STARTED] * 2, 10),
        ([{**SUSPENDED, "ran_seconds": 1.0}] * 2, 10),
        ([{**SUSPENDED, "ran_seconds": 1.0, "by_user": True}] * 2, 0),
        ([FAILED, FAILED, {**FAILED, "kept": 1}], 0),
    ],
)
def test_back_off_doubles_up_to_a_cap(attempts, seconds):
    assert back_off_seconds(tally(history(*attempts))) == seconds


def test_the_second_use_of_a_content_is_a_possible_error():
    counts = tally(history({**SUSPENDED, "content": "x", "base": 3}))
    assert possible_error(counts, "x")
    assert not possible_error(counts, "y")
    assert not possible_error(counts, None)
    progressed = tally(history({**SUSPENDED, "content": "x", "kept": 1}))
    assert not possible_error(progressed, "x")


def test_what_is_saved_again_on_the_way_is_no_progress_however_long_it_took():
    """An error at the end: each attempt from an older checkpoint saves the same contents again."""
    first = {**FAILED, "saved": ("a", "b", "c"), "ran_seconds": 300.0}
    from_c = {**FAILED, "content": "c"}
    from_b = {**FAILED, "content": "b", "saved": ("c",), "ran_seconds": 400.0}
    from_a = {**FAILED, "content": "a", "saved": ("b", "c"), "ran_seconds": 900.0}
    rows = [first, *[from_c] * 3, *[from_b] * 3, *[from_a] * 3]
    found = tally(history(*rows))
    assert (found.counted, found.by_point) == (9, {"c": 3, "b": 3, "a": 3})
    waits = [back_off_seconds(tally(history(*rows[:n]))) for n in range(1, 11)]
    assert waits == [0, 5, 10, 20, 40, 80, 160, 320, 600, 600]
