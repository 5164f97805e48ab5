"""SIGKILL from outside at seeded moments of the manager, together with and apart from the rest.

The same line is given again after each kill, until the job has ended: its output is that of a run
without interruption, each attempt goes on from the last checkpoint before it, and no process is
left.
"""

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from support.command_line import CommandLine
from support.roles import role_of

SIMULATION = Path(__file__).parent.parent.parent / "examples" / "simulation.yaml"
OPTIONS = ["-p", "Steps=40", "-p", "SaveEvery=5", "-p", "StepSeconds=0.02"]
QUICK = ["--limit", "back_off_seconds=0.05", "--limit", "quick_seconds=0"]
ROLES = ("manager", "keeper", "worker", "task")
LINES = 40


def kill(perdure, targets):
    """SIGKILL to every process of these roles, as they are now."""
    for pid in perdure.processes():
        if role_of(pid) in targets:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def kill_somewhere(perdure, chance, line):
    """One run of the line, killed somewhere; the phase by what it had printed, None: it ended."""
    targets = (
        {"manager"} if chance.random() < 0.4 else set(chance.sample(ROLES, chance.randint(1, 4)))
    )
    wanted = chance.randrange(LINES)
    with perdure.running(*line) as run:
        for _ in range(wanted):
            text = run.process.stdout.readline()
            if not text:
                return None
            run.lines.append(text)
        time.sleep(chance.random() * 0.05)  # not a wait: where the kill falls is drawn by the seed
        kill(perdure, targets)
        if "manager" not in targets:
            run.lines.extend(run.process.stdout)
        run.process.wait()
    said = "".join(run.lines)
    if "openjd_checkpoint_save" in said:
        return "after a save"
    if "Output:" in said:
        return "running"
    return "start" if said else "before any output"


def check_attempts(perdure):
    """Each attempt went on from the last checkpoint committed before it."""
    newest = None
    for attempt in perdure.json("status", "last")["attempts"]:
        assert attempt["resumed_from"] in (None, newest), attempt
        if newest is not None:
            assert attempt["resumed_from"] == newest, attempt
        for checkpoint in attempt["checkpoints"]:
            newest = checkpoint["sequence"]


def story(folder, seed, expected=None):
    """One job from its start to its end; its output and the phases in which it was killed."""
    folder.mkdir()
    perdure = CommandLine(folder)
    chance = random.Random(seed)
    line = ["run", SIMULATION, *OPTIONS, "-p", f"Output={folder / 'rod.txt'}", *QUICK]
    phases = Counter()
    try:
        for _ in range(3 if expected is not None else 0):
            phase = kill_somewhere(perdure, chance, line)
            if phase is None:
                break
            phases[phase] += 1
        if not (folder / "rod.txt").exists() or phases:
            perdure(*line)
        check_attempts(perdure)
        perdure.wait_until_no_process()
    finally:
        perdure.kill_all()
    return (folder / "rod.txt").read_bytes(), phases


def test_a_sample(tmp_path):
    expected, _ = story(tmp_path / "straight", 0)
    for seed in (1, 2):
        found, phases = story(tmp_path / str(seed), seed, expected)
        assert found == expected, (seed, phases)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many(tmp_path):
    expected, _ = story(tmp_path / "straight", 0)
    total = Counter()
    seed = 1000
    while sum(total.values()) < 150:
        found, phases = story(tmp_path / str(seed), seed, expected)
        assert found == expected, (seed, phases)
        total += phases
        seed += 1
    print(f"{sum(total.values())} kills in {seed - 1000} jobs: {dict(total)}")
