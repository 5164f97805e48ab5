"""One attempt of one lineage: restore, run, save, judge, write the outcome.

The order at the end is design 8's: nothing of the task is left, captures are committed or dropped,
the files of what succeeded are delivered where that is wanted, then the outcome is written with the
release of the lineage.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from signal import Signals

from msgspec import Struct
from msgspec.structs import replace

from perdure.errors import (
    CheckpointConflict,
    CheckpointCorrupt,
    OutOfSpace,
    PerdureError,
    StoreUnavailable,
)
from perdure.policy.notice import Capturing
from perdure.policy.outcome import (
    AttemptFacts,
    AttemptState,
    By,
    Cause,
    Exit,
    Notice,
    NotStarted,
    Outcome,
    SaveAfterNotice,
    Undelivered,
    judge,
)
from perdure.protocol.attempt_messages import AttemptMessages, ChunkContext
from perdure.store.delivery.delivery_places import Opener
from perdure.store.manifests.manifest import Manifest
from perdure.store.restore.restore import Restored
from perdure.template import NotifyThenTerminate, ResolvedAction, Terminate
from perdure.worker.action_output import Hearing
from perdure.worker.actions import ActionOrder, ActionResult, run_action
from perdure.worker.attempt_record import AttemptOrder, AttemptRecord
from perdure.worker.committing import COMMIT_FILE, Committing
from perdure.worker.context import LaunchContext
from perdure.worker.delivering import Deliverer, DeliveryOrder
from perdure.worker.job_records import LineageId
from perdure.worker.machine import Facts, Intent, Interrupt
from perdure.worker.memory import memory_proof
from perdure.worker.messages_file import MessagesFile
from perdure.worker.processes import SignalTarget
from perdure.worker.saves import Declared, Saves
from perdure.worker.sessions import StepSessions
from perdure.worker.stops import Stop
from perdure.worker.task_environment import AttemptVariables, mpi_variables
from perdure.worker.task_store import CLONES, CaptureSurroundings, TaskStore
from perdure.worker.tree import ActionTree, Hold
from perdure.worker.workspaces.workspace import Workspace

_OWN_FOLDER = ".perdure-task"
_MESSAGES = "messages"
_CHECKPOINTS = "perdure_checkpoints"
#: Without anything known about the host: save at least this often (15 minutes).
DEFAULT_INTERVAL_SECONDS = 900
_LONGEST_FREEZE_SECONDS = 60.0
#: So many intervals an unanswered question to save is left, before it is put again.
_UNANSWERED_TIMES = 10
_START_CAUSES: Mapping[type[PerdureError], Cause] = {
    CheckpointCorrupt: Cause.NOT_VERIFIED,
    CheckpointConflict: Cause.CONFLICT,
    OutOfSpace: Cause.RESTORE,
    StoreUnavailable: Cause.STORE,
}


class Started(Struct, frozen=True, kw_only=True):
    """A session with the base in it."""

    session: Workspace
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
        self._record = AttemptRecord(context, order.lineage, order.attempt)
        self._stop: Stop | None = None
        self._signal_name = "SIGKILL"
        self._began = context.clock.monotonic()
        self._asked_at = 0.0
        self._surroundings: CaptureSurroundings | None = None
        self.saves: Saves | None = None
        self.tree: ActionTree | None = None
        self._deliverer: Deliverer | None = None
        self._is_held = False

    def hold(self) -> None:
        """Whatever runs of it stands still; from any thread."""
        self._is_held = True
        if self.tree is not None:
            self.tree.hold(Hold.OWNERSHIP)
        if self._deliverer is not None:
            self._deliverer.hold()

    def release(self) -> None:
        """It goes on; from any thread."""
        self._is_held = False
        if self.tree is not None:
            self.tree.release(Hold.OWNERSHIP)
        if self._deliverer is not None:
            self._deliverer.release()

    def ask_save(self) -> None:
        """Ask the program to save and go on, if it can be asked; from any thread."""
        options = self._context.document.options
        self._asked_at = self._context.clock.monotonic()
        if self.tree is None or self._stop is not None:
            return
        whom = self.tree.ask(Signals[options.save_signal])
        if whom:
            self._record.note("asked", f"{options.save_signal} was sent to {whom}: it is to save")
        elif "asked" not in self._context.told:
            self._context.told.add("asked")
            self._record.note("asked", f"nobody catches {options.save_signal}: it saves by itself")

    def ask_if_due(self) -> None:
        """Ask once the interval since the last save, or since it was asked, is over."""
        every = self._context.document.options.save_every_seconds
        if every is None:
            return
        saved = (self.saves.facts.committed_at if self.saves is not None else None) or 0.0
        # A program that is slow to answer has no use for the question again.
        times = _UNANSWERED_TIMES if self._asked_at > saved else 1
        since = max(self._began, self._asked_at, saved)
        if self._context.clock.monotonic() - since >= times * every:
            self.ask_save()

    @property
    def lineage(self) -> LineageId:
        """Which lineage it is of."""
        return self._order.lineage

    def run(self) -> Outcome:
        """Run it to its end; the outcome is in the journal when this returns. Blocks."""
        self._record.begin(self._order)
        self._running(self)
        try:
            started = self._start()
            result = None
            if isinstance(started, NotStarted):
                outcome = self._judge_not_started(started)
            elif self._order.values == ():
                outcome = self._only_deliver(started)
            else:
                kills = self._context.oom.read()
                result = self._run_action(started)
                out_of_memory = memory_proof(kills, self._context.oom.read())
                outcome = self._judge(self._facts(result, out_of_memory))
        finally:
            self._running(None)
            self._store.end()
        facts = self.saves.facts if self.saves is not None else None
        self._record.end(self._order, outcome, result, facts)
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
        if self._context.refusal:
            return NotStarted(cause=Cause.SPAWN, reason=self._context.refusal)
        session = self._sessions.ready()
        if isinstance(session, NotStarted):
            return session
        # Of the task before, if there was one; what this one had there is put back.
        _clear(session.working_directory / _CHECKPOINTS)
        _clear(session.working_directory / CLONES)
        if self._context.tier_trouble and "tier" not in self._context.told:
            self._context.told.add("tier")
            self._record.note("save", self._context.tier_trouble)
        if self._context.unshared and "unshared" not in self._context.told:
            self._context.told.add("unshared")
            for sentence in self._context.unshared.values():
                self._record.note("save", sentence)
        self._store.sweep()
        self._store.retire_last(session.working_directory)
        if self._order.base is None:
            return Started(session=session, base=None, restored=None)
        try:
            base, restored = self._store.restore(self._order.base, session.working_directory)
        except PerdureError as error:
            cause = _START_CAUSES.get(type(error), Cause.RESTORE)
            return NotStarted(cause=cause, reason=error.message)
        for note in (*restored.notes, *restored.input_changes):
            self._record.note("restore", note)
        for displaced in restored.displaced:
            self._record.note(
                "restore", f"{displaced.path}: what was there is now {displaced.name}"
            )
        return Started(session=session, base=base, restored=restored)

    def _only_deliver(self, started: Started) -> Outcome:
        """The work is done, and its files are in the session folder: nothing is run."""
        resolved = self._resolved()
        own = self._variables(started.session, resolved)
        self._surroundings = self._capture_surroundings(
            started, resolved, _touch(own.messages_file)
        )
        kept = (started.base,) if started.base is not None else ()
        facts = AttemptFacts(
            exit=Exit(code=0),  # as that of an action that had nothing to do
            all_values_kept=self._context.step.space.chunk is not None,
            point=self._order.base,
        )
        return self._judge(facts, Declared(saved=kept))

    def _judge(self, facts: AttemptFacts, declared: Declared | None = None) -> Outcome:
        """The outcome; what would have succeeded delivers its files first, where that is wanted."""
        outcome = judge(facts)
        if outcome.state is not AttemptState.SUCCEEDED or self._context.deliver is None:
            return outcome
        if declared is None:
            assert self.saves is not None
            declared = self.saves.declared()
        return judge(replace(facts, undelivered=self._deliver(self._context.deliver, declared)))

    def _deliver(self, opener: Opener, declared: Declared) -> Undelivered | None:
        """Bring the files to where they are to be; None: they are there, or there are none."""
        if declared.is_nothing:
            return None
        surroundings = self._surroundings
        assert surroundings is not None
        order = DeliveryOrder(
            lineage=self.lineage,
            attempt=self._order.attempt,
            gather=lambda: self._store.gather_output(declared, surroundings),
            roots=self._store.roots(surroundings.session_dir),
            resolved=self._resolved(),
            told=lambda text: self._record.note("delivery", text),
            warned=lambda text: self._record.note("undelivered", text),
            keep=lambda: self._keep_output(declared),
        )
        self._deliverer = deliverer = Deliverer(self._context, opener, order)
        if self._is_held:  # since before there was anything to hold
            deliverer.hold()
        return deliverer.run()

    def _keep_output(self, declared: Declared) -> int | None:
        """The checkpoint that keeps the files of a task whose work is done; None: there is none."""
        if self.saves is None:  # nothing was run: they come from there
            return self._order.base
        surroundings = self._surroundings
        assert surroundings is not None
        if declared.refused:
            return None
        return self.saves.keep_output(self._store.output(declared, surroundings.session_dir))

    def _run_action(self, started: Started) -> ActionResult:
        session = started.session
        resolved = self._resolved()
        restored = started.restored if self._order.is_resume else None
        variables = self._variables(session, resolved, restored)
        # By the clock that stamps files: whatever the task writes is not older.
        began_at_ns = _touch(variables.messages_file)
        self.saves = saves = Saves(
            self._committing(started, resolved, began_at_ns), self._context.clock
        )
        if started.base is not None:
            saves.prepare()
        hearing = Hearing(self._messages(), saves.hear)
        step, symbols = self._context.step, self._context.step.symbols
        script = step.run_script
        if self._order.is_resume:
            script = step.resume_script
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
                environment={
                    **mpi_variables(self._context.environment, variables.notice_seconds),
                    **variables.to_environment(),
                },
                hearing=hearing,
                messages_file=MessagesFile(variables.messages_file, hearing, self._context.watch),
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

    def _capture_surroundings(
        self, started: Started, resolved: ResolvedAction, began_at_ns: int
    ) -> CaptureSurroundings:
        return CaptureSurroundings(
            session_dir=started.session.working_directory,
            base=started.base,
            began_at_ns=began_at_ns,
            freezer=self._frozen,
            pids=lambda: self.tree.pids() if self.tree is not None else (),
            is_made_anew=started.session.is_own,
            told=lambda text: self._record.note("save", text),
            freeze_limit_seconds=_freeze_limit(resolved),
        )

    def _committing(
        self, started: Started, resolved: ResolvedAction, began_at_ns: int
    ) -> Committing:
        session_dir = started.session.working_directory
        surroundings = self._capture_surroundings(started, resolved, began_at_ns)
        self._surroundings = surroundings
        return Committing(
            capture=lambda: self._store.capture(surroundings),
            put=self._store.put,
            note=self._record.append,
            make_room=lambda manifest: self._store.prune(is_full=True, in_flight=manifest),
            declare=lambda dataset: self._store.declare(dataset, session_dir),
            before_capture=self._store.before_capture,
            after_commit=self._committed,
            lost=self._lost,
            session_dir=session_dir,
            values=self._order.values,
            base=started.base,
            has_kept=bool(self._order.kept),
            drainer=self._store.drainer(),
            in_flight=self._store.in_flight,
            hasher=lambda done: self._store.hasher(session_dir, done),
            put_digests=self._store.put_digests,
        )

    def _variables(
        self, session: Workspace, resolved: ResolvedAction, restored: Restored | None = None
    ) -> AttemptVariables:
        folder = session.working_directory
        own = folder / _OWN_FOLDER
        own.mkdir(mode=0o700, exist_ok=True)
        (folder / COMMIT_FILE).unlink(missing_ok=True)
        checkpoints = folder / _CHECKPOINTS
        checkpoints.mkdir(mode=0o700, exist_ok=True)
        options = self._context.document.options
        suspend = resolved.suspend
        period = suspend.notify_period if isinstance(suspend, NotifyThenTerminate) else timedelta()
        return AttemptVariables(
            job=self._context.job_id,
            step=self._context.step.name,
            task=self.lineage.task,
            attempt=self._order.attempt,
            resumed_from=self._order.base if self._order.is_resume else None,
            state=(restored.state or "") if restored is not None else "",
            file=str(restored.file or "") if restored is not None else "",
            checkpoint_dir=checkpoints,
            commit_file=folder / COMMIT_FILE,
            messages_file=own / _MESSAGES,
            notice_seconds=int(period.total_seconds()),
            interval_seconds=options.save_every_seconds or DEFAULT_INTERVAL_SECONDS,
            save_signal=options.save_signal,
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
        tree.hold(Hold.SAVING)
        try:
            yield
        finally:
            tree.release(Hold.SAVING)

    def _on_notice(self, target: SignalTarget) -> None:
        """A signal is about to be sent; from now on a save answers it."""
        assert self.saves is not None
        self.saves.notice_is_sent()
        self._signal_name = target.signal.name
        self._record.note("notice", f"{target.signal.name} was sent to {target.description}")
        if not target.caught:
            self._record.note("notice", f"{target.description} does not catch it")

    def _on_stop(self, stop: Stop, interrupt: Interrupt) -> None:
        if self._stop is None or stop.intent is Intent.CANCEL:
            self._stop = stop
        if interrupt.signal is not None:
            self._record.note("notice", f"{stop.intent.value} asked by the {stop.by}")

    def _capturing(self) -> Capturing:
        if self.saves is None:
            return Capturing()
        facts = self.saves.facts
        learned = facts.learned_seconds
        return Capturing(
            learned=timedelta(seconds=learned) if learned is not None else None,
            declared_bytes=facts.declared_bytes,
            bandwidth_bytes_per_second=facts.bytes_per_second,
        )

    def _finish_captures(self, facts: Facts) -> None:
        """Drop what waits where the work is done anyway, or abandoned.

        What is still to be delivered may fail there, and goes on from the last save then.
        """
        assert self.saves is not None
        is_done = facts.exit_code == 0 and facts.intent is None and self._context.deliver is None
        self.saves.finish(drop=is_done or facts.intent is Intent.CANCEL)

    def _committed(self, sequence: int, manifest: Manifest) -> None:
        self._store.remember(sequence, manifest)
        self._store.prune()
        self._tell_forecast(manifest)
        self._after_commit(sequence)

    def _tell_forecast(self, manifest: Manifest) -> None:
        """Once a launch, after the first save of a task that began at its beginning."""
        if "space" in self._context.told or self._order.base is not None:
            return
        self._context.told.add("space")
        after = timedelta(seconds=self._context.clock.monotonic() - self._began)
        for text in self._store.forecast(manifest, after, self._context.step.space.len or 1):
            self._record.note("space", text)

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
        board = self._context.board
        stop = self._stop or board.stops_task(self.lineage.step, self.lineage.task)
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
        lost = self._context.steps.lost() if code is not None else ""
        return AttemptFacts(
            cancel_asked=facts.intent is Intent.CANCEL,
            not_started=not_started,
            exit=None if code is None or lost else _exit(code),
            lost=lost,
            out_of_memory=out_of_memory if code not in (0, None) else None,
            timed_out_seconds=timeout.total_seconds() if timeout is not None else None,
            all_values_kept=self._order.values is not None and done >= set(self._order.values),
            notice=_notice(facts, self._signal_name),
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


def _clear(folder: Path) -> None:
    """Remove what is in a folder; most often nothing is, and then it stays as it is."""
    if folder.is_symlink():
        folder.unlink(missing_ok=True)
        return
    try:
        with os.scandir(folder) as entries:
            is_empty = next(entries, None) is None
    except FileNotFoundError:
        return
    except NotADirectoryError:
        folder.unlink(missing_ok=True)
        return
    if not is_empty:
        shutil.rmtree(folder, ignore_errors=True)


def _touch(path: Path) -> int:
    """When a file of the session folder was written just now, by its file system."""
    path.touch(mode=0o600)
    return path.lstat().st_ctime_ns


def _freeze_limit(resolved: ResolvedAction) -> float:
    """How long the task may stand still for a save: a notice must not find it so for long."""
    match resolved.suspend:
        case NotifyThenTerminate(notify_period=period):
            return min(_LONGEST_FREEZE_SECONDS, period.total_seconds() / 4)
        case Terminate():
            return _LONGEST_FREEZE_SECONDS


def _exit(code: int) -> Exit:
    return Exit(signal=-code) if code < 0 else Exit(code=code)


def _notice(facts: Facts, signal_name: str) -> Notice | None:
    """The notice, where a suspension was asked for."""
    if facts.intent is not Intent.SUSPEND:
        return None
    return Notice(
        by=By(facts.by),
        sent_before_exit=facts.notice_sent,
        signal_caught=facts.signal_caught,
        signal_name=signal_name,
    )
