"""The capture thread's work: from what waits to committed checkpoints and kept values.

A value of a chunk is *kept* once the files declared before it are in a committed checkpoint: the
next save's, if the dataset was not emptied meanwhile, or one of perdure's own (a *support*). A
support holds the last save as it was, the files of the values, and those of all values kept before.
Where the last save has another version of such a file, the save's stays (its state belongs to it),
and the value is not kept before the next save.

Crash behaviour: nothing is visible before its record is put; the acknowledgement
(``checkpoint_committed.json``) comes after the put is known to be ours.

Source: design 6, 7; docs/journal-format.md, "A worker takes a lineage" (6).
"""

import contextlib
import json
import math
import threading
import time
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import TypeVar, assert_never

from msgspec import Struct
from msgspec.structs import replace

from perdure.clock import Clock
from perdure.errors import CheckpointTorn, OutOfSpace, PerdureError, StoreUnavailable
from perdure.journal.journal_format import Kind
from perdure.protocol.attempt_messages import FilesDeclared
from perdure.protocol.dataset import Dataset
from perdure.store.capture.capture import Capture
from perdure.store.capture.save_values import Announcement, CapturedSave, Frozen
from perdure.store.layout import PackId
from perdure.store.manifests.manifest import Manifest
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.manifests.merging import changed, merge
from perdure.store.packs.blocks import packs_of
from perdure.worker.draining import Drainer, Draining
from perdure.worker.hashing import Digests, Hasher
from perdure.worker.save_facts import SaveFacts
from perdure.worker.save_queue import Drained, QueuedSave, QueuedValues, SaveQueue, Work

_T = TypeVar("_T")

COMMIT_FILE = "checkpoint_committed.json"
#: So much must be stored at once to tell how fast the store is.
_MEASURED_BYTES = 1 << 20
#: A store out of reach is tried again after so long, then after twice as long, up to …
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 5.0
#: Once the task has ended it has so long to come back.
_LAST_WAIT_SECONDS = 60.0


class Committing(Struct, frozen=True, kw_only=True):
    """How this attempt's checkpoints are committed.

    Attributes:
        capture: makes what takes the bytes, when there is something to take.
        put: puts a save's record as the lineage's owner: its number, or None: no longer the owner.
        note: appends a line to the journal about this attempt; durable or not.
        make_room: prunes all but what is kept for certain, and the one that is to be committed;
            whether that freed anything.
        declare: told files and folders that the task declared, before they are looked at.
        before_capture: called by the capture thread before it takes bytes.
        after_commit: called with the sequence: retention, hooks.
        lost: called when another launch owns the lineage.
        values: the chunk's values that the attempt runs, in order; None for a plain task.
        base: the manifest that the attempt started from, or None.
        has_kept: whether earlier attempts kept values whose files are in ``base``.
        drainer: brings saves that are local to the store; None: there is one tier.
        in_flight: told the saves that were taken and have no record yet, so that no pack of theirs
            is pruned.
        hasher: makes what reads adopted files, given where it puts their digests; or nothing.
        put_digests: adds these to the log.
    """

    capture: Callable[[], Capture]
    put: Callable[[dict[str, object], bytes], int | None]
    note: Callable[[Kind, dict[str, object], bool], bool]
    make_room: Callable[[Manifest | None], bool]
    declare: Callable[[Dataset], None]
    after_commit: Callable[[int, Manifest], None]
    lost: Callable[[], None]
    session_dir: Path
    values: tuple[int, ...] | None = None
    base: Manifest | None = None
    has_kept: bool = False
    drainer: Drainer | None = None
    in_flight: Callable[[tuple[Manifest, ...]], None] = lambda _manifests: None
    hasher: Callable[[Callable[[Digests], None]], Hasher | None] = lambda _done: None
    put_digests: Callable[[Digests], None] = lambda _digests: None
    before_capture: Callable[[], None] = lambda: None


class LazyCapture:
    """Made at the first event, by whichever thread needs it: most tasks never save.

    Args:
        make: makes it.
    """

    def __init__(self, make: Callable[[], Capture]) -> None:
        self._make = make
        self._making = threading.Lock()
        self._made: Capture | None = None
        self._is_urgent = False

    def get(self) -> Capture:
        """It; blocks while it is made, which reads what the lineage has."""
        with self._making:
            if self._made is None:
                self._made = self._make()
                if self._is_urgent:
                    self._made.hurry()
            return self._made

    def hurry(self) -> None:
        """From now on nothing is more important."""
        with self._making:
            self._is_urgent = True
            if self._made is not None:
                self._made.hurry()

    def freeze(
        self, save: int, dataset: Dataset, *, state: str | None = None, file: str | None = None
    ) -> Frozen:
        """The files as they are now; first of all, so that nothing comes between."""
        return self.get().freeze(
            Announcement(
                save=save,
                line_at_ns=time.time_ns(),
                state=state,
                file=file,
                files=dataset.files,
                folders=dataset.dirs,
            )
        )


class Committer:
    """Does what waits in the queue; for the capture thread, but for what says otherwise.

    Args:
        committing: see there.
        capture: takes the bytes.
        queue: where local saves come back to, and where values wait that are not kept yet.
        facts: are kept up to date.
        clock: the monotonic one.
    """

    def __init__(
        self,
        committing: Committing,
        capture: LazyCapture,
        queue: SaveQueue,
        facts: SaveFacts,
        clock: Clock,
    ) -> None:
        self._with = committing
        self._capture = capture
        self._queue = queue
        self._facts = facts
        self._clock = clock
        base = committing.base
        self._last_save: Manifest | None = base if base is not None and base.save else None
        self._kept: Manifest | None = base if committing.has_kept else None
        self._hasher = committing.hasher(queue.put_digests)
        self._on_their_way: dict[int, Manifest] = {}

    @property
    def kept(self) -> Manifest | None:
        """What holds the files of all kept values, or None; for any thread."""
        return self._kept

    @property
    def last_save(self) -> int:
        """The number of the last save that was committed; 0: there is none. For any thread."""
        last = self._last_save
        return 0 if last is None else last.save

    def do(self, work: Work) -> None:
        """One piece of work; what goes wrong with it is noted, and harms no other."""
        match work:
            case Digests():
                self._with.put_digests(work)
            case Drained():
                self._drained(work)
            case QueuedSave():
                self._take(work)
            case QueuedValues():
                self._keep_all(work)
            case tuple():
                self._take_early(work)
            case _:
                assert_never(work)

    def keep_output(self, dataset: Dataset) -> int | None:
        """Commit the files of a task whose work is done; the sequence, or None: they are not kept.

        After `close`, by the thread that delivers them.
        """
        capture = self._capture.get()
        if self._with.drainer is not None:
            durable = (self._with.base, self._last_save, self._kept)
            capture.forget(_AllBut(packs_of(m for m in durable if m is not None)))
        captured = self._captured(self._capture.freeze(0, dataset), "what is to be delivered")
        if isinstance(captured, PerdureError):
            return None
        if self._with.drainer is not None:
            try:
                self._with.drainer.copy(captured.manifest.packs)
            except PerdureError as error:
                self._not_put(error)
                return None
            finally:
                self._with.drainer.close()
        return self._commit(captured.manifest, (), mark="end")

    def close(self) -> None:
        """Nothing more will come."""
        if self._with.drainer is not None:
            self._with.drainer.close()
        if self._hasher is not None:
            self._hasher.close()

    def _take_early(self, events: tuple[FilesDeclared, ...]) -> None:
        """Tell what was declared, and take its bytes while the task runs; a save takes the rest."""
        files = tuple(dict.fromkeys(path for event in events for path in event.files))
        dirs = tuple(dict.fromkeys(path for event in events for path in event.dirs))
        self._with.declare(Dataset(files=files, dirs=dirs))
        if any(event.is_reset for event in events):
            self._facts.declared_bytes = 0
        size = _size(files)
        self._facts.declared_bytes += size
        began = self._clock.monotonic()
        self._with.before_capture()
        try:
            self._capture.get().announce(files)
        except PerdureError as error:
            self._note("save", f"no bytes were taken early: {error.message}")
            return
        if size >= _MEASURED_BYTES:
            took = max(self._clock.monotonic() - began, 1e-6)
            self._facts.bytes_per_second = size / took

    def _take(self, save: QueuedSave) -> None:
        """Capture and commit one save; what goes wrong is noted and harms no other."""
        if save.event.file is not None:
            self._with.declare(Dataset(files=(save.event.file,)))
        captured = self._captured(save.frozen, f"save {save.event.n}")
        if isinstance(captured, PerdureError):
            self._facts.problem = captured.message
            return
        drainer = self._with.drainer
        if drainer is None or not captured.manifest.packs:
            self._commit_save(save, captured)
            return
        self._facts.local_save = save.event.n
        self._acknowledge(save.event.n, None)
        self._bring(save, captured)

    def _bring(self, save: QueuedSave, captured: CapturedSave) -> None:
        """Send a local save to the store; it comes back as `Drained`."""
        drainer = self._with.drainer
        assert drainer is not None
        self._queue.begin_drain()
        self._on_their_way[save.event.n] = captured.manifest
        self._with.in_flight(tuple(self._on_their_way.values()))

        def ended(how: PerdureError | Draining | None) -> None:
            problem = how if isinstance(how, PerdureError) else None
            self._queue.put_drained(
                Drained(
                    save=save,
                    captured=captured,
                    problem=problem,
                    is_overtaken=isinstance(how, Draining),
                )
            )

        drainer.put(Draining(save=save.event.n, packs=captured.manifest.packs, ended=ended))

    def _drained(self, drained: Drained) -> None:
        """A local save has come to the store: now it may have its record."""
        if self._end_drain(drained):
            self._on_their_way.pop(drained.save.event.n, None)
        self._with.in_flight(tuple(self._on_their_way.values()))

    def _end_drain(self, drained: Drained) -> bool:
        """Whether the save is on its way no more."""
        problem = drained.problem
        if drained.is_overtaken:
            self._facts.skipped += 1
        elif problem is None:
            self._commit_save(drained.save, drained.captured)
        elif isinstance(problem, OutOfSpace) and self._with.make_room(drained.captured.manifest):
            self._note("room", f"{problem.message}: older checkpoints were pruned")
            self._bring(drained.save, drained.captured)
            return False
        elif isinstance(problem, StoreUnavailable) and self._may_wait():
            self._bring(drained.save, drained.captured)
            return False
        else:
            self._not_put(problem)
        return True

    def _may_wait(self) -> bool:
        """Whether a local save is sent once more, after a pause."""
        return not self._queue.is_finishing and self._queue.rest(_LONGEST_PAUSE_SECONDS)

    def _commit_save(self, save: QueuedSave, captured: CapturedSave) -> None:
        """Put the record of a save whose bytes are durable, and say so."""
        manifest = captured.manifest
        if self._kept is not None:  # a RESET forgets no kept value's files
            manifest = _as_taken(merge(manifest, self._kept), captured)
        sequence = self._commit(manifest, save.event.reported)
        if sequence is None:
            return
        self._last_save = manifest
        if self._kept is not None:
            self._kept = manifest  # the older one's packs may be pruned by now
        now = self._clock.monotonic()
        self._facts.commit(
            heard_at=save.heard_at,
            took_seconds=now - save.heard_at,
            is_after_notice=save.is_after_notice,
        )
        self._facts.durable_save = max(self._facts.durable_save, save.event.n)
        self._values_kept(save.covered, sequence, manifest)
        if save.event.n >= self._facts.local_save:
            self._acknowledge(save.event.n, sequence)  # last: what it stands for is all durable

    def _keep_all(self, queued: QueuedValues) -> None:
        """Keep these values; where that works, those that are owed are tried again."""
        if self._keep(queued) and (owed := self._queue.owed()) is not None:
            self._keep(owed)

    def _keep(self, queued: QueuedValues) -> bool:
        """Make the files declared before these values durable; then they are kept."""
        numbers = tuple(value for value in queued.values if value not in self._facts.kept)
        if not numbers or queued.dataset.is_empty:
            if queued.frozen is not None:
                self._capture.get().drop(queued.frozen)
            self._values_kept(numbers, None, None)
            return True
        if not self._keep_files(queued, numbers):
            self._queue.owe(replace(queued, values=numbers))
            return False
        return True

    def _keep_files(self, queued: QueuedValues, numbers: tuple[int, ...]) -> bool:
        """Commit a support with the values' files; whether it is durable, and they are kept."""
        last = self._last_save
        frozen = queued.frozen or self._capture.freeze(last.save if last else 0, queued.dataset)
        captured = self._captured(frozen, f"values {_listed(numbers)} are not kept yet, files")
        if isinstance(captured, PerdureError):
            return False
        manifest = captured.manifest
        if self._with.drainer is not None:
            try:
                self._with.drainer.copy(manifest.packs)
            except PerdureError as error:
                self._not_put(error)
                return False
        if self._kept is not None:
            manifest = merge(manifest, self._kept)
        if last is not None:
            other = changed(last, captured.manifest)
            if other:
                self._note(
                    "kept",
                    f"values {_listed(numbers)} are not kept before the next save:"
                    f" {other[0]} has changed since the last one",
                )
                return False
            manifest = merge(last, manifest)
        manifest = _as_taken(manifest, captured)
        sequence = self._commit(manifest, numbers, mark="support")
        if sequence is None:
            return False
        self._kept = manifest
        self._values_kept(numbers, sequence, manifest)
        return True

    def _captured(self, frozen: Frozen, what: str) -> CapturedSave | PerdureError:
        """The bytes, durable; or why they could not be taken, which is noted."""
        self._with.before_capture()
        try:
            captured = self._stored(lambda: self._capture.get().take(frozen), in_flight=None)
        except PerdureError as error:
            is_torn = isinstance(error, CheckpointTorn)
            self._facts.torn += is_torn
            how = "torn" if is_torn else "not taken"
            self._note(_about(error), f"{what} {how}: {error.message}")
            return error
        for note in captured.notes:
            self._note("save", note)
        return captured

    def _commit(
        self, manifest: Manifest, reported: Iterable[int], *, mark: str | None = None
    ) -> int | None:
        """Put the record; its sequence, or None where it was not put.

        Args:
            manifest: what is in it.
            reported: the chunk's values that were complete.
            mark: what sort of perdure's own it is: ``support`` or ``end``.
        """
        try:
            header, payload = encode_manifest(manifest)
        except PerdureError as error:  # it describes more than a checkpoint may have
            self._not_put(error)
            return None
        if mark is not None:
            header[mark] = True
        if self._with.values is not None:
            done = {*reported, *self._facts.kept}
            header["first_incomplete"] = next((v for v in self._with.values if v not in done), None)
        sequence = self._put(manifest, {"kind": "save", **header}, payload)
        if sequence is None:
            return None
        self._facts.point = sequence
        self._with.after_commit(sequence, manifest)
        if self._hasher is not None:
            self._hasher.put(sequence, manifest)
        return sequence

    def _put(self, manifest: Manifest, header: dict[str, object], payload: bytes) -> int | None:
        try:
            sequence = self._stored(lambda: self._with.put(header, payload), in_flight=manifest)
        except PerdureError as error:
            self._not_put(error)
            return None
        if sequence is None:
            self._facts.problem = "another worker owns the task"
            self._with.lost()
        return sequence

    def _stored(self, store: Callable[[], _T], *, in_flight: Manifest | None) -> _T:
        """What ``store`` gives, once the store is in reach: the task may be waiting for it.

        A newer save ends the waiting, as it would have taken this one's place. Once the task has
        ended the store has a minute left to come back.
        """
        pause, until = _FIRST_PAUSE_SECONDS, math.inf
        while True:
            try:
                return self._with_room(store, in_flight=in_flight)
            except StoreUnavailable as error:
                now = self._clock.monotonic()
                if self._queue.is_finishing:
                    until = min(until, now + _LAST_WAIT_SECONDS)
                if pause == _FIRST_PAUSE_SECONDS:
                    self._note("save", f"a save waits for the store: {error.message}")
                if now >= until or not self._queue.rest(pause):
                    raise
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _with_room(self, store: Callable[[], _T], *, in_flight: Manifest | None) -> _T:
        """What ``store`` gives; without space once more, where pruning made some."""
        try:
            return store()
        except OutOfSpace as error:
            if not self._with.make_room(in_flight):
                raise
            self._note("room", f"{error.message}: older checkpoints were pruned")
            return store()

    def _not_put(self, error: PerdureError) -> None:
        self._facts.problem = error.message
        self._note(_about(error), f"not committed: {error.message}")

    def _values_kept(
        self, values: Iterable[int], sequence: int | None, manifest: Manifest | None
    ) -> None:
        """Append to the ledger; only when that is durable do they count as kept."""
        new = [value for value in values if value not in self._facts.kept]
        if not new:
            return
        support = sequence if manifest is not None and manifest.entries else None
        if self._with.note(Kind.KEPT, {"values": new, "support": support}, True):
            self._facts.kept.update(new)
            if support is not None:
                self._kept = manifest

    def _acknowledge(self, save: int, sequence: int | None) -> None:
        """Tell the program that it may overwrite its only file; no sequence yet: it is local."""
        tier = "local" if sequence is None else "durable"
        text = json.dumps({"save": save, "tier": tier, "sequence": sequence})
        path = self._with.session_dir / COMMIT_FILE
        new = path.with_name(f".perdure-{COMMIT_FILE}")
        with contextlib.suppress(OSError):
            new.write_text(text, encoding="utf-8")
            new.replace(path)

    def _note(self, what: str, text: str) -> None:
        self._with.note(Kind.NOTED, {"what": what, "text": text}, False)


class _AllBut:
    """All packs but these: what was only in the local tier is there no more."""

    def __init__(self, packs: Container[PackId]) -> None:
        self._packs = packs

    def __contains__(self, pack: object) -> bool:
        return pack not in self._packs


def _about(error: PerdureError) -> str:
    """What a note about a save is about: room, of which `perdure status` warns, or the save."""
    return "room" if isinstance(error, OutOfSpace) else "save"


def _as_taken(merged: Manifest, captured: CapturedSave) -> Manifest:
    """A merged description is of this attempt, and stored what was stored just now."""
    taken = captured.manifest
    return replace(merged, attempt=taken.attempt, launch=taken.launch, new_bytes=taken.new_bytes)


def _size(files: Iterable[str]) -> int:
    size = 0
    for path in files:
        with contextlib.suppress(OSError):
            size += Path(path).stat().st_size
    return size


def _listed(values: tuple[int, ...]) -> str:
    """Some values, for people."""
    shown = ", ".join(str(value) for value in values[:5])
    return shown if len(values) <= 5 else f"{shown} and {len(values) - 5} more"
