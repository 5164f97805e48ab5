"""The thread that keeps a launch in touch: heartbeat, syncs of the journal, wishes, host notices.

It looks twice a second whether the job's log has a next record (one stat on a local disk), or every
second where a look is a request: well within the 2 s that design 4 allows. If its own ticks show a
gap (a frozen host) or the store is out of reach for two intervals, the task is held (SIGSTOP) until
the log was read and this launch is still the owner.

Source: docs/journal-format.md, "A worker takes a lineage" (7).
"""

import threading
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from perdure.clock import Clock, to_text
from perdure.errors import HomeError, OutOfSpace, PerdureError
from perdure.journal.heartbeat import Heartbeat
from perdure.journal.writer import JournalWriter
from perdure.policy import stops as policy_stops
from perdure.policy.outcome import By
from perdure.store.layout import LaunchId, StepKey, TaskKey
from perdure.store.records.job_log import Wish
from perdure.worker.claiming import is_still_counted
from perdure.worker.job_records import JobRecords
from perdure.worker.machine import Intent
from perdure.worker.notices import POLL_SECONDS, HostNotice, Source
from perdure.worker.stops import Stop, StopBoard, wish

TICK_SECONDS = 0.5
#: A gap in the own ticks, or a store out of reach, for so many heartbeat intervals: hold the task.
HOLD_AFTER_INTERVALS = 2
#: A rebalance recommendation has no deadline and is no end: it is told, and the work goes on.
_NO_STOP = frozenset({"rebalance"})


class TickerParts(Struct, frozen=True, kw_only=True):
    """What the ticker works with.

    Attributes:
        records: the view of the job's log, for this thread alone.
        about: what the heartbeat says beside its counter.
        hold, resume: stop the running task and let it run on.
        notices: the host's notices, or None.
        told: called with what people should know.
        ask: asks the running task to save and go on, if the scope of the wish covers it.
        ask_if_due: asks it where the interval of saves is over.
        look_seconds: see `perdure.store.drivers.driver.Driver`; also between two syncs.
    """

    clock: Clock
    launch: LaunchId
    interval_seconds: float
    heartbeat: Heartbeat
    journal: JournalWriter
    records: JobRecords
    board: StopBoard
    about: Callable[[], dict[str, object]]
    hold: Callable[[], None]
    resume: Callable[[], None]
    told: Callable[[str], None]
    ask: Callable[[policy_stops.Scope], None] = lambda _scope: None
    ask_if_due: Callable[[], None] = lambda: None
    notices: Source | None = None
    look_seconds: float = 0.0


class Ticker:
    """Runs from `start` to `stop`."""

    def __init__(self, parts: TickerParts) -> None:
        self._with = parts
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="perdure-ticker", daemon=True)
        self._beat_at = 0.0
        self._look_at = 0.0
        self._ask_at = 0.0
        self._seen_at = 0.0
        self._asked = 0
        self._is_held = False
        self._is_sealed = False
        self._notice: HostNotice | None = None

    def start(self) -> None:
        """Beat for the first time (blocking), then go on in the thread."""
        now = self._with.clock.monotonic()
        self._seen_at = now
        self._beat(now)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; blocks until it has ended."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        last = self._with.clock.monotonic()
        while not self._stop.wait(TICK_SECONDS):
            now = self._with.clock.monotonic()
            if now - last > HOLD_AFTER_INTERVALS * self._with.interval_seconds:
                self._hold("this process or host stood still")
            last = now
            self._tick(now)

    def _tick(self, now: float) -> None:
        is_time = now >= self._look_at
        if is_time:
            self._look_at = now + self._with.look_seconds
        if is_time and self._with.journal.is_dirty:
            self._with.journal.sync()
        if now >= self._beat_at:
            self._beat(now)
        if is_time:
            self._look(now)
        if not self._is_held and not self._with.records.state.is_asking_disabled:
            self._with.ask_if_due()
        if self._with.notices is not None and now >= self._ask_at:
            self._ask_at = now + POLL_SECONDS
            self._ask(now)

    def _beat(self, now: float) -> None:
        """Move the counter; a store that does not take it is tried again at the next tick."""
        try:
            self._with.heartbeat.beat(self._with.about())
        except (HomeError, OutOfSpace):
            return
        self._beat_at = now + self._with.interval_seconds

    def _look(self, now: float) -> None:
        """Read the job's log on; hold the task while the store is out of reach for too long."""
        try:
            new = self._with.records.refresh()
        except PerdureError:
            now = self._with.clock.monotonic()  # a store may take its time to say nothing
            if now - self._seen_at > HOLD_AFTER_INTERVALS * self._with.interval_seconds:
                self._hold("the store is out of reach")
            return
        self._seen_at = now
        state = self._with.records.state
        is_awake = self._is_held and self._is_still_counted()
        if new or is_awake:
            self._with.board.replace_wishes(stops_of(state.wishes))
        self._pass_asked_on()
        if self._with.launch in state.seals:
            self._seal_seen()
        elif is_awake:
            self._is_held = False
            self._with.resume()
            self._with.told("the task goes on: this worker still owns it")

    def _pass_asked_on(self) -> None:
        """What people asked about saves since this launch was to be started."""
        state = self._with.records.state
        intent = state.launches.get(self._with.launch)
        for one in state.asked[self._asked :]:
            is_mine = intent is None or one.number > intent.number
            if one.what == "save" and is_mine and not state.is_asking_disabled:
                self._with.ask(policy_stops.Scope.of(one.scope))
        self._asked = len(state.asked)

    def _is_still_counted(self) -> bool:
        """Whether no seal of this launch stands, by a record of its own; else False."""
        records = self._with.records
        try:
            return is_still_counted(records.log, records.state, self._with.launch)
        except (HomeError, OutOfSpace):
            return False

    def _seal_seen(self) -> None:
        """Another one goes on with our work: stop at once, add nothing. Said once."""
        if self._is_sealed:
            return
        self._is_sealed = True
        self._with.board.post(
            Stop(intent=Intent.SUSPEND, by="engine", is_now=True, reason="taken to be dead")
        )

    def _hold(self, why: str) -> None:
        if not self._is_held:
            self._is_held = True
            self._with.hold()
            self._with.told(f"the task is held: {why}")

    def _ask(self, now: float) -> None:
        """Pass a new notice of the host on."""
        assert self._with.notices is not None
        notice = self._with.notices()
        if notice is None or notice == self._notice:
            return
        self._notice = notice
        until = to_text(notice.deadline_at) if notice.deadline_at is not None else "an unknown time"
        who = "the allocation ends" if notice.is_of_allocation else "the host gave notice"
        self._with.told(f"{who}: {notice.action} at {until}")
        if notice.action in _NO_STOP:
            return
        deadline = None
        if notice.deadline_at is not None:
            left = (notice.deadline_at - self._with.clock.now()).total_seconds()
            deadline = now + max(0.0, left)
        by = "engine" if notice.is_of_allocation else "host"
        self._with.board.post(
            Stop(intent=Intent.SUSPEND, by=by, deadline=deadline, reason=notice.action)
        )
        if not notice.is_of_allocation:
            self._record_host_stop(notice.action)

    def _record_host_stop(self, action: str) -> None:
        """Nothing new is started on a host that is to go; the same line elsewhere lifts it."""
        record = {"kind": "suspend", "scope": {}, "by": By.HOST.value, "reason": action}
        records = self._with.records
        with suppress(PerdureError):
            records.refresh()
            while fold_wishes(records.state.wishes).stopped() is None:
                records.append(record)


def stops_of(wishes: list[Wish]) -> list[Stop]:
    """The stops that hold, by the wishes in the job's log."""
    folded = fold_wishes(wishes)
    scopes = {(scope_of(w).step, scope_of(w).task) for w in wishes if w.kind != "resume"}
    found: list[Stop] = []
    for step, task in sorted(scopes, key=str):
        stop = folded.stopped(policy_stops.Scope(step=step, task=task))
        if stop is not None:
            found.append(
                wish(
                    Intent(stop.kind.value),
                    stop.by.value,
                    StepKey(step) if step is not None else None,
                    TaskKey(task) if task is not None else None,
                    now=stop.is_now,
                )
            )
    return found


def fold_wishes(wishes: list[Wish]) -> policy_stops.Stops:
    """The wishes of a job's log as policy folds them."""
    records: list[policy_stops.Stop | policy_stops.Resume] = []
    for one in wishes:
        scope = scope_of(one)
        if one.kind == "resume":
            records.append(policy_stops.Resume(number=one.number, lifts=one.lifts, scope=scope))
            continue
        by = By(one.by) if one.by else By.USER
        records.append(
            policy_stops.Stop(
                number=one.number,
                kind=policy_stops.StopKind(one.kind),
                scope=scope,
                by=by,
                is_now=one.is_now,
            )
        )
    return policy_stops.Stops(records)


def scope_of(one: Wish) -> policy_stops.Scope:
    """What a wish covers."""
    return policy_stops.Scope.of(one.scope)
