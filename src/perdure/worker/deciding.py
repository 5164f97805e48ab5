"""From what the logs say about a lineage to the question that policy answers, and to a claim.

Pure. The kept values whose files lie in a checkpoint that the base was not made on top of (a newer
one, or one of another branch) would be lost: they are given back and run again.

A person's resume forgets what was tried in vain, and with it the reason for passing a checkpoint
over: the lineage goes on from the newest good one (`resumed`).

Source: design 5, 6; docs/decisions/145.
"""

from msgspec import Struct
from msgspec.structs import replace

from perdure.clock import from_text
from perdure.policy.counting import DEFAULT_LIMITS, History, Limits, PastAttempt, tally
from perdure.policy.outcome import AttemptState, Cause
from perdure.policy.resuming import (
    Action,
    Finished,
    KnownCheckpoint,
    Question,
    ResumeDecision,
    Split,
    Start,
    Values,
    decide_resume,
)
from perdure.store.records.lineage import SHARE, Lineage, Save
from perdure.worker.claiming import LineageView
from perdure.worker.job_records import PastClaim


class StepRules(Struct, frozen=True, kw_only=True):
    """What a step says about its lineages.

    Attributes:
        split: cuts a remainder into pieces that the step's constraint allows.
        must_deliver: whether files are delivered before an attempt SUCCEEDED.
    """

    is_resumable: bool
    limits: Limits = DEFAULT_LIMITS
    split: Split = lambda values: (values,)
    must_deliver: bool = False


class Decision(Struct, frozen=True, kw_only=True):
    """Policy's answer, with what the claim and the attempt need besides.

    Attributes:
        attempt: the number of the next attempt.
        kept: values that are never run again, from that base.
        restores: the checkpoint whose files are put back: the base, also where onRun runs.
    """

    answer: ResumeDecision
    attempt: int
    kept: frozenset[int]
    restores: int | None


def decide(view: LineageView, rules: StepRules, values: Values | None) -> Decision:
    """Where the lineage goes on from.

    Args:
        view: the lineage, with what counts of each attempt.
        rules: of its step.
        values: the chunk as this lineage holds it now; None for a plain task.
    """
    kept = kept_values(view.past)
    question = ask(view, rules, values, frozenset(kept))
    answer = decide_resume(question)
    while isinstance(answer, Start):
        held_by = {None, *view.lineage.ancestry(_restored(answer, view))}
        lost = {value for value in question.kept if kept[value] not in held_by}
        if not lost:
            break
        question = replace(question, kept=question.kept - lost)
        answer = decide_resume(question)
    return Decision(
        answer=answer,
        attempt=next_attempt(view.past),
        kept=question.kept,
        restores=_restored(answer, view) if isinstance(answer, Start) else None,
    )


def resumed(view: LineageView, decision: Decision, rules: StepRules) -> LineageView:
    """The lineage as a person's resume leaves it; itself where nothing is to be forgotten.

    Args:
        view: the lineage; nobody is at work on it.
        decision: where it goes on from by itself.
        rules: of its step.
    """
    match decision.answer:
        case Finished():
            return view
        case Start() if tally(history(view), rules.limits).tries == 0:
            return view
    return replace(view, lineage=view.lineage.branched(_newest_good(view)))


def _newest_good(view: LineageView) -> int | None:
    """The checkpoint with the newest content that can be restored, of this branch.

    What was saved anew on the way from an older checkpoint is no newer for that: contents are
    ordered by when they were first saved. Nothing can be restored: the point, to be told so.
    """
    lineage = view.lineage
    ours = lineage.since_branch()
    first: dict[str, int] = {}
    good: list[Save] = []
    for save in lineage.saves:
        if save.number in ours:
            first.setdefault(save.content, save.number)
            if not save.is_pruned and not _is_damaged(save, view.past):
                good.append(save)
    newest = max(good, key=lambda save: (first[save.content], save.number), default=None)
    return newest.number if newest is not None else lineage.point


def ask(
    view: LineageView, rules: StepRules, values: Values | None, kept: frozenset[int]
) -> Question:
    """The question."""
    lineage = view.lineage
    return Question(
        history=history(view),
        checkpoints=tuple(_checkpoint(save, view.past) for save in _announced(lineage)),
        point=_announced_point(lineage),
        end=_end(view) if rules.must_deliver else None,
        is_resumable=rules.is_resumable,
        values=values,
        kept=kept,
        split=rules.split,
        limits=rules.limits,
        must_deliver=rules.must_deliver,
    )


def history(view: LineageView) -> History:
    """The attempts that are over, in order."""
    lineage = view.lineage
    branch = lineage.branches[-1].number if lineage.branches else -1
    before = [p.claim.attempt for p in view.past if p.claim.number < branch and _has_number(p)]
    return History(
        attempts=tuple(
            _past_attempt(past, lineage) for past in view.past if past.account.begun is not None
        ),
        forgiven=max(before, default=0),
        branched=max(before, default=0),
    )


def kept_values(past: tuple[PastClaim, ...]) -> dict[int, int | None]:
    """All values kept so far, each with the checkpoint that holds its files."""
    kept: dict[int, int | None] = {}
    for one in past:
        kept.update(one.account.kept)
    return kept


def next_attempt(past: tuple[PastClaim, ...]) -> int:
    """One past the last."""
    return max((p.claim.attempt for p in past if _has_number(p)), default=0) + 1


def _has_number(past: PastClaim) -> bool:
    """Whether its attempt's number is its own: a share whose task was never begun used up none."""
    return past.claim.number != SHARE or past.account.begun is not None


def current_values(lineage: Lineage) -> dict[str, str] | None:
    """The parameter values that the lineage holds since the last claim that split it."""
    for claim in reversed(lineage.claims):
        if claim.values is not None:
            return dict(claim.values)
    return None


def _past_attempt(past: PastClaim, lineage: Lineage) -> PastAttempt:
    claim, account = past.claim, past.account
    outcome = account.outcome or {}
    base = lineage.save(claim.base) if claim.base is not None else None
    cause = outcome.get("cause")
    return PastAttempt(
        number=claim.attempt,
        state=AttemptState(outcome.get("state", AttemptState.LOST.value)),
        launch=claim.launch,
        host=str((account.begun or {}).get("host", "")),
        base=claim.base,
        content=base.content if base is not None and _was_resume(past) else None,
        cause=Cause(cause) if cause else None,
        by_user=outcome.get("by") == "user",
        reason=str(outcome.get("reason", "")),
        kept=len(account.kept),
        saved=tuple(s.content for s in lineage.saves if s.claim == claim.number),
        ran_seconds=_ran_seconds(past, lineage),
        was_discarded=outcome.get("resume_status") == "DISCARDED",
    )


def _was_resume(past: PastClaim) -> bool:
    """Whether the attempt started from its base's save, and not only with its files."""
    return (past.account.begun or {}).get("action") == Action.RESUME.value


def _ran_seconds(past: PastClaim, lineage: Lineage) -> float:
    """How long it ran: as its launch said, or at least until its last save where it was lost."""
    outcome = past.account.outcome
    if outcome is not None:
        return float(outcome.get("ran", 0.0))
    begun = past.account.begun
    saves = [s for s in lineage.saves if s.claim == past.claim.number]
    if begun is None or not saves:
        return 0.0
    return (from_text(saves[-1].header["at"]) - from_text(begun["at"])).total_seconds()


def _checkpoint(save: Save, past: tuple[PastClaim, ...]) -> KnownCheckpoint:
    return KnownCheckpoint(
        sequence=save.number,
        content=save.content,
        is_void=save.is_void,
        is_pruned=save.is_pruned,
        is_damaged=_is_damaged(save, past),
        first_incomplete=save.header.get("first_incomplete"),
    )


def _is_damaged(save: Save, past: tuple[PastClaim, ...]) -> bool:
    """Whether an attempt that started from it found that its bytes are not what was saved."""
    return any(
        p.claim.base == save.number
        and p.account.outcome is not None
        and p.account.outcome.get("cause") == Cause.NOT_VERIFIED.value
        for p in past
    )


def _announced(lineage: Lineage) -> list[Save]:
    """Checkpoints that a program can be resumed from: it has announced a save up to then."""
    return [save for save in lineage.saves if save.header.get("save", 0) > 0]


def _announced_point(lineage: Lineage) -> int | None:
    """The newest that a program can be resumed from, on the way to the point."""
    announced = {save.number for save in _announced(lineage)}
    return next((n for n in lineage.ancestry(lineage.point) if n in announced), None)


def _end(view: LineageView) -> KnownCheckpoint | None:
    """The point, where it keeps the files of a task whose work is done."""
    point = view.lineage.save(view.lineage.point) if view.lineage.point is not None else None
    if point is None or not point.header.get("end"):
        return None
    return _checkpoint(point, view.past)


def _restored(answer: Start, view: LineageView) -> int | None:
    """What is put back: the base; where onRun runs what remains, the files of what is kept."""
    if answer.base is not None or answer.values is None:
        return answer.base
    for number in view.lineage.ancestry(view.lineage.point):
        save = view.lineage.save(number)
        assert save is not None
        if not save.is_pruned and not _is_damaged(save, view.past):
            return number
    return None


def is_resume(answer: Start) -> bool:
    """Whether onCheckpointResume runs."""
    return answer.action is Action.RESUME
