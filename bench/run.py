"""Print the paired figures that perdure is held to: each pair is measured in turn, in one run.

    python bench/run.py [NAME…] [--rounds N] [--tasks N]

The comparison with `openjd run` lives in an environment of its own (.venv-openjd beside this
checkout), made at the first run. Ratios are medians of the ratios of each round; a shared machine
makes single times worthless. What is missed is printed as missed.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPENJD_ENVIRONMENT = ROOT / ".venv-openjd"
PERDURE = [sys.executable, "-m", "perdure"]

NOOP = """\
specificationVersion: jobtemplate-2023-09
name: Noop
parameterDefinitions: [{{name: N, type: INT, default: {tasks}}}]
steps:
- name: Nothing
  parameterSpace:
    taskParameterDefinitions: [{{name: I, type: INT, range: "1-{{{{Param.N}}}}"}}]
  script: {{actions: {{onRun: {{command: /bin/true}}}}}}
"""
CHATTY = """\
specificationVersion: jobtemplate-2023-09
name: Chatty
steps:
- name: Talk
  script: {actions: {onRun: {command: /bin/sh, args: ["-c", "seq 1 1000000"]}}}
"""
SILENT = """\
specificationVersion: jobtemplate-2023-09
name: Silent
steps:
- name: Wait
  script: {actions: {onRun: {command: /bin/sleep, args: ["3600"]}}}
"""
SAVING = """\
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT]
name: Saving
steps:
- name: Loop
  script:
    actions:
      onRun:
        command: python3
        args: ["{{Task.File.Loop}}"]
        checkpointCancelation:
          {mode: NOTIFY_THEN_TERMINATE, notifyPeriodInSeconds: 60, signalToNotify: SIGUSR1}
      onCheckpointResume:
        command: python3
        args: ["{{Task.File.Loop}}", "{{Task.Checkpoint.State}}"]
        checkpointCancelation:
          {mode: NOTIFY_THEN_TERMINATE, notifyPeriodInSeconds: 60, signalToNotify: SIGUSR1}
    embeddedFiles:
    - name: Loop
      type: TEXT
      data: |
        import json, os, signal, sys, time
        def save(number, frame):
            print("caught at", time.time(), flush=True)
            print("openjd_checkpoint_save: " + json.dumps({"state": "1"}), flush=True)
            path = os.environ["PERDURE_COMMIT_FILE"]
            while not os.path.exists(path):
                time.sleep(0.0005)
            print("committed at", time.time(), flush=True)
            sys.exit(1)
        signal.signal(signal.SIGUSR1, save)
        print("first line at", time.time(), flush=True)
        while True:
            time.sleep(1)
"""


@dataclass(frozen=True)
class Measured:
    """One whole process."""

    wall: float
    cpu: float
    output: str


@contextmanager
def places() -> Iterator[dict[str, str]]:
    """An empty home, for one measurement."""
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as name:
        yield {
            **os.environ,
            "PERDURE_HOME": f"{name}/home",
            "PERDURE_CACHE": f"{name}/cache",
        }


def measure(command: list[str], environment: dict[str, str]) -> Measured:
    """Run it; CPU counts every descendant that was waited for."""
    before = os.times()
    started = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - started
    after = os.times()
    if done.returncode not in (0, 75):
        sys.exit(f"{command}: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    cpu = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return Measured(wall=wall, cpu=cpu, output=done.stdout)


def openjd() -> str:
    """The stock command, in its own environment."""
    command = OPENJD_ENVIRONMENT / "bin" / "openjd"
    if not command.exists():
        subprocess.run([sys.executable, "-m", "venv", str(OPENJD_ENVIRONMENT)], check=True)
        pip = [str(OPENJD_ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "-q"]
        subprocess.run([*pip, "openjd-cli==0.8.0"], check=True)
    return str(command)


def pairs(ours: list[str], theirs: list[str], rounds: int) -> list[tuple[Measured, Measured]]:
    """Both in turn, after one round that is not counted."""
    found = []
    for number in range(rounds + 1):
        with places() as environment:
            pair = measure(ours, environment), measure(theirs, environment)
        if number:
            found.append(pair)
    return found


def say(name: str, figure: float, bar: float, unit: str, detail: str) -> None:
    """One row."""
    verdict = "ok" if figure <= bar else "MISSED"
    print(f"{name:46} {figure:8.3f} {unit:3} bar {bar:8.3f}  {verdict:6} {detail}", flush=True)


def ratio_row(name: str, found: list[tuple[Measured, Measured]], bar: float, what: str) -> None:
    ratios = [getattr(a, what) / getattr(b, what) for a, b in found]
    ours = statistics.median(getattr(a, what) for a, _ in found)
    theirs = statistics.median(getattr(b, what) for _, b in found)
    detail = (
        f"{what}: {ours:.2f} s against {theirs:.2f} s, ratios {min(ratios):.2f}-{max(ratios):.2f}"
    )
    say(name, statistics.median(ratios), bar, "x", detail)


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def bench_noop(folder: Path, rounds: int, tasks: int) -> None:
    template = write(folder, "noop.yaml", NOOP.format(tasks=tasks))
    theirs = [openjd(), "run", template]
    one = pairs([*PERDURE, "run", template], theirs, rounds)
    ratio_row(f"{tasks} no-op tasks, one worker", one, 1.0, "wall")
    two = pairs([*PERDURE, "run", "--workers", "2", template], theirs, rounds)
    ratio_row(f"{tasks} no-op tasks, two workers", two, 0.6, "wall")


def bench_single(folder: Path, rounds: int, _tasks: int) -> None:
    template = write(folder, "single.yaml", NOOP.format(tasks=1))
    found = pairs([*PERDURE, "run", template], [openjd(), "run", template], rounds)
    more = statistics.median(a.wall - b.wall for a, b in found)
    say("a single task: beyond openjd run", more, 0.25, "s", "")


def bench_chatty(folder: Path, rounds: int, _tasks: int) -> None:
    template = write(folder, "chatty.yaml", CHATTY)
    found = pairs([*PERDURE, "run", template], [openjd(), "run", template], max(1, rounds - 2))
    ratio_row("1e6 lines of output", found, 0.3, "wall")
    ratio_row("1e6 lines of output", found, 0.3, "cpu")


def bench_silent(folder: Path, _rounds: int, _tasks: int) -> None:
    """What supervising a task that says nothing costs: worker and keeper."""
    template = write(folder, "silent.yaml", SILENT)
    with places() as environment:
        process = subprocess.Popen(
            [*PERDURE, "run", template], env=environment, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "Output:" in line:
                    break
            workers = _workers(environment["PERDURE_HOME"])
            time.sleep(3)
            seconds, before = 20.0, sum(_ticks(pid) for pid in workers)
            time.sleep(seconds)
            used = (sum(_ticks(pid) for pid in workers) - before) / os.sysconf("SC_CLK_TCK")
            resident = sum(_resident_mib(pid) for pid in workers)
            say("a silent task: supervising it", 100 * used / seconds, 0.2, "%", "of a core")
            say("a silent task: memory", resident, 100, "MiB", "worker and keeper")
        finally:
            process.terminate()
            process.communicate()


def bench_many(folder: Path, _rounds: int, _tasks: int) -> None:
    """A job of 100,000 tasks: submit, memory, status. Running all of it is not part of this."""
    template = write(folder, "many.yaml", NOOP.format(tasks=100_000))
    with places() as environment:
        done = measure([*PERDURE, "submit", template], environment)
        job = done.output.split()[0]
        say("100,000 tasks: submit", done.wall, 10, "s", "")
        time.sleep(5)
        managers = _workers(environment["PERDURE_HOME"], "perdure.cli.detached")
        say(
            "100,000 tasks: memory",
            max(map(_resident_mib, managers), default=0),
            300,
            "MiB",
            "manager",
        )
        files = sum(len(names) for _, _, names in os.walk(environment["PERDURE_HOME"]))
        say("100,000 tasks: files", files, 200, "", "after five seconds of work")
        status = [measure([*PERDURE, "status", job, "--json"], environment).wall for _ in range(3)]
        say("100,000 tasks: status", statistics.median(status), 0.3, "s", "")
        measure([*PERDURE, "cancel", job], environment)
        measure_until_gone(environment)


def measure_until_gone(environment: dict[str, str]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and _workers(environment["PERDURE_HOME"]):
        time.sleep(0.2)


def bench_saving(folder: Path, rounds: int, _tasks: int) -> None:
    """From the signal to a committed save, and from `perdure resume` to the first line."""
    # The interpreter itself: a version manager's `python3` is a script that takes 0.15 s by itself.
    saving = SAVING.replace("command: python3", f"command: {sys.executable}")
    template = write(folder, "saving.yaml", saving)
    commits, resumes = [], []
    for _ in range(max(3, rounds)):
        with places() as environment:
            said = _suspend_after_first_line([*PERDURE, "run", template], environment)
            commits.append(_moment(said, "committed at") - _moment(said, "caught at"))
            job = re.search(r"Results of job (\S+)", said)
            assert job is not None, said
            started = time.time()
            again = _suspend_after_first_line([*PERDURE, "resume", job.group(1)], environment)
            resumes.append(_moment(again, "first line at") - started)
    detail = f"{min(commits):.3f}-{max(commits):.3f}"
    say(
        "a small save: from the handler to its commit",
        statistics.median(commits),
        0.05,
        "s",
        detail,
    )
    detail = f"{min(resumes):.3f}-{max(resumes):.3f}"
    say("perdure resume to the first line", statistics.median(resumes), 0.5, "s", detail)


def bench_start(_folder: Path, rounds: int, _tasks: int) -> None:
    with places() as environment:
        helps = [measure([*PERDURE, "--help"], environment).wall for _ in range(rounds + 2)]
        bare = [measure([sys.executable, "-c", ""], environment).wall for _ in range(rounds + 2)]
        task = [
            measure([sys.executable, "-c", "import perdure.task"], environment).wall
            for _ in range(rounds + 2)
        ]
    say("perdure --help", statistics.median(helps), 0.15, "s", "")
    beyond = statistics.median(task) - statistics.median(bare)
    say("import perdure.task", beyond, 0.03, "s", "beyond an empty interpreter")


def _suspend_after_first_line(command: list[str], environment: dict[str, str]) -> str:
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if "first line at" in line:
            process.send_signal(2)
    process.wait()
    return "".join(said)


def _moment(said: str, what: str) -> float:
    found = re.search(rf"{what} ([0-9.]+)", said)
    assert found is not None, said
    return float(found.group(1))


def _workers(home: str, module: str = "perdure.cli.work") -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
                variables = (entry / "environ").read_bytes()
            except OSError:
                continue
            if module.encode() in command and home.encode() in variables:
                found.append(int(entry.name))
    return found


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def _resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


BENCHES: dict[str, Callable[[Path, int, int], None]] = {
    "start": bench_start,
    "single": bench_single,
    "noop": bench_noop,
    "chatty": bench_chatty,
    "silent": bench_silent,
    "saving": bench_saving,
    "many": bench_many,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BENCHES, []])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=2000)
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {options.rounds} rounds")
    folder = Path(tempfile.mkdtemp(prefix="perdure-bench-templates-"))
    try:
        for name in options.names or BENCHES:
            BENCHES[name](folder, options.rounds, options.tasks)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
