"""One attempt of one lineage: restore, run, save, judge, write the outcome.

The order at the end is design 8's: nothing of the task is left, captures are committed or dropped,
then the outcome is written with the release of the lineage.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from perdure.clock import to_text
from perdure.errors import CheckpointCorrupt, OutOfSpace, PerdureError, StoreUnavailable
from perdure.journal.journal_format import Kind
from perdure.policy.notice import Capturing
from perdure.policy.outcome import (
    AttemptFacts,
    By,
    Cause,
    Exit,
    Notice,
    NotStarted,
    Outcome,
    SaveAfterNotice,
    judge,
)
from perdure.protocol.attempt_messages import AttemptMessages, ChunkContext
from perdure.store.manifest import Manifest
from perdure.store.restore import Restored
from perdure.template import NotifyThenTerminate, ResolvedAction, TaskParameters
from perdure.worker.action_output import Hearing, MessagesFile
from perdure.worker.actions import ActionOrder, ActionResult, run_action
from perdure.worker.context import LaunchContext
from perdure.worker.host import this_host
from perdure.worker.job_records import LineageId
from perdure.worker.machine import Facts, Intent, Interrupt
from perdure.worker.memory import memory_proof, oom_kills
from perdure.worker.processes import SignalTarget
from perdure.worker.saves import COMMIT_FILE, Committing, Saves
from perdure.worker.sessions import StepSessions
from perdure.worker.stops import Stop
from perdure.worker.task_environment import AttemptVariables
from perdure.worker.task_store import TaskStore
from perdure.worker.tree import ActionTree
from perdure.worker.workspaces.openjd import OpenJdSession

_OWN_FOLDER = ".perdure-task"
_MESSAGES = "messages"
_CHECKPOINTS = "perdure_checkpoints"
#: Without anything known about the host: save at least this often (15 minutes).
DEFAULT_INTERVAL_SECONDS = 900
_START_CAUSES: Mapping[type[PerdureError], Cause] = {
    CheckpointCorrupt: Cause.NOT_VERIFIED,
    OutOfSpace: Cause.RESTORE,
    StoreUnavailable: Cause.STORE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOrder:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A session with the base in it."""

    session: OpenJdSession
    base: Manifest | None
    restored: Restored | None


class TaskAttempt:
    """Runs one attempt; used once.

    Args:
        after_commit: called with each committed sequence.
        running: told what runs, for the heartbeat; and None at the end.
    """

    def __init__(
        self,
        context: LaunchContext,
        sessions: StepSessions,
        store: TaskStore,
        order: AttemptOrder,
        *,
        after_commit: Callable[[int], None] = lambda _sequence: None,
        running: Callable[["TaskAttempt | None"], None] = lambda _attempt: None,
    ) -> None:
        self._context = context
        self._sessions = sessions
        self._store = store
        self._order = order
        self._after_commit = after_commit
        self._running = running
        self._notice: Notice | None = None
        self._stop: Stop | None = None
        self._began = context.clock.monotonic()
        self.saves: Saves | None = None
        self.tree: ActionTree | None = None

    @property
    def lineage(self) -> LineageId:
        """Which lineage it is of."""
        return self._order.lineage

    def run(self) -> Outcome:
        """Run it to its end; the outcome is in the journal when this returns. Blocks."""
        start_offset = self._context.log.begin_attempt()
        self._write_begun(start_offset)
        self._running(self)
        try:
            started = self._start()
            if isinstance(started, NotStarted):
                outcome = self._judge_not_started(started)
                result = None
            else:
                kills = oom_kills()
                result = self._run_action(started)
                outcome = judge(self._facts(result, memory_proof(kills, oom_kills())))
        finally:
            self._running(None)
        self._write_outcome(outcome, result, start_offset)
        return outcome

    def _start(self) -> Started | NotStarted:
        """A session with its environments entered, and the base put back into it."""
        stop = self._context.board.stops_task(self.lineage.step, self.lineage.task)
        if stop is not None:
            self._stop = stop
            return NotStarted(cause=Cause.ENTER, reason="it was stopped before")
        try:
            self._resolved()
        except PerdureError as error:
            return NotStarted(cause=Cause.SPAWN, reason=error.message)
        session = self._sessions.ready()
        if isinstance(session, NotStarted):
            return session
        if self._order.base is None:
            return Started(session=session, base=None, restored=None)
        try:
            base, restored = self._store.restore(self._order.base, session.working_directory)
        except PerdureError as error:
            cause = _START_CAUSES.get(type(error), Cause.RESTORE)
            return NotStarted(cause=cause, reason=error.message)
        for note in (*restored.notes, *restored.input_changes):
            self._note("restore", note)
        for displaced in restored.displaced:
            self._note("restore", f"{displaced.path}: what was there is now {displaced.name}")
        return Started(session=session, base=base, restored=restored)

    def _run_action(self, started: Started) -> ActionResult:
        session = started.session
        resolved = self._resolved()
        self.saves = saves = Saves(self._committing(started), self._context.clock)
        hearing = Hearing(self._messages(), saves.hear)
        variables = self._variables(session, resolved)
        step, symbols = self._context.step, self._context.step.symbols
        script = step.run_script
        if self._order.is_resume:
            script = step.resume_script
            restored = started.restored
            assert restored is not None
            symbols = symbols.with_checkpoint(
                state=restored.state,
                file=str(restored.file) if restored.file is not None else None,
            )
        return run_action(
            self._context,
            session,
            ActionOrder(
                start=lambda output: session.run_task(
                    step, script, symbols, self._order.parameters, output
                ),
                resolved=resolved,
                task=self.lineage.task,
                environment=variables.to_environment(),
                hearing=hearing,
                messages_file=MessagesFile(variables.messages_file, hearing),
                finish_captures=self._finish_captures,
                on_notice=self._on_notice,
                on_stop=self._on_stop,
                capturing=self._capturing,
                on_tree=self._on_tree,
            ),
        )

    def _resolved(self) -> ResolvedAction:
        return self._sessions.resolved_task(is_resume=self._order.is_resume)

    def _messages(self) -> AttemptMessages:
        chunk = self._context.step.space.chunk
        if chunk is None or self._order.values is None:
            return AttemptMessages(is_resume=self._order.is_resume)
        return AttemptMessages(
            is_resume=self._order.is_resume,
            chunk=ChunkContext(
                parameter=chunk.parameter,
                values=frozenset(self._order.values),
                kept=self._order.kept,
            ),
        )

    def _committing(self, started: Started) -> Committing:
        session_dir = started.session.working_directory
        return Committing(
            capture=lambda: self._store.capture(session_dir, started.base, self._frozen),
            put=self._store.put,
            note=self._append,
            make_room=lambda: self._store.prune(is_full=True),
            after_commit=self._committed,
            lost=self._lost,
            session_dir=session_dir,
            values=self._order.values,
            base=started.base,
            has_kept=bool(self._order.kept),
        )

    def _variables(self, session: OpenJdSession, resolved: ResolvedAction) -> AttemptVariables:
        folder = session.working_directory
        own = folder / _OWN_FOLDER
        own.mkdir(mode=0o700, exist_ok=True)
        (folder / COMMIT_FILE).unlink(missing_ok=True)
        checkpoints = folder / _CHECKPOINTS
        checkpoints.mkdir(mode=0o700, exist_ok=True)
        suspend = resolved.suspend
        period = suspend.notify_period if isinstance(suspend, NotifyThenTerminate) else timedelta()
        return AttemptVariables(
            job=self._context.job_id,
            step=self._context.step.name,
            task=self.lineage.task,
            attempt=self._order.attempt,
            resumed_from=self._order.base if self._order.is_resume else None,
            checkpoint_dir=checkpoints,
            commit_file=folder / COMMIT_FILE,
            messages_file=own / _MESSAGES,
            notice_seconds=int(period.total_seconds()),
            interval_seconds=DEFAULT_INTERVAL_SECONDS,
        )

    def _on_tree(self, tree: ActionTree) -> None:
        self.tree = tree

    @contextmanager
    def _frozen(self) -> Iterator[None]:
        """The task stands still inside."""
        tree = self.tree
        if tree is None:
            yield
            return
        tree.stop()
        try:
            yield
        finally:
            tree.resume()

    def _on_notice(self, target: SignalTarget) -> None:
        """A signal is about to be sent; from now on a save answers it."""
        assert self.saves is not None
        self.saves.notice_is_sent()
        self._note("notice", f"the signal was sent to {target.description}")
        if not target.caught:
            self._note("notice", f"{target.description} does not catch it")

    def _on_stop(self, stop: Stop, interrupt: Interrupt) -> None:
        if self._stop is None or stop.intent is Intent.CANCEL:
            self._stop = stop
        if interrupt.signal is not None:
            self._note("notice", f"{stop.intent.value} asked by the {stop.by}")

    def _capturing(self) -> Capturing:
        learned = self.saves.facts.learned_seconds if self.saves is not None else None
        return Capturing(learned=timedelta(seconds=learned) if learned is not None else None)

    def _finish_captures(self, facts: Facts) -> None:
        """Drop what waits where the work is done anyway, or another worker owns it."""
        assert self.saves is not None
        self.saves.finish(drop=facts.exit_code == 0 and facts.intent is None)

    def _committed(self, sequence: int, manifest: Manifest) -> None:
        self._store.remember(sequence, manifest)
        self._store.prune()
        self._after_commit(sequence)

    def _lost(self) -> None:
        """Another launch owns the lineage: end the task, add nothing."""
        self._context.board.post(
            Stop(
                intent=Intent.SUSPEND,
                by="engine",
                is_now=True,
                step=self.lineage.step,
                task=self.lineage.task,
                reason="another worker owns the task",
            )
        )

    def _judge_not_started(self, why: NotStarted) -> Outcome:
        stop = self._stop or self._context.board.stops_all()
        notice = None
        if stop is not None and stop.intent is Intent.SUSPEND:
            notice = Notice(by=By(stop.by))
        return judge(
            AttemptFacts(
                not_started=why,
                cancel_asked=stop is not None and stop.intent is Intent.CANCEL,
                notice=notice,
                point=self._order.base,
            )
        )

    def _facts(self, result: ActionResult, out_of_memory: str | None) -> AttemptFacts:
        facts = result.facts
        assert self.saves is not None
        done = self.saves.facts.kept | self._order.kept
        code = facts.exit_code
        not_started = None
        if facts.spawn_failed:
            reason = result.failure or "the process could not be started"
            not_started = NotStarted(cause=Cause.SPAWN, reason=reason)
        timeout = self._resolved().timeout if facts.timed_out else None
        return AttemptFacts(
            cancel_asked=facts.intent is Intent.CANCEL,
            not_started=not_started,
            exit=None if code is None else _exit(code),
            out_of_memory=out_of_memory if code not in (0, None) else None,
            timed_out_seconds=timeout.total_seconds() if timeout is not None else None,
            all_values_kept=self._order.values is not None and done >= set(self._order.values),
            notice=_notice(facts),
            save_after_notice=self._save_after_notice(),
            killed_by_us=facts.killed,
            point=self.saves.facts.point or self._order.base,
            unsaved_seconds=self._unsaved_seconds(),
        )

    def _save_after_notice(self) -> SaveAfterNotice | None:
        assert self.saves is not None
        facts, notice_at = self.saves.facts, self.saves.notice_at
        if facts.after_notice is None or notice_at is None:
            return None
        return SaveAfterNotice(
            seconds=facts.after_notice - notice_at,
            is_durable=facts.after_notice_durable,
            problem=facts.problem,
        )

    def _unsaved_seconds(self) -> float:
        assert self.saves is not None
        since = self.saves.facts.committed_at or self._began
        return self._context.clock.monotonic() - since

    def _write_begun(self, offset: int) -> None:
        step = self._context.step
        action = "onCheckpointResume" if self._order.is_resume else "onRun"
        self._append(
            Kind.BEGUN,
            {
                "action": action,
                "base": self._order.base,
                "values": self._order.parameters.texts() if step.space.names else None,
                "log": offset,
                "host": this_host().host,
                "at": to_text(self._context.clock.now()),
            },
            False,
        )
        for note in self._order.notes:
            self._note("start", note)

    def _write_outcome(self, outcome: Outcome, result: ActionResult | None, offset: int) -> None:
        """The outcome releases the lineage: nothing of the attempt is left."""
        facts = self.saves.facts if self.saves is not None else None
        fields: dict[str, Any] = {
            "state": outcome.state.value,
            "cause": outcome.cause.value if outcome.cause is not None else None,
            "by": outcome.by.value if outcome.by is not None else None,
            "reason": outcome.reason,
            "exit_code": result.facts.exit_code if result is not None else None,
            "ran": round(result.ran_seconds, 3) if result is not None else 0.0,
            "log": [offset, self._context.log.offset],
            "at": to_text(self._context.clock.now()),
        }
        if facts is not None and facts.announced:
            fields["saves"] = {
                "announced": facts.announced,
                "committed": facts.committed,
                "skipped": facts.skipped,
                "torn": facts.torn,
            }
        if self._order.is_resume:
            status = facts.resume_status if facts is not None else None
            fields["resume_status"] = status or "unknown"
        if result is not None and result.failure and outcome.state.value == "FAILED":
            fields["failure"] = result.failure
        self._append(Kind.OUTCOME, fields, False)
        self._append(Kind.RELEASED, {}, False)

    def _append(self, kind: Kind, fields: Mapping[str, object], durable: bool) -> bool:  # noqa: FBT001
        key = {
            "step": self.lineage.step,
            "task": self.lineage.task,
            "attempt": self._order.attempt,
        }
        return self._context.journal.append(kind, {**key, **fields}, durable=durable)

    def _note(self, what: str, text: str) -> None:
        self._append(Kind.NOTED, {"what": what, "text": text}, False)


def _exit(code: int) -> Exit:
    return Exit(signal=-code) if code < 0 else Exit(code=code)


def _notice(facts: Facts) -> Notice | None:
    """The notice, where a suspension was asked for."""
    if facts.intent is not Intent.SUSPEND:
        return None
    return Notice(
        by=By(facts.by),
        sent_before_exit=facts.notice_sent,
        signal_caught=facts.signal_caught,
    )
