"""Print what saving and restoring cost, beside `cp`, borg and restic, paired in one run.

    python bench/store.py [PART…] [--rounds N] [--folder DIR]

Parts: ``large`` (a file of 2 GiB: first, 10 % of its blocks changed, restored), ``small`` (20,000
files of 4 KiB: the same, 5 % changed), ``early`` (a save of bytes that were taken before),
``memory`` (a file of 8 GiB), ``solver`` (what a busy two-thread program loses while 1 GiB is
captured every 10 s). Ratios are medians of the ratios of each round: a shared machine makes single
times worthless.

Peers are timed as whole processes, start and sync included; perdure's first save and restore, too,
and its second save as a worker takes it that is alive. A restore begins with nothing in memory.
Nothing is deleted before the end: creating
files soon after many were deleted is slow on ext4, and would be whoever's turn it is.

A peer that is not installed is left out, and said so. What misses its bar is printed as MISSED, and
the exit code says how many did.
"""

import argparse
import hashlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
SUBJECT = [sys.executable, str(HERE / "store_subject.py")]
MIB, GIB = 1 << 20, 1 << 30
BLOCK = 4 * MIB
LARGE_BYTES = 2 * GIB
MEMORY_FILE_BYTES = 8 * GIB
MEMORY_BOUND_BYTES = 256 * MIB
SMALL_FILES, SMALL_BYTES, SMALL_FOLDERS = 20_000, 4096, 200
PHASES = ("first", "changed", "restore")


@dataclass
class Cost:
    """What one run took."""

    seconds: float
    cpu_seconds: float
    stored_bytes: int = 0
    peak_bytes: int = 0


@dataclass
class Figures:
    """What every tool took, by phase and round."""

    size_bytes: int
    changed_bytes: int
    costs: dict[str, dict[str, list[Cost]]] = field(default_factory=dict)

    def add(self, tool: str, phase: str, cost: Cost) -> None:
        self.costs.setdefault(tool, {}).setdefault(phase, []).append(cost)

    def ratio(self, tool: str, phase: str) -> float:
        """How many times as long as perdure the tool took: the median over the rounds."""
        ours = self.costs["perdure"][phase]
        theirs = self.costs[tool][phase]
        return statistics.median(t.seconds / o.seconds for o, t in zip(ours, theirs, strict=True))


class Report:
    """Prints bars as met or missed."""

    def __init__(self) -> None:
        self.missed = 0

    def bar(self, what: str, value: float, bar: float, *, at_least: bool, unit: str = "x") -> None:
        """One figure against its bar."""
        is_met = value >= bar if at_least else value <= bar
        self.missed += not is_met
        sign = ">=" if at_least else "<="
        mark = "ok" if is_met else "MISSED"
        print(f"  {what:58} {value:9.3f} {unit:4} bar {sign} {bar:g}   {mark}", flush=True)


def run(command: list[str], **how: object) -> Cost:
    """A whole process: its wall time and its CPU time."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **how)
    _pid, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return Cost(seconds, usage.ru_utime + usage.ru_stime)


def stored(folder: Path) -> int:
    """What a folder takes on the disk."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


class Perdure:
    """This checkout."""

    name = "perdure"

    def __init__(self, folder: Path, dataset: Path) -> None:
        self.folder = folder
        self.dataset = dataset
        self.process: subprocess.Popen | None = None

    def first(self) -> Cost:
        began = time.monotonic()
        self.process = subprocess.Popen(
            [*SUBJECT, "capture", str(self.folder / "store"), str(self.dataset)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        cost = self._read()
        cost.seconds = time.monotonic() - began
        return cost

    def _read(self) -> Cost:
        assert self.process is not None
        line = self.process.stdout.readline().split()
        if len(line) != 4:
            raise SystemExit("bench/store_subject.py ended")
        self.cpu_seconds = float(line[1])
        return Cost(float(line[0]), float(line[1]), int(line[2]), int(line[3]) * 1024)

    def changed(self) -> Cost:
        before = self.cpu_seconds
        began = time.monotonic()
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        cost = self._read()
        cost.seconds = time.monotonic() - began
        cost.cpu_seconds -= before
        return cost

    def restore(self) -> Cost:
        self.process.stdin.close()
        self.process.wait()
        target = self.folder / "restored"
        target.mkdir()
        return run([*SUBJECT, "restore", str(self.folder / "store"), str(target)])


class Copy:
    """`cp` and a sync of what it wrote."""

    name = "cp + fsync"

    def __init__(self, folder: Path, dataset: Path) -> None:
        self.folder = folder
        self.dataset = dataset
        self.count = 0

    def first(self) -> Cost:
        self.count += 1
        target = self.folder / f"copy-{self.count}"
        script = (
            'cp -r "$0" "$1" && sync "$1"'
            if self.dataset.is_file()
            else ('cp -r "$0" "$1" && sync -f "$1"')
        )
        cost = run(["sh", "-c", script, str(self.dataset), str(target)])
        cost.stored_bytes = stored(target) if target.is_dir() else target.stat().st_blocks * 512
        return cost

    changed = first
    restore = first


def _backup(command: list[str], tool: "Borg | Restic") -> Cost:
    """A backup's run, and what its repository grew by."""
    repository = tool.folder / "repository"
    before = stored(repository)
    cost = run(command, cwd=tool.dataset.parent, env=tool.environment)
    cost.stored_bytes = stored(repository) - before
    return cost


class Borg:
    """borg, without compression and encryption."""

    name = "borg"

    def __init__(self, folder: Path, dataset: Path) -> None:
        self.folder = folder
        self.dataset = dataset
        self.count = 0
        self.environment = {
            **os.environ,
            "BORG_BASE_DIR": str(folder),
            "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
        }
        run(["borg", "init", "-e", "none", str(folder / "repository")], env=self.environment)

    def first(self) -> Cost:
        self.count += 1
        archive = f"{self.folder / 'repository'}::{self.count}"
        command = ["borg", "create", "-C", "none", archive, self.dataset.name]
        return _backup(command, self)

    changed = first

    def restore(self) -> Cost:
        target = self.folder / "restored"
        target.mkdir()
        archive = f"{self.folder / 'repository'}::{self.count}"
        return run(["borg", "extract", archive], cwd=target, env=self.environment)


class Restic:
    """restic, without compression; it always encrypts."""

    name = "restic"

    def __init__(self, folder: Path, dataset: Path) -> None:
        self.folder = folder
        self.dataset = dataset
        self.environment = {
            **os.environ,
            "RESTIC_PASSWORD": "bench",
            "RESTIC_REPOSITORY": str(folder / "repository"),
            "RESTIC_CACHE_DIR": str(folder / "cache"),
            "RESTIC_COMPRESSION": "off",
        }
        run(["restic", "init", "--repository-version", "2"], env=self.environment)

    def first(self) -> Cost:
        return _backup(["restic", "backup", "--compression", "off", self.dataset.name], self)

    changed = first

    def restore(self) -> Cost:
        target = self.folder / "restored"
        target.mkdir()
        return run(["restic", "restore", "latest", "--target", str(target)], env=self.environment)


TOOLS = {"perdure": Perdure, "cp": Copy, "borg": Borg, "restic": Restic}


def tools() -> list[type]:
    """What is installed here."""
    found = []
    for command, tool in TOOLS.items():
        if command in ("borg", "restic") and shutil.which(command) is None:
            print(f"{tool.name} is not installed here: it is left out")
        else:
            found.append(tool)
    return found


def measure(
    folder: Path,
    rounds: int,
    make: Callable[[Path], Path],
    change: Callable[[Path, int], None],
    figures: Figures,
) -> None:
    """Every phase by every tool, side by side in each round."""
    chosen = tools()
    for number in range(rounds):
        top = folder / str(number)
        (top / "data").mkdir(parents=True)
        dataset = make(top / "data")
        at_work = []
        for tool in chosen:
            own = top / tool.__name__
            own.mkdir()
            at_work.append(tool(own, dataset))
        for phase in PHASES:
            if phase == "changed":
                change(dataset, number)
            os.sync()
            if phase == "restore":
                evict(top)
            for tool in at_work[number % len(at_work) :] + at_work[: number % len(at_work)]:
                os.sync()  # what the one before left to the kernel is not this one's
                figures.add(tool.name, phase, getattr(tool, phase)())
        check(dataset, top)


def evict(top: Path) -> None:
    """Let nothing below ``top`` be in memory: a restore finds its files on the disk."""
    for path in top.rglob("*"):
        if path.is_file() and not path.is_symlink():
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def check(dataset: Path, top: Path) -> None:
    """What perdure restored is what was there."""
    restored = top / "Perdure" / "restored" / dataset.name
    if subprocess.run(["diff", "-rq", dataset, restored], check=False).returncode:
        raise SystemExit("what was restored is not what was saved")


def show(figures: Figures) -> None:
    """All figures, medians over the rounds."""
    print(f"  {'':12} {'':9} {'seconds':>9} {'cpu-s/GiB':>10} {'stored MiB':>11}")
    for phase in PHASES:
        for tool, costs in figures.costs.items():
            mine = costs[phase]
            cpu = statistics.median(c.cpu_seconds for c in mine) / (figures.size_bytes / GIB)
            kept = statistics.median(c.stored_bytes for c in mine) / MIB
            seconds = statistics.median(c.seconds for c in mine)
            kept_text = f"{kept:11.1f}" if phase != "restore" else f"{'':11}"
            print(f"  {tool:12} {phase:9} {seconds:9.3f} {cpu:10.3f} {kept_text}")


def _longer(phase: str, tool: str) -> str:
    return f"{phase}: {tool} takes so many times as long"


def large(folder: Path, rounds: int, report: Report) -> None:
    """A file of 2 GiB."""
    blocks = LARGE_BYTES // BLOCK
    figures = Figures(LARGE_BYTES, blocks // 10 * BLOCK)

    def make(data: Path) -> Path:
        path = data / "state"
        with path.open("wb") as file:
            for _ in range(blocks):
                file.write(os.urandom(BLOCK))
        return path

    def change(path: Path, seed: int) -> None:
        with path.open("r+b") as file:
            for block in random.Random(seed).sample(range(blocks), blocks // 10):
                file.seek(block * BLOCK + 1000)
                file.write(os.urandom(16))

    print("a file of 2 GiB; 10 % of its blocks changed; restored")
    measure(folder, rounds, make, change, figures)
    show(figures)
    for tool, bars in {
        "cp + fsync": {"first": 1.0, "changed": 5.0, "restore": 1 / 0.8},
        "borg": {"first": 3.0, "changed": 5.0, "restore": 1.5},
        "restic": {"first": 6.0, "changed": 10.0, "restore": 1.5},
    }.items():
        for phase, bar in bars.items():
            if tool in figures.costs:
                ratio = figures.ratio(tool, phase)
                report.bar(
                    f"{phase}: {tool} takes so many times as long", ratio, bar, at_least=True
                )
    kept = max(cost.stored_bytes for cost in figures.costs["perdure"]["changed"])
    report.bar("changed: stored / changed", kept / figures.changed_bytes, 1.05, at_least=False)


def small(folder: Path, rounds: int, report: Report) -> None:
    """20,000 files of 4 KiB."""
    size = SMALL_FILES * SMALL_BYTES
    figures = Figures(size, size // 20)

    def make(data: Path) -> Path:
        for number in range(SMALL_FOLDERS):
            inner = data / "tree" / f"{number:03d}"
            inner.mkdir(parents=True)
            for name in range(SMALL_FILES // SMALL_FOLDERS):
                (inner / f"{name:03d}").write_bytes(os.urandom(SMALL_BYTES))
        return data / "tree"

    def change(tree: Path, seed: int) -> None:
        files = sorted(path for path in tree.rglob("*") if path.is_file())
        for path in random.Random(seed).sample(files, SMALL_FILES // 20):
            path.write_bytes(os.urandom(SMALL_BYTES))

    print("20,000 files of 4 KiB; 5 % of them changed; restored")
    measure(folder, rounds, make, change, figures)
    show(figures)
    for tool, bars in {
        "borg": {"first": 2.0, "changed": 3.0, "restore": 2.0},
        "restic": {"first": 3.0, "changed": 4.0, "restore": 2.5},
    }.items():
        for phase, bar in bars.items():
            if tool in figures.costs:
                ratio = figures.ratio(tool, phase)
                report.bar(
                    f"{phase}: {tool} takes so many times as long", ratio, bar, at_least=True
                )


def early(folder: Path, rounds: int, report: Report) -> None:
    """A save of 256 MiB that were taken early, and have not changed since."""
    print("a save of bytes that were taken before it was announced (256 MiB)")
    path = folder / "state"
    path.write_bytes(os.urandom(256 * MIB))
    seconds: list[float] = []
    for number in range(rounds):
        done = subprocess.run(
            [*SUBJECT, "early", str(folder / f"store-{number}"), str(path)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        seconds += [float(line.split()[0]) for line in done.stdout.splitlines()]
    median = statistics.median(seconds)
    report.bar("from the line to the commit", median * 1000, 20.0, at_least=False, unit="ms")


def memory(folder: Path, _rounds: int, report: Report) -> None:
    """A file of 8 GiB: how large the process becomes."""
    print("the memory of a process that saves a file of 8 GiB, and restores it")
    path = folder / "state"
    block = bytearray(os.urandom(BLOCK))
    with path.open("wb") as file:
        for number in range(MEMORY_FILE_BYTES // BLOCK):
            block[:8] = number.to_bytes(8, "little")
            file.write(block)
    for action, where in (("capture", path), ("restore", folder / "restored")):
        if action == "restore":
            where.mkdir()
        done = subprocess.run(
            [*SUBJECT, action, str(folder / "store"), str(where)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        peak = int(done.stdout.split()[3]) * 1024 / MIB
        report.bar(f"{action}: peak resident memory", peak, 256, at_least=False, unit="MiB")


class Solver:
    """Two threads that compute and move memory as fast as they can."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self.counts = [0, 0]

    def run(self, seconds: float) -> int:
        """How many rounds were done in that time."""
        threads = [threading.Thread(target=self._work, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        self._stop.wait(seconds)
        self._stop.set()
        for thread in threads:
            thread.join()
        return sum(self.counts)

    def _work(self, number: int) -> None:
        field_ = bytearray(os.urandom(8 * MIB))
        while not self._stop.is_set():
            hashlib.sha256(field_).digest()  # without Python's lock
            field_[: 4 * MIB] = field_[4 * MIB :]
            self.counts[number] += 1


SOLVER = [sys.executable, str(HERE / "store.py"), "--solve"]
SOLVER_SECONDS = 30.0
BETWEEN_SECONDS = 10.0


@contextmanager
def beside(action: Callable[[int], None] | None) -> Iterator[None]:
    """``action`` every ten seconds, in a thread."""
    stop = threading.Event()

    def work() -> None:
        began = time.monotonic()
        number = 0
        while action is not None and not stop.is_set():
            action(number)
            number += 1
            stop.wait(max(0.0, began + number * BETWEEN_SECONDS - time.monotonic()))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def solve(action: Callable[[int], None] | None) -> int:
    """How far a solver comes in half a minute, with ``action`` beside it."""
    process = subprocess.Popen(SOLVER, stdout=subprocess.PIPE, text=True)
    with beside(action):
        said, _ = process.communicate()
    return int(said)


def solver(folder: Path, rounds: int, report: Report) -> None:
    """What a busy program loses while 1 GiB is captured every ten seconds."""
    print("a two-thread solver, while 1 GiB is captured (or written by dd) every 10 s")
    sources = [folder / f"state-{number}" for number in range(4)]
    for path in sources:
        with path.open("wb") as file:
            for _ in range(GIB // BLOCK):
                file.write(os.urandom(BLOCK))
    os.sync()
    slower: dict[str, list[float]] = {"perdure": [], "dd": []}
    for number in range(rounds):
        alone = solve(None)
        with saving(folder / f"store-{number}", sources) as save:
            beside_perdure = solve(save)
        beside_dd = solve(lambda count: dd(sources[count % 4], folder / f"dd-{count}"))
        slower["perdure"].append(1 - beside_perdure / alone)
        slower["dd"].append(1 - beside_dd / alone)
        print(f"  round {number + 1}: alone {alone}, perdure {beside_perdure}, dd {beside_dd}")
    ours, theirs = (statistics.median(slower[name]) * 100 for name in ("perdure", "dd"))
    print(f"  {'slower beside dd oflag=direct of the same bytes':58} {theirs:9.3f} %")
    bar = max(3.0, theirs)
    report.bar("slower beside perdure", ours, bar, at_least=False, unit="%")


def dd(source: Path, target: Path) -> None:
    """The same bytes by dd."""
    run(["dd", f"if={source}", f"of={target}", "bs=4M", "oflag=direct", "conv=fsync"])


@contextmanager
def saving(store: Path, sources: list[Path]) -> Iterator[Callable[[int], None]]:
    """A worker that saves one file after the other, when asked."""
    process: list[subprocess.Popen] = []

    def save(number: int) -> None:
        if not process:
            command = [*SUBJECT, "capture", str(store), str(sources[0])]
            process.append(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
        else:
            process[0].stdin.write(f"{sources[number % len(sources)]}\n")
            process[0].stdin.flush()
        process[0].stdout.readline()

    yield save
    for one in process:
        one.stdin.close()
        one.wait()


PARTS = {"large": large, "small": small, "early": early, "memory": memory, "solver": solver}


def main() -> int:
    """All parts, or those that are named; how many bars were missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="PART")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to work: about 60 GiB are needed")
    parser.add_argument("--solve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.solve:
        print(Solver().run(SOLVER_SECONDS))
        return 0
    report = Report()
    for part in options.parts or PARTS:
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="perdure-bench-") as name:
            PARTS[part](Path(name), options.rounds, report)
    print("all bars are met" if not report.missed else f"{report.missed} bars are MISSED")
    return min(report.missed, 100)


if __name__ == "__main__":
    raise SystemExit(main())
