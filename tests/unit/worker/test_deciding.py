"""From what the logs say to a claim: what is kept, what is restored, what counts as tried."""

from perdure.journal.account import AttemptAccount
from perdure.policy.outcome import AttemptState, Cause
from perdure.policy.resuming import Finished, Held, Start
from perdure.store.layout import LaunchId
from perdure.store.records.lineage import fold_lineage, share_claim
from perdure.store.records.log import Entry
from perdure.worker.claiming import LineageView
from perdure.worker.deciding import (
    StepRules,
    current_values,
    decide,
    history,
    is_resume,
    kept_values,
    next_attempt,
    resumed,
)
from perdure.worker.job_records import PastClaim

AT = "2026-01-01T00:00:{:02d}.000Z"
RESUMABLE = StepRules(is_resumable=True)
NOT_RESUMABLE = StepRules(is_resumable=False)


def view(*records, accounts=()):
    """A shared lineage with these records, and an account for each claim, the share's first."""
    entries = [
        Entry(number=n, header={"at": AT.format(n), **record})
        for n, record in enumerate(records, 1)
    ]
    lineage = fold_lineage(entries, share=share_claim(LaunchId("l0"), AT.format(0)))
    padded = [*accounts, *[AttemptAccount()] * len(lineage.claims)]
    return LineageView(
        lineage=lineage,
        past=tuple(
            PastClaim(claim=claim, account=account, is_ended=True)
            for claim, account in zip(lineage.claims, padded, strict=False)
        ),
    )


def save(claim=0, content="c", save=1, **more):
    return {"kind": "save", "claim": claim, "content": content, "save": save, **more}


def claim(attempt, base=None, **more):
    return {"kind": "claim", "launch": f"l{attempt}", "attempt": attempt, "base": base, **more}


def account(state=None, *, kept=None, action="onRun", ran=100.0, **outcome):
    begun = {"host": "h", "at": AT.format(0), "action": action}
    ended = None if state is None else {"state": state, "ran": ran, **outcome}
    return AttemptAccount(begun=begun, outcome=ended, kept=dict(kept or {}))


def test_a_task_that_was_never_begun_starts_with_attempt_one():
    decision = decide(view(), RESUMABLE, None)
    assert isinstance(decision.answer, Start)
    assert (decision.attempt, decision.restores, decision.kept) == (1, None, frozenset())
    assert not is_resume(decision.answer)


def test_a_lost_attempt_with_a_save_is_resumed_from_it():
    decision = decide(view(save(), accounts=[account()]), RESUMABLE, None)
    assert (decision.attempt, decision.restores) == (2, 1)
    assert is_resume(decision.answer)


def test_a_step_that_cannot_resume_begins_again_with_nothing_restored():
    decision = decide(view(save(), accounts=[account()]), NOT_RESUMABLE, None)
    assert (decision.restores, is_resume(decision.answer)) == (None, False)


def test_a_chunk_that_cannot_resume_keeps_the_files_of_what_is_kept():
    made = view(save(), accounts=[account(kept={1: 1, 2: None})])
    decision = decide(made, NOT_RESUMABLE, (1, 2, 3))
    assert decision.answer.values == (3,)
    assert (decision.restores, decision.kept) == (1, {1, 2})
    assert not is_resume(decision.answer)


def test_where_its_checkpoint_is_damaged_an_older_one_is_restored_and_the_rest_given_back():
    records = [save(), save(content="d"), claim(2, base=2)]
    accounts = [
        account(kept={1: 1, 2: 2, 3: None}),
        account("NOT_STARTED", cause=Cause.NOT_VERIFIED.value),
    ]
    made = view(*records, accounts=accounts)
    decision = decide(made, NOT_RESUMABLE, (1, 2, 3, 4))
    assert decision.restores == 1
    assert decision.kept == {1, 3}
    assert decision.answer.values == (2, 4)


def test_kept_values_beyond_an_older_base_are_given_back():
    records = [save(first_incomplete=2), save(content="d", first_incomplete=3)]
    failed = [account(kept={1: 1, 2: 2})]
    for attempt in (2, 3, 4):
        records.append(claim(attempt, base=2))
        failed.append(account("FAILED", action="onCheckpointResume"))
    decision = decide(view(*records, accounts=failed), RESUMABLE, (1, 2, 3))
    assert decision.restores == 1
    assert decision.kept == {1}
    assert decision.answer.values == (2, 3)
    assert "checkpoint 2 is passed over" in decision.answer.notes[0]


def test_kept_values_of_a_branch_that_was_left_are_given_back_whatever_the_numbers():
    made = view(
        save(first_incomplete=2),
        save(content="d", first_incomplete=3),
        {"kind": "branch", "base": 1, "by": "user"},
        claim(2, base=1),
        save(claim=4, content="e", first_incomplete=2),
        accounts=[account(kept={1: 1, 2: 2}), account()],
    )
    decision = decide(made, RESUMABLE, (1, 2, 3))
    assert decision.restores == 5
    assert decision.kept == {1}
    assert decision.answer.values == (2, 3)


def test_all_values_kept_is_finished():
    made = view(accounts=[account("FAILED", kept={1: None, 2: None})])
    assert isinstance(decide(made, RESUMABLE, (1, 2)).answer, Finished)


def test_a_support_before_any_save_is_no_checkpoint_to_resume_from():
    made = view(save(save=0), accounts=[account(kept={1: 1})])
    decision = decide(made, RESUMABLE, (1, 2))
    assert not is_resume(decision.answer)
    assert (decision.restores, decision.answer.values) == (1, (2,))


def test_three_in_vain_from_the_only_checkpoint_are_held():
    records, accounts = [save()], [account()]
    for attempt in (2, 3, 4):
        records.append(claim(attempt, base=1))
        accounts.append(account("FAILED", action="onCheckpointResume"))
    decision = decide(view(*records, accounts=accounts), RESUMABLE, None)
    assert isinstance(decision.answer, Held)
    assert decision.answer.choices == (1,)
    assert decision.restores is None


def test_a_branch_forgives_and_its_success_is_of_another_branch():
    made = view(
        save(),
        {"kind": "branch", "base": None, "by": "user"},
        accounts=[account("SUCCEEDED")],
    )
    told = history(made)
    assert (told.forgiven, told.branched) == (1, 1)
    decision = decide(made, RESUMABLE, None)
    assert (decision.attempt, decision.restores) == (2, None)


def test_the_first_attempt_after_a_branch_counts_where_the_share_was_never_begun():
    """An imported checkpoint is chosen before the task was ever run."""
    made = view(
        save(claim=-1),
        {"kind": "branch", "base": 1, "by": "user"},
        claim(1, base=1),
        accounts=[AttemptAccount(), account("SUCCEEDED", action="onCheckpointResume")],
    )
    told = history(made)
    assert (told.forgiven, told.branched) == (0, 0)
    decision = decide(made, RESUMABLE, None)
    assert isinstance(decision.answer, Finished)
    assert decision.attempt == 2


def test_history_says_what_each_attempt_was():
    told = history(
        view(
            save(content="c"),
            claim(2, base=1),
            claim(3, base=1),
            accounts=[
                account("SUSPENDED", by="user", kept={1: None}),
                account(action="onCheckpointResume"),
                account("FAILED", resume_status="DISCARDED", action="onCheckpointResume"),
            ],
        )
    )
    first, second, third = told.attempts
    assert (first.saved, first.by_user, first.kept, first.content) == (("c",), True, 1, None)
    assert second.state is AttemptState.LOST
    assert (second.base, second.content) == (1, "c")
    assert third.was_discarded


def test_an_attempt_that_was_claimed_and_never_begun_is_none():
    made = view(claim(2), claim(3), accounts=[account("FAILED"), AttemptAccount(), account()])
    assert [attempt.number for attempt in history(made).attempts] == [1, 3]
    assert next_attempt(made.past) == 4


def test_a_lost_attempt_ran_at_least_until_its_last_save():
    told = history(view(save(), save(), accounts=[account()]))
    assert told.attempts[0].ran_seconds == 2.0


def test_values_are_those_of_the_last_claim_that_split():
    assert current_values(view().lineage) is None
    made = view(claim(2, values={"F": "1-2"}), claim(3))
    assert current_values(made.lineage) == {"F": "1-2"}


def test_a_value_kept_twice_lives_with_the_later_checkpoint():
    made = view(claim(2), accounts=[account(kept={1: 3}), account(kept={1: 5, 2: None})])
    assert kept_values(made.past) == {1: 5, 2: None}


def failed_on(*bases, records=()):
    """Attempts that failed, each from one of these checkpoints, after a first one that saved."""
    saves = [save(content="a"), save(content="b"), save(content="c"), *records]
    claims = [claim(attempt, base=base) for attempt, base in enumerate(bases, 2)]
    ended = [account("FAILED", action="onCheckpointResume") for _ in bases]
    return view(*saves, *claims, accounts=(account("FAILED"), *ended))


def resumed_base(found, rules=RESUMABLE):
    """Where the lineage goes on from by itself, and when a person resumes it."""
    before = decide(found, rules, None)
    after = decide(resumed(found, before, rules), rules, None)
    return getattr(before.answer, "base", None), after.answer.base


def test_a_persons_resume_goes_on_from_the_newest_checkpoint_although_it_was_passed_over():
    found = failed_on(3, 3, 3, 2, 2, 2)
    assert resumed_base(found) == (1, 3)
    answer = decide(resumed(found, decide(found, RESUMABLE, None), RESUMABLE), RESUMABLE, None)
    assert answer.answer.wait_seconds == 0.0


def test_of_what_was_saved_again_on_the_way_only_new_content_is_newer():
    """The attempt from 2 saved c again; the one from 1 had only come to b when it failed."""
    found = view(
        *(save(content="a"), save(content="b"), save(content="c")),
        claim(2, base=2),
        save(claim=4, content="c"),
        claim(3, base=1),
        save(claim=6, content="b"),
        accounts=(
            account("FAILED"),
            *[account("FAILED", action="onCheckpointResume", ran=10.0)] * 2,
        ),
    )
    assert resumed_base(found)[1] == 5


def test_what_a_person_left_by_going_back_is_not_come_back_to():
    found = failed_on(2, 2, 2, records=({"kind": "branch", "base": 2, "by": "user"},))
    assert resumed_base(found) == (1, 2)


def test_a_resume_forgets_nothing_where_nothing_was_tried_in_vain():
    found = view(save(content="a"), accounts=(account("SUSPENDED", by="user"),))
    assert resumed(found, decide(found, RESUMABLE, None), RESUMABLE) is found


def test_a_damaged_checkpoint_is_passed_over_by_a_resume_too():
    found = view(
        save(content="a"),
        save(content="b"),
        claim(2, base=2),
        accounts=(account("FAILED"), account("FAILED", cause=Cause.NOT_VERIFIED.value)),
    )
    assert resumed_base(found)[1] == 1
