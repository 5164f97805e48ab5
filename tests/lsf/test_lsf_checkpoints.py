"""`bsub -k "DIR method=perdure"`, bchkpnt and brestart on the simulated LSF."""

import sys
from pathlib import Path

import pytest

from support.lsf_script import Script, has_saved
from support.worker_runs import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def script(job) -> Script:
    job.cluster.methods(Path(sys.executable).parent)
    return Script(job)


def submit(job, script, *words):
    folder = job.folder / "chk"
    folder.mkdir()
    number = script.submit(*words, options=("-k", f"{folder} method=perdure"))
    wait_until("the task has begun", lambda: job.lines("starts"))
    return number, folder


def checkpointed(job, number):
    """The exit codes of what LSF ran to have the job saved."""
    return job.cluster.jobs()[number].get("checkpointed", [])


def test_a_job_that_goes_on_is_saved_when_its_program_saves(job, script):
    number, _folder = submit(job, script)
    wait_until("it has saved", lambda: has_saved(job))
    job.cluster.ask("bchkpnt", number)
    assert wait_until("it is saved", lambda: checkpointed(job, number)) == [0]
    wait_until("it is done", lambda: script.state(number) == "DONE")
    assert job.lines("starts") == ["1:0"]
    assert job.lines("script") == ["before", "behind:0"]


def test_a_job_is_saved_killed_and_started_again(job, script):
    """It saves only when it is asked."""
    number, folder = submit(job, script, "-p", "Slow=1")
    job.cluster.ask("bchkpnt", "-k", number)
    wait_until("it is over", lambda: script.state(number) == "EXIT")
    assert checkpointed(job, number) == [0]
    assert job.cluster.jobs()[number]["reason"] == "TERM_CHKPNT"
    assert job.lines("script") == ["before"]
    job.cluster.ask("brestart", str(folder), number)
    wait_until("it is done", lambda: job.lines("done"))
    wait_until("it is over", lambda: "behind:0" in job.lines("script"))
    assert [one for one in job.lines("starts") if one.endswith(":0")] == ["1:0"]
    assert len(job.lines("starts")) == 2
    assert (folder / number).resolve().name != number


def test_where_nothing_of_perdure_is_at_work_nothing_is_saved(job, script):
    (job.folder / "chk").mkdir()
    job.cluster.ask("bsub", "-J", "other", "-k", f"{job.folder}/chk method=perdure", "sleep 60")
    wait_until("it runs", lambda: job.cluster.jobs()["101"]["stat"] == "RUN")
    job.cluster.ask("bchkpnt", "101")
    assert wait_until("it was tried", lambda: checkpointed(job, "101")) == [1]
    said = (job.cluster.folder / "echkpnt.out").read_text(encoding="utf-8")
    assert "no worker of perdure is at work" in said
    assert "Traceback" not in said
    job.cluster.ask("bkill", "101")
