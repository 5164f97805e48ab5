"""What reading a job back says of journals that are not what was written."""

import pytest

from clock_kit import HandClock
from perdure.journal.journal_format import Kind
from perdure.journal.writer import JournalWriter
from perdure.manager.checking import Checked, check_job
from perdure.store import layout
from perdure.store.drivers.memory import MemoryDriver
from perdure.store.records.log import Log
from support.lineage_life import JOB, journal_of, launch_of


@pytest.fixture
def driver():
    made = MemoryDriver()
    for number in (1, 2):
        journal = JournalWriter(made, journal_of(number))
        journal.append(Kind.OPENED, {"launch": launch_of(number)})
        journal.append(Kind.CLOSED, {}, durable=True)
    log = Log(made, layout.job_log(JOB), clock=HandClock(), pause=lambda _tries: None)
    offset = made.head(journal_of(1))
    log.append({"kind": "fence", "launch": launch_of(1), "offset": offset})
    return made


def found(driver):
    return {
        finding.key: finding.reason
        for finding in check_job(driver, JOB, Checked())
        if finding.kind == "journal"
    }


def test_whole_ones_are_not_named(driver):
    assert found(driver) == {}


def test_one_that_is_shorter_than_what_counted_of_it(driver):
    whole = driver.get(journal_of(1))
    driver.put(journal_of(1), whole[: whole.index(b"\n") + 1])
    assert list(found(driver)) == [journal_of(1)]
    assert "counted when its launch was fenced" in found(driver)[journal_of(1)]


def test_two_that_were_swapped(driver):
    first, second = driver.get(journal_of(1)), driver.get(journal_of(2))
    driver.put(journal_of(1), second)
    driver.put(journal_of(2), first)
    assert found(driver) == {
        journal_of(1): f"it is the journal of the launch {launch_of(2)}",
        journal_of(2): f"it is the journal of the launch {launch_of(1)}",
    }
