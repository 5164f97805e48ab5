"""Bits flipped, ends cut and objects swapped in a store, and where a worker goes on then.

A lineage with several checkpoints of two attempts is lived once, and its launches have released it.
Then one object at a time (packs, records of its log, journals) is damaged in a way that follows
from a seed; the damage is proved to have changed the bytes. What must hold is in
`DamagedStore.try_one`: `perdure verify`'s reading names the object or a checkpoint that needs it;
the worker's own path (`Claimant`, `decide`, `TaskStore.restore`, the outcome in the journal, a new
claim) ends with the newest checkpoint that the damage has left whole, byte for byte, after records
that cannot be read were set aside as `perdure repair` does.

What no reading can tell apart is counted by itself: a byte of a pack that no block covers (the
checkpoints must come back all the same), and a journal cut behind a line, which is a journal whose
last lines were never written (what stands must be what was written).

Source: design 3 (rule 4), 5, 6; docs/decisions/074.
"""

import random
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clock_kit import HandClock
from perdure.errors import CheckpointCorrupt, PerdureError
from perdure.journal.account import LaunchAccount
from perdure.journal.heartbeat import Stillness
from perdure.journal.journal_format import Kind
from perdure.journal.writer import JournalWriter
from perdure.manager.checking import Checked, Finding, check_job
from perdure.manager.repairing import repair
from perdure.policy.resuming import Start
from perdure.store import layout
from perdure.store.drivers.driver import Driver
from perdure.store.manifests.manifest import NO_PACK
from perdure.store.manifests.manifest_reading import decode_manifest
from perdure.store.opening import open_store
from perdure.store.records.job_log import TaskRef
from perdure.store.records.lineage import fold_lineage
from perdure.store.records.log import Log
from perdure.worker.claiming import Claimant, ClaimPlan, Held, Identity, Left, LineageView
from perdure.worker.deciding import StepRules, decide
from perdure.worker.declared import DeclaredFile, Neighbours
from perdure.worker.job_records import JobRecords
from perdure.worker.task_store import TaskStore, TaskStorePlan
from support.lineage_life import (
    JOB,
    LINEAGE,
    LOG,
    PACKS,
    TASK,
    Life,
    Sizes,
    expect_files,
    give_up_soon,
    journal_of,
    launch_of,
)

SIZES = Sizes(settled=300, changing=66_000, growing=9_000)
_RESUMING = 9


@dataclass(frozen=True)
class Damage:
    """What was done to the store: the new bytes, by key, of what kind of object."""

    kind: str
    of: str
    changed: dict[str, bytes]

    @property
    def name(self) -> str:
        """For a count."""
        return f"{self.kind} of a {self.of}"


@dataclass
class Tried:
    """What was tried, by kind of damage and object; what is at fault, if anything, in words."""

    damages: Counter[str] = field(default_factory=Counter)
    named: Counter[str] = field(default_factory=Counter)
    landed: Counter[int] = field(default_factory=Counter)
    unused: int = 0
    cut_tails: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """For a report."""
        kinds = ", ".join(
            f"{name} {count} (named {self.named[name]})"
            for name, count in sorted(self.damages.items())
        )
        landed = ", ".join(f"@{number}: {count}" for number, count in sorted(self.landed.items()))
        return (
            f"{self.damages.total()} damages: {kinds}; not named: {self.unused} in bytes that no"
            f" block covers, {self.cut_tails} cut ends of journals; resumed from {landed};"
            f" {len(self.wrong)} wrong"
        )


class DamagedStore:
    """A store in the empty ``folder`` that is damaged, looked at and mended, again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store"
        self._live()
        driver = open_store(str(self.store), write=False).driver
        self._whole = {key: driver.get(key) for key in driver.list("")}
        self._blocks, self._versions = _described(driver)
        self._packs = [key for key in self._whole if key.startswith(PACKS)]
        self._records = [key for key in self._whole if key.startswith(LOG)]
        self._journals = [journal_of(attempt) for attempt in (1, 2)]

    def _live(self) -> None:
        """Two attempts that save, and whose launches release the lineage."""
        (self.folder / "session").mkdir(parents=True)
        for attempt in (1, 2):
            life = Life(self.store, self.folder / "session", attempt, sizes=SIZES)
            life.driver = life.opened(self.store)
            journal = JournalWriter(life.driver, journal_of(attempt))
            journal.append(Kind.OPENED, {"launch": launch_of(attempt), "format": 1})
            life.claim()
            for number in range(1, 4):
                life.save(10 * attempt + number)
            _end_attempt(journal, attempt, None, {"state": "SUSPENDED", "by": "host"})
            life.end()

    def damage(self, seed: int) -> Damage:
        """The damage that follows from ``seed``; it has changed the bytes."""
        chance = random.Random(seed)
        kind = chance.choice(("flip", "cut", "swap"))
        of = chance.choice(("pack", "pack", "pack", "record", "record", "journal"))
        keys = {"pack": self._packs, "record": self._records, "journal": self._journals}[of]
        first, second = chance.sample(keys, 2)
        data = self._whole[first]
        if kind == "swap":
            changed = {first: self._whole[second], second: data}
        elif kind == "cut":
            changed = {first: data[: chance.randrange(len(data))]}
        else:
            flipped = bytearray(data)
            flipped[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            changed = {first: bytes(flipped)}
        assert all(new != self._whole[key] for key, new in changed.items())
        return Damage(kind, of, changed)

    def try_all(self, seeds: range) -> Tried:
        """Damage the store in the way of each seed."""
        tried = Tried()
        for seed in seeds:
            damage = self.damage(seed)
            try:
                self.try_one(damage, tried)
            except (AssertionError, PerdureError, OSError) as error:
                tried.wrong.append(f"seed {seed}, {damage.name} {list(damage.changed)}: {error!r}")
        return tried

    def try_one(self, damage: Damage, tried: Tried) -> None:
        """Damage, look, go on, and mend.

        Raises:
            AssertionError: nobody said so, or a worker went on from another checkpoint.
        """
        for key, data in damage.changed.items():
            (self.store / key).write_bytes(data)
        tried.damages[damage.name] += 1
        try:
            driver = open_store(str(self.store), write=True).driver
            findings = [
                finding
                for finding in check_job(driver, JOB, Checked())
                if finding.key != layout.job_record(JOB)
            ]
            self._expect_named(damage, findings, tried)
            list(repair(driver, findings, self.folder / "aside", HandClock(), lambda _key: None))
            fresh = self.folder / "fresh"
            fresh.mkdir()
            landed = resumed(driver, fresh)
            driver.close()
            expected = self._newest_whole(damage)
            assert landed == expected, f"went on from {landed} and not from {expected}"
            if landed:
                expect_files(fresh, self._versions[landed], SIZES)
            tried.landed[landed or 0] += 1
        finally:
            self._mend()

    def _expect_named(self, damage: Damage, findings: list[Finding], tried: Tried) -> None:
        """Somebody who verifies is told which object, or which checkpoint, is damaged."""
        hit = {layout.record_key(LOG, number) for number in self._hit(damage)}
        named = {finding.key for finding in findings}
        expected = hit if damage.of == "pack" else set(damage.changed)
        if damage.of == "journal" and _is_only_shorter(self.store, damage):
            tried.cut_tails += 1
            return
        if not expected:
            assert not named, named
            tried.unused += 1
            return
        assert named == expected, f"{named} named, and {expected} damaged"
        tried.named[damage.name] += 1

    def _hit(self, damage: Damage) -> set[int]:
        """The checkpoints of which a byte is not what it was."""
        return {
            number
            for number, blocks in self._blocks.items()
            if layout.record_key(LOG, number) in damage.changed
            or any(
                damage.changed[key][where.start : where.stop]
                != self._whole[key][where.start : where.stop]
                for key, where in blocks
                if key in damage.changed
            )
        }

    def _newest_whole(self, damage: Damage) -> int | None:
        return max(set(self._blocks) - self._hit(damage), default=None)

    def _mend(self) -> None:
        for path in [path for path in self.store.rglob("*") if path.is_file()]:
            key = str(path.relative_to(self.store))
            if key not in self._whole:
                path.unlink()
            elif path.read_bytes() != self._whole[key]:
                path.write_bytes(self._whole[key])
        for name in ("fresh", "aside"):
            shutil.rmtree(self.folder / name, ignore_errors=True)


def resumed(driver: Driver, fresh: Path) -> int | None:
    """Go on as a worker does, from one checkpoint after the other; the one that came back whole.

    None: policy starts nothing by itself; 0: it would begin at the beginning.
    """
    clock = HandClock()
    records = JobRecords(driver, JOB, clock=clock, pause=give_up_soon)
    me = Identity(launch=launch_of(_RESUMING), token="t")
    claimant = Claimant(
        records,
        me,
        stillness=Stillness(clock),
        is_gone=lambda _opened: False,
        is_stopped=lambda _step, _task: False,
    )
    journal = JournalWriter(driver, layout.journal(JOB, me.launch))
    while True:
        held = claimant.take(TaskRef(task=TASK), LINEAGE.step, _plan)
        if isinstance(held, Left):
            return None
        if not isinstance(held, Held):
            clock.seconds += held.seconds + 1
            continue
        base = held.claim.base
        if base is None:
            return 0
        try:
            _task_store(driver, held).restore(base, fresh)
        except CheckpointCorrupt as error:
            outcome = {"state": "NOT_STARTED", "cause": "not verified", "reason": error.message}
            _end_attempt(journal, held.claim.attempt, base, outcome)
        else:
            return base


def _plan(view: LineageView) -> ClaimPlan | Left:
    decision = decide(view, StepRules(is_resumable=True), None)
    if isinstance(decision.answer, Start):
        return ClaimPlan(attempt=decision.attempt, base=decision.restores)
    return Left(reason=str(decision.answer))


def _task_store(driver: Driver, held: Held) -> TaskStore:
    launch = launch_of(_RESUMING)
    return TaskStore(
        TaskStorePlan(
            driver=driver,
            job=JOB,
            lineage=LINEAGE,
            launch=launch,
            claim=held.claim,
            share=None,
            log=held.log,
            clock=HandClock(),
            declared=DeclaredFile(driver, layout.declared(JOB, launch)),
            neighbours=Neighbours(driver, JOB, launch),
        )
    )


def _end_attempt(
    journal: JournalWriter, attempt: int, base: int | None, outcome: dict[str, Any]
) -> None:
    """The lines of an attempt that is over."""
    key = {"step": LINEAGE.step, "task": TASK, "attempt": attempt}
    at = "2026-01-01T00:00:00.000Z"
    begun = {**key, "action": "onCheckpointResume", "base": base, "host": "h", "at": at}
    journal.append(Kind.BEGUN, begun)
    journal.append(Kind.OUTCOME, {**key, **outcome, "ran": 60.0, "at": at})
    journal.append(Kind.RELEASED, key, durable=True)


def _described(
    driver: Driver,
) -> tuple[dict[int, list[tuple[str, range]]], dict[int, int]]:
    """Of each checkpoint where its bytes are, and its version."""
    log = Log(driver, LOG, clock=HandClock(), pause=give_up_soon)
    log.read()
    blocks: dict[int, list[tuple[str, range]]] = {}
    versions: dict[int, int] = {}
    for save in fold_lineage(log.entries, share=None).saves:
        record = log.fetch(save.number)
        manifest = decode_manifest(record.header, record.payload, name="x")
        versions[save.number] = int(manifest.state or 0)
        blocks[save.number] = [
            (
                layout.pack_key(PACKS, manifest.packs[block.pack]),
                range(block.offset, block.offset + block.stored),
            )
            for entry in manifest.entries
            for block in entry.blocks
            if block.pack != NO_PACK
        ]
    return blocks, versions


def _is_only_shorter(store: Path, damage: Damage) -> bool:
    """Whether a journal reads like one whose last lines were never written."""
    driver = open_store(str(store), write=False).driver
    [key, *others] = damage.changed
    account = LaunchAccount()
    account.read_on(driver, key)
    return not others and account.damaged_at is None and account.length < len(driver.get(key)) + 1
