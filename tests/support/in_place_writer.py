"""A program that saves into its one file, announces, begins its next save in place and is killed.

A real process writes version after version over the same file, page by page, and announces each on
its standard output, as a task does. Whoever reads the line takes the save by the same calls as
perdure's worker (`Capture`). The writer is told how far it may come with its next save; there it is
killed from outside. A save may be refused as torn: then the one before it stays. What may never be
offered for resuming is a checkpoint that is not one version of the file, whole.

Limit: a file system may stamp a change with a time of up to a tick (1 to 10 ms) ago. A writer whose
last change is in the very tick in which its line was read cannot be told from one that wrote before
it; so the next save begins when that tick is over (`_tick_is_over`).

Source: design 7; docs/decisions/045, 121.
"""

import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from perdure.errors import CheckpointTorn
from perdure.store.capture.capture import Capture
from perdure.store.capture.save_values import Announcement, CaptureSettings, Frozen
from perdure.store.drivers.memory import MemoryDriver
from perdure.store.files.ownership import Ownership
from perdure.store.files.roots import Roots
from perdure.store.manifests.manifest import Manifest
from perdure.store.packs.blocks import BlockIndex
from perdure.store.packs.pack_writing import PackWriter
from perdure.store.restore.planning import RestoreRequest
from perdure.store.restore.restore import restore
from support.lineage_life import PACKS, launch_of

# CLOCK_REALTIME_COARSE of <linux/time.h>, which `time` does not name.
_COARSE_CLOCK = 5
_PROGRAM = Path(__file__).with_name("in_place_program.py")
#: More than one block: a mixture may also lie between two of them.
SIZE_BYTES = 5 << 20
PAGE_BYTES = 4096
PAGES = SIZE_BYTES // PAGE_BYTES


class Moment(Enum):
    """When the save's bytes are taken."""

    #: before the writer begins its next save
    AT_ONCE = "at once"
    #: stamped as the line was read, taken after the writer was killed in its next save
    LATE = "stamped at once, taken after the kill"
    #: taken early as the file was declared, the save after the kill
    EARLY = "declared before its line, taken after the kill"
    #: nobody looked at the file before the writer was killed
    UNSEEN = "stamped and taken after the kill"


def content(version: int) -> bytes:
    """All of one version."""
    return bytes([version]) * SIZE_BYTES


@dataclass
class Tried:
    """What became of the saves, by moment."""

    kills: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    mixtures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """For a report."""
        outcomes = ", ".join(f"{name} {count}" for name, count in sorted(self.outcomes.items()))
        return f"{self.kills} kills: {outcomes}; {len(self.mixtures)} mixtures"


class Taking:
    """The saves of one file in ``session``, as a worker takes them."""

    def __init__(self, session: Path) -> None:
        self._path = session / "state"
        self._driver = MemoryDriver()
        launch = launch_of(1)
        self._capture = Capture(
            Roots(session),
            PackWriter(self._driver, PACKS, launch=launch, attempt=1, index=BlockIndex()),
            CaptureSettings(attempt=1, launch=launch),
            ownership=Ownership(first_claim_at_ns=0, attempt_began_at_ns=0),
        )
        self._newest: Manifest | None = None
        self._saves = 0

    def declare(self) -> None:
        """The file is declared; its bytes are taken early."""
        self._capture.announce((str(self._path),))

    def freeze(self, line_at_ns: int) -> Frozen:
        """A line was read then."""
        self._saves += 1
        path = str(self._path)
        return self._capture.freeze(
            Announcement(save=self._saves, line_at_ns=line_at_ns, file=path)
        )

    def take(self, frozen: Frozen) -> None:
        """The save is committed, or refused as torn."""
        with suppress(CheckpointTorn):
            self._newest = self._capture.take(frozen).manifest

    def version_of_the_newest(self, fresh: Path) -> int | None:
        """Which version comes back in ``fresh``; None: a mixture."""
        assert self._newest is not None
        fresh.mkdir()
        restore(
            RestoreRequest(
                driver=self._driver,
                packs=PACKS,
                manifest=self._newest,
                name="@",
                roots=Roots(fresh),
            )
        )
        data = (fresh / "state").read_bytes()
        return data[0] if data == content(data[0]) else None


def killed_in_its_next_save(folder: Path, *, points: int, seed: int) -> Tried:
    """Kill a writer at that many points of its next save, at each moment of taking."""
    tried = Tried()
    chance = random.Random(seed)
    for number in range(points):
        first = PAGES * number // points
        pages = chance.randrange(max(1, first), PAGES * (number + 1) // points)
        for moment in Moment:
            here = folder / f"{number}-{moment.name}"
            (here / "session").mkdir(parents=True)
            version = _killed(here, pages, moment)
            tried.kills += 1
            tried.outcomes[f"{moment.value}: {_WORDS.get(version, 'wrong')}"] += 1
            if version not in _WORDS:
                tried.mixtures.append(f"killed behind page {pages}, {moment.value}: {version}")
            shutil.rmtree(here)
    return tried


_WORDS: dict[int | None, str] = {1: "torn, the save before it stays", 2: "whole"}


def _killed(folder: Path, pages: int, moment: Moment) -> int | None:
    """What comes back after a writer was killed so far in its third save."""
    taking = Taking(folder / "session")
    with _writer(folder / "session" / "state") as writer:
        _go_on(writer, PAGES)
        taking.take(taking.freeze(time.time_ns()))
        _tick_is_over(time.time_ns())
        _go_on(writer, PAGES)
        if moment is Moment.EARLY:
            taking.declare()
        line_at_ns = time.time_ns()
        frozen = None if moment is Moment.UNSEEN else taking.freeze(line_at_ns)
        if frozen is not None and moment is Moment.AT_ONCE:
            taking.take(frozen)
        _tick_is_over(line_at_ns)
        _go_on(writer, pages)
        writer.kill()
        writer.wait(timeout=60)
    if moment is not Moment.AT_ONCE:
        taking.take(frozen or taking.freeze(line_at_ns))
    return taking.version_of_the_newest(folder / "fresh")


@contextmanager
def _writer(path: Path) -> Iterator["subprocess.Popen[str]"]:
    writer = subprocess.Popen(
        [sys.executable, "-S", "-E", str(_PROGRAM), str(path), str(PAGE_BYTES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield writer
    finally:
        writer.kill()
        writer.communicate(timeout=60)


def _go_on(writer: "subprocess.Popen[str]", pages: int) -> None:
    """Let it write so many pages of its next version, and hear that it has."""
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write(f"{pages}\n")
    writer.stdin.flush()
    assert writer.stdout.readline(), "the writer has ended"


def _tick_is_over(moment_ns: int) -> None:
    """Wait until the clock that stamps files has passed a moment: some milliseconds at most."""
    while time.clock_gettime_ns(_COARSE_CLOCK) <= moment_ns:
        time.sleep(0)
