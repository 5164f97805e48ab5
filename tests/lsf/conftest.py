"""A simulated LSF for the tests of this folder: what they show holds for it, not for a real one."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.lsf_cluster import LsfCluster
from support.worker_runs import wait_until

_PATIENCE_SECONDS = 120.0


class LsfJob:
    """One job on the cluster, with a home of its own."""

    def __init__(self, cluster: LsfCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.out = folder / "out"
        self.out.mkdir()
        self.variables = {
            "PERDURE_HOME": str(folder / "home"),
            "PERDURE_CACHE": str(folder / "cache"),
        }
        self.environment = {**cluster.environment, **self.variables}

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Begin a command of perdure."""
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "perdure", *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def perdure(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Give a command of perdure."""
        process = self.start(*words)
        out, err = process.communicate(timeout=_PATIENCE_SECONDS)
        assert not check or process.returncode == 0, (words, out, err)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def options(self, *words: str) -> list[str]:
        """What every test gives."""
        return ["-p", f"Out={self.out}", "--heartbeat-seconds", "0.5", "--engine", "lsf", *words]

    def submit(self, template: Path, *words: str) -> str:
        """Submit it; its id."""
        return self.perdure("submit", str(template), *self.options(*words)).stdout.strip()

    def status(self) -> dict:
        """What `perdure status` says of it."""
        return json.loads(self.perdure("status", "last", "--json").stdout)

    def wait_for(self, *states: str, seconds: float = _PATIENCE_SECONDS) -> dict:
        """Wait until the job is in one of the states."""

        def found() -> dict | None:
            status = self.status()
            return status if status["state"] in states else None

        try:
            return wait_until(f"the job is {' or '.join(states)}", found, seconds=seconds)
        except AssertionError:
            raise AssertionError(self.story()) from None

    def story(self) -> str:
        """All that tells what happened, for a failure."""
        texts = [self.perdure("why", "last", check=False).stdout]
        texts += [
            f"{key}: {job['name']} {job['stat']} {job['reason']} {job['code']}"
            for key, job in self.cluster.jobs().items()
        ]
        said = sorted((self.folder / "home" / "logs").glob("*/*.out"))
        texts += [f"--- {one.name}\n{one.read_text(encoding='utf-8')[-2000:]}" for one in said]
        return "\n".join(texts)

    def lines(self, name: str = "done") -> list[str]:
        """The lines of a file that the tasks wrote."""
        path = self.out / name
        return path.read_text(encoding="utf-8").split() if path.exists() else []

    def checkpoints(self) -> int:
        """How many checkpoints it has."""
        listed = self.perdure("checkpoints", "last", "--json", check=False).stdout
        return listed.count('"sequence"')

    def is_under_way(self) -> str:
        """Wait until a task has saved; the element that runs it."""
        wait_until("a task has begun", lambda: self.lines("starts"))
        wait_until("a task has saved", self.checkpoints)
        (element,) = self.cluster.elements("RUN")
        return element


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LsfCluster]:
    """Two hosts of four slots; a minute of a limit takes six seconds."""
    cluster = LsfCluster(tmp_path / "lsf")
    cluster.up()
    yield cluster
    cluster.down()


@pytest.fixture
def job(cluster: LsfCluster, tmp_path: Path) -> LsfJob:
    """A job to submit."""
    return LsfJob(cluster, tmp_path)
