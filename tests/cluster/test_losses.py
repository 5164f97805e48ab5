"""What takes workers away on a real Slurm, and who stopped them on purpose: each ends as it should.

What a person stopped is held, and said so; what the cluster did never is.
"""

import os
import signal
from pathlib import Path

import pytest

from support.worker_runs import wait_until

pytestmark = pytest.mark.slow

COUNT = Path(__file__).parent / "count.yaml"


def is_under_way(job):
    """Wait until a task has saved; the element that runs it."""
    return wait_until("a task has saved", lambda: job.has_saved() and job.element())


def resumed_from(job):
    """The numbers that all but the first attempt went on from."""
    first, *others = job.lines("starts")
    assert first == "1:0"
    return [int(line.partition(":")[2]) for line in others]


def asks(job, field, element):
    """A field of what Slurm says of a job."""
    said = job.cluster.asked("scontrol", "-o", "show", "job", element)
    return dict(word.partition("=")[::2] for word in said.split()).get(field)


def test_a_node_is_lost_and_its_processes_work_on(job):
    """Slurm starts the element elsewhere while the old worker is there: only one may work."""
    job.submit(COUNT, "-p", "Most=240")
    element = is_under_way(job)
    node = job.cluster.asked("squeue", "-h", "-t", "R", "-o", "%N")
    job.cluster.kill_node(node, with_processes=False)
    try:

        def runs_twice():
            job.perdure("settle", "last")
            return (
                asks(job, "Restarts", element) == "1"
                and asks(job, "JobState", element) == "RUNNING"
            )

        wait_until("the element runs elsewhere", runs_twice)
        job.arrives("1:240")
    finally:
        job.cluster.start_node(node)
    assert all(number > 0 for number in resumed_from(job))


@pytest.mark.parametrize("dies", ["worker", "keeper", "both"])
def test_a_worker_is_killed_under_a_live_slurmd(job, dies):
    job.submit(COUNT)
    is_under_way(job)
    keeper, worker = job.workers()
    for pid in {"worker": [worker], "keeper": [keeper], "both": [keeper, worker]}[dies]:
        os.kill(pid, signal.SIGKILL)
    job.arrives("1:40", settles=False)
    assert all(number > 0 for number in resumed_from(job))


def test_step_daemons_die_and_slurm_does_not_notice(job):
    """For Slurm the job runs until its time limit; whoever makes a turn sees that it is dead."""
    job.submit(COUNT)
    element = is_under_way(job)
    job.cluster.kill_steps(job.cluster.asked("squeue", "-h", "-t", "R", "-o", "%N"))
    job.wait_for("SUCCEEDED", settles=True)
    assert job.lines() == ["1:40"]
    assert not job.was_held()
    assert all(number > 0 for number in resumed_from(job))
    job.cluster.asked("scancel", element)
    job.is_over()


def test_a_step_that_somebody_cancels_stops_its_job(job):
    job.submit(COUNT)
    element = is_under_way(job)
    number = asks(job, "JobId", element)
    job.cluster.run(["scancel", f"{number}.0"], check=False)  # it does so, and says that it cannot
    job.is_held("Slurm does not say why")
    job.perdure("resume", "last", "--detach")
    job.wait_for("SUCCEEDED")
    assert job.lines() == ["1:40"]
    assert all(number > 0 for number in resumed_from(job))


def test_a_job_that_somebody_cancels_while_it_saves(job):
    """It may be killed before it has saved, or before its worker has noted who stopped it."""
    job.submit(COUNT, "-p", "Slow=3")
    element = wait_until("the task runs", lambda: job.lines("starts") and job.element())
    job.cluster.asked("scancel", element)
    job.is_held("it was cancelled")
    job.perdure("resume", "last", "--detach")
    job.wait_for("SUCCEEDED")
    assert job.lines() == ["1:40"]
    assert len(resumed_from(job)) == 1


def test_a_job_that_somebody_cancels_while_it_saves_to_be_put_back(job):
    job.submit(COUNT, "-p", "Slow=3")
    element = wait_until("the task runs", lambda: job.lines("starts") and job.element())
    job.cluster.asked("scontrol", "requeue", element)
    job.cluster.asked("scancel", element)
    job.is_held("cancelled")
    job.perdure("resume", "last", "--detach")
    job.wait_for("SUCCEEDED")
    assert job.lines() == ["1:40"]


def test_an_element_that_somebody_cancels_after_it_was_put_back(job):
    job.submit(COUNT)
    element = is_under_way(job)
    job.cluster.asked("scontrol", "requeue", element)
    wait_until("it waits", lambda: asks(job, "JobState", element) == "PENDING")
    job.cluster.asked("scancel", element)
    job.is_held(f"{element} was cancelled")
    job.perdure("resume", "last", "--detach")
    job.wait_for("SUCCEEDED")
    assert job.lines() == ["1:40"]
    assert all(number > 0 for number in resumed_from(job))


def test_a_grace_of_five_seconds_is_enough_to_save(strict_job):
    strict_job.submit(COUNT, "-p", "Most=60", "-p", "Slow=2")
    element = wait_until(
        "the task runs", lambda: strict_job.lines("starts") and strict_job.element()
    )
    strict_job.cluster.asked("sbatch", "-p", "high", "-N2", "--exclusive", "--wrap", "sleep 1")
    wait_until("it was put back", lambda: element not in strict_job.element())
    strict_job.arrives("1:60")
    (number,) = resumed_from(strict_job)
    assert number > 0
