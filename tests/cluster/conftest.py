"""A real Slurm for the tests of this folder: started once, always stopped."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support import worker_runs
from support.slurm_cluster import SlurmCluster, missing
from support.worker_runs import wait_until

_PATIENCE_SECONDS = 240.0


class ClusterJob:
    """One job of the plain user on the cluster, with a home of its own."""

    def __init__(self, cluster: SlurmCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.out = folder / "out"
        self.environment = {
            "PERDURE_HOME": str(folder / "home"),
            "PERDURE_CACHE": str(folder / "cache"),
        }

    def perdure(self, *words: str, check: bool = True):
        """Give a command of perdure as the plain user."""
        command = [self.cluster.python(), "-P", "-m", "perdure", *words]
        return self.cluster.run(
            command, folder=self.folder, environment=self.environment, check=check
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Begin a command of perdure as the plain user."""
        user = self.cluster.user
        return subprocess.Popen(
            [self.cluster.python(), "-P", "-m", "perdure", *words],
            cwd=self.folder,
            env=self.cluster.environment(**self.environment),
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=[],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def submit(self, template: Path, *words: str) -> str:
        """Submit it; its id."""
        options = ("--engine", "slurm", "--heartbeat-seconds", "0.5")
        done = self.perdure("submit", str(template), "-p", f"Out={self.out}", *options, *words)
        return done.stdout.strip()

    def why(self) -> str:
        """What `perdure why` says of it."""
        return self.perdure("why", "last").stdout

    def status(self) -> dict:
        """What `perdure status` says of it."""
        return json.loads(self.perdure("status", "last", "--json").stdout)

    def wait_for(
        self, *states: str, seconds: float = _PATIENCE_SECONDS, settles: bool = False
    ) -> dict:
        """Wait until the job is in one of the states.

        Args:
            settles: make turns meanwhile: whoever does lets an element that was put back begin at
                once, which would wait for two minutes.
        """

        def found() -> dict | None:
            if settles:
                self.perdure("settle", "last")
            status = self.status()
            return status if status["state"] in states else None

        try:
            return wait_until(f"the job is {' or '.join(states)}", found, seconds=seconds)
        except AssertionError:
            raise AssertionError(self.story()) from None

    def story(self) -> str:
        """All that tells what happened, for a failure."""
        texts = [self.perdure("why", "last", check=False).stdout]
        texts.append(self.cluster.asked("squeue", "-r", "-t", "all", "-o", "%i|%T|%r|%j"))
        said = sorted((self.folder / "home" / "logs").glob("*/*.out"))
        texts += [f"--- {one.name}\n{one.read_text(encoding='utf-8')[-2000:]}" for one in said]
        return "\n".join(texts)

    def lines(self, name: str = "done") -> list[str]:
        """The lines of a file that the tasks wrote."""
        path = self.out / name
        return path.read_text(encoding="utf-8").split() if path.exists() else []

    def has_saved(self) -> bool:
        """Whether a task has begun, and has a checkpoint."""
        listed = self.perdure("checkpoints", "last", "--json", check=False).stdout
        return '"sequence"' in listed and bool(self.lines("starts"))

    def workers(self) -> tuple[int, int]:
        """The pids of the keeper of the one worker that runs, and of the worker."""
        mark = f"{self.folder}/home/store".encode()
        parents = {}
        for pid in self.cluster.processes():
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
                if b"perdure.cli.work" in words and mark in words:
                    parents[pid] = int(stat.rpartition(")")[2].split()[1])
        (keeper,) = [pid for pid, parent in parents.items() if parent not in parents]
        (worker,) = [pid for pid, parent in parents.items() if parent == keeper]
        return keeper, worker

    def kill_workers(self) -> None:
        """SIGKILL the worker and its keeper."""
        for pid in self.workers():
            os.kill(pid, signal.SIGKILL)

    def was_held(self) -> bool:
        """Whether anything of it was ever suspended, by whomever."""
        records = (self.folder / "home" / "store" / "jobs").glob("*/log/*")
        return any(b'"kind":"suspend"' in record.read_bytes() for record in records)

    def arrives(self, *done: str, settles: bool = True) -> None:
        """Wait for its end; each task did its work once, nobody held it, nothing is left.

        Args:
            done: the lines that its tasks write when they are done.
            settles: as for `wait_for`.
        """
        self.wait_for("SUCCEEDED", settles=settles)
        assert sorted(self.lines()) == sorted(done)
        assert not self.was_held()
        assert "SUCCEEDED" in self.perdure("why", "last").stdout
        self.is_over()

    def is_held(self, because: str) -> None:
        """Wait until it is suspended for that reason, and nothing of it is queued or runs."""
        self.wait_for("SUSPENDED")
        self.is_over()
        assert self.status()["state"] == "SUSPENDED"
        why = self.perdure("why", "last").stdout
        assert because in why, why

    def is_over(self) -> None:
        """Wait until Slurm has nothing of it any more, and no process of it is left."""
        asked = self.cluster.asked
        wait_until("nothing is queued", lambda: not asked("squeue", "-h", "-o", "%i"))
        wait_until("no process is left", lambda: not self.cluster.processes())

    def element(self) -> str:
        """The element of an array that runs."""
        queued = self.cluster.asked("squeue", "-h", "-r", "-t", "R", "-o", "%i|%j").splitlines()
        running = [line.partition("|")[0] for line in queued if "settle" not in line]
        return running[0] if running else ""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm looks at its limits every half minute, and other tests may run beside."""
    monkeypatch.setattr(worker_runs, "PATIENCE_SECONDS", _PATIENCE_SECONDS)


@pytest.fixture(scope="session")
def cluster() -> Iterator[SlurmCluster]:
    """Two nodes of four CPUs; a preemption has a grace of 20 s, and KillWait is 5 s."""
    yield from _started("perdure-slurm-", {}, grace=20)


def _started(
    prefix: str, settings: dict[str, str], *, grace: int, are_hosts: bool = False
) -> Iterator[SlurmCluster]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    cluster = SlurmCluster(folder, grace_seconds=grace, settings=settings, are_hosts=are_hosts)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def strict_cluster() -> Iterator[SlurmCluster]:
    """One of a stricter site: no requeue unless asked for, small arrays, a grace of 5 s.

    Each of its nodes is a host of its own: what runs on one is seen from another by its heartbeat.
    """
    settings = {"JobRequeue": "0", "MaxArraySize": "11"}
    yield from _started("perdure-strict-", settings, grace=5, are_hosts=True)


@pytest.fixture
def strict_job(strict_cluster: SlurmCluster) -> Iterator[ClusterJob]:
    """The same as `job`, on the stricter site."""
    yield from _job(strict_cluster)


@pytest.fixture
def job(cluster: SlurmCluster) -> Iterator[ClusterJob]:
    """A job to submit; whatever is left of it on the cluster is cancelled."""
    yield from _job(cluster)


def _job(cluster: SlurmCluster) -> Iterator[ClusterJob]:
    cluster.up()
    folder = Path(tempfile.mkdtemp(prefix="job-", dir=cluster.jobs))
    (folder / "out").mkdir()
    for path in (folder, folder / "out"):
        shutil.chown(path, cluster.user.pw_uid, cluster.user.pw_gid)
    yield ClusterJob(cluster, folder)
    cluster.run(["scancel", "--user", cluster.user.pw_name], check=False)
    wait_until(
        "nothing of it is left",
        lambda: not cluster.asked("squeue", "-h", "-t", "R,CG,PD", "-o", "%i"),
    )
