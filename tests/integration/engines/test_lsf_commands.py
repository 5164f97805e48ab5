"""LSF's commands as processes, with shell scripts in their place."""

import os

import pytest

from perdure.engines.lsf.allocation import LsfAllocation
from perdure.engines.lsf.commands import lsf
from perdure.engines.lsf.lsf_format import REQUEUE_EXIT
from perdure.errors import EngineRefused, EngineUnavailable


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Puts a script on PATH under a name."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    def put(name, *lines):
        path = tmp_path / name
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        path.chmod(0o755)

    return put


def test_what_it_prints(command):
    command("bjobs", 'echo "$1"; cat')
    assert lsf(["bjobs", "a b"], text="given") == "a b\ngiven"


def test_what_it_refuses_is_said(command):
    command("bsub", "echo 'nowhere: No such queue. Job not submitted.' >&2; exit 255")
    with pytest.raises(EngineRefused, match="bsub refused: nowhere: No such queue"):
        lsf(["bsub"])


@pytest.mark.parametrize(
    "said", ["LSF is down. Please wait ...", "batch daemon not responding ... still trying"]
)
def test_who_does_not_answer_has_refused_nothing(command, said):
    command("bjobs", f"echo '{said}' >&2; exit 255")
    with pytest.raises(EngineUnavailable, match="LSF does not answer"):
        lsf(["bjobs"])


def test_a_command_that_is_not_there():
    with pytest.raises(EngineRefused, match="no-such-bsub cannot be run: it is not on PATH"):
        lsf(["no-such-bsub"])


def test_it_outlives_what_lsf_sends_to_all_processes_of_a_job(command):
    command("brequeue", "kill -INT $$; kill -TERM $$; kill -USR2 $$; echo done")
    assert lsf(["brequeue"]) == "done\n"


def test_one_that_is_killed_has_given_no_answer(command):
    command("brequeue", "kill -KILL $$")
    with pytest.raises(EngineUnavailable, match="killed by signal 9"):
        lsf(["brequeue"])


def test_what_cannot_be_put_back_by_command_is_by_its_exit_code(command):
    command("brequeue", "echo 'LSF is down. Please wait ...' >&2; exit 255")
    allocation = LsfAllocation("7[2]")
    allocation.requeue()
    assert allocation.exit_code == REQUEUE_EXIT
    allocation.wait_for_the_end(until_killed=False)  # returns at once


def test_the_end_of_an_allocation_by_its_limit_and_its_run(command):
    command(
        "bjobs",
        """echo '{"RECORDS":[{"JOBID":"7","JOBINDEX":"2","STAT":"RUN",'""",
        """echo '"RUN_TIME":"30 second(s)","RUNTIMELIMIT":"2.0"}]}'""",
    )
    allocation = LsfAllocation.of({"LSB_JOBID": "7", "LSB_JOBINDEX": "2"})
    assert allocation.ids() == {"engine": "lsf", "job": "7[2]"}
    first, second = allocation.ends_at(), allocation.ends_at()
    assert 0 <= (second - first).total_seconds() < 30


def test_an_allocation_without_a_limit_or_an_answer_has_no_end(command):
    allocation = LsfAllocation.of({"LSB_JOBID": "7"})
    command("bjobs", """echo '{"RECORDS":[{"JOBID":"7","STAT":"RUN"}]}'""")
    assert allocation.ends_at() is None
    command("bjobs", "echo noise")
    assert allocation.ends_at() is None
    assert LsfAllocation.of({}) is None
