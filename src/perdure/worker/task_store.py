"""What one attempt does with the store: restore its base, take saves, commit, prune.

Built for one lineage and one attempt. Which outside files are the lineage's follows from when it
was first claimed, when its attempts ran, and what its checkpoints recorded.

Source: design 3 (rule 3), 6, 7.
"""

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from pathlib import Path

from msgspec import Struct, field

from perdure.clock import Clock, to_ns
from perdure.errors import PerdureError, SaveRefused
from perdure.policy.forecast import FirstSave, forecast, sentences
from perdure.policy.retention import DEFAULT_RETENTION, Retention
from perdure.protocol.dataset import Dataset
from perdure.store import layout
from perdure.store.capture.capture import Capture
from perdure.store.capture.save_values import CaptureSettings
from perdure.store.drivers.driver import Driver
from perdure.store.files.adopting import retire
from perdure.store.files.gathering import Gathered, Gatherer, Line
from perdure.store.files.outside_decision import Choice, Content, Window
from perdure.store.files.ownership import Ownership, recorded_contents
from perdure.store.files.roots import Roots, stamp_of
from perdure.store.layout import JobId, LaunchId
from perdure.store.manifests.manifest import (
    EntryType,
    FileRef,
    Kept,
    Manifest,
    RootKind,
    with_digests,
)
from perdure.store.manifests.manifest_reading import decode_manifest
from perdure.store.packs.blocks import BlockIndex, packs_of
from perdure.store.packs.pack_writing import PackWriter
from perdure.store.packs.sealing import PLAIN, Sealing
from perdure.store.packs.tiers import LocalTier
from perdure.store.records.lineage import SHARE, Claim, Lineage, Save, fold_lineage
from perdure.store.records.log import Log
from perdure.store.restore.planning import RestoreRequest
from perdure.store.restore.restore import Restored, restore
from perdure.store.room import free_in
from perdure.worker.claiming import append_as_owner
from perdure.worker.declared import DeclaredFile, Neighbours
from perdure.worker.draining import Drainer
from perdure.worker.hashing import Digests, Hasher
from perdure.worker.job_records import LineageId
from perdure.worker.pack_ages import PackAges
from perdure.worker.pruning import GRACE, Pruner, ended_launches
from perdure.worker.saves import Declared

#: No more often are other launches' lists read while a folder is walked.
_NEIGHBOURS_SECONDS = 0.2
#: Where clones of large files are made, in the session folder.
CLONES = ".perdure-clones"
_CHOICES = {"stop": Choice.ASK, "overwrite": Choice.OVERWRITE, "keep": Choice.KEEP}


class TaskStorePlan(Struct, frozen=True, kw_only=True):
    """Which attempt, and what is known about it.

    Attributes:
        claim: ours.
        share: the claim that the lineage's share is, or None.
        log: the lineage's log as it was read for the claim.
        windows: when earlier attempts ran.
        outside: folders and files that the job may use beside the session folder.
        choice: what to do about conflicts: stop, overwrite or keep.
        retention: which checkpoints are kept.
        max_pack_age: nothing new rests on older packs; None: on any.
        grace: so long the data of pruned checkpoints stays.
        declared: where this launch says what its tasks declare outside.
        neighbours: what all launches say.
        sealing: how the job's blocks are encrypted.
        tier: where packs are written first; None: to the store.
        over: launches that had ended when this attempt was claimed.
    """

    driver: Driver
    job: JobId
    lineage: LineageId
    launch: LaunchId
    claim: Claim
    share: Claim | None
    log: Log
    clock: Clock
    declared: DeclaredFile
    neighbours: Neighbours
    over: frozenset[LaunchId] = frozenset()
    windows: tuple[Window, ...] = ()
    outside: tuple[Path, ...] = ()
    append_globs: tuple[str, ...] = ()
    files: Kept = Kept.BYTES
    choice: str = "stop"
    retention: Retention = DEFAULT_RETENTION
    max_pack_age: timedelta | None = None
    grace: timedelta = GRACE
    workers: int = 1
    sealing: Sealing = PLAIN
    tier: LocalTier | None = None


class TaskStore(Struct):
    """See the module."""

    plan: TaskStorePlan
    _manifests: dict[int, Manifest] = field(default_factory=dict)
    _capture: Capture | None = None
    _lineage: Lineage | None = None
    _dirs: set[str] = field(default_factory=set)
    _in_flight: tuple[Manifest, ...] = ()
    _session: Path | None = None
    _pruning: Pruner | None = None
    _pack_ages: PackAges | None = None

    @property
    def packs(self) -> str:
        """The lineage's packs prefix."""
        lineage = self.plan.lineage
        return layout.packs(self.plan.job, lineage.step, lineage.task)

    def lineage(self) -> Lineage:
        """The lineage as far as its log was read."""
        log = self.plan.log
        if self._lineage is None or self._lineage.last != log.last:
            self._lineage = fold_lineage(log.entries, share=self.plan.share)
        return self._lineage

    def manifest(self, number: int) -> Manifest:
        """The manifest of a checkpoint, read once.

        Raises:
            CheckpointCorrupt, StoreDamaged: it is not what was saved.
        """
        if number not in self._manifests:
            record = self.plan.log.fetch(number)
            save = self.lineage().save(number)
            self._manifests[number] = with_digests(
                decode_manifest(
                    record.header, record.payload, name=f"{self.plan.lineage.task}@{number}"
                ),
                save.digests if save is not None else {},
            )
        return self._manifests[number]

    def restore(self, number: int, session_dir: Path) -> tuple[Manifest, Restored]:
        """Put the base back, verified; blocks while it is read and written.

        Raises:
            CheckpointCorrupt, CheckpointConflict, OutOfSpace: nothing was changed.
        """
        manifest = self.manifest(number)
        restored = restore(
            RestoreRequest(
                driver=self.plan.driver,
                packs=self.packs,
                manifest=manifest,
                name=f"{self.plan.lineage.task}@{number}",
                roots=Roots(session_dir, self.plan.outside),
                recorded=self._recorded(),
                windows=self.plan.windows,
                choice=_CHOICES[self.plan.choice],
                sealing=self.plan.sealing,
            )
        )
        return manifest, restored

    def capture(self, surroundings: "CaptureSurroundings") -> Capture:
        """What takes this attempt's saves; made once an attempt."""
        index = BlockIndex()
        if surroundings.base is not None:
            index.add_manifest(surroundings.base, without=self._not_to_rest_on(surroundings.base))
        plan = self.plan
        self._capture = Capture(
            Roots(surroundings.session_dir, plan.outside),
            PackWriter(
                plan.tier or plan.driver,
                self.packs,
                launch=plan.launch,
                attempt=plan.claim.attempt,
                index=index,
                sealing=plan.sealing,
            ),
            CaptureSettings(
                attempt=plan.claim.attempt,
                launch=plan.launch,
                append_globs=plan.append_globs,
                outside=plan.files,
                lineage=self.packs,
                freeze_limit_seconds=surroundings.freeze_limit_seconds,
                is_made_anew=surroundings.is_made_anew,
                clones=surroundings.session_dir / CLONES,
            ),
            ownership=self._ownership(surroundings),
            freezer=surroundings.freezer,
            pids=surroundings.pids,
        )
        return self._capture

    def _ownership(self, surroundings: "CaptureSurroundings") -> Ownership:
        """Whose outside files are, for this attempt."""
        plan = self.plan
        first = plan.share or (self.lineage().claims or (plan.claim,))[0]
        began_at_ns = surroundings.began_at_ns
        return Ownership(
            first_claim_at_ns=_nanoseconds(first.at) or began_at_ns,
            attempt_began_at_ns=began_at_ns,
            recorded=frozenset(self._recorded()),
            is_declared_elsewhere=_Elsewhere(plan, self._dirs, surroundings),
        )

    def roots(self, session_dir: Path) -> Roots:
        """Where the task's files may lie."""
        return Roots(session_dir, self.plan.outside)

    def gather_output(self, declared: Declared, surroundings: "CaptureSurroundings") -> Gathered:
        """The files of a task that has ended, as they are now.

        Raises:
            SaveRefused: it declared what it may not, or a declaration was refused.
            CheckpointTorn: a folder changes while it is walked.
        """
        if declared.refused:
            raise SaveRefused(
                f"a declaration of files was refused: {declared.refused}",
                hint="Let the task declare its files anew with mode RESET.",
            )
        now = time.time_ns()
        roots = self.roots(surroundings.session_dir)
        gatherer = Gatherer(
            roots,
            self._ownership(surroundings),
            Line(read_at_ns=now, stamped_at_ns=now),
            time.time_ns,
            surroundings.is_made_anew,
            told_as="delivered",
        )
        stamps = {path: stamp_of(path) for path in declared.dataset.paths}
        for manifest in declared.saved:
            for path in _saved_paths(manifest, roots):
                if path not in stamps and (stamp := stamp_of(path)) is not None:
                    stamps[path] = stamp
        return gatherer.gather(stamps, file=None)

    def output(self, declared: Declared, session_dir: Path) -> Dataset:
        """The same as paths: what a save names that is to hold them."""
        roots = self.roots(session_dir)
        named = declared.dataset
        saved = (p for m in declared.saved for p in _saved_paths(m, roots) if os.path.lexists(p))
        return Dataset(files=tuple(dict.fromkeys((*named.files, *saved))), dirs=named.dirs)

    def drainer(self) -> Drainer | None:
        """What brings this attempt's saves from the local tier to the store, if there is one.

        What a dead launch of this host left there is removed: the lineage is ours.
        """
        if self.plan.tier is None:
            return None
        self.plan.tier.forget(self.packs)
        return Drainer(self.plan.tier, self.packs)

    def in_flight(self, manifests: tuple[Manifest, ...]) -> None:
        """Saves that were taken and have no record yet; for the capture thread."""
        self._in_flight = manifests

    def declare(self, dataset: Dataset, session_dir: Path) -> None:
        """Say which files outside of the session folder the task declared."""
        inside = (f"{session_dir}/", f"{session_dir.resolve()}/")
        outside = Dataset(
            files=tuple(path for path in dataset.files if not path.startswith(inside)),
            dirs=tuple(path for path in dataset.dirs if not f"{path}/".startswith(inside)),
        )
        self._dirs.update(path.rstrip("/") or "/" for path in outside.dirs)
        if not outside.is_empty:
            with suppress(PerdureError):  # a store that is full or away stops no task
                self.plan.declared.add(self.plan.lineage, self.plan.claim.attempt, outside)

    def end(self) -> None:
        """Nothing of the attempt is left: what it declared changes no more."""
        at_ns = int(self.plan.clock.now().timestamp() * 1e9)
        with suppress(PerdureError):
            self.plan.declared.end(self.plan.lineage, self.plan.claim.attempt, at_ns=at_ns)

    def sweep(self) -> None:
        """Remove what dead writers left unfinished: the lineage is ours alone from now on."""
        if self.plan.claim.number == SHARE:
            return  # nobody was here before
        with suppress(PerdureError):
            self.plan.driver.sweep(self.packs, older_than_seconds=0)

    def put(self, header: Mapping[str, object], payload: bytes) -> int | None:
        """Commit a save as the owner; its sequence, or None: no longer the owner."""
        return append_as_owner(self.plan.log, self.plan.claim.number, header, payload)

    def remember(self, number: int, manifest: Manifest) -> None:
        """A checkpoint that was committed here."""
        self._manifests[number] = manifest
        if self.plan.max_pack_age is not None:
            self._ages().note(packs_of([manifest]), self.plan.launch)

    def prune(self, *, is_full: bool = False, in_flight: Manifest | None = None) -> bool:
        """Prune what retention lets go; whether anything went. Never raises for a bad store.

        For the capture thread: what it takes rests on no pruned pack afterwards. The packs of a
        checkpoint that is captured and not yet put (``in_flight``) stay.
        """
        try:
            return self._prune(is_full=is_full, in_flight=in_flight)
        except PerdureError:
            return False

    def _prune(self, *, is_full: bool, in_flight: Manifest | None) -> bool:
        pruner = self._pruner()
        grace = timedelta() if is_full else self.plan.grace
        # On a full disk what earlier prunes left makes room for the record.
        freed = pruner.collect(grace=grace) if is_full else ()
        try:
            pruned = pruner.record(
                self.plan.claim.number,
                ended=ended_launches(self.lineage(), but=self.plan.launch),
                is_full=is_full,
                in_flight=in_flight,
            )
        except PerdureError:
            return bool(freed)
        if pruned.packs and self._capture is not None:
            self._capture.forget(frozenset(pruned.packs))
        self._retire(pruned.saves)
        for number in pruned.saves:
            self._manifests.pop(number, None)
        freed += pruner.collect(grace=grace)
        return bool(pruned.saves or freed)

    def _pruner(self) -> Pruner:
        if self._pruning is None:
            plan = self.plan
            self._pruning = Pruner(
                driver=plan.driver,
                packs=self.packs,
                log=plan.log,
                clock=plan.clock,
                retention=plan.retention,
                lineage=self.lineage,
                manifest=self.manifest,
                in_flight=lambda: self._in_flight,
            )
        return self._pruning

    def _retire(self, gone: tuple[int, ...]) -> None:
        """Remove what only these pruned checkpoints adopted."""
        if self.plan.files is not Kept.ADOPTED or self._session is None:
            return
        with suppress(PerdureError):
            retire(
                Roots(self._session, self.plan.outside),
                [self.manifest(number) for number in gone],
                [*self._pruner().living(), *self._in_flight],
            )

    def retire_last(self, session_dir: Path) -> None:
        """What a launch had to remove that died behind its prune record; nothing else runs yet."""
        self._session = session_dir
        prunes = [e for e in self.plan.log.entries if e.kind == "prune"]
        if prunes:
            self._retire(tuple(prunes[-1].header.get("saves", ())))

    def hasher(self, session_dir: Path, done: Callable[[Digests], None]) -> Hasher | None:
        """What reads adopted files beside the task; None where none are adopted."""
        if self.plan.files is not Kept.ADOPTED:
            return None
        return Hasher(Roots(session_dir, self.plan.outside), self.plan.sealing, done)

    def put_digests(self, digests: Digests) -> None:
        """Add digests of adopted files to the log, as the owner; for the capture thread."""
        texts = {str(index): digest.hex() for index, digest in digests.by_entry.items()}
        header = {"kind": "hashed", "save": digests.sequence, "digests": texts}
        with suppress(PerdureError):
            append_as_owner(self.plan.log, self.plan.claim.number, header, b"")
        if self._capture is not None:
            self._capture.learn(digests.by_hold)

    def before_capture(self) -> None:
        """Let the next save rest on no pack that a purge of the disk may soon remove.

        For the capture thread.
        """
        if self.plan.max_pack_age is None or self._capture is None:
            return
        packs = packs_of(self._manifests.values())
        old = self._ages().older_than(self.plan.max_pack_age, packs)
        if old:
            self._capture.forget(old)

    def _ages(self) -> PackAges:
        if self._pack_ages is None:
            self._pack_ages = PackAges(self.plan.driver, self.packs, self.plan.clock)
        return self._pack_ages

    def _not_to_rest_on(self, base: Manifest) -> frozenset[layout.PackId]:
        """Packs that nothing new rests on: pruned ones, and those that are too old."""
        if self.plan.max_pack_age is None:
            return self._pruned_packs()
        old = self._ages().older_than(self.plan.max_pack_age, packs_of([base]))
        return self._pruned_packs() | old

    def forecast(self, manifest: Manifest, after: timedelta, task_count: int) -> list[str]:
        """What a job's first checkpoint tells about those that come, in sentences."""
        first = FirstSave(
            size_bytes=manifest.size_bytes,
            stored_bytes=manifest.new_bytes,
            after=after,
            kept=self.plan.retention.last,
            tasks=task_count,
            side_by_side=self.plan.workers,
            free_bytes=free_in(self.plan.driver),
            is_adopted=self.plan.files is Kept.ADOPTED,
        )
        return sentences(first, forecast(first, self.plan.clock.now()))

    def _pruned_packs(self) -> frozenset[layout.PackId]:
        return frozenset(layout.PackId(pack) for pack in self.lineage().pruned_packs)

    def _recorded(self) -> dict[str, frozenset[Content]]:
        """Every content of outside files that the lineage's checkpoints hold, by path.

        A checkpoint that cannot be read says nothing: what only it holds is then not replaced.
        """
        manifests: list[Manifest] = []
        for save in self.lineage().saves:
            if not save.is_pruned and _has_outside(save):
                with suppress(PerdureError):
                    manifests.append(self.manifest(save.number))
        return recorded_contents(manifests)


class CaptureSurroundings(Struct, frozen=True, kw_only=True):
    """What the capture of an attempt's saves needs to know of the attempt.

    Attributes:
        base: what it started from, or None.
        began_at_ns: when, by the clock of the session folder's file system.
        freezer: holds the session while its context is entered.
        pids: the task's processes, as far as they are known.
        is_made_anew: whether a path in the session folder is the session's, not the task's.
        told: called with what people should know.
    """

    session_dir: Path
    base: Manifest | None
    began_at_ns: int
    freezer: Callable[[], AbstractContextManager[None]]
    pids: Callable[[], Iterable[int]] = tuple
    is_made_anew: Callable[[str], bool]
    told: Callable[[str], None]
    freeze_limit_seconds: float = 60.0


def _saved_paths(manifest: Manifest, roots: Roots) -> Iterator[str]:
    """Where a checkpoint's files and links are on this host, but for the save's own file."""
    for entry in manifest.entries:
        is_file = entry.type in (EntryType.FILE, EntryType.LINK) and entry.kept is not Kept.INPUT
        if not is_file or FileRef(root=entry.root, path=entry.path) == manifest.file:
            continue
        place = roots.find(manifest.roots[entry.root], entry.path)
        if place is not None:
            yield str(place.absolute)


class _Elsewhere:
    """Whether another lineage declares an outside file; says once of whom it learned that."""

    def __init__(
        self, plan: TaskStorePlan, dirs: set[str], surroundings: CaptureSurroundings
    ) -> None:
        self._plan = plan
        self._dirs = dirs
        self._with = surroundings
        self._said: set[str] = set()
        self._read_at = -math.inf

    def __call__(self, path: str) -> bool:
        """The others' lists are read on at most a few times a second."""
        plan = self._plan
        now = plan.clock.monotonic()
        if now - self._read_at > _NEIGHBOURS_SECONDS:
            plan.neighbours.refresh(over=plan.over)
            self._read_at = now
        owner = plan.neighbours.owner_of(
            path, plan.lineage, self._with.began_at_ns, ours=self._dirs, over=plan.over
        )
        if owner is not None and owner.task not in self._said:
            self._said.add(owner.task)
            self._with.told(
                f"{path} is not part of the checkpoint: task {owner.task} declares it, too"
            )
        return owner is not None


def _has_outside(save: Save) -> bool:
    return any(root.get("kind") == RootKind.OUTSIDE.value for root in save.header.get("roots", ()))


def _nanoseconds(text: str) -> int | None:
    """Nanoseconds since the epoch, rounded down, or None."""
    try:
        return to_ns(text)
    except ValueError:
        return None
