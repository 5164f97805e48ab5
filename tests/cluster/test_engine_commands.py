"""What the commands about engines say of a real Slurm."""

import json
from pathlib import Path

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
