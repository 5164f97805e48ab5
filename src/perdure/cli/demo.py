"""``perdure demo``: the source text's Fibonacci job, interrupted and resumed before your eyes."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

#: The template of the RFC idea "task checkpointing" (mwiebe), byte for byte, lies beside this file.
_TEMPLATE = Path(__file__).parent / "fibonacci.yaml"
#: The job waits five seconds between numbers; the demo must not take minutes.
_PACE = ("time.sleep(5)", "time.sleep(0.7)")
_NUMBER = 12
_STOP_AFTER = 5
_KILL_AFTER = 8
_LINE = re.compile(r"Fibonacci number (\d+) is (\d+)|Final answer.*")
_DEADLINE_SECONDS = 120.0


@click.command()
def demo() -> int:
    """Show a job that is suspended, killed, and goes on each time from its last save."""
    with tempfile.TemporaryDirectory(prefix="perdure-demo-") as name:
        return _Demo(Path(name)).play()


class _Demo:
    """Plays the three acts in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._template = folder / "fibonacci.yaml"
        text = _TEMPLATE.read_text(encoding="utf-8")
        self._template.write_text(text.replace(*_PACE), encoding="utf-8")
        self._numbers: list[int] = []

    def play(self) -> int:
        """All acts; 0 if the answer is right and nothing was lost."""
        _say("1. A job computes Fibonacci numbers. After some of them Ctrl-C is pressed:")
        with self._running() as process:
            self._watch(process, until=_STOP_AFTER)
            _say("   Ctrl-C: the job saves and is suspended")
            process.send_signal(signal.SIGINT)
            self._watch(process, until=None)
        _say(
            "2. The same line again: it goes on from its save. Now everything is killed (kill -9):"
        )
        with self._running() as process:
            self._watch(process, until=_KILL_AFTER)
            killed = _kill_all(self._folder)
            _say(f"   kill -9 of all {killed} processes: perdure's and the task's")
            process.wait()
        _say("3. The same line once more: it goes on from the last save, to the end:")
        with self._running() as process:
            self._watch(process, until=None)
            code = process.wait()
        return self._judge(code)

    def _judge(self, code: int) -> int:
        missing = sorted(set(range(_NUMBER)) - set(self._numbers))
        if code != 0 or missing:
            _say(f"The demo went wrong: exit code {code}, missing numbers {missing}.")
            return 1
        again = len(self._numbers) - len(set(self._numbers))
        _say(
            f"Done: every number was computed; {again} of them twice, because the kill gave no time"
            " to save. The suspension lost nothing."
        )
        return 0

    @contextmanager
    def _running(self) -> Iterator["subprocess.Popen[str]"]:
        environment = {
            **os.environ,
            "PERDURE_HOME": str(self._folder / "home"),
            "PERDURE_CACHE": str(self._folder / "cache"),
            "PYTHONUNBUFFERED": "1",
        }
        command = [sys.executable, "-m", "perdure", "run", str(self._template)]
        shown = f"   $ perdure run fibonacci.yaml -p N={_NUMBER}"
        click.echo(shown)
        process = subprocess.Popen(
            [*command, "-p", f"N={_NUMBER}", "--sessions-dir", str(self._folder / "sessions")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            cwd=self._folder,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def _watch(self, process: "subprocess.Popen[str]", *, until: int | None) -> None:
        """Show what the job says until it has computed number ``until``, or has ended."""
        assert process.stdout is not None
        deadline = time.monotonic() + _DEADLINE_SECONDS
        for line in process.stdout:
            text = line.rstrip("\n").partition("\t")[2] or line.rstrip("\n")
            found = _LINE.match(text)
            if found or text.startswith(("openjd_checkpoint", "State:")):
                click.echo(f"     {text}")
            if found and found.group(1):
                self._numbers.append(int(found.group(1)))
                if until is not None and int(found.group(1)) >= until:
                    return
            if time.monotonic() > deadline:
                return


def _kill_all(folder: Path) -> int:
    """SIGKILL to every process of the demo's job, perdure's own included; how many."""
    killed = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            if str(folder).encode() in command:
                os.kill(int(entry.name), signal.SIGKILL)
                killed += 1
        except OSError:
            continue
    return killed


def _say(text: str) -> None:
    click.echo(f"\n{text}" if text[:1].isdigit() or text.startswith("Done") else text)
