"""The saves of one attempt: from what the task announced to committed checkpoints.

Theory of operation. The pump's thread calls `hear` while it reads a line: a save's files are
stamped in that moment (`Capture.freeze`) and the save is queued. The capture thread, started with
the first event, takes early bytes of declared files, takes saves, commits them, and keeps values
whose files are durable. At most one capture is in flight; a newer save supersedes one that still
waits, and the skipped are counted. The task's output is never blocked.

A value of a chunk is *kept* once the files declared before it are in a committed checkpoint: the
next save's, or one of perdure's own (a *support*), which holds the last save as it was and the
files declared since.

Crash behaviour: nothing is visible before its record is put; the acknowledgement
(``checkpoint_committed.json``) comes after the put is known to be ours.

Source: design 6, 7; docs/journal-format.md, "A worker takes a lineage" (6).
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from perdure.clock import Clock
from perdure.errors import CheckpointError, CheckpointTorn, OutOfSpace, PerdureError
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
from perdure.protocol.messages import Progress, Status
from perdure.store.capture import Announcement, Capture, Frozen
from perdure.store.manifest import Manifest
from perdure.store.manifest_format import encode_manifest
from perdure.store.merging import merge

COMMIT_FILE = "checkpoint_committed.json"
#: A full disk is tried again once older checkpoints went.
_SPACE_TRIES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Committing:
    """How this attempt's checkpoints are committed.

    Attributes:
        capture: makes what takes the bytes, when there is something to take.
        put: puts a save's record as the lineage's owner: its number, or None: no longer the owner.
        note: appends a line to the journal about this attempt; durable or not.
        make_room: prunes all but what is kept for certain; whether that freed anything.
        after_commit: called with the sequence: retention, hooks.
        lost: called when another launch owns the lineage.
        values: the chunk's values that the attempt runs, in order; None for a plain task.
        base: the manifest that the attempt started from, or None.
        has_kept: whether earlier attempts kept values whose files are in ``base``.
    """

    capture: Callable[[], Capture]
    put: Callable[[dict[str, object], bytes], int | None]
    note: Callable[[Kind, dict[str, object], bool], bool]
    make_room: Callable[[], bool]
    after_commit: Callable[[int, Manifest], None]
    lost: Callable[[], None]
    session_dir: Path
    values: tuple[int, ...] | None = None
    base: Manifest | None = None
    has_kept: bool = False


@dataclass(slots=True)
class SaveFacts:
    """What is known about the attempt's saves, for outcome and status.

    Attributes:
        announced, committed, skipped, torn: how many.
        point: sequence of the last checkpoint committed by this attempt.
        committed_at: monotonic moment at which its line had been read.
        after_notice: monotonic moment of the last save announced after the notice.
        after_notice_durable: whether that one was committed.
        problem: why the last save was not committed, or "".
        resume_status: as reported, or None.
        reported, kept: values.
        learned_seconds: how long the last capture and commit took.
        progress, status: of the task, for people.
    """

    announced: int = 0
    committed: int = 0
    skipped: int = 0
    torn: int = 0
    point: int | None = None
    committed_at: float | None = None
    after_notice: float | None = None
    after_notice_durable: bool = False
    problem: str = ""
    resume_status: str | None = None
    reported: list[int] = field(default_factory=list)
    kept: set[int] = field(default_factory=set)
    learned_seconds: float | None = None
    progress: float | None = None
    status: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _QueuedSave:
    """A save whose files were stamped as its line was read."""

    event: SaveAnnounced
    frozen: Frozen
    heard_at: float
    is_after_notice: bool


class Saves:
    """The saves of one attempt."""

    def __init__(self, committing: Committing, clock: Clock) -> None:
        self._with = committing
        self._clock = clock
        self._wake = threading.Condition()
        self._early: list[str] = []
        self._save: _QueuedSave | None = None
        self._values: list[ValueReported] = []
        self._dataset = Dataset()
        self._is_finishing = False
        self._is_dropping = False
        self._thread: threading.Thread | None = None
        self._notice_at: float | None = None
        self._last: Manifest | None = committing.base
        self._kept: Manifest | None = committing.base if committing.has_kept else None
        self._failure: BaseException | None = None
        self._made_capture: Capture | None = None
        self.facts = SaveFacts()

    def notice_is_sent(self) -> None:
        """From now on a save answers the notice."""
        self._notice_at = self._clock.monotonic()

    @property
    def notice_at(self) -> float | None:
        """When the notice was sent, by the monotonic clock."""
        return self._notice_at

    def hear(self, event: Event) -> None:
        """An event of the attempt's messages; on the pump's thread, in the order of the lines."""
        match event:
            case FilesDeclared():
                self._queue_early(event)
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

    def finish(self, *, drop: bool) -> None:
        """Commit what waits, or with ``drop`` forget it; blocks until nothing is in flight.

        Raises:
            BaseException: whatever ended the capture thread that was no error of ours.
        """
        if self._thread is None:
            return
        with self._wake:
            self._is_finishing = True
            self._is_dropping = drop
            self._wake.notify()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    @property
    def _capture(self) -> Capture:
        """Made at the first event: most tasks never save."""
        if self._made_capture is None:
            self._made_capture = self._with.capture()
        return self._made_capture

    def _queue_early(self, event: FilesDeclared) -> None:
        with self._start():
            if event.is_reset:
                self._early.clear()
                self._dataset = Dataset()
            self._early.extend(event.files)
            self._dataset = Dataset(
                files=tuple(dict.fromkeys((*self._dataset.files, *event.files))),
                dirs=tuple(dict.fromkeys((*self._dataset.dirs, *event.dirs))),
            )

    def _queue_save(self, event: SaveAnnounced) -> None:
        line_at_ns = time.time_ns()
        now = self._clock.monotonic()
        frozen = self._capture.freeze(
            Announcement(
                save=event.n,
                line_at_ns=line_at_ns,
                state=event.state,
                file=event.file,
                files=event.dataset.files,
                folders=event.dataset.dirs,
            )
        )
        is_after = self._notice_at is not None and now >= self._notice_at
        with self._start():
            self.facts.announced = event.n
            if is_after:
                self.facts.after_notice = now
                self.facts.after_notice_durable = False
            if self._save is not None:
                self._capture.drop(self._save.frozen)
                self.facts.skipped += 1
            self._save = _QueuedSave(
                event=event, frozen=frozen, heard_at=now, is_after_notice=is_after
            )

    def _queue_value(self, event: ValueReported) -> None:
        self.facts.reported.append(event.value)
        self._with.note(Kind.REPORTED, {"values": [event.value]}, False)
        with self._start():
            self._values.append(event)

    def _refused(self, event: Refused) -> None:
        self._note("message", f"line {event.line_number}: {event.name} refused: {event.reason}")
        if event.save is not None:
            self.facts.announced = event.save
            self.facts.problem = event.reason

    @contextlib.contextmanager
    def _start(self) -> Iterator[None]:
        """Hold the queue's lock; wake the capture thread afterwards, starting it at first."""
        with self._wake:
            yield
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="perdure-capture", daemon=True
                )
                self._thread.start()
            self._wake.notify()

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except BaseException as error:  # noqa: BLE001 - raised again by `finish`
            self._failure = error

    def _step(self) -> bool:
        """One piece of work of the capture thread; False when there will be no more."""
        with self._wake:
            while not (self._save or self._values or self._early or self._is_finishing):
                self._wake.wait()
            if self._is_finishing and (self._is_dropping or not (self._save or self._values)):
                self._drop_rest()
                return False
            save, self._save = self._save, None
            values: list[ValueReported] = []
            early: list[str] = []
            dataset = self._dataset
            if save is None:
                values, self._values = self._values, []
            if save is None and not values:
                early, self._early = self._early, []
        if save is not None:
            self._take(save)
        elif values:
            self._keep(values, dataset)
        else:
            self._capture.announce(tuple(early))
        return True

    def _drop_rest(self) -> None:
        if self._save is not None:
            self._capture.drop(self._save.frozen)
            self._save = None
        self._values.clear()
        self._early.clear()

    def _take(self, save: _QueuedSave) -> None:
        """Capture and commit one save; what goes wrong is noted and harms no other."""
        try:
            captured = self._capture.take(save.frozen)
        except CheckpointTorn as error:
            self.facts.torn += 1
            self._not_committed(save, error)
            return
        except PerdureError as error:
            self._not_committed(save, error)
            if isinstance(error, OutOfSpace) and self._with.make_room():
                self._note("save", "older checkpoints were pruned because no space was left")
            return
        for note in captured.notes:
            self._note("save", note)
        manifest = captured.manifest
        if self._kept is not None:
            manifest = merge(manifest, self._kept)  # a RESET forgets no kept value's files
        sequence = self._commit(manifest, save.event.reported, is_support=False)
        if sequence is None:
            return
        self.facts.committed += 1
        self.facts.problem = ""
        self.facts.committed_at = save.heard_at
        self.facts.learned_seconds = self._clock.monotonic() - save.heard_at
        if save.is_after_notice:
            self.facts.after_notice_durable = True
        self._acknowledge(save.event.n, sequence)
        self._values_kept(save.event.reported, sequence, manifest)

    def _keep(self, values: list[ValueReported], dataset: Dataset) -> None:
        """Make the files declared before these values durable; then they are kept."""
        numbers = tuple(event.value for event in values if event.value not in self.facts.kept)
        if not numbers:
            return
        if all(event.declared == 0 for event in values) or dataset.is_empty:
            self._values_kept(numbers, None, None)
            return
        announcement = Announcement(
            save=self._last.save if self._last is not None else 0,
            line_at_ns=time.time_ns(),
            files=dataset.files,
            folders=dataset.dirs,
        )
        try:
            captured = self._capture.take(self._capture.freeze(announcement))
        except PerdureError as error:
            self._note("kept", f"values {_listed(numbers)} are not kept yet: {error.message}")
            return
        manifest = captured.manifest
        if self._last is not None:
            manifest = merge(self._last, manifest)
        sequence = self._commit(manifest, numbers, is_support=True)
        if sequence is not None:
            self._values_kept(numbers, sequence, manifest)

    def _commit(
        self, manifest: Manifest, reported: Iterable[int], *, is_support: bool
    ) -> int | None:
        """Put the record; its sequence, or None where it was not put."""
        header, payload = encode_manifest(manifest)
        if is_support:
            header["support"] = True
        if self._with.values is not None:
            done = {*reported, *self.facts.kept}
            header["first_incomplete"] = next((v for v in self._with.values if v not in done), None)
        sequence = self._put(header, payload)
        if sequence is None:
            return None
        self._last = manifest
        self.facts.point = sequence
        self._with.after_commit(sequence, manifest)
        return sequence

    def _put(self, header: dict[str, object], payload: bytes) -> int | None:
        for last_try in (False, True):
            try:
                sequence = self._with.put({"kind": "save", **header}, payload)
            except OutOfSpace as error:
                if last_try or not self._with.make_room():
                    self.facts.problem = error.message
                    self._note("save", f"not committed: {error.message}")
                    return None
            except PerdureError as error:
                self.facts.problem = error.message
                self._note("save", f"not committed: {error.message}")
                return None
            else:
                if sequence is None:
                    self.facts.problem = "another worker owns the task"
                    self._with.lost()
                return sequence
        return None

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

    def _acknowledge(self, save: int, sequence: int) -> None:
        """Tell the program that it may overwrite its only file."""
        text = json.dumps({"save": save, "tier": "durable", "sequence": sequence})
        path = self._with.session_dir / COMMIT_FILE
        new = path.with_name(f".perdure-{COMMIT_FILE}")
        with contextlib.suppress(OSError):
            new.write_text(text, encoding="utf-8")
            new.replace(path)

    def _not_committed(self, save: _QueuedSave, error: PerdureError) -> None:
        self.facts.problem = error.message
        what = "torn" if isinstance(error, CheckpointError) else "not taken"
        self._note("save", f"save {save.event.n} {what}: {error.message}")

    def _note(self, what: str, text: str) -> None:
        self._with.note(Kind.NOTED, {"what": what, "text": text}, False)


def _listed(values: tuple[int, ...]) -> str:
    """Some values, for people."""
    shown = ", ".join(str(value) for value in values[:5])
    return shown if len(values) <= 5 else f"{shown} and {len(values) - 5} more"
