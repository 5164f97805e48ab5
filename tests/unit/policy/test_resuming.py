"""Where a lineage goes on from: every kind of answer, and chunks."""

from itertools import count

import pytest
from msgspec.structs import replace

from perdure.policy.counting import History, Limits, PastAttempt
from perdure.policy.outcome import AttemptState, Cause
from perdure.policy.resuming import (
    Action,
    Failed,
    Finished,
    Held,
    KnownCheckpoint,
    Question,
    Start,
    decide_resume,
)

S = AttemptState
RUN, RESUME = Action.RUN, Action.RESUME


def past(*attempts, **marks):
    return History(
        attempts=tuple(
            PastAttempt(**{"number": number, "ran_seconds": 100.0, **attempt})
            for number, attempt in zip(count(1), attempts, strict=False)
        ),
        **marks,
    )


def failed(content=None):
    base = int(content[1:]) if content is not None else None
    cause = {"cause": Cause.EXIT, "reason": "exited with 1"}
    return {"state": S.FAILED, "content": content, "base": base, **cause}


def known(*sequences, **more):
    return tuple(KnownCheckpoint(sequence=s, content=f"c{s}", **more) for s in sequences)


def runs(values):
    """Maximal runs, as CONTIGUOUS demands."""
    pieces = []
    for value in values:
        if pieces and pieces[-1][-1] == value - 1:
            pieces[-1].append(value)
        else:
            pieces.append([value])
    return tuple(tuple(piece) for piece in pieces)


def test_work_whose_files_could_not_be_delivered_is_not_done_again_by_itself():
    undelivered = {"state": S.FAILED, "cause": Cause.DELIVERY, "content": "c3", "reason": "full"}
    question = Question(history=past(undelivered), checkpoints=known(1, 3), point=3)
    held = decide_resume(question)
    assert isinstance(held, Held)
    assert held.reason.startswith("full; mend that")
    assert held.choices == (3, 1)
    resumed = Question(history=past(undelivered, forgiven=1), checkpoints=known(1, 3), point=3)
    assert decide_resume(resumed) == Start(action=RESUME, base=3)
    nothing_saved = decide_resume(Question(history=past({**undelivered, "content": None})))
    assert isinstance(nothing_saved, Held)


def test_a_checkpoint_that_nobody_started_from_is_said_to_have_the_content_of_another():
    """An attempt from 3 saved the content of 4 again, as 9."""
    again = KnownCheckpoint(sequence=9, content="c4")
    history = past(*[failed("c4")] * 3, failed("c3"))
    decision = decide_resume(Question(history=history, checkpoints=(*known(3), again), point=9))
    assert decision.base == 3
    passed_over, _possible_error = decision.notes
    assert passed_over == (
        "checkpoint 9 is passed over: it has the same content as checkpoint 4, from which"
        " 3 attempts made no progress (limit 3)"
    )
    assert decision.choices == (9, 3)


def test_held_after_all_were_tried_names_those_that_were_started_from():
    again = KnownCheckpoint(sequence=9, content="c4")
    held = decide_resume(Question(history=past(*[failed("c4")] * 3), checkpoints=(again,), point=9))
    assert held.reason == "attempts from every checkpoint made no progress (tried: 4)"
    assert held.choices == (9,)


def test_a_first_attempt_runs():
    assert decide_resume(Question()) == Start(action=RUN)


def test_a_task_that_succeeded_is_finished_unless_a_person_branched():
    history = past({"state": S.SUCCEEDED, "reason": "exited with code 0"})
    assert decide_resume(Question(history=history)) == Finished(
        reason="attempt 1: exited with code 0"
    )
    branched = past({"state": S.SUCCEEDED}, branched=1, forgiven=1)
    question = Question(history=branched, checkpoints=known(2), point=2)
    assert decide_resume(question) == Start(action=RESUME, base=2)


def test_a_plain_resume_of_the_job_runs_no_finished_task_again():
    assert isinstance(
        decide_resume(Question(history=past({"state": S.SUCCEEDED}, forgiven=1))), Finished
    )


def test_a_suspended_task_resumes_at_its_newest_checkpoint():
    question = Question(history=past({"state": S.SUSPENDED}), checkpoints=known(1, 2, 3), point=3)
    assert decide_resume(question) == Start(action=RESUME, base=3)


def test_a_step_without_resume_action_runs_again_whatever_was_saved():
    question = Question(checkpoints=known(1), point=1, is_resumable=False)
    assert decide_resume(question) == Start(action=RUN)


def test_attempt_two_died_before_any_save_so_three_resumes_from_one():
    question = Question(
        history=past({"state": S.SUSPENDED, "saved": ("c1",)}, {"state": S.LOST, "content": "c1"}),
        checkpoints=known(1),
        point=1,
    )
    decision = decide_resume(question)
    assert (decision.action, decision.base) == (RESUME, 1)
    assert any("possible error: checkpoint 1" in note for note in decision.notes)


@pytest.mark.parametrize(
    ("tries", "base"), [([], 3), ([3], 3), ([3, 3], 3), ([3] * 3, 2), ([3] * 3 + [2] * 3, 1)]
)
def test_three_in_vain_from_one_point_and_the_next_older_is_taken(tries, base):
    question = Question(
        history=past(*(failed(f"c{sequence}") for sequence in tries)),
        checkpoints=known(1, 2, 3),
        point=3,
    )
    decision = decide_resume(question)
    assert (decision.action, decision.base) == (RESUME, base)
    passed = [note for note in decision.notes if "passed over" in note]
    assert len(passed) == 3 - base


def test_a_deterministic_crash_is_not_met_again_by_making_the_same_content_anew():
    question = Question(
        history=past(
            {**failed(), "saved": ("c1", "c2", "c3")},
            *[failed("c3")] * 3,
            {**failed("c2"), "saved": ("c3",)},
        ),
        checkpoints=(
            *known(1, 2),
            *known(3, is_void=True),
            KnownCheckpoint(sequence=5, content="c3"),
        ),
        point=5,
    )
    assert decide_resume(question).base == 2


def test_none_left_is_held_with_the_choices_and_never_the_beginning():
    question = Question(
        history=past(*[failed("c2")] * 3, *[failed("c1")] * 3), checkpoints=known(1, 2), point=2
    )
    decision = decide_resume(question)
    assert decision == Held(
        reason="attempts from every checkpoint made no progress (tried: 2, 1)", choices=(2, 1)
    )


def test_damaged_ones_are_passed_over_and_all_damaged_is_held_as_unusable():
    some = Question(checkpoints=(*known(1), *known(2, is_damaged=True)), point=2)
    decision = decide_resume(some)
    assert decision.base == 1
    assert decision.notes == ("checkpoint 2 is passed over: it is damaged",)
    every = Question(checkpoints=(*known(1, is_damaged=True), *known(2, is_pruned=True)), point=2)
    assert decide_resume(every) == Held(
        reason="no checkpoint of it can be restored: all are damaged or pruned",
        is_unusable=True,
    )


def test_void_and_newer_ones_are_no_base():
    question = Question(checkpoints=(*known(1), *known(2, is_void=True), *known(9)), point=1)
    assert decide_resume(question).base == 1


def test_without_any_checkpoint_three_failures_fail():
    two = Question(history=past(*[failed()] * 2))
    assert decide_resume(two) == Start(action=RUN, wait_seconds=10.0)
    three = decide_resume(Question(history=past(*[failed()] * 3)))
    assert three == Failed(reason="3 attempts from the beginning made no progress: exited with 1")
    assert isinstance(
        decide_resume(Question(history=past(*[failed()] * 3), limits=Limits(per_point=4))), Start
    )


def test_the_beginning_chosen_by_a_person_is_taken_and_then_held_with_what_is_stored():
    void = known(4, is_void=True)
    begun = Question(history=past(failed(), forgiven=1), checkpoints=void, point=None)
    assert decide_resume(begun) == Start(action=RUN)
    in_vain = Question(history=past(*[failed()] * 3), checkpoints=void, point=None)
    assert decide_resume(in_vain) == Held(
        reason="3 attempts from the beginning made no progress: exited with 1", choices=(4,)
    )


def test_ten_since_the_last_progress_fail_whatever_the_points():
    attempts = [failed(f"c{n}") for n in range(10)]
    question = Question(history=past(*attempts), checkpoints=known(*range(1, 12)), point=11)
    assert decide_resume(question) == Failed(
        reason="10 attempts failed since the last progress: exited with 1",
        choices=tuple(range(11, 0, -1)),
    )
    fewer = Question(history=past(*attempts[:9]), checkpoints=known(*range(1, 12)), point=11)
    assert isinstance(decide_resume(fewer), Start)


def test_three_that_could_not_start_fail_with_their_reason():
    attempt = {"state": S.NOT_STARTED, "cause": Cause.ENTER, "reason": "no licence"}
    question = Question(history=past(*[attempt] * 3), checkpoints=known(1), point=1)
    assert decide_resume(question) == Failed(
        reason="3 attempts in a row could not start: no licence", choices=(1,)
    )


def test_fifty_preemptions_never_fail_a_task():
    attempts = [{"state": S.SUSPENDED, "content": "c1"}] * 50
    question = Question(history=past(*attempts), checkpoints=known(1), point=1)
    assert decide_resume(question).base == 1


class TestChunks:
    VALUES = tuple(range(1, 11))

    def decide(self, **given):
        return decide_resume(Question(**{"values": self.VALUES, "split": runs, **given}))

    def test_a_whole_chunk_runs_whole(self):
        assert self.decide() == Start(action=RUN, values=self.VALUES)

    def test_nothing_left_is_finished_whatever_the_last_exit(self):
        decision = self.decide(kept=frozenset(self.VALUES), history=past(*[failed()] * 12))
        assert decision == Finished(reason="all values of its chunk are complete")

    @pytest.mark.parametrize("is_resumable", [True, False])
    def test_kept_values_are_never_run_again(self, is_resumable):
        decision = self.decide(kept=frozenset({1, 2, 5}), is_resumable=is_resumable)
        assert decision == Start(action=RUN, values=(3, 4), split=((6, 7, 8, 9, 10),))

    @pytest.mark.parametrize(
        ("first", "stays", "split"),
        [
            (3, (3, 4), ((6, 7, 8, 9, 10),)),
            (4, (3, 4), ((6, 7, 8, 9, 10),)),
            (5, (6, 7, 8, 9, 10), ((3, 4),)),
            (7, (6, 7, 8, 9, 10), ((3, 4),)),
            (1, (3, 4), ((6, 7, 8, 9, 10),)),
        ],
    )
    def test_the_checkpoint_stays_with_the_first_value_it_has_work_on(self, first, stays, split):
        decision = self.decide(
            kept=frozenset({1, 2, 5}), checkpoints=known(2, first_incomplete=first), point=2
        )
        assert decision == Start(action=RESUME, base=2, values=stays, split=split)

    @pytest.mark.parametrize("first", [None, 10, 99])
    def test_a_checkpoint_without_work_on_what_remains_is_not_resumed(self, first):
        decision = self.decide(
            kept=frozenset({10}), checkpoints=known(2, first_incomplete=first), point=2
        )
        assert (decision.action, decision.base) == (RUN, None)
        assert decision.values == self.VALUES[:-1]
        assert "holds no work" in decision.notes[0]

    def test_a_noncontiguous_step_keeps_its_remainder_in_one_piece(self):
        decision = self.decide(kept=frozenset({2, 4}), split=lambda values: (values,))
        assert decision == Start(action=RUN, values=(1, 3, 5, 6, 7, 8, 9, 10))

    def test_a_split_that_loses_a_value_is_our_bug(self):
        with pytest.raises(AssertionError):
            self.decide(split=lambda values: (values[1:],))


def chunk_to_deliver(**how):
    return Question(values=(1, 2, 3), kept=frozenset({1, 2, 3}), must_deliver=True, **how)


def undelivered(number):
    return PastAttempt(
        number=number, state=AttemptState.FAILED, cause=Cause.DELIVERY, reason="no bucket"
    )


def test_a_chunk_whose_files_are_not_delivered_yet_has_one_thing_left():
    answer = decide_resume(chunk_to_deliver(history=past({"state": S.LOST})))
    assert isinstance(answer, Start)
    assert (answer.action, answer.base, answer.values, answer.split) == (Action.RUN, None, (), ())


def test_once_an_attempt_succeeded_its_files_are_delivered():
    succeeded = PastAttempt(number=1, state=AttemptState.SUCCEEDED)
    answer = decide_resume(chunk_to_deliver(history=History(attempts=(succeeded,))))
    assert isinstance(answer, Finished)


def test_delivering_is_tried_as_often_as_anything_else():
    history = History(attempts=tuple(undelivered(number) for number in (1, 2)))
    answer = decide_resume(chunk_to_deliver(history=history))
    assert isinstance(answer, Start)
    assert answer.wait_seconds > 0
    history = History(attempts=(*history.attempts, undelivered(3)))
    answer = decide_resume(chunk_to_deliver(history=history))
    assert answer == Failed(reason="its files were not delivered in 3 attempts: no bucket")


def test_a_chunk_with_work_left_goes_on_as_ever():
    question = Question(values=(1, 2, 3), kept=frozenset({1}), must_deliver=True)
    answer = decide_resume(question)
    assert isinstance(answer, Start)
    assert answer.values == (2, 3)


def at_its_end(*ends, **how):
    """A plain task whose work is done, and kept in checkpoint 4."""
    history = past(*({"state": S.FAILED, "cause": Cause.DELIVERY, **end} for end in ends), **how)
    return Question(
        history=history, checkpoints=known(1, 3), point=3, must_deliver=True, end=known(4)[0]
    )


def test_a_task_at_its_end_waits_for_a_person_once_its_delivery_failed():
    held = decide_resume(at_its_end({"reason": "full"}))
    assert isinstance(held, Held)
    assert held.reason == (
        "full; mend that, then resume: its files are delivered, and its work is not done again"
    )


def test_a_task_at_its_end_runs_nothing_but_its_delivery():
    answer = decide_resume(at_its_end({}, forgiven=1))
    assert isinstance(answer, Start)
    assert (answer.action, answer.base, answer.values) == (RUN, 4, ())
    assert "only its files are delivered" in answer.notes[0]


def test_a_task_at_its_end_whose_worker_was_lost_delivers_by_itself():
    answer = decide_resume(at_its_end({"state": S.LOST, "cause": None}))
    assert isinstance(answer, Start)
    assert (answer.base, answer.values) == (4, ())


@pytest.mark.parametrize("flaw", ["is_damaged", "is_pruned"])
def test_an_end_that_is_lost_gives_way_to_a_save_and_never_to_the_beginning(flaw):
    end = replace(known(4)[0], **{flaw: True})
    question = replace(at_its_end({}, forgiven=1), end=end)
    assert decide_resume(question) == Start(action=RESUME, base=3)
    held = decide_resume(replace(question, checkpoints=(), point=None))
    assert isinstance(held, Held)
    assert held.is_unusable
    assert "nothing but the beginning is left" in held.reason
