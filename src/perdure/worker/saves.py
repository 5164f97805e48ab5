"""The saves of one attempt: from what the task announced to committed checkpoints.

Theory of operation. The pump's thread calls `hear` while it reads a line: a save's files are
stamped in that moment (`Capture.freeze`) and the save is queued. The capture thread, started with
the first event, takes early bytes of declared files, takes saves, commits them, and keeps values
whose files are durable. At most one capture is in flight; a newer save supersedes one that still
waits, and the skipped are counted. The task's output is never blocked.

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
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar, assert_never

from msgspec import Struct
from msgspec.structs import replace

from perdure.clock import Clock
from perdure.errors import CheckpointTorn, OutOfSpace, PerdureError
from perdure.journal.journal_format import Kind
from perdure.protocol.attempt_messages import (
    Event,
    FilesDeclared,
    KeysIgnored,
    PrefixedSeen,
    Refused,
    ResumeStatusSeen,
    SaveAnnounced,
    StockSeen,
    ValueReported,
)
from perdure.protocol.dataset import Dataset
from perdure.protocol.messages import Progress, ResumeReport, Status
from perdure.store.capture.capture import Capture
from perdure.store.capture.save_values import Announcement, CapturedSave, Frozen
from perdure.store.manifests.manifest import Manifest
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.manifests.merging import changed, merge
from perdure.worker.draining import Drainer, Draining
from perdure.worker.hashing import Digests, Hasher
from perdure.worker.save_facts import SaveFacts
from perdure.worker.save_queue import DeclaredSet, Drained, QueuedSave, QueuedValues, SaveQueue

_T = TypeVar("_T")

COMMIT_FILE = "checkpoint_committed.json"
_FILES = "openjd_checkpoint_files"
_DISCARDED = ResumeReport.DISCARDED.value
#: So much must be stored at once to tell how fast the store is.
_MEASURED_BYTES = 1 << 20


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


class Declared(Struct, frozen=True, kw_only=True):
    """A task's output.

    Attributes:
        dataset: as this attempt declared it.
        saved: checkpoints whose files belong to it, but for the save's own file.
        refused: why a declaration did not count; "": all did.
    """

    dataset: Dataset = Dataset()
    saved: tuple[Manifest, ...] = ()
    refused: str = ""

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to deliver."""
        return self.dataset.is_empty and not self.saved and not self.refused


class Saves:
    """The saves of one attempt."""

    def __init__(self, committing: Committing, clock: Clock) -> None:
        self._with = committing
        self._clock = clock
        self._queue = SaveQueue()
        self._declared = DeclaredSet()
        self._generations: dict[int, int] = {}
        self._undeclared = ""
        self._thread: threading.Thread | None = None
        self._notice_at: float | None = None
        base = committing.base
        self._last_save: Manifest | None = base if base is not None and base.save else None
        self._kept: Manifest | None = base if committing.has_kept else None
        self._failure: BaseException | None = None
        self._making = threading.Lock()
        self._made_capture: Capture | None = None
        self._is_urgent = False
        self._hasher = committing.hasher(self._queue.put_digests)
        self._on_their_way: dict[int, Manifest] = {}
        self.facts = SaveFacts()

    def prepare(self) -> None:
        """Make ready for the first save, where that takes a while: what is there is read."""
        _ = self._capture

    def notice_is_sent(self) -> None:
        """From now on a save answers the notice, and nothing is more urgent than to take it."""
        self._notice_at = self._clock.monotonic()
        self._hurry()

    @property
    def notice_at(self) -> float | None:
        """When the notice was sent, by the monotonic clock."""
        return self._notice_at

    def hear(self, event: Event) -> None:
        """An event of the attempt's messages, in the order of the lines; one thread at a time."""
        match event:
            case FilesDeclared():
                if event.is_reset:
                    self._undeclared = ""
                self._declared.add(event)
                self._queue.put_early(event)
                self._start()
            case SaveAnnounced():
                self._queue_save(event)
            case ValueReported():
                self._queue_value(event)
            case ResumeStatusSeen(status=status):
                self.facts.resume_status = status.value
            case Refused():
                self._refused(event)
            case PrefixedSeen(line_number=line, name=name, cure=cure):
                self._note("message", f"line {line}: {name} behind a prefix is not obeyed; {cure}")
            case KeysIgnored(line_number=line, keys=keys):
                self._note("message", f"line {line}: unknown keys are ignored: {', '.join(keys)}")
            case StockSeen(message=Progress(percent=percent)):
                self.facts.progress = percent
            case StockSeen(message=Status(text=text)):
                self.facts.status = text
            case StockSeen():
                pass

    def local(self) -> dict[str, object]:
        """What is local only, for the heartbeat; empty where nothing is."""
        drainer = self._with.drainer
        if drainer is None or self.facts.local_save <= self.facts.durable_save:
            return {}
        return {"local_save": self.facts.local_save, "local_left": drainer.left_bytes}

    def declared(self) -> Declared:
        """What belongs to the task's output as it ends; once `finish` has returned.

        That of the attempt that saved the base too, unless this one emptied the dataset, or said
        that it made no use of the base.
        """
        is_dropped = self._declared.generation or self.facts.resume_status == _DISCARDED
        base = None if is_dropped else self._with.base
        return Declared(
            dataset=self._declared.dataset,
            saved=tuple(m for m in (base, self._kept) if m is not None),
            refused=self._undeclared,
        )

    def finish(self, *, drop: bool) -> None:
        """Commit what waits, or with ``drop`` forget it; blocks until nothing is in flight.

        Raises:
            BaseException: whatever ended the capture thread that was no error of ours.
        """
        if self._thread is None:
            return
        self._hurry()
        self._queue.finish(drop=drop)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _hurry(self) -> None:
        with self._making:
            self._is_urgent = True
            if self._with.drainer is not None:
                self._with.drainer.hurry()
            if self._made_capture is not None:
                self._made_capture.hurry()

    @property
    def _capture(self) -> Capture:
        """Made once, at the first event, by whichever thread needs it: most tasks never save."""
        with self._making:
            if self._made_capture is None:
                self._made_capture = self._with.capture()
                if self._is_urgent:
                    self._made_capture.hurry()
            return self._made_capture

    def _queue_save(self, event: SaveAnnounced) -> None:
        now = self._clock.monotonic()
        frozen = self._freeze(event.n, event.dataset, state=event.state, file=event.file)
        is_after = self._notice_at is not None and now >= self._notice_at
        self.facts.announce(event.n, at=now, is_after_notice=is_after)
        superseded = self._queue.put_save(
            QueuedSave(
                event=event,
                frozen=frozen,
                heard_at=now,
                is_after_notice=is_after,
                generation=self._declared.generation,
            )
        )
        if superseded is not None:
            self._capture.drop(superseded.frozen)
            self.facts.skipped += 1
        self._start()

    def _queue_value(self, event: ValueReported) -> None:
        self._generations[event.value] = self._declared.generation
        self._with.note(Kind.REPORTED, {"values": [event.value]}, False)
        values = QueuedValues(values=(event.value,), dataset=self._declared.dataset)
        waiting = self._queue.waiting_values()
        if waiting is not None:
            if waiting.frozen is not None:
                self._capture.drop(waiting.frozen)
            values = waiting.joined(values)
        if not values.dataset.is_empty:
            save = self._last_save.save if self._last_save is not None else 0
            values = replace(values, frozen=self._freeze(save, values.dataset))
        self._queue.put_values(values)
        self._start()

    def _freeze(
        self, save: int, dataset: Dataset, *, state: str | None = None, file: str | None = None
    ) -> Frozen:
        """The files as they are now; first of all, so that nothing comes between."""
        return self._capture.freeze(
            Announcement(
                save=save,
                line_at_ns=time.time_ns(),
                state=state,
                file=file,
                files=dataset.files,
                folders=dataset.dirs,
            )
        )

    def _refused(self, event: Refused) -> None:
        self._note("message", f"line {event.line_number}: {event.name} refused: {event.reason}")
        if event.name == _FILES:
            self._undeclared = event.reason
        if event.save is not None:
            self.facts.announced = event.save
            self.facts.problem = event.reason

    def _start(self) -> None:
        """Start the capture thread, once there is something to do."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="perdure-capture", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            while (work := self._queue.take()) is not None:
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
        except BaseException as error:  # noqa: BLE001 - raised again by `finish`
            self._failure = error
        finally:
            for frozen in self._queue.dropped():
                self._capture.drop(frozen)
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
            self.facts.declared_bytes = 0
        size = _size(files)
        self.facts.declared_bytes += size
        began = self._clock.monotonic()
        self._with.before_capture()
        try:
            self._capture.announce(files)
        except PerdureError as error:
            self._note("save", f"no bytes were taken early: {error.message}")
            return
        if size >= _MEASURED_BYTES:
            took = max(self._clock.monotonic() - began, 1e-6)
            self.facts.bytes_per_second = size / took

    def _take(self, save: QueuedSave) -> None:
        """Capture and commit one save; what goes wrong is noted and harms no other."""
        if save.event.file is not None:
            self._with.declare(Dataset(files=(save.event.file,)))
        captured = self._captured(save.frozen, f"save {save.event.n}")
        if isinstance(captured, PerdureError):
            self.facts.problem = captured.message
            return
        drainer = self._with.drainer
        if drainer is None or not captured.manifest.packs:
            self._commit_save(save, captured)
            return
        self.facts.local_save = save.event.n
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
            self.facts.skipped += 1
        elif problem is None:
            self._commit_save(drained.save, drained.captured)
        elif isinstance(problem, OutOfSpace) and self._with.make_room(drained.captured.manifest):
            self._note("save", f"{problem.message}: older checkpoints were pruned")
            self._bring(drained.save, drained.captured)
            return False
        else:
            self._not_put(problem)
        return True

    def _commit_save(self, save: QueuedSave, captured: CapturedSave) -> None:
        """Put the record of a save whose bytes are durable, and say so."""
        manifest = captured.manifest
        if self._kept is not None:  # a RESET forgets no kept value's files
            manifest = _as_taken(merge(manifest, self._kept), captured)
        sequence = self._commit(manifest, save.event.reported, is_support=False)
        if sequence is None:
            return
        self._last_save = manifest
        if self._kept is not None:
            self._kept = manifest  # the older one's packs may be pruned by now
        now = self._clock.monotonic()
        self.facts.commit(
            heard_at=save.heard_at,
            took_seconds=now - save.heard_at,
            is_after_notice=save.is_after_notice,
        )
        self.facts.durable_save = max(self.facts.durable_save, save.event.n)
        covered = [v for v in save.event.reported if self._generations[v] == save.generation]
        self._values_kept(covered, sequence, manifest)
        if save.event.n >= self.facts.local_save:
            self._acknowledge(save.event.n, sequence)  # last: what it stands for is all durable

    def _keep_all(self, queued: QueuedValues) -> None:
        """Keep these values; where that works, those that are owed are tried again."""
        if self._keep(queued) and (owed := self._queue.owed()) is not None:
            self._keep(owed)

    def _keep(self, queued: QueuedValues) -> bool:
        """Make the files declared before these values durable; then they are kept."""
        numbers = tuple(value for value in queued.values if value not in self.facts.kept)
        if not numbers or queued.dataset.is_empty:
            if queued.frozen is not None:
                self._capture.drop(queued.frozen)
            self._values_kept(numbers, None, None)
            return True
        if not self._keep_files(queued, numbers):
            self._queue.owe(replace(queued, values=numbers))
            return False
        return True

    def _keep_files(self, queued: QueuedValues, numbers: tuple[int, ...]) -> bool:
        """Commit a support with the values' files; whether it is durable, and they are kept."""
        last = self._last_save
        frozen = queued.frozen or self._freeze(last.save if last else 0, queued.dataset)
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
        sequence = self._commit(manifest, numbers, is_support=True)
        if sequence is None:
            return False
        self._kept = manifest
        self._values_kept(numbers, sequence, manifest)
        return True

    def _captured(self, frozen: Frozen, what: str) -> CapturedSave | PerdureError:
        """The bytes, durable; or why they could not be taken, which is noted."""
        self._with.before_capture()
        try:
            captured = self._with_room(lambda: self._capture.take(frozen), in_flight=None)
        except PerdureError as error:
            is_torn = isinstance(error, CheckpointTorn)
            self.facts.torn += is_torn
            how = "torn" if is_torn else "not taken"
            self._note("save", f"{what} {how}: {error.message}")
            return error
        for note in captured.notes:
            self._note("save", note)
        return captured

    def _commit(
        self, manifest: Manifest, reported: Iterable[int], *, is_support: bool
    ) -> int | None:
        """Put the record; its sequence, or None where it was not put."""
        try:
            header, payload = encode_manifest(manifest)
        except PerdureError as error:  # it describes more than a checkpoint may have
            self._not_put(error)
            return None
        if is_support:
            header["support"] = True
        if self._with.values is not None:
            done = {*reported, *self.facts.kept}
            header["first_incomplete"] = next((v for v in self._with.values if v not in done), None)
        sequence = self._put(manifest, {"kind": "save", **header}, payload)
        if sequence is None:
            return None
        self.facts.point = sequence
        self._with.after_commit(sequence, manifest)
        if self._hasher is not None:
            self._hasher.put(sequence, manifest)
        return sequence

    def _put(self, manifest: Manifest, header: dict[str, object], payload: bytes) -> int | None:
        try:
            sequence = self._with_room(lambda: self._with.put(header, payload), in_flight=manifest)
        except PerdureError as error:
            self._not_put(error)
            return None
        if sequence is None:
            self.facts.problem = "another worker owns the task"
            self._with.lost()
        return sequence

    def _with_room(self, store: Callable[[], _T], *, in_flight: Manifest | None) -> _T:
        """What ``store`` gives; without space once more, where pruning made some."""
        try:
            return store()
        except OutOfSpace as error:
            if not self._with.make_room(in_flight):
                raise
            self._note("save", f"{error.message}: older checkpoints were pruned")
            return store()

    def _not_put(self, error: PerdureError) -> None:
        self.facts.problem = error.message
        self._note("save", f"not committed: {error.message}")

    def _values_kept(
        self, values: Iterable[int], sequence: int | None, manifest: Manifest | None
    ) -> None:
        """Append to the ledger; only when that is durable do they count as kept."""
        new = [value for value in values if value not in self.facts.kept]
        if not new:
            return
        support = sequence if manifest is not None and manifest.entries else None
        if self._with.note(Kind.KEPT, {"values": new, "support": support}, True):
            self.facts.kept.update(new)
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
