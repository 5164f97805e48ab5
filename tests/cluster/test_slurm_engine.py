"""Jobs on a real Slurm: they arrive at their end with nobody logged in, whatever happens."""

import signal
from pathlib import Path

import pytest

from support.worker_runs import wait_until

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
COUNT, CHUNKS = HERE / "count.yaml", HERE / "chunks.yaml"


def is_under_way(job):
    """Wait until a task has saved; the element that runs it."""
    return wait_until("a task has saved", lambda: job.has_saved() and job.element())


def test_chunks_and_the_step_behind_them(job):
    job.submit(CHUNKS, "--workers", "3")
    job.wait_for("SUCCEEDED")
    assert sorted(map(int, job.lines("done"))) == list(range(1, 61))
    assert job.lines("count") == ["60"]


def test_an_element_that_is_put_back_goes_on_where_it_was(job):
    job.submit(COUNT)
    element = is_under_way(job)
    job.cluster.asked("scontrol", "requeue", element)
    job.wait_for("SUCCEEDED", settles=True)
    first, *others = job.lines("starts")
    assert first == "1:0"
    assert len(others) == 1
    assert int(others[0].partition(":")[2]) > 0
    assert job.lines() == ["1:40"]
    assert not job.was_held()


def test_a_cancelled_element_stays_stopped_until_a_person_says_otherwise(job):
    job.submit(COUNT)
    job.cluster.asked("scancel", is_under_way(job))
    status = job.wait_for("SUSPENDED")
    assert status["state"] == "SUSPENDED"
    wait_until("nothing is queued", lambda: not job.cluster.asked("squeue", "-h", "-o", "%i"))
    assert job.status()["state"] == "SUSPENDED"
    job.perdure("resume", "last", "--detach")
    job.wait_for("SUCCEEDED")
    assert job.lines() == ["1:40"]
    assert [line for line in job.lines("starts") if line == "1:0"] == ["1:0"]


def test_what_was_cancelled_before_it_began_stays_stopped(job):
    job.submit(COUNT, "--slurm", "--begin=now+1hour")
    queued = job.cluster.asked("squeue", "-h", "-r", "-o", "%i|%j").splitlines()
    (element,) = [line.partition("|")[0] for line in queued if "settle" not in line]
    job.cluster.asked("scancel", element)
    job.wait_for("SUSPENDED")
    wait_until("nothing is queued", lambda: not job.cluster.asked("squeue", "-h", "-o", "%i"))
    assert job.lines("starts") == []
    assert f"{element} was cancelled" in job.perdure("why", "last").stdout


def test_what_is_to_begin_later_is_not_hurried(job):
    """Only what was put back need not wait."""
    job.submit(COUNT, "--slurm", "--begin=now+1hour")
    for _ in range(2):
        job.perdure("settle", "last")
    queued = job.cluster.asked("squeue", "-h", "-r", "-o", "%T|%r|%j").splitlines()
    assert next(line for line in queued if "settle" not in line).startswith("PENDING|BeginTime|")
    job.perdure("suspend", "last")


def test_a_more_important_job_takes_the_place_for_a_while(job):
    job.submit(COUNT, "-p", "Most=60")
    element = is_under_way(job)
    job.cluster.asked("sbatch", "-p", "high", "-N2", "--exclusive", "--wrap", "sleep 1")
    wait_until("it was put back", lambda: element not in job.element())
    job.wait_for("SUCCEEDED", settles=True)
    assert job.lines() == ["1:60"]
    assert [line for line in job.lines("starts") if line == "1:0"] == ["1:0"]
    assert not job.was_held()


def test_the_grace_of_a_preemption_is_for_saving(job):
    """Without the early word the program would be killed while it saves: KillWait is 5 s."""
    job.submit(COUNT, "-p", "Most=60", "-p", "Slow=7")
    element = wait_until("the task runs", lambda: job.lines("starts") and job.element())
    job.cluster.asked("sbatch", "-p", "high", "-N2", "--exclusive", "--wrap", "sleep 1")
    wait_until("it was put back", lambda: element not in job.element())
    job.wait_for("SUCCEEDED", settles=True)
    first, second = job.lines("starts")
    assert first == "1:0"
    assert int(second.partition(":")[2]) > 0
    assert job.lines() == ["1:60"]
    assert not job.was_held()


def test_a_job_that_is_suspended_and_resumed(job):
    job.submit(COUNT)
    is_under_way(job)
    job.perdure("suspend", "last")
    job.wait_for("SUSPENDED")
    wait_until("nothing is queued", lambda: not job.cluster.asked("squeue", "-h", "-o", "%i"))
    job.perdure("resume", "last", "--detach")
    job.wait_for("SUCCEEDED")
    assert job.lines() == ["1:40"]
    assert [line for line in job.lines("starts") if line == "1:0"] == ["1:0"]


def test_a_manager_in_front(job):
    words = ["-p", f"Out={job.out}", "-p", "Tasks=4", "-p", "Most=4", "--workers", "2"]
    done = job.perdure("run", str(COUNT), *words, "--engine", "slurm", "--heartbeat-seconds", "0.5")
    assert "State: SUCCEEDED" in done.stdout
    assert sorted(job.lines()) == ["1:4", "2:4", "3:4", "4:4"]


def test_a_manager_in_front_whose_host_is_to_go(job):
    words = ["-p", f"Out={job.out}", "--engine", "slurm", "--heartbeat-seconds", "0.5"]
    manager = job.start("run", str(COUNT), *words)
    is_under_way(job)
    manager.send_signal(signal.SIGTERM)
    said, _nothing = manager.communicate(timeout=60)
    assert manager.returncode == 143
    assert "goes on by itself on the cluster" in said
    job.wait_for("SUCCEEDED")
    assert job.lines("starts") == ["1:0"]
    assert job.lines() == ["1:40"]


def test_a_manager_in_front_that_is_killed(job):
    words = ["-p", f"Out={job.out}", "--engine", "slurm", "--heartbeat-seconds", "0.5"]
    manager = job.start("run", str(COUNT), *words, "-p", "Tasks=3", "-p", "Most=8")
    wait_until("the array is submitted", job.element)
    manager.kill()
    manager.communicate()
    job.wait_for("SUCCEEDED")
    assert sorted(job.lines()) == ["1:8", "2:8", "3:8"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--slurm", "-p nowhere"], "partition"),
        (["--slurm", "--no-such-option"], "unrecognized option"),
        (["--slurm", "-p 'low"], "cannot be read"),
        (["--slurm", "--mem=9999G"], "not available"),
    ],
)
def test_what_slurm_does_not_take_is_said_at_submit(job, options, said):
    done = job.perdure(
        *("submit", str(COUNT), "-p", f"Out={job.out}", "--engine", "slurm", *options), check=False
    )
    assert done.returncode in (2, 4)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert job.cluster.asked("squeue", "-h", "-o", "%i") == ""


def test_a_time_limit_costs_no_more_than_the_work_since_the_last_save(job):
    job.submit(COUNT, "-p", "Most=180", "--slurm", "-t 1")
    job.wait_for("SUCCEEDED", settles=True)
    first, *others = job.lines("starts")
    assert first == "1:0"
    assert others
    assert all(int(line.partition(":")[2]) > 0 for line in others)
    assert job.lines() == ["1:180"]
    assert not job.was_held()


def test_a_node_that_is_lost_with_all_that_ran_there(job):
    job.submit(COUNT, "-p", "Most=100")
    is_under_way(job)
    job.cluster.kill_node(node := job.cluster.asked("squeue", "-h", "-t", "R", "-o", "%N"))
    try:
        job.wait_for("SUCCEEDED", settles=True)
    finally:
        job.cluster.start_node(node)
    assert job.lines() == ["1:100"]
    assert [line for line in job.lines("starts") if line == "1:0"] == ["1:0"]
    assert not job.was_held()


def test_the_controller_is_killed_and_started_again(job):
    job.submit(COUNT)
    is_under_way(job)
    job.cluster.wait_for_state()
    job.cluster.kill_controller()
    job.cluster.start_controller()
    job.wait_for("SUCCEEDED")
    assert job.lines("starts") == ["1:0"]
    assert job.lines() == ["1:40"]
