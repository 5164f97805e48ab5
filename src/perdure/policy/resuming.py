"""Where a lineage goes on from: start, hold, finished or failed.

A pure function of the lineage, what is kept and what is left in the store. Its rules, in order:

1. Nothing remains: finished. Only files are still to be delivered, of a chunk or of a task whose
   end was kept: an attempt that runs nothing. Outside files stood in the way of the last attempt,
   or its files could not be delivered: held.
2. What counts reached a limit: failed (`counting`).
3. A resumable step with checkpoints: the newest usable one whose content was not tried in vain too
   often; none left: held, with the choices. Never the very beginning by itself.
4. No checkpoint: the beginning, unless that was tried in vain too often: failed, or held where a
   person could choose a checkpoint of another branch.

Of a chunk only what is not kept runs again. The remainder is split by the step's constraint; the
piece with the checkpoint stays in the lineage, every other one becomes a lineage of its own that
begins with onRun. A step without onCheckpointResume runs its remainder with onRun in the same way.

Source: design of perdure, "Resuming"; docs/decisions/028, 029, 116.
"""

from collections.abc import Callable, Iterable
from enum import Enum

from msgspec import Struct

from perdure.policy.counting import (
    DEFAULT_LIMITS,
    NO_HISTORY,
    Content,
    History,
    Limits,
    PastAttempt,
    Tally,
    back_off_seconds,
    possible_error,
    tally,
)
from perdure.policy.outcome import AttemptState, Cause

Values = tuple[int, ...]
Split = Callable[[Values], tuple[Values, ...]]


class Action(Enum):
    """Which of the step's actions runs."""

    #: From the beginning.
    RUN = "onRun"
    #: From a checkpoint.
    RESUME = "onCheckpointResume"


class KnownCheckpoint(Struct, frozen=True, kw_only=True):
    """A checkpoint of the lineage, as far as this decision looks at it.

    Attributes:
        is_void: of a side branch.
        is_pruned: its data may be gone.
        is_damaged: it was read and is not what was saved.
        first_incomplete: of the chunk's values that its attempt ran, the first one that was not
            reported complete when it was saved; None when all were, or for a plain task.
    """

    sequence: int
    content: Content
    is_void: bool = False
    is_pruned: bool = False
    is_damaged: bool = False
    first_incomplete: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it can be restored, as far as is known."""
        return not self.is_pruned and not self.is_damaged


class Question(Struct, frozen=True, kw_only=True):
    """Everything that the decision depends on.

    Attributes:
        history: attempts that are over.
        checkpoints: in the order of their sequences.
        point: the checkpoint to go on from by the lineage's log; None: the beginning.
        is_resumable: whether the step has onCheckpointResume.
        values: the chunk as this lineage holds it now; None for a plain task.
        kept: values that are never run again.
        split: cuts a remainder into pieces that the step's constraint allows.
        must_deliver: whether a chunk is done only once an attempt has SUCCEEDED, because its files
            are delivered before that.
        end: the checkpoint that the lineage goes on from, where it keeps the files of a task whose
            work is done and that are not delivered yet; else None.
    """

    history: History = NO_HISTORY
    checkpoints: tuple[KnownCheckpoint, ...] = ()
    point: int | None = None
    is_resumable: bool = True
    values: Values | None = None
    kept: frozenset[int] = frozenset()
    split: Split = lambda values: (values,)
    limits: Limits = DEFAULT_LIMITS
    must_deliver: bool = False
    end: KnownCheckpoint | None = None

    @property
    def is_at_its_end(self) -> bool:
        """Whether only the files of finished work are to be delivered."""
        return self.end is not None and self.end.is_whole


class Start(Struct, frozen=True, kw_only=True):
    """An attempt is to start.

    Attributes:
        base: the checkpoint's sequence; None: the beginning.
        values: what it runs; None for a plain task; empty where only files are to be delivered
            (of a plain task, too).
        split: values that become lineages of their own with this claim.
        wait_seconds: back-off, from the end of the last attempt.
        notes: what ``perdure why`` and status show at once.
        choices: as of `Held`, where newer checkpoints of the branch are passed over.
    """

    action: Action
    base: int | None = None
    values: Values | None = None
    split: tuple[Values, ...] = ()
    wait_seconds: float = 0.0
    notes: tuple[str, ...] = ()
    choices: tuple[int, ...] = ()


class Held(Struct, frozen=True, kw_only=True):
    """A person must choose.

    Attributes:
        reason: one sentence.
        choices: sequences that can be resumed from, newest first; the beginning always can.
        is_unusable: nothing can be restored (exit code 3).
    """

    reason: str
    choices: tuple[int, ...] = ()
    is_unusable: bool = False


class Finished(Struct, frozen=True, kw_only=True):
    """Nothing remains."""

    reason: str


class Failed(Struct, frozen=True, kw_only=True):
    """No further attempt starts by itself.

    Attributes:
        reason: one sentence.
        choices: as of `Held`, where a person resumes it all the same.
    """

    reason: str
    choices: tuple[int, ...] = ()


ResumeDecision = Start | Held | Finished | Failed


def decide_resume(question: Question) -> ResumeDecision:
    """Where the lineage goes on from."""
    remaining = remaining_values(question)
    if finished := _finished(question, remaining):
        return finished
    counts = tally(question.history, question.limits)
    if held := _in_conflict(question):
        return held
    if failed := _failed(question, counts):
        return failed
    if remaining == ():
        return _only_deliver(question, counts)
    if held := _undelivered(question):
        return held
    if question.is_at_its_end:
        return _deliver_the_end(question, counts)
    branch = _branch(question)
    if not question.is_resumable or not branch:
        if question.end is not None:
            return _end_is_lost(question.end)
        return _from_beginning(question, remaining, counts)
    usable = tuple(checkpoint for checkpoint in branch if checkpoint.is_whole)
    for checkpoint in usable:
        if not counts.is_exhausted(checkpoint.content, question.limits):
            return _from_checkpoint(question, remaining, checkpoint, counts)
    return _nothing_left(question, usable, counts)


def remaining_values(question: Question) -> Values | None:
    """The chunk's values that must still run, in order; None for a plain task."""
    if question.values is None:
        return None
    return tuple(value for value in question.values if value not in question.kept)


def _branch(question: Question) -> tuple[KnownCheckpoint, ...]:
    """What led to the point, newest first; pruned ones too: they say that work was done."""
    point = question.point
    if point is None:
        return ()
    return tuple(
        checkpoint
        for checkpoint in sorted(question.checkpoints, key=lambda c: -c.sequence)
        if not checkpoint.is_void and checkpoint.sequence <= point
    )


def _finished(question: Question, remaining: Values | None) -> Finished | None:
    """Whether the work is done."""
    if remaining == () and not question.must_deliver:
        return Finished(reason="all values of its chunk are complete")
    for attempt in question.history.attempts:
        if attempt.state is AttemptState.SUCCEEDED and attempt.number > question.history.branched:
            return Finished(reason=f"attempt {attempt.number}: {attempt.reason or 'succeeded'}")
    return None


def _last_unforgiven(question: Question) -> PastAttempt | None:
    """The last attempt, unless a person resumed or branched after it."""
    last = next(reversed(question.history.attempts), None)
    return None if last is None or last.number <= question.history.forgiven else last


def _in_conflict(question: Question) -> Held | None:
    """Whether outside files stood in the way of the last attempt, and nobody decided since."""
    last = _last_unforgiven(question)
    if last is None or last.state is not AttemptState.NOT_STARTED:
        return None
    if last.cause is not Cause.CONFLICT:
        return None
    how = "resume with --overwrite (what is there is renamed) or with --keep"
    return Held(reason=f"{last.reason}; {how}", choices=_choices(question), is_unusable=True)


def _undelivered(question: Question) -> Held | None:
    """Whether the last attempt did its work, and its files could not be delivered.

    Neither doing the work again nor trying again at once would bring them there any better.
    """
    last = _last_unforgiven(question)
    if last is None or last.state is not AttemptState.FAILED or last.cause is not Cause.DELIVERY:
        return None
    what_then = (
        "its files are delivered, and its work is not done again"
        if question.is_at_its_end
        else "its work is done again from there"
    )
    reason = f"{last.reason}; mend that, then resume: {what_then}"
    return Held(reason=reason, choices=_choices(question))


def _failed(question: Question, counts: Tally) -> Failed | None:
    """Whether a limit that no choice of checkpoint changes is reached."""
    limits = question.limits
    if counts.not_started >= limits.not_started:
        what = f"{counts.not_started} attempts in a row could not start"
    elif counts.counted >= limits.since_progress:
        what = f"{counts.counted} attempts failed since the last progress"
    else:
        return None
    choices = _choices(question) if question.is_resumable else ()
    return Failed(reason=f"{what}{_why(counts)}", choices=choices)


def _why(counts: Tally) -> str:
    """The reason of the last attempt that counts, where there is one, to stand at the end."""
    return f": {counts.last.reason}" if counts.last is not None and counts.last.reason else ""


def _only_deliver(question: Question, counts: Tally) -> Start | Failed:
    """Deliver the files of values that are all kept, where that was not tried too often."""
    if counts.is_exhausted(None, question.limits):
        tries = counts.by_point[None]
        return Failed(reason=f"its files were not delivered in {tries} attempts{_why(counts)}")
    return Start(
        action=Action.RUN,
        values=(),
        wait_seconds=back_off_seconds(counts, question.limits),
        notes=("all values of its chunk are complete: only its files are delivered",),
    )


def _deliver_the_end(question: Question, counts: Tally) -> Start:
    """Deliver what a task whose work is done had made."""
    assert question.end is not None
    base = question.end.sequence
    return Start(
        action=Action.RUN,
        base=base,
        values=(),
        wait_seconds=back_off_seconds(counts, question.limits),
        notes=(f"its work is done: only its files are delivered, from checkpoint {base}",),
    )


def _end_is_lost(end: KnownCheckpoint) -> Held:
    """What finished work had made is gone, and nothing else is there: a person decides."""
    how = "damaged" if end.is_damaged else "pruned"
    return Held(
        reason=f"its work is done, and checkpoint {end.sequence}, which keeps its files, is {how}:"
        " nothing but the beginning is left to start from",
        is_unusable=True,
    )


def _from_beginning(question: Question, remaining: Values | None, counts: Tally) -> ResumeDecision:
    """Run, where the beginning was not tried in vain too often."""
    if counts.is_exhausted(None, question.limits):
        tries = counts.by_point[None]
        reason = f"{tries} attempts from the beginning made no progress{_why(counts)}"
        choices = _choices(question) if question.is_resumable else ()
        return Held(reason=reason, choices=choices) if choices else Failed(reason=reason)
    stays, split = _pieces(question, remaining, first=None)
    return Start(
        action=Action.RUN,
        values=stays,
        split=split,
        wait_seconds=back_off_seconds(counts, question.limits),
    )


def _from_checkpoint(
    question: Question, remaining: Values | None, checkpoint: KnownCheckpoint, counts: Tally
) -> ResumeDecision:
    """Resume; or run what remains of a chunk of which this checkpoint knows nothing to do."""
    wait = back_off_seconds(counts, question.limits)
    if remaining is not None and not _has_work(question, remaining, checkpoint):
        stays, split = _pieces(question, remaining, first=None)
        note = f"checkpoint {checkpoint.sequence} holds no work on the values that remain"
        return Start(action=Action.RUN, values=stays, split=split, wait_seconds=wait, notes=(note,))
    stays, split = _pieces(question, remaining, first=checkpoint.first_incomplete)
    return Start(
        action=Action.RESUME,
        base=checkpoint.sequence,
        values=stays,
        split=split,
        wait_seconds=wait,
        notes=_notes(question, checkpoint, counts),
        choices=_choices(question) if checkpoint != _branch(question)[0] else (),
    )


def _notes(question: Question, checkpoint: KnownCheckpoint, counts: Tally) -> tuple[str, ...]:
    """What is to be reported at once about this start."""
    notes = [
        f"checkpoint {newer.sequence} is passed over: {_why_not(newer, question, counts)}"
        for newer in reversed(_branch(question))
        if newer.sequence > checkpoint.sequence
    ]
    if possible_error(counts, checkpoint.content):
        notes.append(
            f"possible error: {_started_from(checkpoint, counts)} was started from before, and no"
            " progress was made since"
        )
    return tuple(notes)


def _started_from(checkpoint: KnownCheckpoint, counts: Tally) -> str:
    """The checkpoint; or the content that it has in common with those that were started from."""
    others = counts.bases.get(checkpoint.content, frozenset())
    if not others or checkpoint.sequence in others:
        return f"checkpoint {checkpoint.sequence}"
    return f"the content of checkpoint {checkpoint.sequence}"


def _why_not(checkpoint: KnownCheckpoint, question: Question, counts: Tally) -> str:
    """Why a checkpoint is passed over."""
    if checkpoint.is_damaged:
        return "it is damaged"
    if checkpoint.is_pruned:
        return "it was pruned"
    tries = counts.by_point.get(checkpoint.content, 0)
    vain = f"made no progress (limit {question.limits.per_point})"
    others = counts.bases.get(checkpoint.content, frozenset()) - {checkpoint.sequence}
    if not others:
        return f"{_attempts(tries)} from it {vain}"
    has_its_own = checkpoint.sequence in counts.bases[checkpoint.content]
    also = " and from it" if has_its_own else ""
    return (
        f"it has the same content as {_named(others)}, from which{also} {_attempts(tries)} {vain}"
    )


def _attempts(number: int) -> str:
    return "1 attempt" if number == 1 else f"{number} attempts"


def _named(sequences: Iterable[int]) -> str:
    """Checkpoints, as people call them."""
    listed = sorted(sequences)
    word = "checkpoint" if len(listed) == 1 else "checkpoints"
    return f"{word} {', '.join(str(sequence) for sequence in listed)}"


def _nothing_left(question: Question, usable: tuple[KnownCheckpoint, ...], counts: Tally) -> Held:
    """There are checkpoints, and none may be started from without asking."""
    choices = _choices(question)
    if not usable:
        reason = "no checkpoint of it can be restored: all are damaged or pruned"
        return Held(reason=reason, choices=choices, is_unusable=not choices)
    contents = {checkpoint.content for checkpoint in usable}
    bases = {base for content in contents for base in counts.bases.get(content, ())}
    tried = ", ".join(str(base) for base in sorted(bases, reverse=True))
    return Held(
        reason=f"attempts from every checkpoint made no progress (tried: {tried or 'none'})",
        choices=choices,
    )


def _choices(question: Question) -> tuple[int, ...]:
    """What a person may resume from, side branches included, newest first."""
    whole = (checkpoint.sequence for checkpoint in question.checkpoints if checkpoint.is_whole)
    return tuple(sorted(whole, reverse=True))


def _has_work(question: Question, remaining: Values, checkpoint: KnownCheckpoint) -> bool:
    """Whether a remaining value stands at or after the first one not complete at the save."""
    assert question.values is not None
    first = checkpoint.first_incomplete
    if first is None or first not in question.values:
        return False
    return any(value in remaining for value in _from(question.values, first))


def _from(values: Values, first: int) -> Values:
    """The values at and after ``first``."""
    return values[values.index(first) :]


def _pieces(
    question: Question, remaining: Values | None, *, first: int | None
) -> tuple[Values | None, tuple[Values, ...]]:
    """The piece that stays in the lineage, and the others.

    Args:
        question: asked.
        remaining: values; None for a plain task.
        first: the first value not complete at the save; None: begin with the first piece.
    """
    if remaining is None:
        return None, ()
    assert question.values is not None
    pieces = question.split(remaining)
    assert sorted(value for piece in pieces for value in piece) == sorted(remaining), pieces
    at = remaining[0]
    if first is not None:
        at = next(value for value in _from(question.values, first) if value in remaining)
    stays = next(piece for piece in pieces if at in piece)
    return stays, tuple(piece for piece in pieces if piece is not stays)
