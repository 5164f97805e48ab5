"""A lineage's life that ends with SIGKILL at one of its system calls, and what is there then.

The kill comes from outside: strace sends it as the process enters a call. One life is traced to the
end, which gives all points: the first ``openat``, the second, …, the first ``pwrite64``, and so on,
whoever makes them. What must hold after a kill at each is in `KilledLives.killed_at`: the store
opens and has the last acknowledged checkpoint or a newer one, every byte of which is right; a
restore that was killed goes on and ends right; the lineage is taken on by another attempt.

Source: strace(1), "--inject": ``when`` counts for each system call and each thread by itself.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from perdure.errors import PerdureError
from perdure.store.drivers.posix import PosixDriver
from support.failing_calls import opened
from support.lineage_life import (
    Life,
    Sizes,
    examined,
    expect_files,
    leftovers,
    restored,
)

_TESTS = Path(__file__).resolve().parent.parent
SIZES = Sizes(settled=300, changing=66_000, growing=9_000)


# What is under way when the process is waited for, and how it ends: nothing comes behind.
_NEVER_RETURN = frozenset({"exit", "exit_group"})
_CALL = re.compile(r"(\d+) +(\w+)\(")


class NotPermitted(Exception):
    """No process can be traced here, and why."""


class Point(NamedTuple):
    """The ``number``-th call of that name, counted from 1 in each thread."""

    call: str
    number: int


@dataclass
class Killed:
    """What was found after kills.

    Attributes:
        kills: how many processes were killed.
        survived: how many lives were over before their call came.
        with_nothing: killed before anything was acknowledged.
        in_restore: killed after the last save was acknowledged.
    """

    kills: int = 0
    survived: int = 0
    with_nothing: int = 0
    in_restore: int = 0

    def __str__(self) -> str:
        """For a report."""
        return (
            f"{self.kills} kills ({self.with_nothing} before the first acknowledgement,"
            f" {self.in_restore} behind the last save), {self.survived} lives that were over before"
        )


@dataclass
class KilledLives:
    """Lives that are killed, one at a time."""

    server: subprocess.Popen[str]
    driver: type[PosixDriver]
    found: Killed = field(default_factory=Killed)

    def ask(self, line: str) -> int:
        """Give the server a line; its answer."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(line + "\n")
        self.server.stdin.flush()
        return int(self.server.stdout.readline())

    def points(self, folder: Path) -> list[Point]:
        """All system calls of a life, which is lived to its end in the empty ``folder``."""
        log = folder / "calls"
        folder.mkdir()
        status = self._lived(["-o", str(log)], folder)
        assert status == 0, status
        counts = Counter(
            found.groups() for found in map(_CALL.match, log.read_text().splitlines()) if found
        )
        most: dict[str, int] = {}
        for (_thread, name), count in counts.items():
            most[name] = max(most.get(name, 0), count)
        return [
            Point(name, number)
            for name, count in sorted(most.items())
            for number in range(1, count + 1)
            if name not in _NEVER_RETURN
        ]

    def killed_at(self, point: Point, folder: Path) -> bool:
        """Kill a life in the empty ``folder`` at that system call; False if it was over before.

        Raises:
            AssertionError: something that was acknowledged is not there, or not whole.
            NotPermitted: no process can be traced here.
        """
        inject = f"inject={point.call}:signal=SIGKILL:when={point.number}"
        status = self._lived(["-e", inject, "-o", os.devnull], folder)
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL
            self.found.kills += 1
        else:
            assert os.WEXITSTATUS(status) == 0
            self.found.survived += 1
        self._judge(folder)
        return os.WIFSIGNALED(status)

    def _lived(self, how: list[str], folder: Path) -> int:
        """Let a child live under strace; its status."""
        if shutil.which("strace") is None:
            raise NotPermitted("strace is not installed")
        names = ("store", "session", "fresh", "said")
        order = {name: str(folder / name) for name in names}
        for name in ("session", "fresh"):
            (folder / name).mkdir(parents=True)
        order["driver"] = self.driver.__name__
        order["sizes"] = json.dumps([SIZES.settled, SIZES.changing, SIZES.growing])
        pid = self.ask(json.dumps(order))
        tracer = subprocess.Popen(
            ["strace", "-f", *how, "-p", str(pid)],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert tracer.stderr is not None
        first = tracer.stderr.readline()
        status = self.ask("go")
        rest = tracer.stderr.read()
        tracer.stderr.close()
        tracer.wait(timeout=60)
        if "attached" not in first:
            raise NotPermitted((first + rest).strip())
        return status

    def _judge(self, folder: Path) -> None:
        store, session, fresh = (folder / name for name in ("store", "session", "fresh"))
        said = _said(folder / "said")
        self.found.with_nothing += not said
        self.found.in_restore += said.get("save") == 13
        if said or (store / "format").exists():
            found = examined(store, SIZES)
            assert found.version >= said.get("save", 0)
            assert found.lines[1] >= said.get("line", 0)
            if found.number:
                restored(store, found.number, fresh, SIZES)
                assert leftovers(fresh) == []
        if "restored" in said:
            expect_files(fresh, 13, SIZES)
        Life(store, session, attempt=2, sizes=SIZES).live()
        assert examined(store, SIZES).version == 23
        driver = opened(store)
        driver.sweep("", older_than_seconds=0)
        driver.close()
        assert leftovers(store) == []


@contextmanager
def lives_to_kill(driver: type[PosixDriver] = PosixDriver) -> Iterator[KilledLives]:
    """A server whose children can be killed; ``driver`` is a name in `support.broken_drivers`."""
    path = os.pathsep.join([str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    server = subprocess.Popen(
        [sys.executable, "-m", "support.life_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        yield KilledLives(server, driver)
    finally:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.close()
        server.wait(timeout=60)
        server.stdout.close()


def killed_everywhere(
    folder: Path, *, sample: int | None, seed: int = 0, driver: type[PosixDriver] = PosixDriver
) -> tuple[int, Killed]:
    """Kill a life at each of its system calls, or at ``sample`` of them; how many there are.

    Raises:
        AssertionError: as `KilledLives.killed_at`, with which call it was.
        NotPermitted: no process can be traced here.
    """
    with lives_to_kill(driver) as lives:
        points = lives.points(folder / "clean")
        chosen = points if sample is None else random.Random(seed).sample(points, sample)
        for point in chosen:
            here = folder / f"{point.call}-{point.number}"
            try:
                lives.killed_at(point, here)
            except (AssertionError, PerdureError) as error:
                raise AssertionError(f"killed at {point.call} {point.number}: {error!r}") from error
            shutil.rmtree(here)
        return len(points), lives.found


def _said(path: Path) -> dict[str, int]:
    """The last number of everything that was said."""
    if not path.exists():
        return {}
    pairs = (line.split() for line in path.read_text().splitlines())
    return {what: int(number) for what, number in pairs}
