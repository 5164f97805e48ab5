"""Jobs on the simulated LSF: they arrive at their end with nobody logged in, whatever happens."""

from pathlib import Path

import pytest

from support.worker_runs import wait_until

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent.parent / "cluster"
COUNT, CHUNKS = HERE / "count.yaml", HERE / "chunks.yaml"


def began_once(job) -> bool:
    """Whether no task began anew from nothing."""
    return [line for line in job.lines("starts") if line.endswith(":0")] == ["1:0"]


def test_chunks_and_the_step_behind_them(job):
    job.submit(CHUNKS, "--workers", "3")
    job.wait_for("SUCCEEDED")
    assert sorted(map(int, job.lines("done"))) == list(range(1, 61))
    assert job.lines("count") == ["60"]
    job.cluster.wait_until_idle()


def test_an_element_that_somebody_puts_back_goes_on_where_it_was(job):
    job.submit(COUNT)
    element = job.is_under_way()
    job.cluster.ask("brequeue", element)
    job.wait_for("SUCCEEDED")
    assert job.cluster.jobs()[element]["runs"] == 2
    assert began_once(job)
    assert job.lines() == ["1:40"]


def test_a_run_limit_costs_no_more_than_the_work_since_the_last_save(job):
    job.submit(COUNT, "-p", "Most=60", "--lsf", "-W 2")
    job.wait_for("SUCCEEDED")
    (element,) = job.cluster.elements()
    assert job.cluster.jobs()[element]["runs"] > 1
    assert began_once(job)
    assert job.lines() == ["1:60"]


def test_a_run_limit_where_nothing_may_be_put_back(job):
    job.cluster.set(refuses_requeue=True)
    job.submit(COUNT, "-p", "Most=60", "--lsf", "-W 2")
    job.wait_for("SUCCEEDED")
    assert len(job.cluster.elements()) > 1
    assert began_once(job)
    assert job.lines() == ["1:60"]


def test_an_element_is_put_back_by_its_exit_code_where_nobody_answers(job):
    job.cluster.set(refuses_requeue="silently")
    job.submit(COUNT, "-p", "Most=60", "--lsf", "-W 2")
    job.wait_for("SUCCEEDED")
    (element,) = job.cluster.elements()
    assert job.cluster.jobs()[element]["runs"] > 1
    assert began_once(job)
    assert job.lines() == ["1:60"]


def test_who_kills_an_array_stops_its_step(job):
    job.submit(COUNT, "-p", "Tasks=5", "-p", "Most=60", "--workers", "2")
    wait_until("two tasks run", lambda: len(job.lines("starts")) == 2)
    job.cluster.ask("bkill", "101")
    job.wait_for("SUSPENDED")
    job.cluster.wait_until_idle()
    before = len(job.cluster.jobs())
    job.perdure("settle", "last")
    assert len(job.cluster.jobs()) == before
    assert len(job.lines("starts")) == 2
    job.perdure("resume", "last", "--detach")
    job.wait_for("SUCCEEDED")
    assert sorted(job.lines()) == [f"{task}:60" for task in range(1, 6)]


@pytest.mark.parametrize("words", [[], ["-r"], ["-s", "KILL"]])
def test_what_was_killed_stays_stopped_until_a_person_says_otherwise(job, words):
    job.submit(COUNT)
    element = job.is_under_way()
    job.cluster.ask("bkill", *words, element)
    if words[:1] == ["-s"]:  # nobody knows who: its own records count it, and it goes on
        job.wait_for("SUCCEEDED")
        assert began_once(job)
        return
    job.wait_for("SUSPENDED")
    job.cluster.wait_until_idle()
    before = len(job.cluster.jobs())
    job.perdure("settle", "last")
    assert job.status()["state"] == "SUSPENDED"
    assert len(job.cluster.jobs()) == before
    assert "killed by owner" in job.perdure("why", "last").stdout
    job.perdure("resume", "last", "--detach")
    job.wait_for("SUCCEEDED")
    assert began_once(job)
    assert job.lines() == ["1:40"]


def test_what_was_killed_before_it_began_stays_stopped(job):
    job.submit(COUNT, "--lsf", "-b 2099:12:31:23:59")
    (element,) = job.cluster.elements("PEND")
    job.cluster.ask("bkill", element)
    job.wait_for("SUSPENDED")
    job.cluster.wait_until_idle()
    assert job.lines("starts") == []
    assert f"LSF's job {element} was ended" in job.perdure("why", "last").stdout


def test_of_several_elements_only_the_killed_one_stays_stopped(job):
    job.submit(COUNT, "-p", "Tasks=2", "--workers", "2")
    wait_until("both tasks run", lambda: len(job.lines("starts")) == 2)
    wait_until("both have saved", lambda: job.checkpoints() > 3)
    first, _second = job.cluster.elements("RUN")
    job.cluster.ask("bkill", first)
    status = job.wait_for("SUSPENDED")
    assert len(job.lines()) == 1
    assert status["state"] == "SUSPENDED"
    job.perdure("resume", "last", "--detach")
    job.wait_for("SUCCEEDED")
    assert sorted(job.lines()) == ["1:40", "2:40"]


def test_a_host_that_is_lost_with_all_that_ran_there(job):
    job.submit(COUNT)
    element = job.is_under_way()
    host = job.cluster.jobs()[element]["host"]
    job.cluster.lose(host, kill=True)
    wait_until("LSF knows", lambda: job.cluster.jobs()[element]["stat"] == "UNKWN")
    job.perdure("settle", "last")
    assert len(job.cluster.elements()) == 1
    job.cluster.give_up(host)
    job.wait_for("SUCCEEDED")
    assert job.cluster.elements() == [element]
    assert began_once(job)
    assert job.lines() == ["1:40"]


def test_a_host_out_of_reach_where_the_work_goes_on(job):
    job.submit(COUNT, "-p", "Most=30")
    element = job.is_under_way()
    job.cluster.lose(job.cluster.jobs()[element]["host"], kill=False)
    wait_until("LSF knows", lambda: job.cluster.jobs()[element]["stat"] == "UNKWN")
    job.perdure("settle", "last")
    wait_until("the task is done", job.lines)
    assert job.lines("starts") == ["1:0"]
    assert job.cluster.elements() == [element]


def test_a_worker_that_is_killed_under_a_live_lsf(job):
    job.submit(COUNT)
    element = job.is_under_way()
    job.cluster.kill_processes(job.cluster.jobs()[element]["pid"])
    job.wait_for("SUCCEEDED")
    assert began_once(job)
    assert job.lines() == ["1:40"]


def test_a_job_that_is_suspended_and_resumed(job):
    job.submit(COUNT)
    job.is_under_way()
    job.perdure("suspend", "last")
    job.wait_for("SUSPENDED")
    job.cluster.wait_until_idle()
    job.perdure("resume", "last", "--detach")
    job.wait_for("SUCCEEDED")
    assert began_once(job)
    assert job.lines() == ["1:40"]


def test_a_manager_in_front_that_is_killed(job):
    manager = job.start("run", str(COUNT), *job.options("-p", "Tasks=3", "-p", "Most=8"))
    wait_until("the array is submitted", lambda: job.cluster.elements("RUN"))
    manager.kill()
    manager.communicate()
    job.wait_for("SUCCEEDED")
    assert sorted(job.lines()) == ["1:8", "2:8", "3:8"]


def test_one_question_a_turn_whatever_the_number_of_jobs(job):
    job.submit(COUNT, "-p", "Tasks=6", "--workers", "6", "--lsf", "-b 2099:12:31:23:59")
    before = job.cluster.asked()
    job.perdure("settle", "last")
    assert job.cluster.asked() - before == 1
    job.cluster.ask("bkill", "101")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--lsf", "-q nowhere"], "No such queue"),
        (["--lsf", "-no-such-option"], "Illegal option"),
        (["--lsf", "-q 'long"], "cannot be read"),
        (["--slurm", "-p long"], "--slurm is for --engine slurm"),
    ],
)
def test_what_lsf_does_not_take_is_said_at_submit(job, options, said):
    done = job.perdure("submit", str(COUNT), *job.options(*options), check=False)
    assert done.returncode in (2, 4)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert job.cluster.jobs() == {}


def test_an_lsf_that_does_not_answer_is_waited_for(job):
    job.submit(COUNT)
    job.is_under_way()
    job.cluster.set(silent=True)
    job.perdure(
        "settle", "last", check=False
    )  # a worker that seems dead would have to be asked for
    assert len(job.cluster.elements()) == 1
    job.cluster.set(silent=False)
    job.wait_for("SUCCEEDED")
    assert job.lines("starts") == ["1:0"]
