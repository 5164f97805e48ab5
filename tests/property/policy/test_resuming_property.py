"""Whatever happened before, a decision keeps its promises."""

from hypothesis import given
from hypothesis import strategies as st

from perdure.policy.counting import History, PastAttempt, tally, weigh
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

CONTENTS = st.sampled_from(["c1", "c2", "c3", "c4"])
ATTEMPTS = st.builds(
    PastAttempt,
    number=st.just(0),
    state=st.sampled_from([s for s in AttemptState if s is not AttemptState.SUCCEEDED]),
    host=st.sampled_from(["a", "b"]),
    content=st.none() | CONTENTS,
    cause=st.none() | st.sampled_from(Cause),
    by_user=st.booleans(),
    kept=st.sampled_from([0, 0, 0, 1]),
    saved=st.lists(CONTENTS, max_size=2).map(tuple),
    ran_seconds=st.floats(0, 1000),
    was_discarded=st.booleans(),
)
HISTORIES = st.builds(
    lambda attempts, forgiven: History(
        attempts=tuple(
            PastAttempt(**{name: getattr(a, name) for name in a.__slots__} | {"number": n})
            for n, a in enumerate(attempts, 1)
        ),
        forgiven=forgiven,
    ),
    st.lists(ATTEMPTS, max_size=14),
    st.integers(0, 14),
)
CHECKPOINTS = st.lists(
    st.builds(
        KnownCheckpoint,
        sequence=st.integers(1, 12),
        content=CONTENTS,
        is_void=st.booleans(),
        is_pruned=st.booleans(),
        is_damaged=st.booleans(),
        first_incomplete=st.none() | st.integers(1, 8),
    ),
    max_size=6,
    unique_by=lambda checkpoint: checkpoint.sequence,
).map(lambda found: tuple(sorted(found, key=lambda c: c.sequence)))
VALUES = st.none() | st.lists(st.integers(1, 8), min_size=1, unique=True).map(
    lambda values: tuple(sorted(values))
)


def pairs(values):
    return tuple(values[n : n + 2] for n in range(0, len(values), 2))


QUESTIONS = st.builds(
    Question,
    history=HISTORIES,
    checkpoints=CHECKPOINTS,
    point=st.none() | st.integers(1, 12),
    is_resumable=st.booleans(),
    values=VALUES,
    kept=st.frozensets(st.integers(1, 8), max_size=6),
    split=st.sampled_from([pairs, lambda values: (values,)]),
)


@given(QUESTIONS)
def test_promises(question):
    decision = decide_resume(question)
    remaining = {value for value in question.values or () if value not in question.kept}
    by_sequence = {checkpoint.sequence: checkpoint for checkpoint in question.checkpoints}
    assert isinstance(decision, Start | Held | Failed | Finished)
    if question.values is not None and not remaining:
        assert isinstance(decision, Finished)
    if isinstance(decision, Held):
        assert all(by_sequence[choice].is_whole for choice in decision.choices)
        assert question.is_resumable
    if not isinstance(decision, Start):
        return
    if question.values is not None:
        run = [decision.values, *decision.split]
        assert sorted(value for piece in run for value in piece) == sorted(remaining)
    assert (decision.action is Action.RESUME) == (decision.base is not None)
    if decision.base is not None:
        base = by_sequence[decision.base]
        assert question.is_resumable
        assert base.is_whole
        assert not base.is_void
        assert base.sequence <= question.point
        if question.values is not None:
            assert any(value >= base.first_incomplete for value in decision.values)


@given(QUESTIONS)
def test_the_beginning_is_never_gone_back_to_by_itself(question):
    decision = decide_resume(question)
    led_here = [
        checkpoint
        for checkpoint in question.checkpoints
        if not checkpoint.is_void and question.point and checkpoint.sequence <= question.point
    ]
    if question.is_resumable and led_here and question.values is None:
        assert not (isinstance(decision, Start) and decision.base is None)


@given(HISTORIES)
def test_counting(history):
    counts = tally(history)
    weighed = list(weigh(history))
    assert counts.counted == sum(counts.by_point.values())
    assert counts.counted <= sum(entry.counts for entry in weighed)
    for entry in weighed:
        suspended = entry.attempt.state in (AttemptState.SUSPENDED, AttemptState.CANCELED)
        assert not (suspended and entry.counts and not entry.attempt.was_discarded)
    if weighed and (weighed[-1].is_progress or history.forgiven >= len(weighed)):
        assert counts.counted == counts.not_started == counts.tries == 0


@given(st.lists(st.sampled_from(["ok", "crash"]), max_size=60))
def test_a_lineage_always_ends(ends):
    """However a task ends again and again without progress, it is not tried for ever."""
    attempts = []
    for number, end in enumerate([*ends, *["crash"] * 12], 1):
        question = Question(
            history=History(attempts=tuple(attempts)),
            checkpoints=(KnownCheckpoint(sequence=1, content="c1"),),
            point=1,
        )
        decision = decide_resume(question)
        if not isinstance(decision, Start):
            break
        state = AttemptState.SUSPENDED if end == "ok" else AttemptState.FAILED
        attempts.append(PastAttempt(number=number, state=state, content="c1", base=1))
    else:
        raise AssertionError(attempts)
    assert sum(attempt.state is AttemptState.FAILED for attempt in attempts) == 3
