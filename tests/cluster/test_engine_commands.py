"""What the commands about engines say of a real Slurm."""

import json
import signal
from pathlib import Path

import pytest

from support.worker_runs import wait_until

pytestmark = pytest.mark.slow

COUNT = Path(__file__).parent / "count.yaml"


def test_the_settings_that_matter_and_what_to_beware_of(job):
    job.submit(COUNT, "-p", "Most=4")
    job.wait_for("SUCCEEDED")
    said = json.loads(job.perdure("engines", "--json").stdout)
    local, slurm = said["engines"]
    assert local["settings"]["cpus"] >= 1
    assert slurm["version"] == job.cluster.asked("sinfo", "--version").rpartition(" ")[2]
    assert slurm["settings"]["kill_wait_seconds"] == 5
    assert {one["name"]: one["grace_seconds"] for one in slurm["partitions"]} == {
        "low": 20,
        "high": 0,
    }
    assert slurm["save_seconds"] > 0
    assert any("told to a job's steps" in one for one in slurm["warnings"])
    shown = job.perdure("engines").stdout
    assert "KillWait       5" in shown
    assert "low*" in shown


def test_a_controller_that_does_not_answer_is_said(job):
    job.cluster.kill_controller()
    try:
        found = json.loads(job.perdure("engines", "--json").stdout)["engines"][1]
    finally:
        job.cluster.start_controller()
    assert not found["available"]
    assert "does not answer" in found["reason"]


def checks(done):
    """The checks of a doctor's answer, by name."""
    return {one["check"]: one for one in json.loads(done.stdout)["checks"]}


def nothing_is_left(job):
    """Of a probe: in Slurm, in the home, in the store."""
    wait_until(
        "no probe is queued", lambda: "doctor" not in job.cluster.asked("squeue", "-h", "-o", "%j")
    )
    home = job.folder / "home"
    assert not (home / "probes").exists()
    assert not list((home / "store").glob("lineages/*/*"))
    assert not list((home / "store").glob("jobs/*"))


def test_a_cluster_where_jobs_can_run(job):
    done = job.perdure("doctor", "--engine", "slurm", "--slurm", "-p low", "--json")
    found = checks(done)
    assert {one["health"] for one in found.values()} == {"ok"}, found
    nodes = {"home", "interpreter", "commands", "store", "clock"}
    assert {f"node {name}" for name in nodes} | {"jobs submit", "probe"} <= set(found)
    nothing_is_left(job)


def test_a_home_that_the_node_does_not_reach(job):
    """The same path is another folder for another process: as where nothing is shared."""
    (job.folder / "home").mkdir()
    words = ["--home", "/proc/self/cwd/home", "--slurm", "--chdir=/", "--json"]
    words += ["--store", str(job.folder / "home" / "store")]
    job.cluster.run(["chmod", "0777", str(job.folder)])
    (job.folder / "home").chmod(0o777)
    done = job.perdure("doctor", "--engine", "slurm", *words, check=False)
    assert done.returncode == 1, done.stderr
    found = checks(done)
    assert found["node home"]["health"] == "failed"
    assert "--home" in found["node home"]["advice"]
    nothing_is_left(job)


@pytest.fixture
def full(job):
    """All nodes are taken."""
    job.cluster.asked("sbatch", "-p", "high", "-N2", "--exclusive", "--wrap", "sleep 600")
    wait_until("it runs", lambda: job.cluster.asked("squeue", "-h", "-t", "R", "-o", "%i"))


def test_a_probe_that_does_not_begin_says_why(job, full):
    done = job.perdure("doctor", "--engine", "slurm", "--timeout", "4", "--json", check=False)
    assert done.returncode == 1
    found = checks(done)["node"]
    assert found["health"] == "failed"
    assert "it is PENDING, and Slurm's reason is " in found["text"]
    assert "--timeout" in found["advice"]
    nothing_is_left(job)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_probe_that_is_interrupted_is_taken_away(job, full, number, code):
    doctor = job.start("doctor", "--engine", "slurm")
    wait_until(
        "it is queued", lambda: "perdure-doctor" in job.cluster.asked("squeue", "-h", "-o", "%j")
    )
    doctor.send_signal(number)
    said, _nothing = doctor.communicate(timeout=60)
    assert doctor.returncode == code, said
    nothing_is_left(job)


def test_what_slurm_does_not_take_is_a_failed_check(job):
    done = job.perdure("doctor", "--engine", "slurm", "--slurm", "-p nowhere", check=False)
    assert done.returncode == 1
    assert "failed   probe: sbatch refused: " in done.stdout
    assert "partition" in done.stdout
    nothing_is_left(job)
