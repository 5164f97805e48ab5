"""SIGKILL from outside at seeded moments of worker, keeper and task, together and apart.

A job is started again and again, and killed in a phase that the seed chooses, until it is let run
to its end. Then: its output is byte for byte that of a run without interruption; nothing that a
task was told to be saved was lost; no value that was kept ran again; no process is left.
"""

import contextlib
import hashlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from perdure.worker.processes import carrying
from support.task_words import job_of
from support.worker_runs import Ground, JobRun, WorkerRun

PHASES = ("start", "running", "mid-save", "capture", "commit", "restore", "exit")
TARGETS = (
    ("worker",),
    ("keeper",),
    ("task",),
    ("worker", "keeper"),
    ("worker", "task"),
    ("keeper", "task"),
    ("worker", "keeper", "task"),
)
KILLS = 3
LAUNCHES = 20
FRAMES = 6

#: Says in ``phase`` what it is about to do, and in ``told`` what it was told and what it did.
COMMON = """
    import hashlib
    work = os.environ["WORK"]
    def phase(text):
        with open(f"{work}/phase.new", "w") as file:
            file.write(text)
        os.rename(f"{work}/phase.new", f"{work}/phase")
    def told(text):
        with open(f"{work}/told", "a") as file:
            file.write(text + "\\n")
    def content(n):
        seed = hashlib.sha256(str(n).encode()).digest()
        return seed * 20_000
    def put(name, data):
        with open(name, "wb") as file:
            for start in range(0, len(data), 100_000):
                file.write(data[start : start + 100_000]); file.flush()
                time.sleep(0.001)
"""
COUNTER = """
    n = 0
    if resumed:
        n = int(sys.argv[1])
        assert open(sys.argv[2], "rb").read() == content(n), "not what was saved"
        told(f"resumed {n}")
    else:
        told("begun")
    saves = 0
    while n < 6:
        phase("running"); time.sleep(0.02)
        n += 1; saves += 1
        phase("mid-save"); put("data.bin", content(n))
        phase("announced"); save(str(n), "data.bin"); committed(saves)
        told(f"acked {n}")
    phase("exit")
    put(f"{work}/result", content(n)); time.sleep(0.05)
"""
CHUNK = """
    frames = []
    for part in sys.argv[1].split(","):
        first, _, last = part.partition("-")
        frames += range(int(first), int(last or first) + 1)
    saves = 0
    for frame in frames:
        phase("running"); time.sleep(0.02)
        told(f"renders {frame}")
        phase("mid-save"); put(f"{work}/{frame}.new", content(frame)); saves += 1
        os.rename(f"{work}/{frame}.new", f"{work}/{frame}.bin")
        put(f"{frame}.bin", content(frame))  # for what is captured inside
        files(f"{work}/{frame}.bin", f"{frame}.bin"); complete(frame)
        phase("announced"); save(str(frame)); committed(saves)
        told(f"acked {frame}")
    phase("exit"); time.sleep(0.05)
"""
SPACE = {
    "parameterSpace": {
        "taskParameterDefinitions": [
            {
                "name": "F",
                "type": "CHUNK[INT]",
                "range": f"1-{FRAMES}",
                "chunks": {"defaultTaskCount": 100, "rangeConstraint": "CONTIGUOUS"},
            }
        ]
    }
}


def content(n: int) -> bytes:
    return hashlib.sha256(str(n).encode()).digest() * 20_000


def output(work: Path, *, is_chunk: bool) -> list[bytes]:
    """A chunk's values are each its output; they need no word after the last."""
    names = [f"{n}.bin" for n in range(1, FRAMES + 1)] if is_chunk else ["result"]
    return [(work / name).read_bytes() for name in names]


def expected(*, is_chunk: bool) -> list[bytes]:
    return [content(n) for n in range(1, FRAMES + 1)] if is_chunk else [content(FRAMES)]


@dataclass
class Story:
    """One seed's job."""

    seed: int
    ground: Ground
    is_chunk: bool
    rng: random.Random
    counts: Counter
    job: JobRun

    def phase(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (self.ground.work / "phase").read_text()
        return ""

    def told(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return (self.ground.work / "told").read_text().splitlines()
        return []

    def packs(self) -> int:
        return count(self.ground.root / "store/lineages", "*/*/*/packs/0*")

    def reach(self, phase: str, worker: WorkerRun) -> bool:
        """Wait until the worker is in that phase; False when it ended before."""
        folder = self.ground.sessions / worker.launch
        packs = self.packs()
        seen = {
            "start": lambda: True,
            "running": lambda: self.phase() == "running",
            "mid-save": lambda: self.phase() == "mid-save",
            "capture": lambda: self.phase() == "announced",
            "commit": lambda: self.phase() == "announced" and self.packs() > packs,
            "restore": lambda: count(folder, "*/*.bin") or count(folder, "*/.perdure-*"),
            "exit": lambda: self.phase() == "exit",
        }[phase]
        if phase == "start":
            pause(self.rng.uniform(0, 0.3))
        reached = until(lambda: bool(seen()) or worker.poll() is not None)
        if phase != "restore":
            pause(self.rng.choice((0, 0, self.rng.uniform(0, 0.01))))
        return reached and worker.poll() is None

    def kill(self, worker: WorkerRun) -> None:
        """SIGKILL to those whom the seed chooses, in an order that it chooses."""
        targets = list(self.rng.choice(TARGETS))
        self.rng.shuffle(targets)
        self.counts["+".join(sorted(targets))] += 1
        pids: list[int] = []
        for target in targets:
            with contextlib.suppress(OSError, IndexError, ValueError):
                if target == "keeper":
                    pids.append(worker.pid)
                elif target == "worker":
                    children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text()
                    pids.append(int(children.split()[0]))
                else:
                    pids += [i.pid for i in carrying(lambda t: t.startswith(worker.token + "."))]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def run(self) -> None:
        self.ground.work.joinpath("phase").write_text("")
        for number in range(LAUNCHES):
            (self.ground.work / "phase").write_text("")
            worker = self.job.start()
            if number < KILLS:
                phase = self.rng.choice(PHASES if number else PHASES[:5])
                if self.reach(phase, worker):
                    self.counts[f"phase {phase}"] += 1
                    self.kill(worker)
                else:
                    self.counts["ended before"] += 1
            worker.wait()
            if self.is_done():
                self.job.run()  # finds nothing to do, and ends what is left
                return
        raise AssertionError([a.outcome for a in self.job.attempts()], self.job.log_text())

    def is_done(self) -> bool:
        """It succeeded, or all its values are kept although nobody saw the end."""
        attempts = self.job.attempts()
        if self.is_chunk and len(self.job.kept()) == FRAMES:
            return True
        return bool(attempts) and (attempts[-1].outcome or {}).get("state") == "SUCCEEDED"

    def check(self) -> None:
        found = output(self.ground.work, is_chunk=self.is_chunk)
        assert found == expected(is_chunk=self.is_chunk), "another output"
        self.check_acknowledged()
        kept: set[int] = set()
        for attempt in self.job.attempts():
            if self.is_chunk:
                first, _, last = attempt.begun["values"]["F"].partition("-")
                runs = set(range(int(first), int(last or first) + 1))
                assert not runs & kept, f"{runs & kept} kept before attempt {attempt.begun}"
            kept |= set(attempt.kept)
        self.ground.nothing_runs()

    def check_acknowledged(self) -> None:
        """Nothing that a task was told to be saved is lost."""
        acked = 0
        for line in self.told():
            word, _, number = line.partition(" ")
            match word:
                case "acked":
                    acked = max(acked, int(number))
                case "resumed":
                    assert int(number) >= acked, self.told()
                case "begun":
                    assert acked == 0, self.told()
                case "renders":
                    assert int(number) > acked, self.told()


def count(folder: Path, pattern: str) -> int:
    """How much is there, in folders that may vanish meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        return sum(1 for _ in folder.glob(pattern))
    return 0


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def until(check: Callable[[], bool]) -> bool:
    """Whether it came true, looked at every millisecond."""
    deadline = time.monotonic() + 60
    while not check():
        if time.monotonic() > deadline:
            return False
        pause(0.001)
    return True


def story(seed: int, folder: Path, zygote) -> Counter:
    """One job, killed as the seed says; what was counted."""
    folder.mkdir()
    ground = Ground(folder, zygote)
    is_chunk = bool(seed % 2)
    job = job_of(
        ground,
        COMMON + (CHUNK if is_chunk else COUNTER),
        variables={"WORK": str(ground.work)},
        notice_seconds=2,
        **({"more": SPACE, "args": ["{{Task.Param.F}}"]} if is_chunk else {}),
        extensions=["TASK_CHUNKING"] if is_chunk else [],
        limits={"per_point": 50, "since_progress": 100},
    )
    told = Story(seed, ground, is_chunk, random.Random(seed), Counter(), job)
    try:
        told.run()
        told.check()
    except BaseException as error:
        error.add_note(f"seed {seed} in {folder}")
        raise
    return told.counts


def run_seeds(seeds: range, folder: Path, zygote, *, threads: int) -> Counter:
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(story, seed, folder / str(seed), zygote) for seed in seeds]
        return sum((future.result() for future in futures), Counter())


def test_a_sample(tmp_path, zygote):
    counts = run_seeds(range(12), tmp_path, zygote, threads=3)
    print(dict(sorted(counts.items())))
    kills = sum(n for name, n in counts.items() if name.startswith("phase"))
    assert kills >= 12


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many(tmp_path, zygote):
    """Five hundred kills and more, on every phase."""
    counts = run_seeds(range(1000, 1200), tmp_path, zygote, threads=4)
    print(dict(sorted(counts.items())))
    phases = {phase: counts[f"phase {phase}"] for phase in PHASES}
    assert all(n > 10 for n in phases.values()), phases
    assert sum(phases.values()) >= 500
