"""One step of a job as its shares, journals and lineages tell it, kept up as they are read on.

Theory of operation. Tasks that succeeded in their share are only counted (by key), so that a job
of 100,000 tasks stays small. A lineage becomes *watched* when something about it has to be decided:
its attempt ended otherwise than well, its launch ended before it, a claim split it off another one,
or a person selected it. Only watched lineages' logs are read, and only when something new was said
about them.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from perdure.clock import from_text
from perdure.journal.account import AttemptAccount
from perdure.policy.memory_growth import memory_ends
from perdure.policy.outcome import AttemptState
from perdure.policy.resuming import Start
from perdure.policy.snapshot import PendingLineage
from perdure.policy.states import Counts, State, Status, count, task_status, waiting_status
from perdure.policy.stops import Scope, Stops
from perdure.store.layout import LaunchId, StepKey, TaskKey
from perdure.store.records.job_log import TaskRef
from perdure.store.records.lineage import Lineage
from perdure.store.records.log import Log
from perdure.template.outline import StepOutline
from perdure.template.space import TaskParameters, task_key
from perdure.worker.claiming import LineageView
from perdure.worker.deciding import (
    Decision,
    StepRules,
    current_values,
    decide,
    history,
    resumed,
)
from perdure.worker.job_records import JobRecords, LineageId, Share
from perdure.worker.shares import next_share, tasks_of


class Watched(Struct):
    """A lineage that something has to be decided about.

    Attributes:
        log: of the lineage.
        view: as last read; None before that.
        decision: where it goes on from.
        is_running: an attempt of it is under way.
        last: how its last attempt ended.
        ended_at: when, for the back-off.
    """

    ref: TaskRef
    log: Log
    view: LineageView | None = None
    decision: Decision | None = None
    is_running: bool = False
    last: AttemptState | None = None
    ended_at: str = ""
    is_stale: bool = True


class StepView(Struct):
    """The view of one step.

    Attributes:
        limit: how many of its tasks are run; None: all.
        only: the tasks that a person selected; None: all. They are claimed, not shared.
        succeeded: keys of tasks that succeeded in their share.
        running: keys of tasks whose first attempt is under way, by their launch.
        watched: lineages that something has to be decided about.
    """

    step: StepOutline
    rules: StepRules
    records: JobRecords
    limit: int | None = None
    only: tuple[TaskRef, ...] | None = None
    succeeded: set[TaskKey] = field(default_factory=set)
    running: dict[TaskKey, LaunchId] = field(default_factory=dict)
    watched: dict[TaskKey, Watched] = field(default_factory=dict)
    _swept: set[tuple[int, LaunchId]] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Watch what a person selected."""
        for ref in self.only or ():
            self.watch(ref)

    @property
    def key(self) -> StepKey:
        """The step's key."""
        return StepKey(self.step.index)

    def note_begun(self, task: TaskKey, launch: LaunchId, fields: Mapping[str, Any]) -> None:
        """An attempt is under way."""
        if task in self.watched:
            self.watched[task].is_stale = True
        elif self._is_first(task, fields):
            self.running[task] = launch
        else:
            self._watch_by(task, fields.get("values"))

    def note_outcome(
        self, task: TaskKey, fields: Mapping[str, Any], account: AttemptAccount
    ) -> None:
        """An attempt ended."""
        self.running.pop(task, None)
        begun = account.begun or {}
        if task in self.watched:
            self.watched[task].is_stale = True
        elif fields["state"] == AttemptState.SUCCEEDED.value and self._is_first(
            task, {**begun, **fields}
        ):
            self.succeeded.add(task)
        else:
            self._watch_by(task, begun.get("values"))

    def _is_first(self, task: TaskKey, fields: Mapping[str, Any]) -> bool:
        """Whether it is an attempt at the whole task from the beginning: it is only counted.

        Whatever else has claims in a log, where pieces may be split off.
        """
        if int(fields["attempt"]) != 1 or fields.get("base") is not None:
            return False
        return self.step.space.chunk is None or _is_named_by(task, fields.get("values"))

    def _watch_by(self, task: TaskKey, values: Mapping[str, str] | None) -> None:
        """Watch a lineage that a journal names, by the values of one of its attempts.

        An attempt at what remains of a chunk has other values than those that the lineage is known
        by. What no share took is a piece of another lineage, whose log names it.
        """
        if _is_named_by(task, values):
            self.watch(self.ref_of(task, values))
            return
        for share in self.records.shares_read(self.key):
            for ref, _ in tasks_of(share, self.step.space):
                if ref.task == task:
                    self.watch(ref)
                    return

    def note_change(self, task: TaskKey) -> None:
        """Something else was said about a lineage."""
        if task in self.watched:
            self.watched[task].is_stale = True

    def note_resume(self, scope: Scope) -> None:
        """A person resumed what the scope covers."""
        for task, watched in self.watched.items():
            watched.is_stale = watched.is_stale or scope.covers(Scope(self.key, task))

    def ref_of(self, task: TaskKey, values: Mapping[str, str] | None) -> TaskRef:
        """The reference of a task by the values that its journal names."""
        space = self.step.space
        index = None if space.is_adaptive else space.find(values or {})
        if index is not None:
            return TaskRef(task=task, index=index)
        return TaskRef(task=task, values=dict(values or {}))

    def watch(self, ref: TaskRef) -> Watched:
        """Watch a lineage from now on."""
        known = self.watched.get(ref.task)
        if known is None:
            self.succeeded.discard(ref.task)
            self.running.pop(ref.task, None)
            log = self.records.lineage_log(LineageId(step=self.key, task=ref.task))
            known = self.watched[ref.task] = Watched(ref=ref, log=log)
        return known

    def sweep(self, ended: Callable[[LaunchId], bool]) -> None:
        """Watch what launches left behind that have ended: begun or not, without an outcome."""
        for share in self.records.shares_read(self.key):
            mark = (share.number, share.launch)
            if mark in self._swept or not ended(share.launch):
                continue
            self._swept.add(mark)
            for ref, _ in tasks_of(share, self.step.space):
                if ref.task not in self.succeeded and ref.task not in self.watched:
                    self.watch(ref)

    def read_watched(self, ended: Callable[[LaunchId], bool]) -> None:
        """Read the logs of watched lineages of which something new was said.

        A claim that is read may name pieces that it split off: these are watched, and read, too.
        """
        for watched in self.watched.values():
            watched.is_stale = watched.is_stale or watched.is_running
        while stale := [watched for watched in self.watched.values() if watched.is_stale]:
            for watched in stale:
                self._read(watched, ended)

    def _read(self, watched: Watched, ended: Callable[[LaunchId], bool]) -> None:
        watched.log.read()
        share = self.records.share_of(self.key, watched.ref)
        lineage = self.records.fold(watched.log, share=share)
        lineage_id = LineageId(step=self.key, task=watched.ref.task)
        # Nothing is read past `JobView._fold`, which has to see every record.
        past = self.records.known_past_claims(lineage_id, lineage.claims)
        watched.view = LineageView(lineage=lineage, past=past)
        watched.is_running = any(
            not p.is_ended and not ended(p.claim.launch) and p.claim.number >= 0 for p in past
        )
        if past and not watched.is_running and not watched.log.last and watched.log.look_beyond():
            self._read(watched, ended)  # what nobody works on has no record that comes late
            return
        over = [p.account for p in past if p.account.outcome is not None]
        if over:
            last = over[-1]
            assert last.outcome is not None
            watched.last = AttemptState(last.outcome["state"])
            watched.ended_at = str(last.outcome.get("at", ""))
        watched.decision = self._decide(watched.ref, watched.view)
        watched.is_stale = False
        for claim in lineage.claims:
            for piece in claim.split:
                key = TaskKey(task_key(dict(piece)))
                self.watch(TaskRef(task=key, values=dict(piece)))

    def _decide(self, ref: TaskRef, view: LineageView) -> Decision:
        return decide(view, self.rules, self._values(ref, view.lineage))

    def _values(self, ref: TaskRef, lineage: Lineage) -> tuple[int, ...] | None:
        space = self.step.space
        if space.chunk is None:
            return None
        return space.chunk_values(current_values(lineage) or self.texts(ref))

    def glance(self, ref: TaskRef, log: Log, lineage: Lineage) -> Watched:
        """A lineage as it is now, without watching it: its first attempt needs no decision yet."""
        known = self.watched.get(ref.task)
        if known is not None:
            return known
        of = LineageId(step=self.key, task=ref.task)
        view = LineageView(lineage=lineage, past=self.records.known_past_claims(of, lineage.claims))
        return Watched(
            ref=ref,
            log=log,
            view=view,
            decision=self._decide(ref, view),
            is_running=ref.task in self.running,
        )

    def resumed(self, watched: Watched) -> LineageView:
        """The lineage as a person's resume leaves it; its own view where that forgets nothing."""
        assert watched.view is not None
        assert watched.decision is not None
        if watched.is_running:
            return watched.view
        return resumed(watched.view, watched.decision, self.rules)

    def resumed_base(self, watched: Watched) -> int | None:
        """The checkpoint that it goes on from when a person resumes it now."""
        decision = self._decide(watched.ref, self.resumed(watched))
        return decision.answer.base if isinstance(decision.answer, Start) else None

    def next_base(self, watched: Watched, stops: Stops) -> int | None:
        """The checkpoint that its next attempt starts from; None: the beginning, or there is none.

        What waits for a person starts when that person resumes it.
        """
        match self.status(watched, stops).state:
            case State.SUCCEEDED | State.CANCELED:
                return None
            case State.SUSPENDED | State.FAILED:
                return self.resumed_base(watched)
            case _:
                assert watched.decision is not None
                answer = watched.decision.answer
                return answer.base if isinstance(answer, Start) else None

    def texts(self, ref: TaskRef) -> dict[str, str]:
        """The parameter values of a lineage as it was first formed."""
        return self.parameters(ref).texts()

    def parameters(self, ref: TaskRef) -> TaskParameters:
        """The same, typed."""
        if ref.index is not None:
            return self.step.space.task(ref.index)
        return self.step.space.typed(ref.values or {})

    def total(self) -> int:
        """Tasks that no share has taken yet included; of adaptive chunks one that is not formed."""
        return self.taken() + self.unshared() + self._pieces()

    def taken(self) -> int:
        """Tasks in shares."""
        shares = self.records.shares_read(self.key)
        return sum(_size(share) for share in shares)

    def unshared(self) -> int:
        """Tasks that no share has taken; with adaptive chunking 1 while values are left."""
        if self.only is not None:
            return 0
        shares = self.records.shares_read(self.key)
        space = self.step.space
        if space.is_adaptive:
            more = next_share(space, shares, limit=self.limit, size=lambda n: n, count=lambda: 1)
            return 0 if more is None else 1
        total = space.len or 0
        total = total if self.limit is None else min(total, self.limit)
        return max(0, total - self.taken())

    def _pieces(self) -> int:
        """Lineages that were split off others."""
        return sum(
            self.records.share_of(self.key, watched.ref) is None
            for watched in self.watched.values()
            if watched.ref.index is None or self.only is not None
        )

    def status(self, watched: Watched, stops: Stops) -> Status:
        """The status of a watched lineage."""
        assert watched.decision is not None
        return task_status(
            is_running=watched.is_running,
            last=watched.last,
            decision=watched.decision.answer,
            stop=stops.stopped(Scope(self.key, watched.ref.task)),
        )

    def is_at_work(self, scope: Scope) -> bool:
        """Whether an attempt that the scope covers is under way."""
        running = [task for task, watched in self.watched.items() if watched.is_running]
        return any(scope.covers(Scope(self.key, task)) for task in (*self.running, *running))

    def last_held_by(self, launch: LaunchId, stops: Stops) -> tuple[TaskKey, ...]:
        """Tasks that are to go on, and that this launch was the last one to hold."""
        return tuple(
            task
            for task, watched in self.watched.items()
            if watched.view is not None
            and watched.view.past
            and watched.view.past[-1].claim.launch == launch
            and self.status(watched, stops).state is State.PENDING
        )

    def counts(self, stops: Stops) -> Counts:
        """How many tasks are in which state."""
        statuses = [self.status(watched, stops) for watched in self.watched.values()]
        counted = count(statuses)
        waiting = self.total() - len(self.watched) - len(self.succeeded) - len(self.running)
        state = waiting_status(stops.stopped(Scope(self.key))).state
        return _add(counted, state, waiting, len(self.succeeded), len(self.running))

    def pending(self, stops: Stops, now: float) -> tuple[PendingLineage, ...]:
        """Lineages with an attempt to start; ``now`` is the wall clock's, in seconds."""
        found: list[PendingLineage] = []
        for task, watched in self.watched.items():
            decision = watched.decision
            if decision is None or not isinstance(decision.answer, Start):
                continue
            if self.status(watched, stops).state is not State.PENDING:
                continue
            wait = 0.0
            if watched.ended_at:
                since = now - from_text(watched.ended_at).timestamp()
                wait = max(0.0, decision.answer.wait_seconds - max(0.0, since))
            ends = self._memory_ends(watched)
            found.append(PendingLineage(task=task, wait_seconds=wait, memory_ends=ends))
        return tuple(found)

    def _memory_ends(self, watched: Watched) -> int:
        killed = self.records.state.out_of_memory
        return 0 if watched.view is None else memory_ends(history(watched.view), killed)


def _is_named_by(task: TaskKey, values: Mapping[str, str] | None) -> bool:
    """Whether these are the values that a lineage is known by."""
    return task == TaskKey(task_key(dict(values or {})))


def _size(share: Share) -> int:
    return sum(last - first + 1 for first, last in share.ranges) + len(share.values)


def _add(counted: Counts, state: State, waiting: int, succeeded: int, running: int) -> Counts:
    """The counts with the tasks that are only counted."""
    more = dict.fromkeys(State, 0)
    more[state] += max(0, waiting)
    more[State.SUCCEEDED] += succeeded
    more[State.RUNNING] += running
    return Counts(
        pending=counted.pending + more[State.PENDING],
        running=counted.running + more[State.RUNNING],
        suspended=counted.suspended + more[State.SUSPENDED],
        succeeded=counted.succeeded + more[State.SUCCEEDED],
        failed=counted.failed + more[State.FAILED],
        canceled=counted.canceled + more[State.CANCELED],
        held=counted.held,
    )
