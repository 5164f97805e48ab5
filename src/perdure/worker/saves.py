"""The saves of one attempt: from what the task announces to what waits for the capture thread.

Theory of operation. The pump's thread calls `hear` while it reads a line: a save's files are
stamped in that moment (`Capture.freeze`) and the save is queued. The capture thread, started with
the first event, takes early bytes of declared files, takes saves, commits them, and keeps values
whose files are durable. At most one capture is in flight; a newer save supersedes one that still
waits, and the skipped are counted. The task's output is never blocked.

Source: design 6, 7; docs/journal-format.md, "A worker takes a lineage" (6).
"""

import threading

from msgspec import Struct
from msgspec.structs import replace

from perdure.clock import Clock
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
from perdure.store.manifests.manifest import Manifest
from perdure.worker.committing import Committer, Committing, LazyCapture
from perdure.worker.save_facts import SaveFacts
from perdure.worker.save_queue import DeclaredSet, QueuedSave, QueuedValues, SaveQueue

_FILES = "openjd_checkpoint_files"
_DISCARDED = ResumeReport.DISCARDED.value


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
        self._reported_since_reset: dict[int, None] = {}
        self._undeclared = ""
        self._thread: threading.Thread | None = None
        self._notice_at: float | None = None
        self._failure: BaseException | None = None
        self._capture = LazyCapture(committing.capture)
        self.facts = SaveFacts()
        self._committer = Committer(committing, self._capture, self._queue, self.facts, clock)

    def prepare(self) -> None:
        """Make ready for the first save, where that takes a while: what is there is read."""
        self._capture.get()

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
                    self._reported_since_reset.clear()
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
            saved=tuple(m for m in (base, self._committer.kept) if m is not None),
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

    def keep_output(self, output: Dataset) -> int | None:
        """Keep the files of a task whose work is done, once `finish` has returned.

        The checkpoint that holds them, or None: the store did not take them. Blocks.
        """
        return self._committer.keep_output(output)

    def _hurry(self) -> None:
        if self._with.drainer is not None:
            self._with.drainer.hurry()
        self._capture.hurry()

    def _queue_save(self, event: SaveAnnounced) -> None:
        now = self._clock.monotonic()
        frozen = self._capture.freeze(event.n, event.dataset, state=event.state, file=event.file)
        is_after = self._notice_at is not None and now >= self._notice_at
        self.facts.announce(event.n, at=now, is_after_notice=is_after)
        superseded = self._queue.put_save(
            QueuedSave(
                event=event,
                frozen=frozen,
                heard_at=now,
                is_after_notice=is_after,
                covered=tuple(self._reported_since_reset),
            )
        )
        if superseded is not None:
            self._capture.get().drop(superseded.frozen)
            self.facts.skipped += 1
        self._start()

    def _queue_value(self, event: ValueReported) -> None:
        self._reported_since_reset[event.value] = None
        self._with.note(Kind.REPORTED, {"values": [event.value]}, False)
        values = QueuedValues(values=(event.value,), dataset=self._declared.dataset)
        waiting = self._queue.waiting_values()
        if waiting is not None:
            if waiting.frozen is not None:
                self._capture.get().drop(waiting.frozen)
            values = waiting.joined(values)
        if not values.dataset.is_empty:
            frozen = self._capture.freeze(self._committer.last_save, values.dataset)
            values = replace(values, frozen=frozen)
        self._queue.put_values(values)
        self._start()

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
                self._committer.do(work)
        except BaseException as error:  # noqa: BLE001 - raised again by `finish`
            self._failure = error
        finally:
            for frozen in self._queue.dropped():
                self._capture.get().drop(frozen)
            self._committer.close()

    def _note(self, what: str, text: str) -> None:
        self._with.note(Kind.NOTED, {"what": what, "text": text}, False)
