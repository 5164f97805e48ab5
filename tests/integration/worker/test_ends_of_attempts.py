"""Every cause of an end, exit, save after the notice, caught or not: all pairs, on real processes.

The expected outcomes stand in `EXPECTED`, written down from the specification ("How an attempt
ends"), not from the code: rows are read from the top, the first that fits counts. Pairs that cannot
be are named in `IMPOSSIBLE` and counted.
"""

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perdure.worker.memory import OomCounter, memory_proof
from support.memory_cgroup import memory_cgroup
from support.worker_runs import Ground, JobRun, python_step, template

CAUSES = ("nobody", "user", "host", "cancel", "timeout", "memory")
EXITS = ("0", "3", "signal", "killed")
SAVED = ("saved", "unsaved")
CAUGHT = ("caught", "uncaught")
THREADS = 6


@dataclass(frozen=True)
class Cell:
    cause: str
    exit: str
    saved: str
    caught: str

    def __str__(self) -> str:
        return f"{self.cause}-{self.exit}-{self.saved}-{self.caught}"


#: cause, exit, saved, caught: state, cause or by, a part of the reason. "*" fits everything.
EXPECTED = """
cancel  *      *       *         CANCELED   -                      canceled
memory  *      *       *         FAILED     memory                 out of memory
timeout *      *       *         FAILED     timeout                ran longer than
nobody  0      *       *         SUCCEEDED  -                      exited with code 0
nobody  3      *       *         FAILED     exit                   exited with code 3
nobody  signal *       *         FAILED     signal                 died of SIGABRT
nobody  killed *       *         FAILED     killed_from_outside    killed from outside
user    0      saved   *         SUSPENDED  user                   after the notice
user    0      unsaved caught    SUSPENDED  user                   0 after the notice without a save
user    0      unsaved uncaught  SUCCEEDED  -                      took no notice
user    *      saved   *         SUSPENDED  user                   after the notice
user    *      unsaved *         SUSPENDED  user                   no save after the notice
host    0      saved   *         SUSPENDED  host                   after the notice
host    0      unsaved caught    SUSPENDED  host                   0 after the notice without a save
host    0      unsaved uncaught  SUCCEEDED  -                      took no notice
host    *      saved   *         SUSPENDED  host                   after the notice
host    *      unsaved *         SUSPENDED  host                   no save after the notice
"""

#: Why a combination cannot be.
IMPOSSIBLE = {
    "no notice, nothing after it": lambda cell: cell.cause == "nobody" and cell.saved == "saved",
    "no signal that could be caught": lambda cell: (
        cell.cause == "nobody" and cell.caught == "caught"
    ),
    "whoever exits with 0 had memory enough": lambda cell: (
        cell.cause == "memory" and cell.exit == "0"
    ),
}

ALL = tuple(Cell(*row) for row in itertools.product(CAUSES, EXITS, SAVED, CAUGHT))


def impossible(cell: Cell) -> str | None:
    return next((why for why, fits in IMPOSSIBLE.items() if fits(cell)), None)


CELLS = tuple(cell for cell in ALL if impossible(cell) is None)

#: After its first save it waits for a signal (or not), perhaps saves, and ends as it is told.
TASK = """
    import os, signal, sys

    cause, how, saved, caught = sys.argv[1:5]
    number = signal.SIGUSR1 if cause in ("user", "host", "memory") else signal.SIGTERM

    def exhaust():
        pid = os.fork()
        if not pid:
            hoard = []
            while True:
                hoard.append(bytearray(8 << 20))
                hoard[-1][::4096] = b"x" * len(hoard[-1][::4096])
        os.waitpid(pid, 0)

    def act(*_):
        if saved == "saved":
            print('openjd_checkpoint_save: {"state": "after"}', flush=True)
        if cause == "memory":
            exhaust()
        if how == "0":
            os._exit(0)
        if how == "3":
            os._exit(3)
        if how == "signal":
            signal.signal(signal.SIGABRT, signal.SIG_DFL)
            os.abort()
        if cause == "nobody":
            os.kill(os.getpid(), signal.SIGKILL)

    if caught == "caught":
        signal.signal(number, act)
    else:
        signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    print('openjd_checkpoint_save: {"state": "before"}', flush=True)
    print("ready", flush=True)
    if cause == "nobody":
        act()
    if caught == "uncaught":
        signal.sigwait([number])
        act()
    while True:
        signal.pause()
"""


def job_of(ground: Ground, cell: Cell) -> JobRun:
    """A task that ends as the cell says; it has little time where it is to be killed."""
    period = 1 if cell.exit == "killed" else 20
    step = python_step(
        TASK,
        notice_seconds=period,
        args=[cell.cause, cell.exit, cell.saved, cell.caught],
        timeout=1 if cell.cause == "timeout" else None,
        cancel={"mode": "NOTIFY_THEN_TERMINATE", "notifyPeriodInSeconds": period},
    )
    return ground.submit(template(step))


def run_cell(ground: Ground, cell: Cell, procs: Path | None) -> dict[str, Any]:
    """One attempt; its outcome as the journal has it."""
    job = job_of(ground, cell)
    enter = {} if procs is None else {str(procs): "PID"}
    worker = job.start(enter=enter if cell.cause == "memory" else {})
    if cell.cause not in ("nobody", "timeout"):
        job.wait_for("ready")
    match cell.cause:
        case "user":
            job.suspend()
        case "host" | "memory":
            worker.signal(15)
        case "cancel":
            job.cancel()
    assert worker.wait() == 0, worker.said()
    saves = [s for s in job.lineage().saves if not s.is_void]
    states = [job.manifest(save.number).state for save in saves]
    return {**job.outcome(), "states": states, "notes": job.notes()}


@pytest.fixture(scope="module")
def memory_procs():
    with memory_cgroup() as procs:
        yield procs


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, zygote, memory_procs) -> dict[Cell, dict[str, Any]]:
    ground = Ground(tmp_path_factory.mktemp("cells"), zygote)
    cells = [c for c in CELLS if c.cause != "memory" or memory_procs is not None]
    # The cells of one cgroup follow each other: its counter says that something was killed in it.
    apart = [c for c in cells if c.cause != "memory"]
    together = [c for c in cells if c.cause == "memory"]
    with ThreadPoolExecutor(THREADS) as pool:
        running = {c: pool.submit(run_cell, ground, c, None) for c in apart}
        last = pool.submit(lambda: {c: run_cell(ground, c, memory_procs) for c in together})
        found = {c: future.result() for c, future in running.items()} | last.result()
    assert all(found.values()), [str(cell) for cell, outcome in found.items() if not outcome]
    ground.nothing_runs()
    return found


def expected(cell: Cell) -> tuple[str, str, str]:
    asked = (cell.cause, cell.exit, cell.saved, cell.caught)
    for line in EXPECTED.strip().splitlines():
        *key, state, by, reason = line.split(None, 6)
        if all(k in ("*", v) for k, v in zip(key, asked, strict=True)):
            return state, by, reason
    raise AssertionError(cell)


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_end(cell, outcomes):
    if cell not in outcomes:
        pytest.skip("no memory cgroup can be made here")
    outcome = outcomes[cell]
    state, by, reason = expected(cell)
    found = outcome["by"] or outcome["cause"] or "-"
    assert (outcome["state"], found.replace(" ", "_")) == (state, by), outcome
    assert reason in outcome["reason"]


@pytest.mark.parametrize("cell", [c for c in CELLS if c.cause in ("user", "host")], ids=str)
def test_what_was_saved_is_where_it_goes_on(cell, outcomes):
    states = outcomes[cell]["states"]
    assert states == (["before", "after"] if cell.saved == "saved" else ["before"])[-len(states) :]
    assert states[-1] == ("after" if cell.saved == "saved" else "before")


def test_impossible_pairs_are_named_and_counted():
    named = {why: sum(impossible(cell) == why for cell in ALL) for why in IMPOSSIBLE}
    assert named == {
        "no notice, nothing after it": 8,
        "no signal that could be caught": 4,
        "whoever exits with 0 had memory enough": 4,
    }
    assert len(CELLS) + sum(named.values()) == len(ALL) == 96
    print(f"{len(CELLS)} ends, {sum(named.values())} impossible: {named}")


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("v2", "low 0\nhigh 0\nmax 12\noom 2\noom_kill {}\noom_group_kill 0\n"),
        ("v1", "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"),
    ],
)
def test_memory_by_recorded_texts(tmp_path, version, text):
    """As kernels 5.10 and 6.1 write them."""
    membership = tmp_path / "cgroup"
    if version == "v2":
        membership.write_text("0::/job/step\n")
        file = tmp_path / "fs/job/step/memory.events"
    else:
        membership.write_text("4:memory:/job/step\n0::/\n")
        file = tmp_path / "fs/memory/job/step/memory.oom_control"
    file.parent.mkdir(parents=True)
    file.write_text(text.format(3))
    before = OomCounter(membership, tmp_path / "fs").read()
    assert memory_proof(before, OomCounter(membership, tmp_path / "fs").read()) is None
    file.write_text(text.format(4))
    proof = memory_proof(before, OomCounter(membership, tmp_path / "fs").read())
    assert proof is not None
    assert "1 process" in proof
