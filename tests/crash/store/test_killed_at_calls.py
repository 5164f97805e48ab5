"""SIGKILL from outside at the system calls of a lineage's life, one after the other."""

import pytest

from support.broken_drivers import WritesUnderItsName
from support.killed_lives import NotPermitted, killed_everywhere

SEED = 20261130
SAMPLE = 100


def test_what_was_acknowledged_is_there_after_a_kill_at_any_call(tmp_path):
    try:
        points, killed = killed_everywhere(tmp_path, sample=SAMPLE, seed=SEED)
    except NotPermitted as error:
        pytest.skip(f"no process can be killed at a system call here: {error}")
    print(f"seed {SEED}, {SAMPLE} of {points} calls: {killed}")
    assert points > 200
    # A thread more or less, or a retry: the calls of two lives need not be the very same.
    assert killed.kills > 0.9 * SAMPLE


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_kill_at_every_call(tmp_path):
    try:
        points, killed = killed_everywhere(tmp_path, sample=None)
    except NotPermitted as error:
        pytest.skip(f"no process can be killed at a system call here: {error}")
    print(f"all {points} calls: {killed}")
    assert killed.kills > 0.9 * points


def test_the_harness_finds_a_driver_that_writes_under_its_name(tmp_path):
    try:
        with pytest.raises(AssertionError, match="killed at"):
            killed_everywhere(tmp_path, sample=None, driver=WritesUnderItsName)
    except NotPermitted as error:
        pytest.skip(f"no process can be killed at a system call here: {error}")
