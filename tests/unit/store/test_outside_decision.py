import itertools

import pytest

from perdure.store.files.outside_decision import (
    Action,
    Choice,
    Content,
    Present,
    Window,
    outside_decision,
)

SAVED = Content(size=10, digest=b"saved")
OLDER = Content(size=8, digest=b"older")
OTHER = Content(size=9, digest=b"other")
WINDOWS = (Window(began_at_ns=100, ended_at_ns=200), Window(began_at_ns=300, ended_at_ns=400))
OURS = (100, 150, 200, 300, 400)
NOT_OURS = (0, 99, 201, 250, 299, 401, 10**18)


def decide(present, choice=Choice.ASK, recorded=frozenset({SAVED, OLDER}), windows=WINDOWS):
    return outside_decision(SAVED, present, recorded=recorded, windows=windows, choice=choice)


def present(content=None, *, at=0, longer=False, is_file=True):
    return Present(is_file=is_file, content=content, begins_with_saved=longer, changed_at_ns=at)


@pytest.mark.parametrize("choice", Choice)
def test_nothing_there_is_written(choice):
    assert decide(None, choice) is Action.CREATE


@pytest.mark.parametrize(("choice", "at"), list(itertools.product(Choice, OURS + NOT_OURS)))
def test_equal_is_left(choice, at):
    assert decide(present(SAVED, at=at), choice) is Action.LEAVE


@pytest.mark.parametrize(("choice", "at"), list(itertools.product(Choice, OURS)))
def test_what_an_attempt_appended_is_cut_back(choice, at):
    assert decide(present(longer=True, at=at), choice) is Action.CUT_BACK


@pytest.mark.parametrize(("choice", "at"), list(itertools.product(Choice, NOT_OURS)))
def test_what_somebody_appended_later_is_kept_beside(choice, at):
    assert decide(present(longer=True, at=at), choice) is Action.REPLACE


@pytest.mark.parametrize(("choice", "at"), list(itertools.product(Choice, OURS + NOT_OURS)))
def test_a_recorded_content_is_replaced(choice, at):
    assert decide(present(OLDER, at=at), choice) is Action.REPLACE


@pytest.mark.parametrize(
    ("choice", "at", "content"), list(itertools.product(Choice, OURS, [OTHER, None]))
)
def test_what_an_attempt_wrote_is_replaced(choice, at, content):
    assert decide(present(content, at=at), choice) is Action.REPLACE


ASKED = {
    Choice.ASK: Action.CONFLICT,
    Choice.OVERWRITE: Action.REPLACE,
    Choice.KEEP: Action.KEEP,
}


@pytest.mark.parametrize(
    ("choice", "at", "content"), list(itertools.product(Choice, NOT_OURS, [OTHER, None]))
)
def test_anything_else_is_a_persons_to_decide(choice, at, content):
    assert decide(present(content, at=at), choice) is ASKED[choice]


@pytest.mark.parametrize(("choice", "at"), list(itertools.product(Choice, OURS + NOT_OURS)))
def test_a_folder_or_link_is_never_ours(choice, at):
    assert decide(present(is_file=False, at=at), choice) is ASKED[choice]


def test_nothing_recorded_and_nothing_ran():
    assert decide(present(OLDER), recorded=frozenset(), windows=()) is Action.CONFLICT


@pytest.mark.parametrize(("choice", "at"), list(itertools.product(Choice, OURS)))
def test_nothing_is_cut_off_where_nobody_saw_the_attempt_end(choice, at):
    unseen = tuple(
        Window(began_at_ns=w.began_at_ns, ended_at_ns=w.ended_at_ns, is_end_known=False)
        for w in WINDOWS
    )
    assert decide(present(longer=True, at=at), choice, windows=unseen) is Action.REPLACE
