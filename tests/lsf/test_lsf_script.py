"""`perdure run` in a script of the simulated LSF."""

import shlex
import sys
from pathlib import Path

import pytest

from support.worker_runs import wait_until

COUNT = Path(__file__).parent.parent / "cluster" / "count.yaml"


class Script:
    """A script that notes what is before and behind the command."""

    def __init__(self, job) -> None:
        self.job = job

    def submit(self, *words: str, options: tuple[str, ...] = ()) -> str:
        """Submit it; the job's id."""
        command = [sys.executable, "-P", "-m", "perdure", "run", str(COUNT)]
        command += ["-p", f"Out={self.job.out}", "--heartbeat-seconds", "0.5", *words]
        lines = [f"export {name}={path}" for name, path in self.job.variables.items()]
        lines += [f"cd {self.job.folder}", "echo before >>out/script", shlex.join(command)]
        lines += ["code=$?", "echo behind:$code >>out/script", "exit $code"]
        path = self.job.folder / "script.sh"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.job.cluster.ask(
            *("bsub", "-J", "script", "-o", str(self.job.folder / "script.out")),
            *(*options, "sh", str(path)),
        )
        (found,) = [k for k, one in self.job.cluster.jobs().items() if one["name"] == "script"]
        return found

    def state(self, number: str) -> str:
        """What LSF says of it."""
        return self.job.cluster.jobs()[number]["stat"]


@pytest.fixture
def script(job) -> Script:
    return Script(job)


def has_saved(job) -> bool:
    return bool(job.lines("starts")) and job.checkpoints() > 0


def test_a_script_that_is_put_back_goes_on(job, script):
    number = script.submit()
    wait_until("a task has saved", lambda: has_saved(job))
    job.cluster.ask("brequeue", number)
    wait_until("it is done", lambda: script.state(number) == "DONE")
    assert job.lines("script") == ["before", "before", "behind:0"]
    assert [one for one in job.lines("starts") if one.endswith(":0")] == ["1:0"]
    assert job.lines() == ["1:40"]


def test_a_run_limit_puts_the_script_back_in_time(job, script):
    number = script.submit("-p", "Most=60", options=("-W", "3"))
    wait_until("it is over", lambda: script.state(number) in ("DONE", "EXIT"), seconds=120)
    assert script.state(number) == "DONE"
    assert job.lines("script")[-1] == "behind:0"
    assert job.lines("script").count("behind:0") == 1
    assert job.cluster.jobs()[number]["runs"] > 1
    assert [one for one in job.lines("starts") if one.endswith(":0")] == ["1:0"]
    assert job.lines() == ["1:60"]


def test_a_script_that_is_killed_does_not_go_on_by_itself(job, script):
    number = script.submit()
    wait_until("a task has saved", lambda: has_saved(job))
    job.cluster.ask("bkill", number)
    wait_until("it is over", lambda: script.state(number) == "EXIT")
    assert "behind:0" not in job.lines("script")
    assert job.status()["state"] != "SUCCEEDED"
    assert job.lines() == []
    job.perdure("resume", "last")
    assert [one for one in job.lines("starts") if one.endswith(":0")] == ["1:0"]
    assert job.lines() == ["1:40"]
