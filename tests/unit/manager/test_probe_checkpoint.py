"""A checkpoint that only a probe knows of."""

import os

import pytest

from looking_kit import HandMade, never
from perdure.clock import SystemClock
from perdure.errors import CheckpointCorrupt, CheckpointMissing
from perdure.manager.probe_checkpoint import PROBE_BYTES, Probe
from perdure.manager.stored_jobs import all_job_ids
from perdure.store import layout
from perdure.store.deleting import remains
from perdure.store.layout import JobId

JOB = JobId("01jdxyz0000000000000000009")


@pytest.fixture
def hand_made():
    return HandMade()


@pytest.fixture
def probe(hand_made):
    return Probe(driver=hand_made.driver, job=JOB, clock=SystemClock(), pause=never)


def test_it_is_read_back_and_leaves_nothing(probe, hand_made):
    before = list(hand_made.driver.list(""))
    content = probe.write(os.urandom(PROBE_BYTES))
    assert probe.read() == content
    probe.remove()
    assert list(hand_made.driver.list("")) == before


def test_no_command_takes_it_for_a_job(probe, hand_made):
    probe.write(b"data")
    assert all_job_ids(hand_made.driver) == (hand_made.job,)
    assert remains(hand_made.driver).removals == (JOB,)


def test_one_that_is_not_there_is_said(probe):
    with pytest.raises(CheckpointMissing, match="not in the store"):
        probe.read()


def test_one_that_was_damaged_on_its_way_is_said(probe, hand_made):
    probe.write(os.urandom(PROBE_BYTES))
    (pack,) = [k for k in hand_made.driver.list(layout.lineages_prefix(JOB)) if "/packs/" in k]
    data = bytearray(hand_made.driver.get(pack))
    data[-1] ^= 1
    hand_made.driver.put(pack, bytes(data))
    with pytest.raises(CheckpointCorrupt, match="damaged"):
        probe.read()
