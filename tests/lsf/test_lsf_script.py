"""`perdure run` in a script of the simulated LSF."""

import pytest

from support.lsf_script import Script, has_saved
from support.worker_runs import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def script(job) -> Script:
    return Script(job)


def test_a_script_that_is_put_back_goes_on(job, script):
    number = script.submit()
    wait_until("a task has saved", lambda: has_saved(job))
    job.cluster.ask("brequeue", number)
    wait_until("it is done", lambda: script.state(number) == "DONE")
    assert job.lines("script") == ["before", "before", "behind:0"]
    assert [one for one in job.lines("starts") if one.endswith(":0")] == ["1:0"]
    assert job.lines() == ["1:40"]


def test_a_run_limit_puts_the_script_back_in_time(job, script):
    number = script.submit("-p", "Most=60", options=("-W", "3"))
    wait_until("it is over", lambda: script.state(number) in ("DONE", "EXIT"), seconds=120)
    assert script.state(number) == "DONE"
    assert job.lines("script")[-1] == "behind:0"
    assert job.lines("script").count("behind:0") == 1
    assert job.cluster.jobs()[number]["runs"] > 1
    assert [one for one in job.lines("starts") if one.endswith(":0")] == ["1:0"]
    assert job.lines() == ["1:60"]


def test_a_script_that_is_killed_does_not_go_on_by_itself(job, script):
    number = script.submit()
    wait_until("a task has saved", lambda: has_saved(job))
    job.cluster.ask("bkill", number)
    wait_until("it is over", lambda: script.state(number) == "EXIT")
    assert "behind:0" not in job.lines("script")
    assert job.status()["state"] != "SUCCEEDED"
    assert job.lines() == []
    job.perdure("resume", "last")
    assert [one for one in job.lines("starts") if one.endswith(":0")] == ["1:0"]
    assert job.lines() == ["1:40"]
