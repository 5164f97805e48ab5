"""The commands about engines, where there is no cluster."""


def test_without_slurm_one_line_says_so(shell):
    shell.environment["PATH"] = "/nowhere"
    done = shell("engines")
    local, _blank, slurm = done.stdout.splitlines()
    assert local.startswith("local: this host: ")
    assert slurm.startswith("slurm: sbatch, squeue, scontrol, scancel not on PATH")
    found = shell.json("engines")["engines"][1]
    assert (found["available"], found["settings"], found["warnings"]) == (False, {}, [])
    assert not shell.home.exists(), "it only looks"
