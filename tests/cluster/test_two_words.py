"""`perdure run` in a batch script of Slurm: the script that people have, with two words more."""

import shlex
import time
from pathlib import Path

import pytest

from support.worker_runs import wait_until

COUNT = Path(__file__).parent / "count.yaml"
_SOON_SECONDS = 3.0
PROGRAM = """\
number=${PERDURE_CHECKPOINT_STATE:-0}
echo $number >>$1/starts
save() { echo "openjd_checkpoint_save: {\\"state\\": \\"$number\\"}"; }
trap 'save; exit 1' TERM
while [ $number -lt 400 ]; do
  sleep 0.25
  number=$((number + 1))
  [ $((number % 20)) != 0 ] || save
done
echo $number >>$1/done
"""


class Script:
    """A batch script that notes what is before and behind the command."""

    def __init__(self, job) -> None:
        self.job = job
        self.path = job.folder / "script.sh"
        self._pending_since: float | None = None

    def write(self, *words: str) -> None:
        self._write([str(COUNT), "-p", f"Out={self.job.out}", *words])

    def write_command(self, *command: str) -> None:
        self._write(["--", *command])

    def _write(self, words: list[str]) -> None:
        python = self.job.cluster.python()
        command = [python, "-P", "-m", "perdure", "run", "--heartbeat-seconds", "0.5", *words]
        places = {"PERDURE_HOME": "home", "PERDURE_CACHE": "cache"}
        lines = ["#!/bin/bash"]
        lines += [f"export {name}={self.job.folder / folder}" for name, folder in places.items()]
        lines += ["echo before >>out/script", shlex.join(command), "code=$?"]
        lines += ["echo behind:$code >>out/script", "exit $code"]
        self.path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def submit(self, *options: str) -> str:
        done = self.job.cluster.run(
            ["sbatch", "--parsable", *options, str(self.path)], folder=self.job.folder
        )
        return done.stdout.strip()

    def let_begin(self, number: str) -> None:
        """What was put back may begin soon; at once a slurmd still takes it for killed."""
        state = self.job.cluster.asked("squeue", "-h", "-j", number, "-t", "all", "-o", "%T")
        if state != "PENDING":
            self._pending_since = None
            return
        self._pending_since = self._pending_since or time.monotonic()
        if time.monotonic() - self._pending_since < _SOON_SECONDS:
            return
        self.job.cluster.run(
            ["scontrol", "update", f"JobId={number}", "StartTime=now"], check=False
        )


@pytest.fixture
def script(job) -> Script:
    return Script(job)


def test_a_script_that_is_put_back(job, script):
    script.write()
    number = script.submit()
    wait_until("a task has saved", job.has_saved)
    job.cluster.asked("scontrol", "requeue", number)

    def ended() -> bool:
        script.let_begin(number)
        return job.lines("script")[-1].startswith("behind")

    wait_until("the script has ended", ended)
    assert job.lines("script") == ["before", "before", "behind:0"]
    first, *others = job.lines("starts")
    assert first == "1:0"
    assert len(others) == 1
    assert others[0] != "1:0"
    assert job.lines() == ["1:40"]


def test_a_script_that_is_preempted_saves_in_the_grace(job, script):
    """Without the early word the program would be killed while it saves: KillWait is 5 s."""
    script.write("-p", "Most=60", "-p", "Slow=7")
    number = script.submit()
    wait_until("the task runs", lambda: job.lines("starts"))
    job.cluster.asked("sbatch", "-p", "high", "-N2", "--exclusive", "--wrap", "sleep 1")

    def ended() -> bool:
        script.let_begin(number)
        return "behind:0" in job.lines("script")

    wait_until("the script has ended", ended)
    first, second = job.lines("starts")
    assert first == "1:0"
    assert int(second.partition(":")[2]) > 0
    assert job.lines() == ["1:60"]
    assert job.lines("script") == ["before", "before", "behind:0"]


def test_a_plain_command_over_its_time_limit_and_put_back(job, script):
    """Two words before the line that people have."""
    program = job.folder / "count.sh"
    program.write_text(PROGRAM, encoding="utf-8")
    script.write_command("bash", str(program), str(job.out))
    number = script.submit("-t", "1")
    wait_until("it has saved", job.has_saved)
    job.cluster.asked("scontrol", "requeue", number)

    def ended() -> bool:
        script.let_begin(number)
        return "behind:0" in job.lines("script")

    wait_until("the script has ended", ended)
    starts = [int(text) for text in job.lines("starts")]
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    assert len(starts) > 2
    assert job.lines("script") == ["before"] * len(starts) + ["behind:0"]
    assert job.lines() == ["400"]


def test_a_script_over_its_time_limit(job, script):
    script.write("-p", "Most=140")
    number = script.submit("-t", "1")

    def ended() -> bool:
        script.let_begin(number)
        return "behind:0" in job.lines("script")

    wait_until("the script has ended", ended)
    assert job.lines("script").count("behind:0") == 1
    assert job.lines("script").count("before") > 1
    assert [line for line in job.lines("starts") if line == "1:0"] == ["1:0"]
    assert job.lines() == ["1:140"]


def test_a_script_that_is_cancelled_stays_stopped(job, script):
    script.write()
    number = script.submit()
    wait_until("a task has saved", job.has_saved)
    job.cluster.asked("scancel", number)
    wait_until("it is stopped", lambda: not job.cluster.asked("squeue", "-h", "-o", "%i"))
    job.wait_for("SUSPENDED")
    assert "behind:0" not in job.lines("script")
    script.submit()
    wait_until("the script has ended", lambda: "behind:0" in job.lines("script"))
    assert [line for line in job.lines("starts") if line == "1:0"] == ["1:0"]
    assert job.lines() == ["1:40"]


def test_a_second_script_with_the_same_line_is_refused_while_the_first_runs(job, script):
    script.write()
    script.submit()
    wait_until("a task has saved", job.has_saved)
    script.submit()
    wait_until("the second has ended", lambda: "behind:6" in job.lines("script"))
    wait_until("the first has ended", lambda: "behind:0" in job.lines("script"))
    assert job.lines("starts") == ["1:0"]
    assert job.lines() == ["1:40"]


def test_the_elements_of_an_array_are_jobs_of_their_own(job, script):
    script.write("-p", "Most=8")
    script.submit("--array=1-2")
    wait_until("both have ended", lambda: job.lines("script").count("behind:0") == 2)
    assert job.lines("starts") == ["1:0", "1:0"]
