"""A job that is given another engine in mid-life, on a real Slurm: never two work at it."""

import signal
from pathlib import Path

import pytest

from support.worker_runs import wait_until

pytestmark = pytest.mark.slow

COUNT = Path(__file__).parent / "count.yaml"


def is_under_way(job):
    """Wait until a task has saved."""
    wait_until("a task has saved", job.has_saved)


def nothing_is_queued(job):
    wait_until("nothing is queued", lambda: not job.cluster.asked("squeue", "-h", "-o", "%i"))


def went_on(job, most):
    """It began once, and each further start was from a save; it was done once."""
    first, *others = job.lines("starts")
    assert first == "1:0"
    assert all(int(line.partition(":")[2]) > 0 for line in others), job.story()
    assert job.lines() == [f"1:{most}"]
    return others


def element_of(job):
    """The element of an array that waits."""
    queued = job.cluster.asked("squeue", "-h", "-r", "-o", "%i|%j").splitlines()
    (element,) = [line.partition("|")[0] for line in queued if "settle" not in line]
    return element


def test_from_the_cluster_to_this_host(job):
    job.submit(COUNT, "-p", "Most=60")
    is_under_way(job)
    done = job.perdure("resume", "last", "--engine", "local", check=False)
    assert done.returncode == 0, done.stderr
    assert "a worker saves and then leaves" in done.stderr
    assert "its workers are started by this host (before: slurm)" in done.stderr
    assert len(went_on(job, 60)) == 1
    status = job.status()
    assert (status["engine"]["name"], status["engine"]["options"]) == ("local", [])
    assert status["engine"]["changed_at"]
    assert "started by the engine local" in job.perdure("why", "last").stdout
    nothing_is_queued(job)
    assert len(job.lines("starts")) == 2, "the settle job of the array started nothing"


def test_what_is_still_queued_is_taken_back(job):
    job.submit(COUNT, "--slurm", "--begin=now+1hour")
    element = element_of(job)
    job.perdure("resume", "last", "--engine", "local")
    assert went_on(job, 40) == []
    states = job.cluster.asked("squeue", "-h", "-r", "-t", "all", "-o", "%i|%T").splitlines()
    assert f"{element.partition('_')[0]}|CANCELLED" in states, "the whole array, as Slurm shows it"
    nothing_is_queued(job)
    assert job.status()["state"] == "SUCCEEDED"


def test_from_this_host_to_the_cluster(job):
    words = ["-p", f"Out={job.out}", "-p", "Most=60", "--heartbeat-seconds", "0.5"]
    job.perdure("submit", str(COUNT), *words)
    is_under_way(job)
    job.perdure("resume", "last", "--engine", "slurm", "--slurm", "-p low", "--detach")
    job.wait_for("SUCCEEDED")
    assert went_on(job, 60)
    engine = job.status()["engine"]
    assert (engine["name"], engine["options"]) == ("slurm", ["-p", "low"])
    assert "Engine: slurm -p low, since " in job.perdure("status", "last").stdout


def test_other_options_for_what_waits_for_ever(job):
    job.submit(COUNT, "--slurm", "--begin=now+1hour", "--slurm", "-t 30")
    job.perdure("resume", "last", "--slurm", "-p high --mem=100M", "--detach")
    wait_until("it runs", job.element)
    shown = job.cluster.asked("squeue", "-h", "-t", "R", "-o", "%P|%m|%j")
    assert any(line.startswith("high|100M|") for line in shown.splitlines()), shown
    job.wait_for("SUCCEEDED")
    assert went_on(job, 40) == []
    nothing_is_queued(job)


def test_other_options_for_what_runs(job):
    job.submit(COUNT, "-p", "Most=60")
    is_under_way(job)
    job.perdure("resume", "last", "--slurm", "-p high", "--detach")
    job.wait_for("SUCCEEDED")
    assert len(went_on(job, 60)) == 1
    nothing_is_queued(job)


def test_options_that_slurm_does_not_take_stop_nothing(job):
    job.submit(COUNT)
    is_under_way(job)
    done = job.perdure("resume", "last", "--slurm", "-p nowhere", check=False)
    assert done.returncode == 4
    assert "partition" in done.stderr
    job.wait_for("SUCCEEDED")
    assert went_on(job, 40) == []


def test_what_could_not_be_taken_back_begins_and_leaves(job):
    """As where the cluster is out of reach: nobody can cancel what is queued there."""
    job.submit(COUNT, "-p", "Most=60", "--slurm", "--hold")
    element = element_of(job)
    commands = job.folder / "bin"
    commands.mkdir()
    (commands / "python3").symlink_to("/usr/bin/python3")
    here = {**job.environment, "PATH": str(commands)}
    command = [job.cluster.python(), "-P", "-m", "perdure", "resume", "last", "--engine", "local"]
    done = job.cluster.run([*command, "--detach"], folder=job.folder, environment=here)
    assert "could not be taken back, and leaves when it begins" in done.stderr
    is_under_way(job)
    job.cluster.asked("scontrol", "release", element.partition("_")[0])
    nothing_is_queued(job)
    assert len(job.lines("starts")) == 1, "it began, and left"
    job.wait_for("SUCCEEDED")
    assert went_on(job, 60) == []


@pytest.mark.parametrize("engine", ["slurm", "local"])
def test_there_and_back(job, engine):
    other = "local" if engine == "slurm" else "slurm"
    words = ["-p", f"Out={job.out}", "-p", "Most=100", "--engine", engine]
    job.perdure("submit", str(COUNT), *words, "--heartbeat-seconds", "0.5")
    is_under_way(job)
    job.perdure("resume", "last", "--engine", other, "--detach")
    wait_until("it goes on there", lambda: len(job.lines("starts")) > 1)
    job.perdure("resume", "last", "--engine", engine, "--detach")
    job.wait_for("SUCCEEDED")
    assert len(went_on(job, 100)) == 2
    nothing_is_queued(job)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_move_that_is_interrupted_leaves_the_job_suspended(job, number):
    job.submit(COUNT, "-p", "Most=60", "-p", "Slow=7")
    wait_until("the task runs", lambda: job.lines("starts"))
    moving = job.start("resume", "last", "--engine", "local")
    wait_until("it is asked to save", lambda: "given another engine" in job.why())
    moving.send_signal(number)
    said, _nothing = moving.communicate(timeout=60)
    assert moving.returncode == (130 if number == signal.SIGINT else -number), said
    status = job.wait_for("SUSPENDED")
    assert (status["engine"]["name"], status["engine"]["changed_at"]) == ("slurm", None)
    nothing_is_queued(job)
    job.perdure("resume", "last", "--engine", "local")
    assert len(went_on(job, 60)) == 1


def test_a_manager_in_front_of_what_goes_on_elsewhere(job):
    words = ["-p", f"Out={job.out}", "-p", "Most=60", "--engine", "slurm"]
    manager = job.start("run", str(COUNT), *words, "--heartbeat-seconds", "0.5")
    is_under_way(job)
    job.perdure("resume", "last", "--engine", "local", "--detach")
    said, _nothing = manager.communicate(timeout=120)
    assert manager.returncode in (75, 4), said
    assert "State: SUSPENDED" in said or "given another engine" in said
    job.wait_for("SUCCEEDED")
    assert len(went_on(job, 60)) == 1
    nothing_is_queued(job)
