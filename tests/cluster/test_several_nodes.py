"""Attempts over several nodes: one attempt, of which nothing is left before the next one.

Each node sees its own processes alone, as machines do: no look at /proc of the first one finds the
ranks of the second.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from support.slurm_cluster import SlurmCluster, missing
from support.worker_runs import wait_until

pytestmark = pytest.mark.slow

RANKS = Path(__file__).parent / "ranks.py"
MOST = 60
SRUN = ("srun", "--kill-on-bad-exit=1")
MPIRUN = ("mpirun", "-np", "2", "--map-by", "node")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="perdure-slurm-", dir="/tmp"))
    private = folder / "private"
    private.mkdir()
    private.chmod(0o777)
    cluster = SlurmCluster(folder, apart=True, private=private)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)


class Ranks:
    """A job of two ranks, one on each node."""

    def __init__(self, job) -> None:
        self.job = job
        self.most = MOST
        self.program = job.folder / "ranks.py"
        shutil.copy(RANKS, self.program)

    def submit(self, *options: str, launcher: tuple[str, ...] = SRUN):
        words = ["--engine", "slurm", "--slurm", "-N2 --ntasks-per-node=1"]
        words += ["--heartbeat-seconds", "0.5", *options]
        command = [*launcher, "python3", str(self.program), str(self.job.out), str(self.most)]
        self.job.perdure("submit", *words, "--", *command)

    def ticks(self) -> list[tuple[float, int, int, int]]:
        found = [line.split(":") for line in self.job.lines("ticks")]
        return [(float(when), int(r), int(a), int(n)) for when, r, a, n in found if n]

    def are_under_way(self) -> bool:
        return {rank for _, rank, _, number in self.ticks() if number > 9} == {0, 1}

    def pids(self, **variables: str) -> list[int]:
        """Processes of this job's program, wherever they run; by what is in their environment."""
        marks = [f"{name}={value}\0".encode() for name, value in variables.items()]
        found = []
        for path in Path("/proc").iterdir():
            try:
                is_it = path.name.isdigit() and str(self.program).encode() in (
                    path / "cmdline"
                ).read_bytes().split(b"\0")
                if is_it and all(mark in (path / "environ").read_bytes() for mark in marks):
                    found.append(int(path.name))
            except OSError:
                continue
        return found

    def end_well(self) -> int:
        """Wait for the end; how many attempts it took. Two were never at work at once."""
        self.job.wait_for("SUCCEEDED", settles=True)
        ticks = self.ticks()
        attempts = sorted({attempt for _, _, attempt, _ in ticks})
        for before, after in pairwise(attempts):
            last = max(when for when, _, attempt, _ in ticks if attempt == before)
            first = min(when for when, _, attempt, _ in ticks if attempt == after)
            assert last < first, (before, after, self.job.story())
            begun = min(number for _, _, attempt, number in ticks if attempt == after)
            assert begun > 0, self.job.story()
        ended = {rank for _, rank, _, number in ticks if number == self.most}
        attempts = [(a["outcome"], a["reason"]) for a in self.job.status()["attempts"]]
        assert ended == {0, 1}, f"{attempts} {self.job.story()}"
        assert self.pids() == []
        return len(attempts)


@pytest.fixture
def ranks(job) -> Ranks:
    return Ranks(job)


def launchers(job) -> list[int]:
    """The processes of srun and mpirun that this job's task started, wherever they run."""
    mark = f"PERDURE_MESSAGES={job.folder}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            name = (path / "comm").read_text(encoding="utf-8").strip()
            if name in ("srun", "mpirun") and mark in (path / "environ").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found


def kill(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # of what watches over another one
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("launcher", [SRUN, MPIRUN], ids=lambda words: words[0])
def test_a_stop_reaches_every_rank_and_the_job_goes_on(job, ranks, launcher):
    """Open MPI's mpirun would kill its ranks a second after it passed the signal on."""
    if shutil.which(launcher[0]) is None:
        pytest.skip("Open MPI is not installed (Debian: openmpi-bin)")
    if launcher is MPIRUN:
        ranks.most = 300  # it sends its ranks SIGTERM after a third of the notice
    ranks.submit(launcher=launcher)
    wait_until("both ranks count", ranks.are_under_way)
    job.perdure("suspend", "last")
    status = job.wait_for("SUSPENDED")
    assert "saved" in status["attempts"][0]["reason"]
    told = "SIGTERM was sent to step" if launcher is SRUN else "SIGTERM was sent to mpirun"
    assert told in job.perdure("why", "last").stdout
    assert ranks.pids() == []
    stopped = max(number for _, _, _, number in ranks.ticks())
    job.perdure("resume", "last", "--detach")
    assert ranks.end_well() == 2
    begun = min(number for _, _, attempt, number in ranks.ticks() if attempt == 2)
    assert abs(begun - stopped) <= 2


def test_a_rank_that_is_killed_ends_the_attempt(job, ranks):
    ranks.submit()
    wait_until("both ranks count", ranks.are_under_way)
    kill(*ranks.pids(SLURM_PROCID="1", SLURM_NODEID="1"))
    assert ranks.end_well() == 2


@pytest.mark.parametrize("launcher", [SRUN, MPIRUN], ids=lambda words: words[0])
def test_what_a_launcher_leaves_on_another_node_is_ended_before_anything_is_started(
    job, ranks, launcher
):
    """srun (and mpirun) and what watches over it killed at once: nobody tells the ranks."""
    if shutil.which(launcher[0]) is None:
        pytest.skip("Open MPI is not installed (Debian: openmpi-bin)")
    ranks.submit(launcher=launcher)
    wait_until("both ranks count", ranks.are_under_way)
    kill(*launchers(job))
    assert ranks.end_well() == 2


def test_a_worker_that_is_killed(job, ranks):
    ranks.submit()
    wait_until("both ranks count", ranks.are_under_way)
    job.kill_workers()
    assert ranks.end_well() == 2


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_node_that_dies(job, ranks, cluster, node):
    """n1 is the one that the worker runs on."""
    ranks.submit()
    wait_until("both ranks count", ranks.are_under_way)
    cluster.kill_node(node)
    state = ("sinfo", "-h", "-n", node, "-o", "%T")
    wait_until("Slurm has noticed", lambda: "down" in cluster.asked(*state))
    cluster.start_node(node)
    assert ranks.end_well() == 2


def test_a_session_folder_that_is_not_the_same_everywhere_is_refused(job, ranks, cluster):
    ranks.submit("--sessions-dir", str(cluster.folder / "private"), "--limit", "not_started=1")
    status = job.wait_for("FAILED")
    assert "node n2 does not share the session folder" in str(status)
    assert ranks.ticks() == []


def test_files_that_other_nodes_do_not_share_are_refused_by_name(job, ranks, cluster):
    private = cluster.folder / "private"
    ranks.submit("--allow-root", str(private))
    wait_until("both ranks count", ranks.are_under_way)
    assert f"node n2 does not share {private}: files below it are refused" in str(job.status())
    assert ranks.end_well() == 1
