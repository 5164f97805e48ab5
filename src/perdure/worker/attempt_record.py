"""What an attempt writes into its launch's journal, from its begin to its lineage's release."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from perdure.clock import to_text
from perdure.journal.journal_format import Kind
from perdure.policy.outcome import AttemptState, Outcome
from perdure.template import TaskParameters
from perdure.worker.actions import ActionResult
from perdure.worker.context import LaunchContext
from perdure.worker.host import this_host
from perdure.worker.job_records import LineageId
from perdure.worker.save_facts import STATUS_LIMIT, SaveFacts


class AttemptOrder(Struct, frozen=True, kw_only=True):
    """One attempt to run.

    Attributes:
        parameters: what it runs (a piece of a chunk, where that was split).
        is_resume: onCheckpointResume, else onRun.
        base: the checkpoint whose files are put back, or None.
        values, kept: of the chunk; None and empty for a plain task.
        notes: what is to be said at once about this start.
    """

    lineage: LineageId
    parameters: TaskParameters
    attempt: int
    is_resume: bool = False
    base: int | None = None
    values: tuple[int, ...] | None = None
    kept: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()


class AttemptRecord:
    """Writes one attempt's lines; from any thread."""

    def __init__(self, context: LaunchContext, lineage: LineageId, attempt: int) -> None:
        self._context = context
        self._key = {"step": lineage.step, "task": lineage.task, "attempt": attempt}
        self._offset = 0

    def begin(self, order: AttemptOrder) -> None:
        """The attempt begins; its part of the launch's log does, too.

        An appended line outlives this process. Where nothing is appended the line is put at once,
        with all that waited before it: one request a task, and an attempt that is lost with its
        host is counted.
        """
        self._offset = self._context.log.begin_attempt()
        has_parameters = bool(self._context.step.space.names)
        self.append(
            Kind.BEGUN,
            {
                "action": "onCheckpointResume" if order.is_resume else "onRun",
                "base": order.base,
                "values": order.parameters.texts() if has_parameters else None,
                "log": self._offset,
                "host": this_host().host,
                "at": to_text(self._context.clock.now()),
            },
            not self._context.driver.appends,
        )
        for note in order.notes:
            self.note("start", note)

    def end(
        self,
        order: AttemptOrder,
        outcome: Outcome,
        result: ActionResult | None,
        saves: SaveFacts | None,
    ) -> None:
        """The outcome, which releases the lineage: nothing of the attempt is left.

        Args:
            order: the attempt's.
            outcome: as judged.
            result: of its action; None: it never started.
            saves: None likewise.
        """
        fields: dict[str, Any] = {
            "state": outcome.state.value,
            "cause": outcome.cause.value if outcome.cause is not None else None,
            "by": outcome.by.value if outcome.by is not None else None,
            "reason": outcome.reason,
            "exit_code": result.facts.exit_code if result is not None else None,
            "ran": round(result.ran_seconds, 3) if result is not None else 0.0,
            "log": [self._offset, self._context.log.offset],
            "at": to_text(self._context.clock.now()),
        }
        if saves is not None and saves.announced:
            fields["saves"] = {
                "announced": saves.announced,
                "committed": saves.committed,
                "skipped": saves.skipped,
                "torn": saves.torn,
            }
        if saves is not None and saves.learned_seconds is not None:
            fields["save_seconds"] = round(saves.learned_seconds, 3)
        if saves is not None:
            fields |= _words(saves, outcome)
        if order.is_resume and result is not None:
            status = saves.resume_status if saves is not None else None
            fields["resume_status"] = status or "unknown"
        if result is not None and result.failure and outcome.state is AttemptState.FAILED:
            fields["failure"] = result.failure
        self.append(Kind.OUTCOME, fields, False)
        self.append(Kind.RELEASED, {}, False)

    def append(self, kind: Kind, fields: Mapping[str, object], durable: bool) -> bool:  # noqa: FBT001 - as `Committing` calls it
        """A line about the attempt; whether it is durable, where that was asked."""
        if kind is Kind.NOTED:
            fields = {**fields, "at": to_text(self._context.clock.now())}
        return self._context.journal.append(kind, {**self._key, **fields}, durable=durable)

    def note(self, what: str, text: str) -> None:
        """A line for `perdure why`."""
        self.append(Kind.NOTED, {"what": what, "text": text}, False)


def _words(saves: SaveFacts, outcome: Outcome) -> dict[str, Any]:
    """What a task said last of how far it was; of one that succeeded nobody asks."""
    if outcome.state is AttemptState.SUCCEEDED:
        return {}
    words = {"progress": saves.progress, "status": saves.status[:STATUS_LIMIT] or None}
    return {name: word for name, word in words.items() if word is not None}
