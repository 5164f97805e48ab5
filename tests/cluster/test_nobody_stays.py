"""Jobs whose manager is gone for good right after submit: what was laid behind them is enough."""

import socket
from pathlib import Path

import pytest

from support.worker_runs import wait_until

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
BRANCHES, COUNT, MANY = (HERE / f"{name}.yaml" for name in ("branches", "count", "many"))


@pytest.fixture
def partition(job):
    """Changes the partition's settings; as they were at the end."""

    def change(*settings: str) -> None:
        job.cluster.administer("scontrol", "update", "PartitionName=low", *settings)

    yield change
    change("AllocNodes=ALL", "State=UP")


def test_who_submits_where_jobs_may_not_is_told_what_will_need_a_person(job, partition):
    partition(f"AllocNodes=localhost,{socket.gethostname()}")
    words = ["submit", str(MANY), "-p", f"Out={job.out}", "--engine", "slurm"]
    told = job.perdure(*words).stderr
    assert "partition low takes jobs only from localhost," in told
    assert "when a task that failed is to be tried again, and before 'After' can begin" in told
    job.wait_for("SUCCEEDED")


def test_what_jobs_may_not_submit_waits_for_a_person_and_says_so(job, partition):
    job.submit(MANY, "--slurm", "--begin=now+3")
    partition("State=DRAIN")  # what is queued runs, nothing new is taken
    job.wait_for("SUSPENDED", seconds=90.0)
    assert len(job.lines("done")) == 60
    assert "its workers could not be started: sbatch refused" in job.perdure("why", "last").stdout
    partition("State=UP")
    job.perdure("resume", "last", "--detach")
    job.wait_for("SUCCEEDED", seconds=90.0)
    assert job.lines("count") == ["60"]


@pytest.mark.timeout(600)
def test_three_allocations_that_may_not_be_put_back(strict_job):
    job = strict_job
    words = ["-p", f"Out={job.out}", "--engine", "slurm", "--heartbeat-seconds", "0.5"]
    words += ["--workers", "3", "--slurm", "-t 1 --no-requeue"]
    manager = job.start("run", str(BRANCHES), *words)
    wait_until("the arrays are submitted", lambda: job.lines("starts") and job.lines("tries"))
    manager.kill()
    manager.communicate()
    job.wait_for("SUCCEEDED", seconds=480.0)
    first, *others = job.lines("starts")
    assert first == "1:0"
    assert len(others) >= 2
    assert all(int(line.partition(":")[2]) > 0 for line in others)
    assert job.lines("tries") == ["try", "try"]
    assert job.lines("after") == job.lines("done") == ["1:340"]
    assert not job.was_held()


def test_workers_ask_to_be_put_back_where_that_is_not_the_rule(strict_job):
    strict_job.submit(BRANCHES, "--slurm", "--begin=now+1hour")
    assert "it goes on by itself on the cluster" in strict_job.perdure("why", "last").stdout
    queued = strict_job.cluster.asked("squeue", "-h", "-o", "%A").split()
    said = [strict_job.cluster.asked("scontrol", "-o", "show", "job", one) for one in queued]
    assert len(said) >= 2
    assert all("Requeue=1 " in one for one in said)


def test_a_worker_is_killed_and_who_comes_next_cannot_see_its_processes(strict_job):
    """The settle job runs on the other host: it waits until the heartbeat has stood still."""
    job = strict_job
    job.submit(COUNT, "--slurm", "-w n2")
    wait_until("a task has saved", job.has_saved)
    job.kill_workers()
    job.arrives("1:40", settles=False)
    assert len(job.lines("starts")) == 2


def test_a_node_is_lost_with_an_element_that_may_not_be_put_back(strict_job):
    job = strict_job
    job.submit(COUNT, "-p", "Most=80", "--slurm", "--no-requeue")
    wait_until("a task has saved", job.has_saved)
    job.cluster.kill_node(node := job.cluster.asked("squeue", "-h", "-t", "R", "-o", "%N"))
    try:
        job.arrives("1:80", settles=False)
    finally:
        job.cluster.start_node(node)
    assert len(job.lines("starts")) == 2
