"""Pruning: claims for housekeeping, records, graces, and what nobody ever named."""

import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from ulid import ULID

from looking_kit import FRAMES, GONE_PID, LAUNCH, HandMade, never
from perdure.cli.checkpoint import _being_read
from perdure.clock import to_text
from perdure.errors import (
    CheckpointCorrupt,
    CheckpointMissing,
    HomeBusy,
    OutOfSpace,
)
from perdure.manager import importing
from perdure.manager.checking import Checked, check_job
from perdure.manager.lineages import read_lineage
from perdure.manager.pruning import (
    LineagePruned,
    LineagePruner,
    PruneOrder,
    collect_leftovers,
)
from perdure.policy.retention import Retention
from perdure.store import layout
from perdure.store.drivers.memory import Call
from perdure.store.layout import LaunchId
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.packs.blocks import BlockIndex, listed_packs
from perdure.store.packs.pack_writing import PackWriter
from perdure.store.records.log import Entry
from perdure.worker.job_records import LineageId
from perdure.worker.pack_ages import PackAges
from perdure.worker.pruning import GRACE, Pruner, ended_launches
from perdure.worker.task_store import TaskStore, TaskStorePlan
from store_kit import FUTURE_NS, Task

VALUES = {"Frame": "1", "Camera": "left,top"}
ONE = PruneOrder(retention=Retention(last=1, age=timedelta()))
DRY = replace(ONE, is_dry=True)
AT_ONCE = replace(ONE, grace=timedelta())


class Later:
    """The real time, and as much later as a test says."""

    def __init__(self):
        self.by = timedelta()

    def now(self):
        return datetime.now(UTC) + self.by

    def monotonic(self):
        return self.by.total_seconds()


class Lineage:
    """A task that saved twice; its launch is gone, or released it."""

    def __init__(self, folder, *, pid=GONE_PID, saves=2):
        self.made = HandMade(template=FRAMES)
        self.key = self.made.key(0)
        self.log_prefix = layout.lineage_log(self.made.job, 1, self.key)
        self.packs_prefix = layout.packs(self.made.job, 1, self.key)
        self.session = folder / "session"
        self.session.mkdir()
        self.clock = Later()
        self.made.launch(pid=pid)
        self.made.share(0, 0)
        self.made.begun(self.key, VALUES)
        self.task = Task(self.session, driver=self.made.driver, packs=self.packs_prefix)
        for number in range(saves):
            self.saved(f"content {number}")

    def saved(self, text):
        (self.session / "data").write_text(text)
        save = self.task.save(self.session / "data", state=text, line_at_ns=FUTURE_NS)
        header, payload = encode_manifest(save.manifest)
        log = self.made.log(self.log_prefix)
        return log.append({"kind": "save", "claim": 0, **header}, payload).number

    def stored(self):
        view = self.made.view()
        step = view.steps[1]
        return view, read_lineage(view, step, step.ref_of(self.key, VALUES))

    def lineage(self):
        return self.stored()[1].lineage

    def prune(self, order=ONE):
        view, stored = self.stored()
        return LineagePruner(view, order, self.clock).prune(stored)

    def packs(self):
        return listed_packs(self.made.driver, self.packs_prefix)

    def kinds(self):
        return [entry.kind for entry in self.made.log(self.log_prefix).entries]

    def leftovers(self):
        return collect_leftovers(self.made.driver, self.made.job, self.clock, never)

    def stray(self, at):
        """A pack of an import that died."""
        launch = LaunchId(str(ULID.from_datetime(at)).lower())
        writer = PackWriter(
            self.made.driver, self.packs_prefix, launch=launch, attempt=1, index=BlockIndex()
        )
        writer.add(b"somebody's")
        writer.finish()


@pytest.fixture
def lineage(tmp_path):
    return Lineage(tmp_path)


def test_a_claim_for_housekeeping_then_the_record_then_the_data(lineage):
    first, second = lineage.packs()
    done = lineage.prune()
    assert (done.checkpoints, done.freed_bytes, done.held_by) == ((1,), 0, None)
    assert done.waiting_bytes > 0
    assert lineage.kinds() == ["save", "save", "claim", "prune"]
    assert lineage.packs() == (first, second)
    found = lineage.lineage()
    assert found.owner.is_housekeeping
    assert (found.point, found.save(2).is_void, len(found.claims)) == (2, False, 1)
    assert lineage.prune().waiting_bytes == done.waiting_bytes  # nothing more to record
    assert lineage.kinds() == ["save", "save", "claim", "prune"]
    lineage.clock.by = GRACE + timedelta(seconds=5)
    assert lineage.prune() == LineagePruned(freed_bytes=done.waiting_bytes)
    assert lineage.packs() == (second,)
    assert lineage.prune() == LineagePruned()


def test_what_is_left_over_goes_without_a_claim(lineage):
    lineage.prune()
    assert lineage.leftovers() == 0
    lineage.clock.by = GRACE + timedelta(seconds=5)
    assert lineage.leftovers() == 1
    assert lineage.leftovers() == 0
    assert len(lineage.packs()) == 1


def test_a_living_launch_keeps_what_it_holds(tmp_path):
    lineage = Lineage(tmp_path, pid=None)
    lineage.made.driver.put(layout.heartbeat(lineage.made.job, LAUNCH), b'{"counter":1}')
    for order in (ONE, DRY):
        assert lineage.prune(order).held_by == LAUNCH
    assert lineage.kinds() == ["save", "save"]
    lineage.made.ended(lineage.key, "SUSPENDED", by="user")  # it goes on with other tasks
    assert lineage.prune(DRY).checkpoints == (1,)
    assert lineage.prune().checkpoints == (1,)


def test_one_whose_heartbeat_stands_still_is_waited_for_and_fenced(tmp_path):
    lineage = Lineage(tmp_path, pid=None)
    lineage.made.driver.put(layout.heartbeat(lineage.made.job, LAUNCH), b'{"counter":1}')
    waits = []

    def wait(seconds):
        waits.append(seconds)
        lineage.clock.by += timedelta(seconds=seconds)

    assert lineage.prune(replace(ONE, wait=wait)).checkpoints == (1,)
    assert sum(waits) >= 30
    log = lineage.made.log(layout.job_log(lineage.made.job))
    assert [entry.kind for entry in log.entries[-2:]] == ["seal", "fence"]


def test_whose_the_share_is_that_is_not_shown_its_saves_say(tmp_path):
    lineage = Lineage(tmp_path, pid=None)
    lineage.made.driver.put(layout.heartbeat(lineage.made.job, LAUNCH), b'{"counter":1}')
    del lineage.made.driver.objects.held[layout.share(lineage.made.job, 1, 1)]
    assert lineage.prune().held_by == LAUNCH
    assert lineage.kinds() == ["save", "save"]


def test_a_dry_run_says_the_same_and_writes_nothing(lineage):
    before = lineage.made.driver.objects.snapshot()
    told = lineage.prune(replace(AT_ONCE, is_dry=True))
    assert lineage.made.driver.objects.snapshot() == before
    assert told == lineage.prune(AT_ONCE)
    assert told.freed_bytes > 0


def test_packs_that_nobody_named_go_once_they_are_nobodys(lineage):
    lineage.stray(datetime.now(UTC) - timedelta(hours=1))
    lineage.stray(datetime.now(UTC) - timedelta(days=2))
    keep = replace(AT_ONCE, retention=Retention(last=9))
    done = lineage.prune(keep)
    assert (done.checkpoints, len(lineage.packs())) == ((), 3)
    assert done.freed_bytes > 0
    assert lineage.kinds() == ["save", "save", "claim", "prune"]


def test_an_import_whose_packs_were_taken_for_a_dead_ones_is_refused(lineage):
    manifest = lineage.stored()[1].manifest(lineage.lineage().save(1))
    _, before = lineage.stored()
    importing._check_packs(manifest, before)
    lineage.prune()
    with pytest.raises(HomeBusy, match="pruned while"):
        importing._check_packs(manifest, lineage.stored()[1])


def test_a_pruned_save_is_no_base_and_the_next_claim_is_attempt_two(lineage):
    lineage.prune(AT_ONCE)
    view = lineage.made.view()
    decision = view.steps[1].watch(view.steps[1].ref_of(lineage.key, VALUES))
    view.refresh()
    assert (decision.decision.attempt, decision.decision.restores) == (2, 2)


def owner(lineage, log):
    """The pruner that a worker has."""
    view, stored = lineage.stored()

    def fold():
        return view.records.fold(log, share=view.records.share_of(1, stored.ref))

    return Pruner(
        driver=lineage.made.driver,
        packs=lineage.packs_prefix,
        log=log,
        clock=lineage.clock,
        retention=Retention(last=1, age=timedelta()),
        lineage=fold,
        manifest=lambda number: stored.manifest(stored.lineage.save(number)),
    )


def test_an_owner_records_at_once_and_deletes_at_a_later_save(lineage):
    log = lineage.made.log(lineage.log_prefix)
    pruner = owner(lineage, log)
    assert pruner.record(0, ended=()).saves == (1,)
    assert pruner.collect() == ()
    assert len(lineage.packs()) == 2
    lineage.clock.by = GRACE + timedelta(seconds=5)
    assert len(pruner.collect()) == 1
    assert len(lineage.packs()) == 1
    assert pruner.collect() == ()


def test_a_full_disk_waits_for_nobody(lineage):
    pruner = owner(lineage, lineage.made.log(lineage.log_prefix))
    pruner.record(0, ended=())
    assert len(pruner.collect(grace=timedelta())) == 1


def test_who_is_no_longer_the_owner_records_nothing(lineage):
    log = lineage.made.log(lineage.log_prefix)
    lineage.made.claim(lineage.key, 2, launch=LaunchId("01jdxyz0000000000000000002"), base=2)
    assert owner(lineage, log).record(0, ended=()).saves == ()
    assert lineage.kinds() == ["save", "save", "claim"]


def test_a_pin_that_comes_first_is_seen(lineage):
    log = lineage.made.log(lineage.log_prefix)
    other = lineage.made.log(lineage.log_prefix)
    assert isinstance(other.append({"kind": "pin", "save": 1, "by": "user"}), Entry)
    assert owner(lineage, log).record(0, ended=()).saves == ()
    assert lineage.kinds() == ["save", "save", "pin"]


def test_launches_that_ended_are_all_but_ones_own(lineage):
    assert ended_launches(lineage.lineage()) == {LAUNCH}
    assert ended_launches(lineage.lineage(), but=LAUNCH) == frozenset()


def prune_while_reading(lineage):
    """Somebody prunes, and deletes at once, while the first pack is being read."""
    driver = lineage.made.driver
    done = threading.Event()

    def before(call, key):
        if call is Call.GET and "/packs/" in key and not done.is_set():
            done.set()
            lineage.prune(AT_ONCE)

    driver.before = before
    return done


def test_what_is_pruned_while_it_is_verified_is_no_damage(lineage):
    done = prune_while_reading(lineage)
    assert list(check_job(lineage.made.driver, lineage.made.job, Checked())) == []
    assert done.is_set()


def test_who_reads_a_checkpoint_that_is_pruned_meanwhile_is_told_so(lineage):
    _, stored = lineage.stored()
    found = SimpleNamespace(
        at=SimpleNamespace(stored=stored), save=stored.lineage.save(1), label="j/t@1"
    )
    damaged = CheckpointCorrupt("not what was saved", hint="")
    with pytest.raises(CheckpointCorrupt), _being_read(found):
        raise damaged
    lineage.prune()
    with pytest.raises(CheckpointMissing, match="j/t@1 was pruned while"), _being_read(found):
        raise damaged


def test_the_age_of_a_pack_without_a_file(lineage):
    """Its own packs are as old as the save that named them first, others' as their launch."""
    ages = PackAges(lineage.made.driver, lineage.packs_prefix, lineage.clock)
    old, new = (
        f"{str(ULID.from_datetime(datetime.now(UTC) - timedelta(days=n))).lower()}-1-1"
        for n in (5, 1)
    )
    day = timedelta(days=2)
    assert ages.older_than(day, [old, new]) == {old}
    ages.note([old], layout.pack_launch(old))
    ages.note([new], layout.pack_launch(old))
    assert ages.older_than(day, [old, new]) == frozenset()
    lineage.clock.by = timedelta(days=1, hours=1)
    assert ages.older_than(day, [old, new]) == {new}
    assert to_text(layout.began_at(layout.pack_launch(old))) < to_text(datetime.now(UTC))


def task_store(lineage):
    """What the lineage's first worker has."""
    _, stored = lineage.stored()
    claim = stored.lineage.claims[0]
    return TaskStore(
        plan=TaskStorePlan(
            driver=lineage.made.driver,
            job=lineage.made.job,
            lineage=LineageId(step=1, task=lineage.key),
            launch=LAUNCH,
            claim=claim,
            share=claim,
            log=lineage.made.log(lineage.log_prefix),
            clock=lineage.clock,
            declared=None,
            neighbours=None,
            retention=ONE.retention,
        )
    )


def test_a_worker_prunes_after_its_saves_and_deletes_a_minute_later(lineage):
    store = task_store(lineage)
    assert store.prune()
    assert len(lineage.packs()) == 2
    assert not store.prune()
    lineage.clock.by = GRACE + timedelta(seconds=5)
    assert store.prune()
    assert len(lineage.packs()) == 1
    assert not store.prune()


def test_a_full_disk_takes_the_record_once_leftovers_are_gone(tmp_path):
    lineage = Lineage(tmp_path, saves=3)
    store = task_store(lineage)
    assert store.prune()
    lineage.saved("content 3")

    def before(call, key):
        if call is Call.PUT_IF_ABSENT and "/log/" in key:
            raise OutOfSpace("full", hint="")

    lineage.made.driver.before = before
    assert store.prune(is_full=True)  # no record could be put, but what was left over is gone
    assert len(lineage.packs()) == 2
    assert not store.prune(is_full=True)
    lineage.made.driver.before = None
    assert store.prune(is_full=True)
    assert len(lineage.packs()) == 1
    assert lineage.kinds() == ["save", "save", "save", "prune", "save", "prune"]
