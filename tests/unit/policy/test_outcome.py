"""Every rule and every pair of facts of an attempt's end."""

from itertools import product

import pytest
from msgspec.structs import replace

from perdure.policy.outcome import (
    RULES,
    TABLE,
    UNDELIVERED,
    AttemptFacts,
    AttemptState,
    By,
    Cause,
    DeliveryEnd,
    Exit,
    Notice,
    NotStarted,
    SaveAfterNotice,
    Undelivered,
    judge,
)

S = AttemptState
DURABLE = SaveAfterNotice(seconds=2.0, is_durable=True)
ANNOUNCED = SaveAfterNotice(seconds=2.0, is_durable=False)
OK, BAD, TERM, KILL = Exit(code=0), Exit(code=1), Exit(signal=15), Exit(signal=9)

EXITS = (None, OK, BAD, TERM, KILL)
NOTICES = (
    None,
    *(
        Notice(by=by, sent_before_exit=sent, signal_caught=caught)
        for by, sent, caught in product(By, (True, False), (True, False, None))
    ),
)
SAVES = (None, DURABLE, ANNOUNCED)


def every_combination():
    for cancel, start, exit_, memory, timeout, kept, notice, save, done, ours in product(
        (False, True),
        (None, NotStarted(cause=Cause.SPAWN, reason="no such file")),
        EXITS,
        (None, "oom_kill 1"),
        (None, 60.0),
        (False, True),
        NOTICES,
        SAVES,
        (False, True),
        (False, True),
    ):
        yield AttemptFacts(
            cancel_asked=cancel,
            not_started=start,
            exit=exit_,
            out_of_memory=memory,
            timed_out_seconds=timeout,
            all_values_kept=kept,
            notice=notice,
            save_after_notice=save,
            done_marker_seen=done,
            killed_by_us=ours,
        )


def expected(facts):
    """The design's rules, written a second time as plainly as can be."""
    notice = facts.notice
    if facts.cancel_asked:
        return S.CANCELED
    if facts.not_started:
        return S.SUSPENDED if notice else S.NOT_STARTED
    if facts.exit is None:
        return S.LOST
    if facts.out_of_memory or facts.timed_out_seconds:
        return S.FAILED
    if facts.all_values_kept:
        return S.SUCCEEDED
    if notice is None or not notice.sent_before_exit:
        if facts.exit == KILL and facts.killed_by_us:
            return S.LOST
        return S.SUCCEEDED if facts.exit == OK else S.FAILED
    if facts.save_after_notice == DURABLE or facts.exit != OK:
        return S.SUSPENDED
    finished = facts.done_marker_seen or notice.signal_caught is False
    return S.SUCCEEDED if finished else S.SUSPENDED


def test_every_combination_of_facts():
    seen = set()
    number = 0
    for number, facts in enumerate(every_combination(), 1):  # noqa: B007 - counted
        outcome = judge(facts)
        assert outcome.state is expected(facts), facts
        assert outcome.reason
        assert not outcome.reason.endswith(".")
        assert (outcome.by is not None) == (outcome.state is S.SUSPENDED)
        assert (outcome.cause is not None) == (outcome.state in (S.FAILED, S.NOT_STARTED))
        if outcome.state is S.SUSPENDED:
            assert outcome.by is facts.notice.by
        seen.add(outcome.state)
    assert seen == set(AttemptState)
    assert number == 2 * 2 * 5 * 2 * 2 * 2 * 19 * 3 * 2 * 2


#: For each rule, facts to which it applies and no earlier one.
FIRST_OF = (
    AttemptFacts(cancel_asked=True),
    AttemptFacts(
        not_started=NotStarted(cause=Cause.RESTORE, reason="x"), notice=Notice(by=By.HOST)
    ),
    AttemptFacts(not_started=NotStarted(cause=Cause.RESTORE, reason="x")),
    AttemptFacts(exit=None),
    AttemptFacts(exit=KILL, out_of_memory="oom_kill 1"),
    AttemptFacts(exit=KILL, timed_out_seconds=60.0),
    AttemptFacts(exit=KILL, all_values_kept=True),
    AttemptFacts(exit=KILL, killed_by_us=True),
    AttemptFacts(exit=KILL),
    AttemptFacts(exit=OK),
)


@pytest.mark.parametrize(("index", "facts"), list(enumerate(FIRST_OF)))
def test_each_rule_is_reached(index, facts):
    assert [rule.applies(facts) for rule in RULES[: index + 1]] == [False] * index + [True]


@pytest.mark.parametrize(("earlier", "later"), [(a, b) for a in range(7) for b in range(a + 1, 7)])
def test_of_two_rules_that_apply_the_earlier_decides(earlier, later):
    first, second = FIRST_OF[earlier], FIRST_OF[later]
    blank = AttemptFacts()
    merged = {
        name: getattr(first, name) if getattr(first, name) != getattr(blank, name) else value
        for name in AttemptFacts.__slots__
        for value in [getattr(second, name)]
    }
    facts = AttemptFacts(**merged)
    if RULES[earlier].applies(facts):
        assert judge(facts).state is judge(first).state
        assert judge(facts).cause is judge(first).cause


def test_the_table_has_a_row_for_every_case_that_can_be():
    assert set(TABLE) == {
        (asked, well, saved)
        for asked, well, saved in product((False, True), repeat=3)
        if asked or not saved  # without a notice no save can follow it
    }


@pytest.mark.parametrize("by", By)
def test_the_four_suspensions_are_alike(by):
    notice = Notice(by=by, signal_caught=True)
    outcome = judge(AttemptFacts(exit=BAD, notice=notice, save_after_notice=DURABLE))
    assert (outcome.state, outcome.by) == (S.SUSPENDED, by)
    assert outcome.reason == "saved 2.0 s after the notice"


@pytest.mark.parametrize(
    ("facts", "cause", "words"),
    [
        (AttemptFacts(exit=BAD), Cause.EXIT, "exited with code 1; there is no checkpoint"),
        (AttemptFacts(exit=TERM), Cause.SIGNAL, "died of SIGTERM"),
        (AttemptFacts(exit=Exit(signal=64)), Cause.SIGNAL, "died of signal 64"),
        (AttemptFacts(exit=KILL), Cause.KILLED_FROM_OUTSIDE, "perhaps out of memory"),
        (AttemptFacts(exit=KILL, out_of_memory="oom_kill 1"), Cause.MEMORY, "(oom_kill 1)"),
        (AttemptFacts(exit=KILL, timed_out_seconds=60), Cause.TIMEOUT, "longer than 60 s"),
        (
            AttemptFacts(exit=BAD, point=7, unsaved_seconds=150),
            Cause.EXIT,
            "the last checkpoint is 7, 2.5 min of work are lost",
        ),
    ],
)
def test_failures_say_why_and_what_is_lost(facts, cause, words):
    outcome = judge(facts)
    assert (outcome.state, outcome.cause) == (S.FAILED, cause)
    assert words in outcome.reason


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"notice": Notice(by=By.HOST, signal_caught=False, signal_name="SIGUSR1")}, "SIGUSR1"),
        ({"killed_by_us": True}, "still ran when the notice period was over"),
        ({"save_after_notice": ANNOUNCED}, "one was announced, but it was not durable in time"),
        (
            {"save_after_notice": SaveAfterNotice(seconds=1, is_durable=False, problem="torn")},
            "one was announced, torn",
        ),
        ({}, "it died of SIGTERM"),
    ],
)
def test_no_save_after_the_notice_says_why(facts, words):
    given = {"exit": TERM, "notice": Notice(by=By.HOST, signal_caught=True), **facts}
    outcome = judge(AttemptFacts(**given))
    assert outcome.state is S.SUSPENDED
    assert words in outcome.reason


def test_exit_zero_without_a_save_is_no_success_by_itself():
    outcome = judge(AttemptFacts(exit=OK, notice=Notice(by=By.USER, signal_caught=True)))
    assert outcome.state is S.SUSPENDED
    assert "exited 0 after the notice without a save" in outcome.reason


@pytest.mark.parametrize(
    "cause",
    [Cause.CONFLICT, Cause.ENTER, Cause.NOT_VERIFIED, Cause.RESTORE, Cause.SPAWN, Cause.STORE],
)
def test_not_started_keeps_its_cause(cause):
    outcome = judge(AttemptFacts(not_started=NotStarted(cause=cause, reason="no space")))
    assert (outcome.state, outcome.cause) == (S.NOT_STARTED, cause)
    assert outcome.reason == "could not start: no space"


NOT_DELIVERED = {
    DeliveryEnd.FAILED: S.FAILED,
    DeliveryEnd.STOPPED: S.SUSPENDED,
    DeliveryEnd.CANCELED: S.CANCELED,
}


def test_every_end_of_a_delivery_is_in_the_table():
    assert set(UNDELIVERED) == set(DeliveryEnd) == set(NOT_DELIVERED)


@pytest.mark.parametrize("end", DeliveryEnd)
def test_what_was_not_delivered_is_never_called_done_and_nothing_else_changes(end):
    undelivered = Undelivered(end=end, reason="its files are not there", by=By.HOST)
    changed = 0
    for facts in every_combination():
        before, after = judge(facts), judge(replace(facts, undelivered=undelivered))
        if before.state is not S.SUCCEEDED:
            assert after == before
            continue
        changed += 1
        assert after.state is NOT_DELIVERED[end]
        assert (after.cause is Cause.DELIVERY) == (end is DeliveryEnd.FAILED)
        assert (after.by is By.HOST) == (end is DeliveryEnd.STOPPED)
    assert changed


def test_the_reason_of_a_delivery_stands_in_the_outcome():
    facts = AttemptFacts(
        exit=OK,
        point=4,
        undelivered=Undelivered(end=DeliveryEnd.FAILED, reason="its files are not there"),
    )
    assert judge(facts).reason == "its files are not there; the last checkpoint is 4"
