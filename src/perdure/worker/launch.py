"""One launch: what a worker does from its start to its end.

It opens its journal, says that it started (appended against the stops that it read), takes the
lineages that its intent names, then shares of its step until there are none, and closes its
journal: with that everything that it ever held is released.

Source: docs/journal-format.md; design 4, 6.
"""

import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from perdure.clock import to_text
from perdure.errors import PerdureError
from perdure.journal.heartbeat import Heartbeat, Stillness, shortened
from perdure.journal.journal_format import FORMAT, Kind
from perdure.policy.launching import share_size
from perdure.policy.outcome import AttemptState, Outcome
from perdure.policy.resuming import Failed, Finished, Start
from perdure.policy.resuming import Held as PolicyHeld
from perdure.policy.stops import Scope
from perdure.store import layout
from perdure.store.files.outside_decision import Window
from perdure.store.layout import LaunchId, StepKey, TaskKey
from perdure.store.manifests.manifest import Kept
from perdure.store.records.job_log import LaunchIntent, TaskRef
from perdure.store.records.lineage import SHARE, Claim, share_claim
from perdure.store.records.log import Log
from perdure.template import TaskParameters
from perdure.worker.attempt_record import AttemptOrder
from perdure.worker.claiming import (
    Busy,
    Claimant,
    ClaimPlan,
    Held,
    Identity,
    Left,
    LineageView,
)
from perdure.worker.context import LaunchContext
from perdure.worker.deciding import Decision, current_values, decide, is_resume
from perdure.worker.declared import DeclaredFile, Neighbours
from perdure.worker.ends import EndsFile
from perdure.worker.host import describe_process, is_gone
from perdure.worker.job_records import JobRecords, LineageId, Share
from perdure.worker.leftovers import end_leftovers, left_here
from perdure.worker.notices import Source
from perdure.worker.pace import Pace
from perdure.worker.pack_ages import max_pack_age_of
from perdure.worker.pruning import retention_of
from perdure.worker.rules import rules_of
from perdure.worker.save_facts import STATUS_LIMIT
from perdure.worker.sessions import StepSessions
from perdure.worker.shares import next_share, tasks_of
from perdure.worker.task_attempt import TaskAttempt
from perdure.worker.task_roots import outside_roots
from perdure.worker.task_store import TaskStore, TaskStorePlan
from perdure.worker.ticker import Ticker, TickerParts, fold_wishes
from perdure.worker.windows import windows

_FILES = {"managed": Kept.BYTES, "shared": Kept.RECORD, "adopt": Kept.ADOPTED}


class Wiring(Struct, frozen=True, kw_only=True):
    """What the worker's entry decides for the launch.

    Attributes:
        pause: waits before the how-manieth try of an uncertain put.
        notices: the host's notices, or None.
        after_commit: called with step, task and sequence of each commit (hooks).
        about: what the heartbeat says besides; called every few seconds, never blocks.
    """

    pause: Callable[[int], None]
    notices: Source | None = None
    after_commit: Callable[[StepKey, TaskKey, int], None] = lambda _step, _task, _sequence: None
    about: Callable[[], Mapping[str, object]] = dict


class Launch:
    """Runs one launch; used once.

    Args:
        context: what all parts share.
        records: the view of the job, as far as it was read; for the thread of `run` alone.
        wiring: see there.
    """

    def __init__(self, context: LaunchContext, records: JobRecords, wiring: Wiring) -> None:
        self._context = context
        self._wiring = wiring
        self._records = records
        self._step = StepKey(context.step.index)
        self._sessions = StepSessions(context)
        self._ends = EndsFile(context.driver, layout.ends(context.job_id, context.launch))
        self._declared = DeclaredFile(
            context.driver, layout.declared(context.job_id, context.launch)
        )
        self._neighbours = Neighbours(context.driver, context.job_id, context.launch)
        self._rules = rules_of(context.step, context.document.options)
        self._pace = Pace()
        self._outside = tuple(
            root
            for root in outside_roots(context.document, context.job)
            if root not in context.unshared
        )
        self._running: TaskAttempt | None = None
        self._lock = threading.Lock()
        self._claimant = Claimant(
            self._records,
            Identity(launch=context.launch, token=context.token),
            stillness=Stillness(context.clock, context.document.options.heartbeat_seconds),
            is_gone=is_gone,
            is_stopped=self._is_stopped,
        )

    def run(self) -> None:
        """Work until nothing is left to take, or a stop covers the launch. Blocks."""
        process = describe_process(os.getpid())
        self._open_journal(process)
        ticker = self._ticker()
        ticker.start()
        trouble: dict[str, str] = {}
        try:
            if self._claimant.start(process) is None:
                sessions = self._context.session_root.parent
                self._end_leftovers(left_here(self._records.state, sessions))
                self._work(self._intent())
        except Exception as error:
            trouble["trouble"] = str(error) or type(error).__name__
            raise
        finally:
            self._sessions.close()
            ticker.stop()
            self._context.journal.append(Kind.CLOSED, trouble, durable=True)

    def _work(self, intent: LaunchIntent) -> None:
        for ref in intent.tasks:
            if not self._may_go_on():
                return
            self._take(ref)
        if intent.shares:
            for share in self._shares():
                for ref, parameters in tasks_of(share, self._context.step.space):
                    if not self._may_go_on():
                        return
                    self._first_attempt(share, ref, parameters)

    def _may_go_on(self) -> bool:
        """Looked at before each attempt: stops, and whether this launch was sealed."""
        if self._context.board.stops_all(self._step) is not None:
            return False
        with suppress(PerdureError):  # a store out of reach stops no task; commits will say so
            self._records.refresh()
        return self._claimant.reason_to_leave() is None

    def _shares(self) -> Iterator[Share]:
        """Take shares until none is left."""
        step = self._context.step
        workers = max(1, self._context.document.options.workers)
        while self._may_go_on():
            shares = self._records.shares(self._step)
            fields = next_share(
                step.space,
                shares,
                limit=self._limit(),
                size=lambda remaining: share_size(remaining, workers),
                count=self._adaptive_count,
            )
            if fields is None:
                return
            if self._records.take_share(self._step, {"launch": self._context.launch, **fields}):
                yield self._records.shares_read(self._step)[-1]

    def _limit(self) -> int | None:
        """How many tasks of this step the job selects, or None for all."""
        selection = self._context.document.selection
        if selection.step is None or selection.step != self._context.step.name:
            return None
        return selection.maximum_tasks

    def _first_attempt(self, share: Share, ref: TaskRef, parameters: TaskParameters) -> None:
        """Run a task that the share claims: it touches no log of its own unless it saves.

        Where there is a log already a person chose a checkpoint for it before it was ever run.
        """
        if self._context.board.stops_task(self._step, ref.task) is not None:
            return
        claim = share_claim(self._context.launch, share.at)
        space = self._context.step.space
        values = space.chunk_values(parameters) if space.chunk is not None else None
        log = self._records.lineage_log(LineageId(step=self._step, task=ref.task))
        if log.read():
            self._take(ref)
            return
        order = AttemptOrder(
            lineage=LineageId(step=self._step, task=ref.task),
            parameters=parameters,
            attempt=claim.attempt,
            values=values,
        )
        self._attempt(order, claim, claim, log, ())

    def _take(self, ref: TaskRef) -> None:
        """Claim a lineage that exists, and run its next attempt."""
        decided: list[Decision] = []
        parameters = self._parameters(ref)

        def choose(view: LineageView) -> ClaimPlan | Left:
            decided.append(decide(view, self._rules, self._values(view, parameters)))
            return self._plan(decided[-1], parameters)

        while True:
            if self._context.board.stops_task(self._step, ref.task) is not None:
                return
            taken = self._claimant.take(ref, self._step, choose)
            match taken:
                case Busy(is_alive=True):
                    return  # its owner is at work
                case Busy(seconds=seconds):
                    if not self._wait(seconds):
                        return
                case Left(claim=claim):
                    self._release(ref, claim)
                    return
                case Held():
                    self._run_held(ref, taken, decided[-1], parameters)
                    return

    def _run_held(
        self, ref: TaskRef, held: Held, decision: Decision, parameters: TaskParameters
    ) -> None:
        lineage_id = LineageId(step=self._step, task=ref.task)
        start = decision.answer
        assert isinstance(start, Start)
        for past in held.view.past:
            while past.claim.launch in held.waits_for and not self._claimant.is_quiet(
                lineage_id, past.claim
            ):
                if not self._wait(1.0):
                    self._release(ref, held.claim)
                    return
            self._end_leftovers([past.claim.launch])
        if held.claim.values is not None:
            parameters = self._context.step.space.typed(held.claim.values)
        order = AttemptOrder(
            lineage=lineage_id,
            parameters=parameters,
            attempt=held.claim.attempt,
            is_resume=is_resume(start),
            base=held.claim.base,
            values=start.values,
            kept=decision.kept,
            notes=start.notes,
        )
        share = next((p.claim for p in held.view.past if p.claim.number == SHARE), None)
        self._attempt(order, held.claim, share, held.log, windows(held.view, self._sealed_at))

    def _sealed_at(self, launch: LaunchId) -> str:
        number = self._records.state.seals.get(launch)
        if number is None:
            return ""
        return str(self._records.log.entries[number - 1].header.get("at", ""))

    def _attempt(
        self,
        order: AttemptOrder,
        claim: Claim,
        share: Claim | None,
        log: Log,
        ran: tuple[Window, ...],
    ) -> None:
        context = self._context
        options = context.document.options
        store = TaskStore(
            TaskStorePlan(
                driver=context.driver,
                job=context.job_id,
                lineage=order.lineage,
                launch=context.launch,
                claim=claim,
                share=share,
                log=log,
                clock=context.clock,
                declared=self._declared,
                neighbours=self._neighbours,
                over=frozenset(self._records.state.fences),
                windows=ran,
                outside=self._outside,
                append_globs=options.append,
                files=_FILES[options.files],
                choice=self._records.state.on_conflict or options.on_conflict,
                retention=retention_of(options),
                max_pack_age=max_pack_age_of(options),
                workers=options.workers,
                sealing=context.sealing,
                tier=context.tier,
            )
        )
        attempt = TaskAttempt(
            context,
            self._sessions,
            store,
            order,
            after_commit=lambda n: self._wiring.after_commit(self._step, order.lineage.task, n),
            running=self._set_running,
        )
        started = context.clock.monotonic()
        outcome = attempt.run()
        if order.values is not None and outcome.state is AttemptState.SUCCEEDED:
            self._pace.learn(len(order.values), context.clock.monotonic() - started)
        self._finish(order, outcome)

    def _finish(self, order: AttemptOrder, outcome: Outcome) -> None:
        """A session in which something did not succeed is closed; the log's end is kept."""
        if outcome.state is not AttemptState.SUCCEEDED:
            self._sessions.close()
            with suppress(PerdureError):
                self._ends.add(
                    order.lineage.step,
                    order.lineage.task,
                    order.attempt,
                    self._context.log.end_of_attempt(),
                )

    def _plan(self, decision: Decision, parameters: TaskParameters) -> ClaimPlan | Left:
        """The claim that policy's answer means."""
        match decision.answer:
            case Start(values=values, split=split):
                space = self._context.step.space
                own = space.chunk_texts(values)[0] if values else None
                pieces = tuple(
                    space.with_chunk(parameters, text).texts()
                    for piece in split
                    for text in space.chunk_texts(piece)
                )
                return ClaimPlan(
                    attempt=decision.attempt,
                    base=decision.restores,
                    values=space.with_chunk(parameters, own).texts() if own is not None else None,
                    split=pieces,
                )
            case PolicyHeld(reason=reason) | Failed(reason=reason) | Finished(reason=reason):
                return Left(reason=reason)

    def _values(self, view: LineageView, parameters: TaskParameters) -> tuple[int, ...] | None:
        space = self._context.step.space
        if space.chunk is None:
            return None
        return space.chunk_values(current_values(view.lineage) or parameters)

    def _parameters(self, ref: TaskRef) -> TaskParameters:
        space = self._context.step.space
        if ref.index is not None:
            return space.task(ref.index)
        return space.typed(ref.values or {})

    def _release(self, ref: TaskRef, claim: Claim | None) -> None:
        """A claim that was put and is not used: nothing of it will ever run."""
        if claim is not None:
            self._context.journal.append(
                Kind.RELEASED,
                {"step": self._step, "task": ref.task, "attempt": claim.attempt},
                durable=True,
            )

    def _end_leftovers(self, launches: Collection[LaunchId]) -> None:
        """What dead launches left on this host is ended before anything new starts."""
        context = self._context
        end_leftovers(
            self._records.state,
            launches,
            context.session_root.parent,
            preserve=context.document.options.preserve,
        )
        if launches:
            context.steps.end_orphans()

    def _wait(self, seconds: float) -> bool:
        """Wait a little for somebody else; False when this launch has to leave."""
        done = threading.Event()
        done.wait(min(seconds, 1.0))
        return self._may_go_on()

    def _is_stopped(self, step: StepKey | None, task: TaskKey | None) -> bool:
        stops = fold_wishes(self._records.state.wishes)
        return stops.stopped(Scope(step=step, task=task)) is not None

    def _intent(self) -> LaunchIntent:
        return self._records.state.launches[self._context.launch]

    def _adaptive_count(self) -> int:
        """How many values the next chunk has, by how long earlier ones took."""
        chunk = self._context.step.space.chunk
        assert chunk is not None
        return self._pace.count(chunk)

    def _open_journal(self, process: Mapping[str, Any]) -> None:
        context = self._context
        context.journal.append(
            Kind.OPENED,
            {
                "format": FORMAT,
                "launch": context.launch,
                "token": context.token,
                "step": self._step,
                "at": to_text(context.clock.now()),
                **process,
            },
            durable=True,
        )

    def _ticker(self) -> Ticker:
        context = self._context
        return Ticker(
            TickerParts(
                clock=context.clock,
                launch=context.launch,
                interval_seconds=context.document.options.heartbeat_seconds,
                heartbeat=Heartbeat(
                    context.driver, layout.heartbeat(context.job_id, context.launch)
                ),
                journal=context.journal,
                records=JobRecords(
                    context.driver, context.job_id, clock=context.clock, pause=self._wiring.pause
                ),
                board=context.board,
                about=self._about,
                hold=self._hold,
                resume=self._resume,
                told=self._told,
                ask=self._ask,
                ask_if_due=self._ask_if_due,
                notices=self._wiring.notices,
                look_seconds=context.driver.look_seconds,
            )
        )

    def _set_running(self, attempt: TaskAttempt | None) -> None:
        with self._lock:
            self._running = attempt

    def _about(self) -> dict[str, object]:
        """What the heartbeat says for people."""
        with self._lock:
            running = self._running
        if running is None:
            return {"at": to_text(self._context.clock.now())}
        about: dict[str, object] = {
            "at": to_text(self._context.clock.now()),
            "task": running.lineage.task,
            **self._wiring.about(),
        }
        saves = running.saves
        if saves is not None:
            about |= {"progress": saves.facts.progress, "status": saves.facts.status[:STATUS_LIMIT]}
            about["torn"] = saves.facts.torn
            about |= saves.local()
        trouble = self._context.journal.trouble
        if trouble is not None:
            about["trouble"] = shortened(trouble.message)
        return about

    def _hold(self) -> None:
        with self._lock:
            running = self._running
        if running is not None:
            running.hold()

    def _resume(self) -> None:
        with self._lock:
            running = self._running
        if running is not None:
            running.release()

    def _ask(self, scope: Scope) -> None:
        with self._lock:
            running = self._running
        if running is not None and scope.covers(Scope(self._step, running.lineage.task)):
            running.ask_save()

    def _ask_if_due(self) -> None:
        with self._lock:
            running = self._running
        if running is not None:
            running.ask_if_due()

    def _told(self, text: str) -> None:
        self._context.log.say(f"perdure: {text}")
