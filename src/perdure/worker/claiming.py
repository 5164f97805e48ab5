"""How a worker takes a lineage, and how it learns that it no longer holds it.

Theory of operation. A claim is put only when every launch that ever held the lineage has ended:
it wrote that it released the attempt, or it was taken to be dead: sealed in the job's log, its
journal read by a fresh open *after* the seal, and fenced at the length of what counted then. Only
then is the base chosen and the claim put at exactly the number after the log that was judged. After
the claim everything that could have changed meanwhile is looked at again. The order of these steps
is the whole safety of perdure; the twelve traces in ``tests/property/worker`` show what each one is
for.

Source: docs/journal-format.md, "A worker takes a lineage".

Threads: none here; one object belongs to one thread. Crash behaviour: a worker that dies between
any two calls leaves a state from which the next one goes on: a seal without a fence is fenced by
whoever reads it, a claim without an attempt is ended like any other launch's.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from perdure.journal.account import AttemptKey, LaunchAccount
from perdure.journal.heartbeat import Stillness, read_counter
from perdure.store import layout
from perdure.store.layout import LaunchId, StepKey, TaskKey
from perdure.store.records.job_log import JobLogState, TaskRef
from perdure.store.records.lineage import Claim, Lineage
from perdure.store.records.log import Entry, Log, Refused
from perdure.worker.job_records import JobRecords, LineageId, PastClaim

#: Outcomes after which a task is never run again by itself.
FINAL_STATES = frozenset({"SUCCEEDED", "CANCELED"})


class Busy(Struct, frozen=True, kw_only=True):
    """Somebody holds the lineage and may be alive; look again in ``seconds``.

    Attributes:
        is_alive: its counter moved while this launch looked: there is nothing to wait for, it is
            the owner's.
    """

    launch: LaunchId
    seconds: float
    is_alive: bool = False


class Left(Struct, frozen=True, kw_only=True):
    """The lineage was left alone, with the reason in one sentence.

    Attributes:
        claim: ours, if it had been put already: its attempt must be released in the journal.
    """

    reason: str
    claim: Claim | None = None


class LineageView(Struct, frozen=True, kw_only=True):
    """What a claim is decided on: the lineage, and what counts of each attempt so far."""

    lineage: Lineage
    past: tuple[PastClaim, ...]


class ClaimPlan(Struct, frozen=True, kw_only=True):
    """What to claim: the base, what runs in this lineage, and what is split off it."""

    attempt: int
    base: int | None
    values: Mapping[str, str] | None = None
    split: tuple[Mapping[str, str], ...] = ()


class Held(Struct, frozen=True, kw_only=True):
    """The lineage is ours.

    Attributes:
        log: the lineage's log, read up to our claim or further.
        claim: ours.
        view: what it was decided on.
        waits_for: launches that moved after they were judged still: they must release, or stand
            still again, before the attempt starts (`Claimant.is_quiet`).
    """

    log: Log
    claim: Claim
    view: LineageView
    waits_for: tuple[LaunchId, ...] = ()


class Housekeeping(Struct, frozen=True, kw_only=True):
    """The lineage is taken for housekeeping.

    Attributes:
        log: the lineage's, read up to the claim.
        claim: its number.
    """

    log: Log
    claim: int


class Identity(Struct, frozen=True, kw_only=True):
    """Who claims: one start of a worker."""

    launch: LaunchId
    token: str


class Claimant:
    """Takes lineages for one launch.

    Args:
        records: this thread's view of the job.
        me: the launch that claims.
        stillness: this observer's judgement of other launches' heartbeats.
        is_gone: whether the process described by a journal's first line ran on this host, boot and
            pid namespace and is no more.
        is_stopped: whether a stop covers the step and task (None, None: the whole job), by the
            job's log as far as it is read.
    """

    def __init__(
        self,
        records: JobRecords,
        me: Identity,
        *,
        stillness: Stillness,
        is_gone: Callable[[Mapping[str, Any]], bool],
        is_stopped: Callable[[StepKey | None, TaskKey | None], bool],
    ) -> None:
        self._records = records
        self._me = me
        self._stillness = stillness
        self._is_gone = is_gone
        self._is_stopped = is_stopped

    def start(self, fields: Mapping[str, Any]) -> Left | None:
        """Append ``started``; None, or why this launch must leave at once.

        Appended against the stops that were read: a requeue that sees a stale folder cannot start
        a job that was stopped meanwhile.
        """
        described = {"kind": "started", "launch": self._me.launch, "token": self._me.token}
        self._records.refresh()
        while True:
            reason = self.reason_to_leave()
            if reason is not None:
                return Left(reason=reason)
            if self._records.append({**fields, **described}):
                return None

    def reason_to_leave(self) -> str | None:
        """Why this launch must not go on, by the job's log as far as it is read."""
        state = self._records.state
        if self._me.launch in state.seals:
            return "this worker was taken to be dead, and another one goes on with its work"
        if None in state.settled and not _is_lifted(self._records):
            return "the job is settled"
        if self._is_stopped(None, None):
            return "the job was stopped"
        if state.is_outdated(self._me.launch):
            return "the job was moved to another engine, or to other options of it"
        return None

    def take(
        self, ref: TaskRef, step: StepKey, decide: Callable[[LineageView], ClaimPlan | Left]
    ) -> Held | Busy | Left:
        """Claim a lineage; ``decide`` chooses the base from what counts (it may decline).

        Blocks for the store's calls. Busy and Left leave nothing behind but seals and fences.
        """
        lineage_id = LineageId(step=step, task=ref.task)
        log = self._records.lineage_log(lineage_id)
        while True:
            self._records.refresh()
            self._records.shares(step)
            reason = self.reason_to_leave()
            if reason is not None:
                return Left(reason=reason)
            view = self._view_when_ended(lineage_id, ref, log)
            if isinstance(view, Busy):
                return view
            if _is_final(view):
                return Left(reason="the task has ended")
            plan = decide(view)
            if isinstance(plan, Left):
                return plan
            result = log.append(self._claim_record(plan))
            if isinstance(result, Entry):
                return self._look_again(lineage_id, ref, log, view, result)

    def keep_house(
        self, ref: TaskRef, step: StepKey, is_wanted: Callable[[Lineage, Log], bool]
    ) -> Housekeeping | Busy | None:
        """Take the lineage for housekeeping, once every launch that ever held it has ended.

        The claim ends the right of all earlier holders to add saves, also of one that is frozen and
        wakes up later, and leaves the point where it is. Nothing runs by it: it is over as soon as
        it is there, so that a worker which comes now waits for nobody, and whatever is put after it
        is refused as soon as that worker has put its own claim.

        Args:
            ref: of the lineage.
            step: of the lineage.
            is_wanted: whether there is anything to do, by the lineage and its log as read.

        Returns:
            None where there is not.

        Raises:
            StoreUnavailable: the store does not show who took the lineage first.
        """
        lineage_id = LineageId(step=step, task=ref.task)
        log = self._records.lineage_log(lineage_id)
        while True:
            self._records.refresh()
            self._records.shares(step)
            view = self._view_when_ended(lineage_id, ref, log)
            if isinstance(view, Busy):
                return view
            if not is_wanted(view.lineage, log):
                return None
            record = {
                "kind": "claim",
                "housekeeping": True,
                "attempt": 0,
                "launch": self._me.launch,
                "base": view.lineage.point,
            }
            result = log.append(record)
            if isinstance(result, Entry):
                return Housekeeping(log=log, claim=result.number)

    def _view_when_ended(self, lineage_id: LineageId, ref: TaskRef, log: Log) -> LineageView | Busy:
        """The lineage, once every launch that ever held it has ended.

        The job's log is read after the lineage's: a claim that is seen was put after the fences of
        all launches before it, and without these more of their journals would seem to count.
        """
        while True:
            log.read()
            self._records.refresh()
            lineage = self._fold(lineage_id, ref, log)
            for claim in lineage.claims:
                busy = self.end(lineage_id, claim)
                if busy is not None:
                    return busy
            if not log.read() and (log.last or not log.look_beyond()):
                past = self._records.past_claims(lineage_id, lineage.claims)
                return LineageView(lineage=lineage, past=past)

    def end(self, lineage_id: LineageId, claim: Claim) -> Busy | None:
        """None once the claim's launch has ended for this lineage; sealed and fenced if still."""
        launch = claim.launch
        key = AttemptKey(lineage_id.step, lineage_id.task, claim.attempt)
        if launch in self._records.state.seals:
            fence(self._records, launch)
            return None
        if launch == self._me.launch or self._records.account(launch).has_released(key):
            return None
        if not self.is_still(launch):
            return Busy(
                launch=launch,
                seconds=self._stillness.seconds_left(launch),
                is_alive=self._stillness.has_moved(launch),
            )
        seal(self._records, launch, by=self._me.launch, counter=self._stillness.counter(launch))
        fence(self._records, launch)
        return None

    def is_still(self, launch: LaunchId) -> bool:
        """Whether a launch is taken to be dead: its pid is gone here, or its counter is still."""
        is_still = self._stillness.observe(launch, _counter(self._records, launch))
        opened = self._records.account(launch).opened or self._records.state.started.get(launch)
        return is_still or (opened is not None and self._is_gone(opened))

    def _claim_record(self, plan: ClaimPlan) -> dict[str, Any]:
        record: dict[str, Any] = {
            "kind": "claim",
            "attempt": plan.attempt,
            "launch": self._me.launch,
            "base": plan.base,
        }
        if plan.values is not None:
            record["values"] = dict(plan.values)
        if plan.split:
            record["split"] = [dict(values) for values in plan.split]
        return record

    def _look_again(
        self, lineage_id: LineageId, ref: TaskRef, log: Log, view: LineageView, entry: Entry
    ) -> Held | Left:
        """After the claim: whatever could have changed while it was put."""
        claim = self._fold(lineage_id, ref, log).claims[-1]
        assert claim.number == entry.number  # nobody else can have put our number
        self._records.refresh()
        reason = self.reason_to_leave()
        if reason is None and self._is_stopped(lineage_id.step, lineage_id.task):
            reason = "the task was stopped"
        if reason is None and any(e.kind in ("claim", "branch") for e in log.read()):
            reason = "another worker claimed the task"
        past = self._records.past_claims(lineage_id, [p.claim for p in view.past])
        fresh = LineageView(lineage=view.lineage, past=past)
        if reason is None and _is_final(fresh):
            reason = "the task has ended"
        if reason is not None:
            return Left(reason=reason, claim=claim)
        return Held(log=log, claim=claim, view=fresh, waits_for=self._moved(fresh.past))

    def _moved(self, past: Sequence[PastClaim]) -> tuple[LaunchId, ...]:
        """Launches that were fenced and whose counter moved since they were judged still."""
        state = self._records.state
        fenced = {p.claim.launch for p in past if p.claim.launch in state.fences}
        return tuple(
            sorted(
                launch
                for launch in fenced
                if _counter(self._records, launch) != state.still_at.get(launch)
                and not self.is_still(launch)
            )
        )

    def is_quiet(self, lineage_id: LineageId, claim: Claim) -> bool:
        """Whether a launch that moved after its seal has released, or stands still again."""
        raw = LaunchAccount()
        raw.read_on(self._records.driver, layout.journal(self._records.job, claim.launch))
        key = AttemptKey(lineage_id.step, lineage_id.task, claim.attempt)
        return raw.has_released(key) or self.is_still(claim.launch)

    def _fold(self, lineage_id: LineageId, ref: TaskRef, log: Log) -> Lineage:
        share = self._records.share_of(lineage_id.step, ref)
        return self._records.fold(log, share=share)


_NOT_READ = object()


def _counter(records: JobRecords, launch: LaunchId) -> object:
    return read_counter(records.driver, layout.heartbeat(records.job, launch))


def seal(
    records: JobRecords,
    launch: LaunchId,
    *,
    by: str,
    counter: object = _NOT_READ,
    reason: str | None = None,
) -> None:
    """Put the seal: the launch is taken to be dead. Nothing to do where somebody did.

    Args:
        records: the view of the job.
        launch: which one.
        by: who says so.
        counter: of its heartbeat, as it was judged to stand still; else as it is now. Whoever
            claims after this seal sees by it whether the launch has moved since.
        reason: what the engine says of its end, where that matters later.
    """
    judged = _counter(records, launch) if counter is _NOT_READ else counter
    while launch not in records.state.seals:
        record = {"kind": "seal", "launch": launch, "by": by, "counter": judged}
        records.append(record if reason is None else {**record, "reason": reason})


def fence(records: JobRecords, launch: LaunchId) -> None:
    """Read the journal after the seal by a fresh open, and put the fence unless it is there."""
    assert launch in records.state.seals, "a fence read before the seal bounds nothing"
    while launch not in records.state.fences:
        account = LaunchAccount()
        account.read_on(records.driver, layout.journal(records.job, launch), fresh=True)
        records.append({"kind": "fence", "launch": launch, "offset": account.length})


def is_still_counted(log: Log, state: JobLogState, launch: LaunchId) -> bool:
    """After a gap in its own ticks: whether nobody has sealed this launch; its task may go on.

    It puts ``awake`` at one past what it has read: a folder that shows no seal may be stale, but a
    store that takes the record has none before it. A seal that comes later finds the counter moved,
    and whoever claims then waits for the release.

    Args:
        log: the job's log.
        state: the fold of what was read of it; read on here.
        launch: one's own.

    Raises:
        StoreUnavailable, OutOfSpace: nothing is known; the task stays held.
    """
    while launch not in state.seals:
        result = log.append({"kind": "awake", "launch": launch})
        if isinstance(result, Entry):
            state.read([result])
            return True
        state.read([result.by])
    return False


def append_as_owner(log: Log, claim: int, header: Mapping[str, Any], payload: bytes) -> int | None:
    """Add a record that only the lineage's owner may add; its number, or None: no longer the owner.

    Walks on from the number that this owner last read: a claim or branch there ends its ownership;
    prunes, pins and its own records do not.

    Args:
        log: the lineage's log as its owner read it.
        claim: the number of the owner's claim (0 for a share).
        header: of the record; ``claim`` is added.
        payload: of the record.
    """
    for entry in log.entries[claim:]:
        if entry.kind in ("claim", "branch"):
            return None
    while True:
        result = log.append({**header, "claim": claim}, payload)
        match result:
            case Entry():
                return result.number
            case Refused(by=entry):
                if entry.kind in ("claim", "branch"):
                    return None


def _is_final(view: LineageView) -> bool:
    """Whether an attempt's outcome that counts ended the task (and no branch reopened it)."""
    reopened = max((branch.number for branch in view.lineage.branches), default=-1)
    return any(
        p.account.outcome is not None
        and p.account.outcome.get("state") in FINAL_STATES
        and p.claim.number > reopened
        for p in view.past
    )


def _is_lifted(records: JobRecords) -> bool:
    """Whether a person resumed the job after it was settled."""
    settled = records.state.settled[None].number
    return any(w.kind == "resume" and w.number > settled for w in records.state.wishes)
