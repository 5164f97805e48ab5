"""The steps of a claim that the model does not look at: seals' counters, gone pids, lost shares."""

import pytest

from clock_kit import HandClock
from perdure.errors import StoreUnavailable
from perdure.journal.heartbeat import Heartbeat, Stillness
from perdure.journal.journal_format import Kind
from perdure.journal.writer import JournalWriter
from perdure.store import layout
from perdure.store.drivers.memory import MemoryDriver, Objects
from perdure.store.layout import JobId, LaunchId, StepKey, TaskKey
from perdure.store.records.job_log import JobLogState, TaskRef
from perdure.store.records.log import MAX_STALE_READS, Entry, Log
from perdure.worker.claiming import (
    Busy,
    Claimant,
    ClaimPlan,
    Held,
    Identity,
    Left,
    append_as_owner,
    fence,
    is_still_counted,
    seal,
)
from perdure.worker.job_records import JobRecords, LineageId

JOB, STEP, TASK = JobId("j"), StepKey(1), TaskKey("00000000000000aa")
LINEAGE = LineageId(step=STEP, task=TASK)
REF = TaskRef(task=TASK, index=0)
KEY = {"step": STEP, "task": TASK, "attempt": 1}
DEAD = LaunchId("dead")


class Site:
    """A store with a share that ``dead`` took, and whoever looks at it."""

    def __init__(self, *, shared=True):
        self.objects = Objects()
        self.driver = MemoryDriver(self.objects)
        self.clock = HandClock()
        self.waited = []
        self.gone = set()
        self.stopped = False
        if shared:
            assert self.records().take_share(STEP, {"launch": DEAD, "tasks": [[0, 0]]})
            self.journal(DEAD).append(Kind.OPENED, {"launch": DEAD, "pid": 7}, durable=True)

    def records(self):
        records = JobRecords(self.driver, JOB, clock=self.clock, pause=self.waited.append)
        records.refresh()
        return records

    def journal(self, launch):
        return JournalWriter(self.driver, layout.journal(JOB, launch))

    def heartbeat(self, launch):
        return Heartbeat(self.driver, layout.heartbeat(JOB, launch))

    def claimant(self, launch="m", records=None):
        return Claimant(
            records or self.records(),
            Identity(launch=LaunchId(launch), token="t"),
            stillness=Stillness(self.clock, 10.0),
            is_gone=lambda described: described["launch"] in self.gone,
            is_stopped=lambda _step, _task: self.stopped,
        )

    def log(self):
        records = self.records()
        return [(entry.kind, entry.header) for entry in records.log.entries]


def from_the_beginning(view):
    return ClaimPlan(attempt=2, base=view.lineage.point)


def test_a_pid_that_is_gone_here_counts_as_still_at_once():
    site = Site()
    assert isinstance(site.claimant().take(REF, STEP, from_the_beginning), Busy)
    site.gone.add(DEAD)
    held = site.claimant().take(REF, STEP, from_the_beginning)
    assert isinstance(held, Held)
    assert (held.claim.number, held.claim.attempt, held.waits_for) == (1, 2, ())
    assert [kind for kind, _ in site.log()] == ["seal", "fence"]


def test_one_that_stands_still_for_three_intervals_is_sealed_with_its_counter():
    site = Site()
    site.heartbeat(DEAD).beat({})
    claimant = site.claimant()
    busy = claimant.take(REF, STEP, from_the_beginning)
    assert busy == Busy(launch=DEAD, seconds=30.0)
    for seconds in (10.0, 20.0):
        site.clock.seconds = seconds
        assert isinstance(claimant.take(REF, STEP, from_the_beginning), Busy)
    site.clock.seconds = 31.0
    assert isinstance(claimant.take(REF, STEP, from_the_beginning), Held)
    seal_record = dict(site.log()[0][1])
    assert (seal_record["launch"], seal_record["by"], seal_record["counter"]) == (DEAD, "m", 1)
    length = len(site.driver.get(layout.journal(JOB, DEAD)))
    assert site.log()[1][1]["offset"] == length


def test_one_whose_counter_moves_is_alive():
    site = Site()
    heartbeat, claimant = site.heartbeat(DEAD), site.claimant()
    heartbeat.beat({})
    assert not claimant.take(REF, STEP, from_the_beginning).is_alive
    heartbeat.beat({})
    assert claimant.take(REF, STEP, from_the_beginning).is_alive
    assert site.log() == []


def test_one_that_moved_since_it_was_judged_must_release_first():
    site = Site()
    heartbeat = site.heartbeat(DEAD)
    heartbeat.beat({})
    seal(site.records(), DEAD, by="x", counter=1)
    heartbeat.beat({})
    claimant = site.claimant()
    held = claimant.take(REF, STEP, from_the_beginning)
    assert held.waits_for == (DEAD,)
    share = held.view.past[0].claim
    assert not claimant.is_quiet(LINEAGE, share)
    site.journal(DEAD).append(Kind.RELEASED, KEY, durable=True)
    assert claimant.is_quiet(LINEAGE, share)


def test_or_stand_still_once_more():
    site = Site()
    site.heartbeat(DEAD).beat({})
    seal(site.records(), DEAD, by="x", counter=0)
    claimant = site.claimant()
    held = claimant.take(REF, STEP, from_the_beginning)
    assert held.waits_for == (DEAD,)
    for seconds in (10.0, 20.0):
        site.clock.seconds = seconds
        assert not claimant.is_quiet(LINEAGE, held.view.past[0].claim)
    site.clock.seconds = 31.0
    assert claimant.is_quiet(LINEAGE, held.view.past[0].claim)


def test_one_that_died_long_ago_is_not_waited_for_again():
    site = Site()
    site.heartbeat(DEAD).beat({})
    records = site.records()
    seal(records, DEAD, by="x")
    fence(records, DEAD)
    assert site.claimant().take(REF, STEP, from_the_beginning).waits_for == ()


def test_a_seal_without_a_fence_is_fenced_by_whoever_reads_it():
    site = Site()
    seal(site.records(), DEAD, by="somebody who died")
    held = site.claimant().take(REF, STEP, from_the_beginning)
    assert isinstance(held, Held)
    assert [kind for kind, _ in site.log()] == ["seal", "fence"]


def test_seal_and_fence_are_put_once():
    site = Site()
    one, other = site.records(), site.records()
    for records in (one, other):
        seal(records, DEAD, by="x")
        fence(records, DEAD)
    assert [kind for kind, _ in site.log()] == ["seal", "fence"]
    length = len(site.driver.get(layout.journal(JOB, DEAD)))
    assert (site.records().state.seals, site.records().state.fences) == ({DEAD: 1}, {DEAD: length})


def test_what_an_owner_did_after_its_fence_does_not_count():
    site = Site()
    records = site.records()
    seal(records, DEAD, by="x")
    fence(records, DEAD)
    site.journal(DEAD).append(Kind.OUTCOME, {**KEY, "state": "SUCCEEDED"}, durable=True)
    assert isinstance(site.claimant().take(REF, STEP, from_the_beginning), Held)
    assert records.account(DEAD).attempts == {}


def test_an_account_read_too_far_is_cut_once_the_fence_is_seen():
    site = Site()
    early = site.records()
    journal = site.journal(DEAD)
    records = site.records()
    seal(records, DEAD, by="x")
    fence(records, DEAD)
    journal.append(Kind.KEPT, {**KEY, "values": [1], "support": None}, durable=True)
    assert early.account(DEAD).attempts
    early.refresh()
    assert early.account(DEAD).attempts == {}


def test_a_task_that_succeeded_is_left_and_no_claim_is_put():
    site = Site()
    journal = site.journal(DEAD)
    journal.append(Kind.OUTCOME, {**KEY, "state": "SUCCEEDED"})
    journal.append(Kind.RELEASED, KEY, durable=True)
    left = site.claimant().take(REF, STEP, from_the_beginning)
    assert left == Left(reason="the task has ended")
    assert not any(key.startswith("lineages") for key in site.objects.held)


@pytest.mark.parametrize("state", ["FAILED", "SUSPENDED"])
def test_other_ends_are_gone_on_from(state):
    site = Site()
    journal = site.journal(DEAD)
    journal.append(Kind.OUTCOME, {**KEY, "state": state})
    journal.append(Kind.RELEASED, KEY, durable=True)
    assert isinstance(site.claimant().take(REF, STEP, from_the_beginning), Held)


def test_a_branch_after_a_success_opens_the_task_again():
    site = Site()
    journal = site.journal(DEAD)
    journal.append(Kind.OUTCOME, {**KEY, "state": "SUCCEEDED"})
    journal.append(Kind.RELEASED, KEY, durable=True)
    log = site.records().lineage_log(LINEAGE)
    log.append({"kind": "branch", "base": None, "by": "user"})
    assert isinstance(site.claimant().take(REF, STEP, from_the_beginning), Held)


def test_a_stop_that_comes_with_the_claim_releases_it():
    site = Site(shared=False)
    claimant = site.claimant()

    def stop_meanwhile(view):
        site.stopped = True
        return ClaimPlan(attempt=1, base=None)

    left = claimant.take(REF, STEP, stop_meanwhile)
    assert left.reason == "the job was stopped"
    assert left.claim.number == 1


def test_a_claim_that_is_refused_is_decided_anew():
    site = Site(shared=False)
    bases = []

    def lose_the_first(view):
        if not bases:
            log = site.records().lineage_log(LINEAGE)
            log.append({"kind": "pin", "save": 1, "by": "x"})
        bases.append(view.lineage.last)
        return ClaimPlan(attempt=1, base=None, values={"F": "1"}, split=({"F": "2"},))

    held = site.claimant().take(REF, STEP, lose_the_first)
    assert bases == [0, 1]
    assert held.claim.number == 2
    assert (held.claim.values, held.claim.split) == ({"F": "1"}, ({"F": "2"},))


def test_deciding_not_to_is_left_without_a_claim():
    site = Site(shared=False)
    assert site.claimant().take(REF, STEP, lambda _view: Left(reason="held")).reason == "held"
    assert site.objects.held == {}


def test_a_settled_job_is_left_until_a_person_resumes_it():
    site = Site(shared=False)
    records = site.records()
    records.append({"kind": "settled", "step": None, "state": "FAILED"})
    assert site.claimant().start({}).reason == "the job is settled"
    records.append({"kind": "resume", "scope": {}, "lifts": 0})
    assert site.claimant().start({"host": "h"}) is None
    kind, header = site.log()[-1]
    assert (kind, header["launch"], header["host"]) == ("started", "m", "h")


def test_one_that_was_sealed_starts_nothing():
    site = Site(shared=False)
    seal(site.records(), LaunchId("m"), by="x")
    assert "taken to be dead" in site.claimant().start({}).reason
    assert "taken to be dead" in site.claimant().take(REF, STEP, from_the_beginning).reason


def test_one_that_was_made_for_another_engine_starts_nothing():
    site = Site()
    records = site.records()
    assert records.append({"kind": "launch", "launch": "m", "token": "t", "step": STEP})
    assert records.append({"kind": "engine", "options": {"engine": "local"}, "by": "user"})
    before = site.log()
    found = site.claimant().start({})
    assert isinstance(found, Left)
    assert "another engine" in found.reason
    assert site.log() == before, "it did not even say that it started"
    assert isinstance(site.claimant().take(REF, STEP, from_the_beginning), Left)


def test_one_that_was_made_since_starts():
    site = Site()
    records = site.records()
    assert records.append({"kind": "engine", "options": {"engine": "local"}, "by": "user"})
    assert records.append({"kind": "launch", "launch": "m", "token": "t", "step": STEP})
    assert site.claimant().start({}) is None


def test_a_share_that_the_intents_author_saw_is_waited_for():
    site = Site()
    named = TaskRef(task=TASK, index=0, share=1)
    share = site.driver.get(layout.share(JOB, STEP, 1))
    records = site.records()
    del site.objects.held[layout.share(JOB, STEP, 1)]

    def show(tries):
        if tries == 3:
            site.driver.put(layout.share(JOB, STEP, 1), share)

    records._pause = show
    assert records.share_of(STEP, named).number == 1
    assert site.records().named(STEP, REF) == REF
    records.shares(STEP)
    assert records.named(STEP, REF) == named


def test_a_share_that_never_shows_is_said():
    site = Site(shared=False)
    with pytest.raises(StoreUnavailable, match="does not show share 1 of step 1"):
        site.records().share_of(STEP, TaskRef(task=TASK, index=0, share=1))
    assert len(site.waited) == MAX_STALE_READS


def test_a_share_holds_tasks_by_index_and_chunks_by_values():
    site = Site(shared=False)
    records = site.records()
    records.take_share(STEP, {"launch": "a", "tasks": [[0, 3], [6, 6]]})
    records.take_share(STEP, {"launch": "b", "values": [{"F": "1-2"}], "cursor": [1, 2]})
    assert records.share_of(STEP, TaskRef(task=TASK, index=6)).launch == "a"
    assert records.share_of(STEP, TaskRef(task=TASK, index=4)) is None
    share = records.share_of(STEP, TaskRef(task=TASK, values={"F": "1-2"}))
    assert (share.launch, share.cursor) == ("b", (1, 2))
    assert not site.records().take_share(STEP, {"launch": "c", "tasks": [[0, 0]]})


def lineage_log(site):
    return Log(
        site.driver, layout.lineage_log(JOB, STEP, TASK), clock=site.clock, pause=lambda _n: None
    )


def test_an_owner_walks_on_past_what_is_no_claim():
    site = Site()
    mine, other = lineage_log(site), lineage_log(site)
    assert append_as_owner(mine, 0, {"kind": "save"}, b"") == 1
    other.read()
    other.append({"kind": "pin", "save": 1})
    assert append_as_owner(mine, 0, {"kind": "save"}, b"payload") == 3
    assert mine.fetch(3).payload == b"payload"
    assert mine.entries[2].header["claim"] == 0


@pytest.mark.parametrize("kind", ["claim", "branch"])
def test_and_stops_at_a_claim_or_branch(kind):
    site = Site()
    mine, other = lineage_log(site), lineage_log(site)
    other.append({"kind": kind, "launch": "m", "attempt": 2, "base": None})
    assert append_as_owner(mine, 0, {"kind": "save"}, b"") is None
    assert append_as_owner(mine, 0, {"kind": "save"}, b"") is None
    other.read()
    assert other.last == 1


def test_a_launch_that_wakes_up_is_told_whether_it_was_sealed():
    site = Site()
    log = Log(site.driver, layout.job_log(JOB), clock=site.clock, pause=lambda _n: None)
    state = JobLogState()
    assert is_still_counted(log, state, DEAD)
    assert [kind for kind, _ in site.log()] == ["awake"]
    site.records().append({"kind": "suspend", "scope": {}, "by": "user"})
    seal(site.records(), DEAD, by="x")
    assert not is_still_counted(log, state, DEAD)
    assert [kind for kind, _ in site.log()] == ["awake", "suspend", "seal"]
    assert [wish.number for wish in state.wishes] == [2]
    assert not is_still_counted(log, state, DEAD)
    assert isinstance(log.entries[-1], Entry)
