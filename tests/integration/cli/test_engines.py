"""The commands about engines, where there is no cluster."""

import shutil


def test_without_slurm_one_line_says_so(shell):
    shell.environment["PATH"] = "/nowhere"
    done = shell("engines")
    local, _blank, slurm = done.stdout.splitlines()
    assert local.startswith("local: this host: ")
    assert slurm.startswith("slurm: sbatch, squeue, scontrol, scancel not on PATH")
    found = shell.json("engines")["engines"][1]
    assert (found["available"], found["settings"], found["warnings"]) == (False, {}, [])
    assert not shell.home.exists(), "it only looks"


def test_a_host_where_jobs_can_run(shell):
    done = shell("doctor")
    assert {line.split()[0] for line in done.stdout.splitlines()} == {"ok"}
    assert "checkpoint: 1 MiB was saved and read back" in done.stdout
    assert shell.json("status")["jobs"] == []
    assert sorted(path.name for path in (shell.folder / "store").iterdir()) == ["format"]


def test_a_home_that_cannot_be_used_is_said_with_what_to_do(shell):
    shell.environment["PERDURE_STORE"] = str(shell.template("no folder", "file"))
    done = shell("doctor", expect=1)
    (failed,) = [line for line in done.stdout.splitlines() if line.startswith("failed")]
    assert failed.startswith("failed   store: ")
    assert "Traceback" not in done.stderr
    checks = shell.json("doctor", expect=1)["checks"]
    assert [one["advice"] != "" for one in checks if one["health"] == "failed"] == [True]


def test_no_probe_without_slurm(shell):
    shell.environment["PATH"] = "/nowhere"
    done = shell("doctor", "--engine", "slurm", expect=1)
    assert "failed   slurm: sbatch, squeue, scontrol, scancel not on PATH" in done.stdout


def test_an_engine_that_would_not_take_the_job_changes_nothing(suspended, shell):
    shutil.copytree(suspended.store, shell.store)
    shell.environment["PATH"] = "/nowhere"
    before = shell.json("status", "last")
    done = shell("resume", "last", "--engine", "slurm", expect=4)
    assert "sbatch cannot be run" in done.stderr
    assert shell.json("status", "last") == before
    assert before["engine"] == {"name": "local", "options": [], "changed_at": None}


def test_only_the_whole_job_is_moved(suspended):
    words = ("resume", "last", "--engine", "slurm", "--task", "Work")
    assert "for the whole job" in suspended(*words, expect=2).stderr
    done = suspended("resume", "last", "--slurm", "-p long", expect=2)
    assert "--slurm is for --engine slurm" in done.stderr
