"""Removing: what may live is waited for, and nothing is left behind."""

import pytest

from clock_kit import HandClock
from perdure.errors import HomeBusy
from perdure.journal.heartbeat import Heartbeat
from perdure.journal.journal_format import Kind
from perdure.journal.writer import JournalWriter
from perdure.manager import removing
from perdure.manager.removing import Removal, Rooms, refuse_busy, remove
from perdure.store import layout
from perdure.store.deleting import Remains, remains
from perdure.store.drivers.memory import MemoryDriver
from perdure.store.drivers.posix import PosixDriver
from perdure.store.layout import JobId, LaunchId, StepKey, TaskKey
from perdure.store.records.log import Log

JOB = JobId("01jdxyz0000000000000000000")
LAUNCH = LaunchId("01jdxyz0000000000000000001")
LINEAGE = layout.lineage_log(JOB, StepKey(1), TaskKey("0" * 16))
ELSEWHERE = {"host": "far", "boot": "b", "pid_namespace": "n", "pid": 1, "pid_started": 1}


def never(tries):
    raise AssertionError(f"nothing here is uncertain (try {tries})")


@pytest.fixture(params=["memory", "posix"])
def driver(request, tmp_path):
    if request.param == "memory":
        return MemoryDriver()
    (tmp_path / "store").mkdir()
    return PosixDriver(tmp_path / "store")


@pytest.fixture
def clock():
    return HandClock()


def put(driver, prefix, **record):
    log = Log(driver, prefix, clock=HandClock(), pause=never)
    log.read()
    log.append(record)


@pytest.fixture
def removal(tmp_path):
    rooms = Rooms(
        logs=tmp_path / "logs", sessions=tmp_path / "sessions", lock=tmp_path / "locks" / "one"
    )
    for folder in (rooms.logs, rooms.sessions, rooms.lock.parent):
        folder.mkdir()
        (folder / "one").write_text("x")
    return Removal(job=JOB, heartbeat_seconds=10.0, rooms=rooms)


def claim(driver):
    driver.put(layout.job_record(JOB), b"job")
    put(driver, LINEAGE, kind="claim", launch=LAUNCH, attempt=1, base=None)


def beat(driver, times=1):
    heartbeat = Heartbeat(driver, layout.heartbeat(JOB, LAUNCH))
    for _ in range(times):
        heartbeat.beat({})


def share(driver):
    driver.put(layout.job_record(JOB), b"job")
    put(driver, layout.shares(JOB, StepKey(1)), kind="share", launch=LAUNCH, tasks=[[0, 3]])


@pytest.mark.parametrize("known_by", [claim, share])
def test_a_launch_that_is_known_from_its_claim_alone_is_busy(driver, clock, removal, known_by):
    known_by(driver)
    beat(driver)
    with pytest.raises(HomeBusy, match=f"launch {LAUNCH}"):
        remove(driver, removal, clock, never)
    with pytest.raises(HomeBusy, match=f"launch {LAUNCH}"):
        refuse_busy(driver, JOB, clock, never)
    assert driver.head(layout.job_record(JOB)) is not None


def test_it_is_waited_for_until_its_counter_stood_still(driver, clock, removal, monkeypatch):
    claim(driver)
    beats = []

    def sleep(_seconds):
        clock.seconds += 10.0
        if len(beats) < 5:
            beats.append(clock.seconds)
            beat(driver, times=1 + len(beats))

    beat(driver)
    monkeypatch.setattr(removing.time, "sleep", sleep)
    waiting = Removal(job=JOB, heartbeat_seconds=10.0, rooms=removal.rooms, wait=True)
    remove(driver, waiting, clock, never)
    assert clock.seconds >= beats[-1] + 30.0
    assert list(driver.list("")) == []


def test_or_until_it_says_that_it_has_ended(driver, clock, removal, monkeypatch):
    claim(driver)
    beat(driver)
    journal = JournalWriter(driver, layout.journal(JOB, LAUNCH))
    journal.append(Kind.OPENED, {"launch": LAUNCH, **ELSEWHERE}, durable=True)

    def sleep(_seconds):
        journal.append(Kind.CLOSED, {}, durable=True)

    monkeypatch.setattr(removing.time, "sleep", sleep)
    waiting = Removal(job=JOB, heartbeat_seconds=10.0, rooms=removal.rooms, wait=True)
    remove(driver, waiting, clock, never)
    assert clock.seconds < 30.0
    assert list(driver.list("")) == []


def test_one_that_never_wrote_anything_is_not_waited_for(driver, clock, removal):
    claim(driver)
    remove(driver, removal, clock, never)
    assert list(driver.list("")) == []


def test_records_that_cannot_be_read_hold_nothing_up(driver, clock, removal):
    claim(driver)
    driver.put(f"{LINEAGE}/0000000002", b"nonsense")
    driver.put(f"{layout.job_log(JOB)}/0000000001", b"nonsense")
    remove(driver, removal, clock, never)
    assert list(driver.list("")) == []


def test_neither_files_nor_folders_are_left(tmp_path, clock, removal):
    (tmp_path / "store").mkdir()
    driver = PosixDriver(tmp_path / "store")
    driver.put("format", b"f")
    claim(driver)
    room = tmp_path / "store" / layout.lineages_prefix(JOB)
    for key in (layout.job_prefix(JOB), layout.launches(JOB), layout.lineages_prefix(JOB)):
        folder = tmp_path / "store" / key
        folder.mkdir(exist_ok=True)
        (folder / ".tmp-0123456789abcdef").write_bytes(b"unfinished")
    (room / "0001" / ("1" * 16) / "packs").mkdir(parents=True)
    driver.upload(f"{layout.packs(JOB, StepKey(1), TaskKey('2' * 16))}/{LAUNCH}-1-1")
    remove(driver, removal, clock, never)
    assert [str(p.relative_to(tmp_path / "store")) for p in (tmp_path / "store").rglob("*")] == [
        "format"
    ]
    rooms = removal.rooms
    assert not any(path.exists() for path in (rooms.logs, rooms.sessions, rooms.lock))


def test_a_job_whose_record_was_lost_is_not_taken_for_a_removal(driver):
    claim(driver)
    driver.delete(layout.job_record(JOB))
    assert remains(driver) == Remains(lost=(JOB,))
    driver.put(layout.removal(JOB), b"it was being removed")
    assert remains(driver) == Remains(removals=(JOB,))


def test_a_heartbeat_that_came_too_late_is(driver):
    driver.put("format", b"f")
    beat(driver)
    assert remains(driver) == Remains(removals=(JOB,))
