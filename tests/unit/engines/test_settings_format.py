"""Slurm's settings as a real 22.05 prints them, and what is said of others."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from perdure.engines.slurm.settings_format import (
    Partition,
    Settings,
    parse_partitions,
    parse_settings,
    warnings,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "slurm-22.05"
SETTINGS = parse_settings((GOLDEN / "config").read_text(encoding="utf-8"))
LOW, HIGH = parse_partitions((GOLDEN / "partitions").read_text(encoding="utf-8"))


def test_the_settings_of_a_real_cluster():
    assert (
        Settings(
            version="22.05.8",
            cluster="perdure-tests",
            requeues=True,
            kill_wait_seconds=5,
            max_array_size=1001,
            preempt_type="preempt/partition_prio",
            preempt_mode="REQUEUE",
            slurmd_timeout_seconds=10,
            min_job_age_seconds=300,
        )
        == SETTINGS
    )


def test_the_partitions_of_a_real_cluster():
    assert (
        Partition(
            name="low",
            is_default=True,
            state="UP",
            default_time="01:00:00",
            max_time="UNLIMITED",
            preempt_mode="REQUEUE",
            priority=1,
            grace_seconds=20,
            nodes=2,
            node_names="n[1-2]",
            submits_from="ALL",
        )
        == LOW
    )
    assert (HIGH.name, HIGH.is_default, HIGH.preempt_mode) == ("high", False, "OFF")
    assert LOW.jobs_may_submit


@pytest.mark.parametrize("text", ["", "nonsense", "=", "PartitionName=", "KillWait ="])
def test_what_is_not_printed_is_not_known(text):
    assert parse_settings(text) == Settings()
    assert parse_partitions(text) == ()


def test_a_cluster_where_nothing_is_ever_preempted():
    found = parse_settings("PreemptType = preempt/none\nPreemptMode = OFF\nJobRequeue = 0\n")
    assert (found.preempt_type, found.preempt_mode, found.requeues) == (None, None, False)


@pytest.mark.parametrize(
    ("settings", "save_seconds", "said"),
    [
        ({"requeues": False}, None, "JobRequeue is 0"),
        ({"kill_wait_seconds": 30}, 30.1, "KillWait is 30 s, and a save took up to 30.1 s"),
        ({"slurmd_timeout_seconds": 0}, None, "SlurmdTimeout is 0"),
        ({"slurmd_timeout_seconds": 1200}, None, "SlurmdTimeout is 1200 s"),
        ({"min_job_age_seconds": 10}, None, "MinJobAge is 10 s"),
    ],
)
def test_a_setting_that_is_worth_a_word(settings, save_seconds, said):
    (told,) = warnings(replace(SETTINGS, **settings), (HIGH,), save_seconds)
    assert told.startswith(said)


@pytest.mark.parametrize(
    ("partition", "save_seconds", "said"),
    [
        ({"state": "DRAIN"}, None, "partition p is DRAIN"),
        ({"submits_from": "login1"}, None, "partition p takes jobs only from login1"),
        ({"preempt_mode": "CANCEL", "grace_seconds": 0}, None, "PreemptMode is CANCEL"),
        ({"preempt_mode": "REQUEUE", "grace_seconds": 5}, None, "GraceTime is 5 s"),
        ({"preempt_mode": "REQUEUE,GANG", "grace_seconds": 5}, None, "GraceTime is 5 s"),
        ({"preempt_mode": "REQUEUE", "grace_seconds": 20}, 21.0, "GraceTime is 20 s"),
        ({"preempt_mode": "REQUEUE", "grace_seconds": 20}, 2.0, "told to a job's steps"),
    ],
)
def test_a_partition_that_is_worth_a_word(partition, save_seconds, said):
    quiet = replace(SETTINGS, kill_wait_seconds=60)
    told = warnings(quiet, (replace(HIGH, name="p", **partition),), save_seconds)
    assert any(said in one for one in told), told


def test_what_is_as_it_should_be_is_not_spoken_of():
    settings = replace(SETTINGS, kill_wait_seconds=30)
    assert warnings(settings, (HIGH,), 12.0) == ()
    assert warnings(Settings(), (Partition(name="p"),), None) == ()
    unpreempted = replace(settings, preempt_type=None)
    assert warnings(unpreempted, (LOW,), 12.0) == ()


def test_a_partition_that_takes_jobs_from_its_own_nodes():
    assert replace(LOW, submits_from="n[1-2]").jobs_may_submit
    assert replace(LOW, submits_from="").jobs_may_submit is None
    assert replace(LOW, submits_from="login[1-2]").jobs_may_submit is None
