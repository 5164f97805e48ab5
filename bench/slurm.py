"""Print what 1,000 tasks of `true` cost on Slurm, beside a bare array of the same grouping.

    python bench/slurm.py [--rounds N] [--tasks N] [--workers N]

On a real Slurm of this one machine, which the tests' support starts and stops (root, Debian's
slurm-wlm and munge). Three figures: how long `submit` takes; how often squeue is asked in one turn
while the array runs; and how long the job takes from its submission until Slurm has nothing of it
any more, as a ratio to a bare array whose elements run their part of the tasks in a shell. Both are
measured in turn, and the ratio is the median of the rounds'. What is missed is printed as missed.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path.insert(0, str(TESTS))

from support.slurm_cluster import SlurmCluster, missing  # noqa: E402

SUBMIT_BAR_SECONDS, QUERIES_BAR, RATIO_BAR = 1.0, 1.0, 1.5
_TURNS, _LOOK_SECONDS, _LONGEST_SECONDS = 3, 0.1, 600.0
TEMPLATE = """\
specificationVersion: jobtemplate-2023-09
name: Noop
steps:
- name: Nothing
  parameterSpace:
    taskParameterDefinitions: [{{name: I, type: INT, range: "1-{tasks}"}}]
  script: {{actions: {{onRun: {{command: /bin/true}}}}}}
"""
#: In squeue's place: notes that it was asked.
SQUEUE = """\
#!/bin/sh
echo "$@" >>"$SQUEUE_ASKED"
exec {squeue} "$@"
"""


@dataclass(frozen=True)
class Round:
    """One job of ours, and one bare array."""

    submit_seconds: float
    ours_seconds: float
    bare_seconds: float


class Bench:
    """The cluster and what is asked of it."""

    def __init__(self, cluster: SlurmCluster, tasks: int, workers: int) -> None:
        self._cluster = cluster
        self._tasks, self._workers = tasks, workers
        self._template = cluster.jobs / "noop.yaml"
        self._template.write_text(TEMPLATE.format(tasks=tasks), encoding="utf-8")
        self._asked = cluster.jobs / "asked"
        self._asked.touch()
        self._asked.chmod(0o666)  # the plain user's squeue notes it there
        commands = cluster.jobs / "bin"
        commands.mkdir()
        (commands / "squeue").write_text(SQUEUE.format(squeue=shutil.which("squeue")))
        (commands / "squeue").chmod(0o755)
        self._path = f"{commands}:{cluster.environment()['PATH']}"

    def round(self, number: int) -> Round:
        """Both in turn."""
        submit_seconds, ours = self._ours(number)
        bare = self.bare_array(self._workers)
        return Round(submit_seconds=submit_seconds, ours_seconds=ours, bare_seconds=bare)

    def _ours(self, number: int) -> tuple[float, float]:
        """How long `submit` took, and all of the job."""
        began = time.perf_counter()
        words = ("--engine", "slurm", "--workers", str(self._workers))
        self._perdure(number, "submit", str(self._template), *words)
        submitted = time.perf_counter()
        self._until_over()
        ended = time.perf_counter()
        state = self._perdure(number, "status", "last", "--json")
        assert '"SUCCEEDED"' in state, state
        return submitted - began, ended - began

    def queries_a_turn(self, number: int) -> int:
        """How often squeue is asked for what is queued, at most, in a turn made as the job runs."""
        words = ("--engine", "slurm", "--workers", str(self._workers))
        self._perdure(number, "submit", str(self._template), *words, "--slurm", "--begin=now+2")
        found = []
        for _ in range(_TURNS):
            self._asked.write_text("")
            self._perdure(number, "settle", "last", asked=self._asked)
            found.append(len(self._asked.read_text().splitlines()))
        self._until_over()
        return max(found)

    def _perdure(self, number: int, *words: str, asked: Path = Path("/dev/null")) -> str:
        folder = self._cluster.jobs / f"round-{number}"
        variables = {
            "PERDURE_HOME": f"{folder}/home",
            "PERDURE_CACHE": f"{folder}/cache",
            "PATH": self._path,
            "SQUEUE_ASKED": str(asked),
        }
        command = [self._cluster.python(), "-P", "-m", "perdure", *words]
        return self._cluster.run(command, environment=variables).stdout

    def bare_array(self, elements: int) -> float:
        """How long an array takes whose elements run their part of the tasks in a shell."""
        each = -(-self._tasks // elements)
        loop = f"for i in $(seq {each}); do /bin/true; done"
        began = time.perf_counter()
        array = f"--array=0-{elements - 1}"
        self._cluster.asked("sbatch", array, "--output=/dev/null", "--wrap", loop)
        self._until_over()
        return time.perf_counter() - began

    def _until_over(self) -> None:
        until = time.monotonic() + _LONGEST_SECONDS
        while self._cluster.asked("squeue", "-h", "-t", "PD,R,CG", "-o", "%i"):
            assert time.monotonic() < until, "the jobs did not end"
            time.sleep(_LOOK_SECONDS)


def say(name: str, figure: float, bar: float, unit: str, detail: str) -> bool:
    """One row; whether it met its bar."""
    verdict = "ok" if figure <= bar else "MISSED"
    print(f"{name:46} {figure:8.3f} {unit:3} bar {bar:8.3f}  {verdict:6} {detail}", flush=True)
    return figure <= bar


def report(rounds: list[Round], queries: int, what: str) -> int:
    """Print the rows; how many bars were missed."""
    submit = statistics.median(one.submit_seconds for one in rounds)
    ratio = statistics.median(one.ours_seconds / one.bare_seconds for one in rounds)
    ours = statistics.median(one.ours_seconds for one in rounds)
    bare = statistics.median(one.bare_seconds for one in rounds)
    walls = f"{ours:.2f} s against {bare:.2f} s"
    return 3 - sum(
        (
            say("slurm: submit", submit, SUBMIT_BAR_SECONDS, "s", what),
            say("slurm: squeue queries in a turn", queries, QUERIES_BAR, "", "the most of all"),
            say("slurm: ratio to a bare array", ratio, RATIO_BAR, "x", walls),
        )
    )


def main() -> int:
    """All rounds; how many bars were missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    if (reason := missing()) is not None:
        print(f"slurm: not measured: {reason}")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="perdure-bench-", dir="/tmp"))
    cluster = SlurmCluster(folder)
    try:
        cluster.up()
        bench = Bench(cluster, options.tasks, options.workers)
        queries = bench.queries_a_turn(0)
        single = bench.bare_array(options.tasks)
        rounds = [bench.round(number) for number in range(1, options.rounds + 1)]
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)
    what = f"{options.tasks} tasks of true, {options.workers} workers"
    missed = report(rounds, queries, what)
    ours = statistics.median(one.ours_seconds for one in rounds)
    print(f"for comparison: an array of one element a task took {single:.2f} s, ours {ours:.2f} s")
    return missed


if __name__ == "__main__":
    sys.exit(main())
