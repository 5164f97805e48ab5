"""Removing, measuring and repairing."""

import os
import shutil
import time
from datetime import UTC, datetime, timedelta

import pytest

from perdure.clock import to_text
from perdure.store.opening import open_store
from perdure.store.records.record_format import decode_record, encode_record
from support.command_line import wait_until

SLOW = """
specificationVersion: jobtemplate-2023-09
name: Slow
steps:
- {name: Only, script: {actions: {onRun: {command: sleep, args: ["600"]}}}}
"""
GOOD = """
specificationVersion: jobtemplate-2023-09
name: Good
steps:
- {name: Only, script: {actions: {onRun: {command: echo, args: ["well"]}}}}
"""


def left(shell, job):
    """Everything that has the job's id in its path."""
    return [p for p in shell.folder.rglob("*") if job in str(p) and p.is_file()]


def test_a_job_that_ended_is_removed_with_all_it_has(shell):
    shell("run", shell.template(GOOD))
    job = shell.json("status", "last")["job"]
    assert left(shell, job)
    assert shell.json("rm", "last")["removed"] == [job]
    assert left(shell, job) == []
    assert shell.json("status")["jobs"] == []


def test_what_runs_is_not_removed(shell):
    shell("submit", shell.template(SLOW))
    job = shell.json("status", "last")["job"]
    wait_until(lambda: shell.json("status", job)["state"] == "RUNNING", "it does not run")
    assert "is at work" in shell("rm", job, "--yes", expect=6).stderr
    assert shell.json("status", job)["state"] == "RUNNING"
    shell("cancel", job)
    shell("rm", job, "--yes", "--wait")
    assert shell.json("status")["jobs"] == []
    shell.wait_until_no_process()


def test_a_job_whose_processes_were_killed_is_removed(shell):
    shell("submit", shell.template(SLOW))
    job = shell.json("status", "last")["job"]
    wait_until(lambda: shell.json("status", job)["state"] == "RUNNING", "it does not run")
    shell.kill_all()
    assert "--yes" in shell("rm", job, expect=2).stderr  # it has not ended
    shell("rm", job, "--yes")
    assert shell.json("status")["jobs"] == []


def test_a_suspended_job_is_asked_about_and_keeps_its_progress(suspended, shell):
    shutil.copytree(suspended.store, shell.store)
    assert "lose their progress" in shell("rm", "last", expect=2).stderr
    assert len(shell.json("checkpoints", "last")["checkpoints"]) == 3
    shell("rm", "last", "--yes")
    assert shell.json("status")["jobs"] == []


def test_of_an_age_only_what_has_ended_is_meant(suspended, shell):
    shutil.copytree(suspended.store, shell.store)
    shell("run", shell.template(GOOD))
    ended = shell.json("status", "last")["job"]
    assert shell.json("rm", "--older", "1d", "--yes")["removed"] == []
    driver = open_store(str(shell.store), write=True).driver
    long_ago = to_text(datetime.now(UTC) - timedelta(days=2))
    for job in (ended, suspended.job):
        for key in driver.list(f"jobs/{job}/log"):
            record = decode_record(driver.get(key), key=key)
            driver.put(key, encode_record({**record.header, "at": long_ago}, record.payload))
    shutil.rmtree(shell.folder / "cache", ignore_errors=True)
    assert "--yes" in shell("rm", "--older", "1d", expect=2).stderr
    assert shell.json("rm", "--older", "1d", "--yes")["removed"] == [ended]
    assert [job["job"] for job in shell.json("status")["jobs"]] == [suspended.job]


def test_a_removal_that_was_killed_is_finished(suspended, shell):
    shutil.copytree(suspended.store, shell.store)
    room = shell.store / "jobs" / suspended.job
    (room / "job").rename(room / "removed")  # as `rm` leaves it when it is killed right then
    assert shell.json("status")["jobs"] == []
    assert shell.json("repair")["removals_finished"] == [suspended.job]
    assert left(shell, suspended.job) == []


def test_a_job_whose_record_is_damaged_goes_by_its_whole_id(suspended, shell):
    shutil.copytree(suspended.store, shell.store)
    path = shell.store / "jobs" / suspended.job / "job"
    path.write_bytes(path.read_bytes()[:-9])
    shell("rm", "last", "--yes", expect=8)
    shell("rm", suspended.job, "--yes")
    assert shell.json("status")["jobs"] == []


def test_du_adds_up(suspended):
    found = suspended.json("du")
    (job,) = found["jobs"]
    parts = ("checkpoint_bytes", "record_bytes", "log_bytes")
    assert job["total_bytes"] == sum(job[name] for name in parts) == found["total_bytes"]
    assert job["checkpoint_bytes"] > 3000
    assert suspended.job in suspended("du", "last").stdout
    assert found["free_bytes"] > 0
    assert "are free" in suspended("du").stdout


def test_verify_reads_everything_back(suspended):
    found = suspended.json("verify")
    assert (found["damaged"], found["checkpoints"]) == ([], 3)
    assert found["records"] > 5
    assert "All of it is what was written." in suspended("verify", "last").stdout


@pytest.mark.parametrize(("subset", "blocks"), [("1%", 1), ("34%", 2), ("100%", 6), ("1G", 6)])
def test_a_part_of_the_blocks_is_read_and_all_records(suspended, subset, blocks):
    """Three checkpoints of a block of 1000 bytes and one of 8."""
    whole = suspended.json("verify")
    assert (whole["read_bytes"], whole["subset"], whole["seed"]) == (3024, None, None)
    found = suspended.json("verify", "last", "--read-data-subset", subset)
    assert found["damaged"] == []
    assert [found[name] for name in _ALWAYS] == [whole[name] for name in _ALWAYS]
    assert found["subset"] == subset
    if blocks == 6:
        assert found["read_bytes"] == 3024
    else:
        assert 0 < found["read_bytes"] < 3024
    again = suspended.json("verify", "--read-data-subset", subset, "--seed", str(found["seed"]))
    assert again["read_bytes"] == found["read_bytes"]


_ALWAYS = ("records", "journals", "checkpoints", "size_bytes")


def test_damage_in_the_part_is_found_and_said(suspended, shell):
    shutil.copytree(suspended.store, shell.store)
    for pack in shell.store.glob("lineages/*/*/*/packs/*"):
        pack.write_bytes(pack.read_bytes()[:4100])
    found = shell.json("verify", "--read-data-subset", "1%", expect=8)
    assert {one["kind"] for one in found["damaged"]} == {"checkpoint"}
    said = shell("verify", "--read-data-subset", "1B", "--seed", "5", expect=8).stdout
    assert "--seed 5" in said
    assert "of the blocks of 3 checkpoints" in said
    said = suspended("verify", "--read-data-subset", "50%").stdout
    assert "All of that part is what was written." in said


@pytest.mark.parametrize("subset", ["0%", "101%", "nan%", "x%", "%", "much", "-5G"])
def test_a_part_that_is_none_is_said(suspended, subset):
    assert "is no" in suspended("verify", f"--read-data-subset={subset}", expect=2).stderr
    assert "needs" in suspended("verify", "--seed", "1", expect=2).stderr


def test_repair_without_damage_changes_nothing_in_the_store(suspended):
    before = {str(p): p.stat().st_mtime_ns for p in suspended.store.rglob("*") if p.is_file()}
    suspended("status", "last")
    found = suspended.json("repair")
    assert (found["damaged"], found["removals_finished"]) == ([], [])
    assert not (suspended.folder / "cache" / "perdure.db").exists()
    after = {str(p): p.stat().st_mtime_ns for p in suspended.store.rglob("*") if p.is_file()}
    assert before == after


def lose_the_record(suspended, shell):
    """As a purge of old files does."""
    shutil.copytree(suspended.store, shell.store)
    path = shell.store / "jobs" / suspended.job / "job"
    data = path.read_bytes()
    path.unlink()
    return path, data


def test_a_lost_record_is_told_and_nothing_is_removed_for_it(suspended, shell):
    path, data = lose_the_record(suspended, shell)
    before = len(left(shell, suspended.job))
    for command in ("verify", "repair"):
        (found,) = shell.json(command, expect=8)["damaged"]
        assert (found["kind"], found["key"]) == ("missing", f"jobs/{suspended.job}/job")
    assert shell.json("rm", "--older", "1d", "--yes")["removed"] == []
    assert len(left(shell, suspended.job)) == before
    path.write_bytes(data)
    assert shell.json("verify")["damaged"] == []
    assert len(shell.json("checkpoints", "last")["checkpoints"]) == 3


def test_what_is_left_of_such_a_job_goes_by_its_whole_id(suspended, shell):
    lose_the_record(suspended, shell)
    shell("rm", "last", "--yes", expect=2)
    assert shell.json("rm", suspended.job, "--yes")["removed"] == [suspended.job]
    assert left(shell, suspended.job) == []
    assert "no job" in shell("rm", suspended.job, "--yes", expect=2).stderr


def abandoned(shell, job, *, seconds_ago):
    """A file that somebody writes, or has left, beside the job's packs."""
    (packs,) = shell.store.glob(f"lineages/{job}/0001/*/packs")
    path = packs / ".tmp-0123456789abcdef"
    path.write_bytes(b"unfinished")
    at = time.time() - seconds_ago
    os.utime(path, (at, at))
    return path


def test_repair_sweeps_what_dead_writers_left(suspended, shell):
    shutil.copytree(suspended.store, shell.store)
    path = abandoned(shell, suspended.job, seconds_ago=60)
    assert shell.json("repair")["temporary_removed"] == 0
    assert path.exists()
    abandoned(shell, suspended.job, seconds_ago=7200)
    assert shell.json("repair")["temporary_removed"] == 1
    assert not path.exists()


def test_but_never_a_living_writers_file_however_long_it_was_idle(shell):
    shell("submit", shell.template(SLOW))
    job = shell.json("status", "last")["job"]
    wait_until(lambda: shell.json("status", job)["state"] == "RUNNING", "it does not run")
    (shell.store / f"lineages/{job}/0001/{'0' * 16}/packs").mkdir(parents=True)
    path = abandoned(shell, job, seconds_ago=7200)
    assert shell.json("repair")["temporary_removed"] == 0
    assert path.exists()
    shell.kill_all()
    assert shell.json("repair")["temporary_removed"] == 1
    assert not path.exists()
