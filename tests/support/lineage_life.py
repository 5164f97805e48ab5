"""A lineage's life in a real folder, small enough to be lived again at every fault.

It claims a lineage, saves three files, saves them again, prunes, saves once more, prunes, and
restores: by the same calls as a worker (`Capture`, `TaskStore`, the log, the journal). What each
version of the files holds follows from its number, and the number is the save's state: so whoever
finds a checkpoint can tell whether it is whole (`examined`) without having seen it made.

Of the three files one never changes, one changes wholly, and one keeps its first block once: a
pack that two checkpoints share is pruned only with the last of them.

Source: design 3 (what must always hold), 4, 7.
"""

import functools
import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from blake3 import blake3

from clock_kit import HandClock
from perdure.errors import PerdureError, StoreUnavailable
from perdure.journal.account import LaunchAccount
from perdure.journal.journal_format import Kind
from perdure.journal.writer import JournalWriter
from perdure.policy.retention import Retention
from perdure.store import layout
from perdure.store.capture.save_values import Announcement
from perdure.store.drivers.driver import Driver
from perdure.store.files.roots import Roots
from perdure.store.layout import JobId, LaunchId, StepKey, TaskKey
from perdure.store.manifests.manifest import BLOCK_BYTES, Manifest
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.manifests.manifest_reading import decode_manifest
from perdure.store.opening import open_store
from perdure.store.records.lineage import Lineage, fold_lineage
from perdure.store.records.log import Entry, Log
from perdure.store.restore.planning import RestoreRequest
from perdure.store.restore.restore import restore
from perdure.store.restore.verify import verify_checkpoint
from perdure.worker.declared import DeclaredFile, Neighbours
from perdure.worker.job_records import LineageId
from perdure.worker.task_store import CaptureSurroundings, TaskStore, TaskStorePlan

JOB = JobId("01jdxyz0000000000000000000")
TASK = TaskKey("0123456789abcdef")
LINEAGE = LineageId(step=StepKey(1), task=TASK)
PACKS = layout.packs(JOB, LINEAGE.step, TASK)
LOG = layout.lineage_log(JOB, LINEAGE.step, TASK)
_TRIES = 3


@dataclass(frozen=True)
class Sizes:
    """How large the three files are."""

    settled: int = 300
    changing: int = 70_000
    growing: int = 150_000


SMALL = Sizes()
#: One file of two blocks.
LARGE = Sizes(growing=BLOCK_BYTES + 70_000)


def launch_of(attempt: int) -> LaunchId:
    """The launch that runs an attempt: each one its own."""
    return LaunchId(f"01jdxyz{attempt:019d}")


def journal_of(attempt: int) -> str:
    """The key of that launch's journal."""
    return layout.journal(JOB, launch_of(attempt))


def content(version: int, sizes: Sizes) -> dict[str, bytes]:
    """The three files at a version."""
    start = min(BLOCK_BYTES, sizes.growing // 2)
    return {
        "settled": _bytes("settled", sizes.settled),
        "data/changing": _bytes(f"changing {version}", sizes.changing),
        "data/growing": _bytes(f"first {max(version, 2)}", start)
        + _bytes(f"rest {version}", sizes.growing - start),
    }


@functools.lru_cache(maxsize=64)
def _bytes(seed: str, length: int) -> bytes:
    return hashlib.shake_128(seed.encode()).digest(length)


class GaveUp(StoreUnavailable):
    """The store did not answer often enough."""


def give_up_soon(tries: int) -> None:
    """Between two tries of what the store did not answer: without waiting, and not for ever."""
    if tries > _TRIES:
        raise GaveUp("the store does not answer", hint="It is tried again.")


@dataclass
class Life:
    """One attempt of the lineage, from its claim on.

    Attributes:
        store: the folder; made when it is not there.
        session: where the task has its files.
        attempt: its number, from 1.
        said: told of everything that was acknowledged: ``save`` with its version, ``line`` with the
            number of a journal's line that is durable.
        opened: how the store is opened.
        unharmed: entered while the task writes its own files: no fault of the store's.
    """

    store: Path
    session: Path
    attempt: int = 1
    sizes: Sizes = SMALL
    said: Callable[[str, int], None] = lambda _what, _number: None
    opened: Callable[[Path], Driver] = lambda path: (
        open_store(str(path), write=True, create=True, clock=HandClock()).driver
    )
    unharmed: Callable[[], AbstractContextManager[None]] = nullcontext
    lines: int = 0
    driver: Driver | None = None
    task: TaskStore | None = None
    saves: int = 0
    _files_of: int = -1
    _journal: JournalWriter | None = None
    _fields: dict[str, object] = field(default_factory=dict)

    def steps(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """All of its life, step by step; each may be tried again when it was refused."""
        first = 10 * self.attempt
        yield "claim", self.claim
        yield "save", lambda: self.save(first + 1)
        yield "save", lambda: self.save(first + 2)
        yield "prune", self.prune
        yield "save", lambda: self.save(first + 3)
        yield "prune", self.prune

    def live(self) -> None:
        """All steps, none of which may fail."""
        for _name, step in self.steps():
            step()
        self.end()

    def claim(self) -> None:
        """Open the store and take the lineage from its point on; sweep what the dead left."""
        if self.driver is None:
            self.driver = self.opened(self.store)
        log = Log(self.driver, LOG, clock=HandClock(), pause=give_up_soon)
        log.read()
        base = fold_lineage(log.entries, share=None).point
        self._append_claim(log, base)
        lineage = fold_lineage(log.entries, share=None)
        declared = layout.declared(JOB, launch_of(self.attempt))
        self.task = TaskStore(
            TaskStorePlan(
                driver=self.driver,
                job=JOB,
                lineage=LINEAGE,
                launch=launch_of(self.attempt),
                claim=lineage.claims[-1],
                share=None,
                log=log,
                clock=HandClock(),
                declared=DeclaredFile(self.driver, declared),
                neighbours=Neighbours(self.driver, JOB, launch_of(self.attempt)),
                retention=Retention(last=1),
                grace=timedelta(),  # deletions are what is tried here
            )
        )
        self.task.sweep()
        self._journal = JournalWriter(self.driver, journal_of(self.attempt))
        self._fields = {"step": LINEAGE.step, "task": TASK, "attempt": self.attempt}
        self._capture = self.task.capture(
            CaptureSurroundings(
                session_dir=self.session,
                base=None if base is None else self.task.manifest(base),
                began_at_ns=time.time_ns(),
                freezer=suppress,
                is_made_anew=lambda _path: False,
                told=lambda _text: None,
            )
        )
        self._say_line("claimed")

    def _append_claim(self, log: Log, base: int | None) -> None:
        """Ours at the end of the log; one of ours that is there after a lost reply will do."""
        launch = launch_of(self.attempt)
        while True:
            last = log.entries[-1].header if log.entries else {}
            if last.get("kind") == "claim" and last.get("launch") == launch:
                return
            header = {"kind": "claim", "attempt": self.attempt, "launch": launch, "base": base}
            if isinstance(log.append(header), Entry):
                return

    def save(self, version: int) -> None:
        """Write the files of a version, unless they are there, and commit them."""
        assert self.task is not None
        if self._files_of != version:
            with self.unharmed():
                self.write_files(version)
        if version % 2 == 0:
            self._declare()
        self.saves += 1
        frozen = self._capture.freeze(
            Announcement(
                save=self.saves,
                line_at_ns=time.time_ns(),
                state=str(version),
                file=str(self.session / "settled"),
                folders=(str(self.session / "data"),),
            )
        )
        manifest = self._capture.take(frozen).manifest
        header, payload = encode_manifest(manifest)
        number = self.task.put({"kind": "save", **header}, payload)
        assert number is not None, "nobody else ever claims"
        self.task.remember(number, manifest)
        self.said("save", version)
        self._say_line(f"saved {version}")

    def _declare(self) -> None:
        """The files are declared before they are saved; what goes wrong is left to the save."""
        with suppress(PerdureError):
            self._capture.announce((str(self.session / "settled"), str(self.session / "data")))

    def write_files(self, version: int) -> None:
        """As a task writes them: a new file, renamed."""
        (self.session / "data").mkdir(parents=True, exist_ok=True)
        for name, data in content(version, self.sizes).items():
            path = self.session / name
            if not path.exists() or path.read_bytes() != data:
                new = self.session / "new"
                new.write_bytes(data)
                new.rename(path)
        self._files_of = version

    def prune(self) -> None:
        """What retention lets go; never raises."""
        assert self.task is not None
        self.task.prune()

    def end(self) -> None:
        """Write what the journal still holds back, and close everything."""
        if self._journal is not None:
            self._journal.sync()
        if self.driver is not None:
            self.driver.close()

    def _say_line(self, text: str) -> None:
        """A line of the journal, durable where the store takes it."""
        assert self._journal is not None
        self.lines += 1
        fields = {**self._fields, "what": "life", "text": text}
        if self._journal.append(Kind.NOTED, fields, durable=True):
            self.said("line", self.lines)


@dataclass(frozen=True)
class Found:
    """What a store holds for this lineage.

    Attributes:
        version: the state of the checkpoint to go on from; 0 for none.
        number: its sequence.
        lines: how many lines the journals have, by attempt.
        manifests: all checkpoints that are not pruned, by sequence.
    """

    version: int
    number: int
    lines: dict[int, int]
    manifests: dict[int, Manifest]
    lineage: Lineage
    damage: tuple[str, ...] = ()


def examined(store: Path, sizes: Sizes = SMALL, *, attempts: int = 1) -> Found:
    """What is in the store, every byte of every checkpoint that is not pruned read and compared.

    Raises:
        AssertionError: something is half there, or is not what its state says.
    """
    driver = open_store(str(store), write=False).driver
    try:
        log = Log(driver, LOG, clock=HandClock(), pause=give_up_soon)
        log.read()
        lineage = fold_lineage(log.entries, share=None)
        manifests = {
            save.number: _whole(driver, log, save.number, sizes)
            for save in lineage.saves
            if not save.is_pruned
        }
        point = lineage.point or 0
        assert not point or point in manifests, "the point is pruned"
        lines = {attempt: _lines(driver, attempt) for attempt in range(1, attempts + 1)}
    finally:
        driver.close()
    version = int(manifests[point].state or 0) if point else 0
    return Found(version, point, lines, manifests, lineage)


def _whole(driver: Driver, log: Log, number: int, sizes: Sizes) -> Manifest:
    """A checkpoint, its digests compared with its bytes, and with those that its state implies."""
    record = log.fetch(number)
    manifest = decode_manifest(record.header, record.payload, name=f"@{number}")
    damage = verify_checkpoint(driver, PACKS, manifest)
    assert damage == (), damage
    expected = content(int(manifest.state or 0), sizes)
    found = {entry.path: entry for entry in manifest.entries if entry.blocks}
    assert set(found) == set(expected)
    for name, data in expected.items():
        digests = [
            blake3(data[start : start + BLOCK_BYTES]).digest()
            for start in range(0, len(data), BLOCK_BYTES)
        ]
        assert [block.digest for block in found[name].blocks] == digests, name
    return manifest


def _lines(driver: Driver, attempt: int) -> int:
    account = LaunchAccount()
    account.read_on(driver, journal_of(attempt))
    return sum(len(found.notes) for found in account.attempts.values())


def put_back(driver: Driver, number: int | None, fresh: Path) -> int:
    """Restore a checkpoint (None: the point) into ``fresh``; the version that its state says."""
    log = Log(driver, LOG, clock=HandClock(), pause=give_up_soon)
    log.read()
    if number is None:
        number = fold_lineage(log.entries, share=None).point
        assert number is not None
    record = log.fetch(number)
    name = f"{TASK}@{number}"
    manifest = decode_manifest(record.header, record.payload, name=name)
    roots = Roots(fresh)
    restore(RestoreRequest(driver=driver, packs=PACKS, manifest=manifest, name=name, roots=roots))
    return int(manifest.state or 0)


def restored(store: Path, number: int, fresh: Path, sizes: Sizes = SMALL) -> None:
    """Restore a checkpoint into ``fresh``, and compare every byte of what is there then.

    Raises:
        AssertionError: it is not the version that its state says, or something else lies there.
    """
    driver = open_store(str(store), write=False).driver
    try:
        version = put_back(driver, number, fresh)
    finally:
        driver.close()
    expect_files(fresh, version, sizes)


def expect_files(folder: Path, version: int, sizes: Sizes) -> None:
    """The folder holds the files of that version and nothing else.

    Raises:
        AssertionError: so it is not.
    """
    found = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    expected = content(version, sizes)
    assert set(found) == set(expected), sorted(set(found) ^ set(expected))
    for name, data in expected.items():
        assert found[name] == data, f"{name} is not that of version {version}"


def leftovers(*folders: Path) -> list[str]:
    """Names of what is unfinished."""
    return [
        str(path)
        for folder in folders
        for path in folder.rglob(".*")
        if path.name.startswith((".tmp-", ".perdure-"))
    ]


def open_descriptors() -> frozenset[str]:
    """What this process has open, pipes and the like left out."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            target = str(entry.readlink())
            if target.startswith("/") and not target.startswith(("/proc/", "/dev/")):
                found.add(f"{entry.name} {target}")
    return frozenset(found)
