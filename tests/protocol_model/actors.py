"""The actors: the worker's real claiming, logs, journal and decisions, around a task that is none.

A worker runs the values of a chunk one after the other: before each it looks at its ticks (`tick`:
whether it was frozen; then it reads the job's log as the ticker does), then it "runs" the value,
saves where the scenario says so, and keeps it. When it is done it stays alive and idle, as a
launch that goes on with other tasks does.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from perdure.errors import StoreUnavailable
from perdure.journal.journal_format import Kind
from perdure.journal.writer import JournalWriter
from perdure.policy.resuming import Start
from perdure.policy.stops import Scope
from perdure.store import layout
from perdure.store.layout import JobId, LaunchId, StepKey, TaskKey
from perdure.store.records.job_log import JobLogState, TaskRef
from perdure.store.records.lineage import Claim, Lineage, Save, fold_lineage, share_claim
from perdure.store.records.log import Entry, Log, Refused
from perdure.worker.claiming import (
    Busy,
    Claimant,
    ClaimPlan,
    Held,
    Housekeeping,
    Identity,
    Left,
    LineageView,
    append_as_owner,
    is_still_counted,
)
from perdure.worker.deciding import Decision, StepRules, decide
from perdure.worker.job_records import JobRecords, LineageId
from perdure.worker.ticker import fold_wishes
from protocol_model.replay import World

JOB = JobId("j")
STEP = StepKey(1)
TASK = TaskKey("00000000000000aa")
LINEAGE = LineageId(step=STEP, task=TASK)
#: The author of an intent has seen the share; where the worker does not, it must wait for it.
REF = TaskRef(task=TASK, index=0, share=1)
LOG = layout.lineage_log(JOB, STEP, TASK)
PACKS = layout.packs(JOB, STEP, TASK)
AT = "2026-01-01T00:00:00.000Z"


class StillClock:
    """Time stands still: nothing in the protocol may depend on it."""

    def monotonic(self) -> float:
        return 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


class AskedStillness:
    """Whether a launch stands still is the world's choice, within what is true of it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._counters: dict[str, object] = {}
        self._moved: set[str] = set()

    def observe(self, launch: str, counter: object) -> bool:
        is_still = bool(self._world.ask("judge", launch))
        self._counters[launch] = counter
        if not is_still:
            self._moved.add(launch)
        return is_still

    def counter(self, launch: str) -> object:
        return self._counters.get(launch)

    def has_moved(self, launch: str) -> bool:
        return launch in self._moved

    def seconds_left(self, launch: str) -> float:
        return 0.0


@dataclass(frozen=True)
class Plan:
    """What a worker does.

    Attributes:
        values: of the chunk.
        saves: values after which it saves.
        takes_share: it takes the lineage as a share, else by a claim.
        looks: it reads the job's log before each value, not only after a gap.
        prunes: it lets go of all but its newest checkpoint after each save.
        packs: what it saves lies in packs; of an attempt's saves all but the second rest on the
            pack of its first one, too, while no prune record names it.
        decide: what policy says; another one may fall back to an older checkpoint.
        after: it is launched once this key is there.
        ref: of the lineage, as the intent names it.
    """

    values: tuple[int, ...] = (1, 2)
    saves: frozenset[int] = frozenset({2})
    takes_share: bool = False
    looks: bool = False
    prunes: bool = False
    packs: bool = False
    keeps: bool = True
    decide: Callable[[LineageView], Decision] | None = None
    after: str | None = None
    ref: TaskRef = REF


#: Another way to do something, for the traces: rules that were taken out.
@dataclass
class Parts:
    """What a worker is made of; traces put worse parts in."""

    claimant: type[Claimant] = Claimant
    records: type[JobRecords] = JobRecords
    log: type[Log] = Log
    wakes: Callable[[Log, JobLogState, LaunchId], bool] = is_still_counted
    prune: Callable[["Worker", Log, int], None] | None = None
    choose: Callable[["Worker", LineageView], Decision] | None = None


@dataclass
class Worker:
    """One launch, as a program for `Actor`."""

    plan: Plan = field(default_factory=Plan)
    parts: Parts = field(default_factory=Parts)

    def __call__(self, world: World) -> None:
        self.world = world
        self.launch = LaunchId(world.name)
        self.journal = JournalWriter(world, layout.journal(JOB, self.launch))
        self.records = self.parts.records(world, JOB, clock=StillClock(), pause=lambda _tries: None)
        self.claimant = self.parts.claimant(
            self.records,
            Identity(launch=self.launch, token="t"),
            stillness=AskedStillness(world),
            is_gone=lambda _described: False,
            is_stopped=self.is_stopped,
        )
        if self.plan.after is not None:
            world.ask("until", self.plan.after)
        left = self.claimant.start({})
        if left is not None:
            world.ask("note", "left", left.reason)
            self.journal.append(Kind.CLOSED, {}, durable=True)
            return
        world.ask("note", "started", self.records.log.last)
        if self.plan.takes_share:
            self._share()
        else:
            self._claim()

    def is_stopped(self, step: StepKey | None, task: TaskKey | None) -> bool:
        stops = fold_wishes(self.records.state.wishes)
        return stops.stopped(Scope(step=step, task=task)) is not None

    def decide(self, view: LineageView) -> Decision:
        if self.parts.choose is not None:
            return self.parts.choose(self, view)
        if self.plan.decide is not None:
            return self.plan.decide(view)
        return decide(view, StepRules(is_resumable=True), self.plan.values)

    def _share(self) -> None:
        while not self.records.take_share(STEP, {"launch": self.launch, "tasks": [[0, 0]]}):
            if self.records.shares_read(STEP)[-1].ranges:
                self.world.ask("note", "left", "somebody else took the share")
                return
        log = self._log()
        self._attempt(share_claim(self.launch, AT), log, self.plan.values, None, frozenset())

    def _log(self) -> Log:
        return self.parts.log(self.world, LOG, clock=StillClock(), pause=lambda _tries: None)

    def _claim(self) -> None:
        decided: list[Decision] = []

        def choose(view: LineageView) -> ClaimPlan | Left:
            decision = self.decide(view)
            decided.append(decision)
            if not isinstance(decision.answer, Start):
                return Left(reason=decision.answer.reason)
            return ClaimPlan(attempt=decision.attempt, base=decision.restores)

        try:
            taken = self.claimant.take(self.plan.ref, STEP, choose)
        except StoreUnavailable as error:
            self.world.ask("note", "left", error.message)
            return
        match taken:
            case Busy(launch=launch):
                self.world.ask("note", "busy", launch)
            case Left(reason=reason, claim=claim):
                if claim is not None:
                    self._note(Kind.RELEASED, claim.attempt)
                self.world.ask("note", "left", reason)
            case Held():
                self._held(taken, decided[-1])

    def _held(self, held: Held, decision: Decision) -> None:
        for past in held.view.past:
            if past.claim.launch in held.waits_for:
                name = past.claim.launch
                self.world.ask("until_quiet", name, layout.journal(JOB, LaunchId(name)))
        start = decision.answer
        assert isinstance(start, Start)
        assert start.values is not None
        self._attempt(held.claim, held.log, start.values, decision.restores, decision.kept)

    def _attempt(
        self,
        claim: Claim,
        log: Log,
        values: tuple[int, ...],
        base: int | None,
        kept: frozenset[int],
    ) -> None:
        self._note(Kind.BEGUN, claim.attempt, host=self.launch, action="onRun", at=AT)
        self.world.ask("note", "begun", claim.number, base, tuple(sorted(kept)))
        state = "SUCCEEDED"
        for value in values:
            if not self._may_go_on():
                state = "SUSPENDED"
                break
            self.world.ask("note", "ran", claim.number, value)
            if not self._save_and_keep(claim, log, value, values):
                state = "SUSPENDED"
                break
        self._note(Kind.OUTCOME, claim.attempt, state=state, at=AT, ran=1.0)
        self._note(Kind.RELEASED, claim.attempt)
        self.world.ask("note", "ended", state)

    def _may_go_on(self) -> bool:
        """Rule 7: after a gap it proves that nobody has sealed it; else it may look, or not."""
        gap = self.world.ask("tick", self.launch)
        records = self.records
        if gap:
            self.world.put(layout.heartbeat(JOB, self.launch), b'{"counter":1}', in_place=True)
            if not self.parts.wakes(records.log, records.state, self.launch):
                return False
        if self.plan.looks:
            records.refresh()
        return not (gap or self.plan.looks) or self.claimant.reason_to_leave() is None

    def _save_and_keep(self, claim: Claim, log: Log, value: int, values: tuple[int, ...]) -> bool:
        support = None
        if value in self.plan.saves:
            pack = f"{self.launch}-{claim.attempt}-{value}"
            if self.plan.prunes or self.plan.packs:
                self.world.put(f"{PACKS}/{pack}", b"pack")
            rest = [v for v in values if v > value]
            header = {
                "kind": "save",
                "save": 1,
                "pack": pack,
                "rests": self._rests(claim, log) if self.plan.packs else [],
                "content": pack,
                "first_incomplete": rest[0] if rest else None,
            }
            support = append_as_owner(log, claim.number, header, b"")
            if support is None:
                self.world.ask("note", "lost", claim.number)
                return False
            self.world.ask("note", "acknowledged", support)
            if self.plan.prunes:
                (self.parts.prune or prune)(self, log, claim.number)
        if self.plan.keeps:
            self._note(Kind.KEPT, claim.attempt, durable=True, values=[value], support=support)
        return True

    def _rests(self, claim: Claim, log: Log) -> list[str]:
        """What a capture deduplicates against."""
        saves = [e for e in log.entries if e.kind == "save" and e.header["claim"] == claim.number]
        pruned = {pack for e in log.entries if e.kind == "prune" for pack in e.header["packs"]}
        if len(saves) < 2 or saves[0].header["pack"] in pruned:
            return []
        return [saves[0].header["pack"]]

    def _note(self, kind: Kind, attempt: int, *, durable: bool = False, **fields: Any) -> bool:
        key = {"step": STEP, "task": TASK, "attempt": attempt}
        return self.journal.append(kind, {**key, **fields}, durable=durable)


def prune(worker: Worker, log: Log, claim: int) -> None:
    """Let go of all that may go; the record first, then the data."""
    while True:
        share = share_claim(worker.launch, AT) if claim == 0 else None
        lineage = fold_lineage(log.entries, share=share)
        if lineage.owner is None or lineage.owner.number != claim:
            return
        gone = victims(lineage)
        if not gone:
            return
        record = {"kind": "prune", "claim": claim, "saves": [s.number for s in gone], "packs": []}
        if isinstance(log.append(record), Entry):
            for save in gone:
                worker.world.delete(f"{PACKS}/{save.header['pack']}")
            return


@dataclass
class HouseParts:
    """What a housekeeper is made of; traces put worse parts in."""

    claimant: type[Claimant] = Claimant
    keep: Callable[[Claimant, Callable[[Lineage, Log], bool]], object] | None = None


@dataclass
class Housekeeper:
    """Somebody who prunes a lineage that nobody holds: all but its point."""

    parts: HouseParts = field(default_factory=HouseParts)
    after: str | None = None

    def __call__(self, world: World) -> None:
        if self.after is not None:
            world.ask("until", self.after)
        records = JobRecords(world, JOB, clock=StillClock(), pause=lambda _tries: None)
        claimant = self.parts.claimant(
            records,
            Identity(launch=LaunchId(world.name), token="t"),
            stillness=AskedStillness(world),
            is_gone=lambda _described: False,
            is_stopped=lambda _step, _task: True,
        )
        try:
            if self.parts.keep is not None:
                held = self.parts.keep(claimant, lambda lineage, _log: bool(victims(lineage)))
            else:
                held = claimant.keep_house(
                    replace(REF, share=None),
                    STEP,
                    lambda lineage, _log: bool(victims(lineage)),
                )
        except StoreUnavailable as error:
            world.ask("note", "left", error.message)
            return
        if not isinstance(held, Housekeeping):
            world.ask("note", "kept no house", repr(held))
            return
        self._prune(world, records, held)

    def _prune(self, world: World, records: JobRecords, held: Housekeeping) -> None:
        """The record at the number after the log that was judged by; then the data."""
        while True:
            lineage = records.fold(held.log, share=records.share_of(STEP, REF))
            if lineage.owner is None or lineage.owner.number != held.claim:
                return
            gone = victims(lineage)
            needed = {
                pack
                for save in lineage.saves
                if not save.is_pruned and save not in gone
                for pack in (save.header["pack"], *save.header["rests"])
            }
            packs = sorted({save.header["pack"] for save in gone} - needed)
            record = {"kind": "prune", "claim": held.claim, "saves": [s.number for s in gone]}
            if gone and isinstance(held.log.append({**record, "packs": packs}), Refused):
                continue
            for pack in packs:
                world.delete(f"{PACKS}/{pack}")
            return


def victims(lineage: Lineage) -> list[Save]:
    """All but the point, the bases of the newest claim and branch, and what is gone already."""
    kept = {lineage.point} | {one.base for one in (*lineage.claims[-1:], *lineage.branches[-1:])}
    return [save for save in lineage.saves if save.number not in kept and not save.is_pruned]


@dataclass
class Person:
    """Somebody who suspends, and perhaps resumes, or branches in between.

    Attributes:
        resumes: they resume what they suspended.
        branches: they go on from the beginning: what was saved before is left aside.
    """

    resumes: bool = False
    branches: bool = False
    base: Callable[[LineageView], int | None] = lambda _view: None

    def __call__(self, world: World) -> None:
        self.world = world
        records = JobRecords(world, JOB, clock=StillClock(), pause=lambda _tries: None)
        number = self._wish(records, {"kind": "suspend", "scope": {}, "by": "user"})
        world.ask("note", "suspended", number)
        if self.branches and not self._branch(records):
            return
        if self.resumes:
            records.refresh()
            if records.append({"kind": "resume", "scope": {}, "lifts": number}):
                world.ask("note", "resumed", records.log.last)

    def _wish(self, records: JobRecords, record: dict[str, Any]) -> int:
        while True:
            records.refresh()
            if records.append(record):
                return records.log.last

    def _branch(self, records: JobRecords) -> bool:
        """Wait for the end, then put the branch at one past what was read."""
        claimant = Claimant(
            records,
            Identity(launch=LaunchId(self.world.name), token="t"),
            stillness=AskedStillness(self.world),
            is_gone=lambda _described: False,
            is_stopped=lambda _step, _task: True,
        )
        log = records.lineage_log(LINEAGE)
        while True:
            records.refresh()
            records.shares(STEP)
            view = claimant._view_when_ended(LINEAGE, replace(REF, share=None), log)
            if isinstance(view, Busy):
                self.world.ask("note", "gave up", view.launch)
                return False
            result = log.append({"kind": "branch", "base": self.base(view), "by": "user"})
            if isinstance(result, Entry):
                self.world.ask("note", "branched", result.number)
                return True


@dataclass
class Settler:
    """A turn that settles the job once the task's outcome counts."""

    def __call__(self, world: World) -> None:
        records = JobRecords(world, JOB, clock=StillClock(), pause=lambda _tries: None)
        for _ in range(3):
            records.refresh()
            shares = records.shares(STEP)
            if any(_succeeded(records, share.launch) for share in shares) and records.append(
                {"kind": "settled", "step": None, "state": "SUCCEEDED", "outcomes": {}, "upto": 0}
            ):
                world.ask("note", "settled", records.log.last)
                return


def _succeeded(records: JobRecords, launch: LaunchId) -> bool:
    return any(
        (account.outcome or {}).get("state") == "SUCCEEDED"
        for account in records.account(launch).attempts.values()
    )
