"""Jobs whose manager is gone for good right after submit: what was laid behind them is enough."""

from pathlib import Path

import pytest

from support.worker_runs import wait_until

BRANCHES = Path(__file__).parent / "branches.yaml"


@pytest.mark.parametrize("options", [["--slurm", "-t 1 --no-requeue"]])
def test_three_allocations_that_may_not_be_put_back(job, options):
    words = ["-p", f"Out={job.out}", "--engine", "slurm", "--heartbeat-seconds", "0.5"]
    manager = job.start("run", str(BRANCHES), *words, "--workers", "3", *options)
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
