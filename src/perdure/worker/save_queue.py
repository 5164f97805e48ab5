"""What waits for the capture thread: declared files, the newest save, and reported values.

The thread that reads the task's output puts, the capture thread takes: first local saves that have
come to the store, then a save, then values, then early bytes. A newer save takes the place of one
that still waits. Values that wait are put together, with the files of all of them.
"""

import threading

from msgspec import Struct
from msgspec.structs import replace

from perdure.errors import PerdureError
from perdure.protocol.attempt_messages import FilesDeclared, SaveAnnounced
from perdure.protocol.dataset import Dataset
from perdure.store.capture.save_values import CapturedSave, Frozen
from perdure.worker.hashing import Digests


class QueuedSave(Struct, frozen=True, kw_only=True):
    """A save whose files were stamped as its line was read.

    Attributes:
        heard_at: then, by the monotonic clock.
        covered: values reported before it whose files it holds: the dataset was not emptied since.
    """

    event: SaveAnnounced
    frozen: Frozen
    heard_at: float
    is_after_notice: bool
    covered: tuple[int, ...]


class QueuedValues(Struct, frozen=True, kw_only=True):
    """Reported values, and the files that must be durable before they are kept.

    Attributes:
        frozen: those files, stamped as the last value's line was read; None: they are yet to be.
    """

    values: tuple[int, ...]
    dataset: Dataset
    frozen: Frozen | None = None

    def joined(self, other: "QueuedValues") -> "QueuedValues":
        """The values and files of both, yet to be stamped."""
        return QueuedValues(
            values=tuple(dict.fromkeys((*self.values, *other.values))),
            dataset=joined(self.dataset, other.dataset),
        )


class Drained(Struct, frozen=True, kw_only=True):
    """A save whose bytes are in the store, or which did not get there.

    Attributes:
        save: it.
        captured: what its record is to say.
        problem: why it did not; None: it did.
        is_overtaken: a newer one took its place.
    """

    save: QueuedSave
    captured: CapturedSave
    problem: PerdureError | None = None
    is_overtaken: bool = False


Work = Digests | Drained | QueuedSave | QueuedValues | tuple[FilesDeclared, ...]


class SaveQueue:
    """See the module."""

    def __init__(self) -> None:
        self._wake = threading.Condition()
        self._save: QueuedSave | None = None
        self._values: QueuedValues | None = None
        self._owed: QueuedValues | None = None
        self._early: list[FilesDeclared] = []
        self._is_finishing = False
        self._is_dropping = False
        self._was_tried_last = False
        self._drained: list[Drained] = []
        self._draining = 0
        self._digests: list[Digests] = []

    def put_digests(self, digests: Digests) -> None:
        """Adopted files that were read."""
        with self._wake:
            self._digests.append(digests)
            self._wake.notify()

    def begin_drain(self) -> None:
        """A save is on its way to the store: `put_drained` will follow."""
        with self._wake:
            self._draining += 1

    def put_drained(self, drained: Drained) -> None:
        """A save has come there, or not."""
        with self._wake:
            self._draining -= 1
            self._drained.append(drained)
            self._wake.notify()

    def put_early(self, event: FilesDeclared) -> None:
        """Declared files whose bytes may be taken now."""
        with self._wake:
            if event.is_reset:
                self._early.clear()
            self._early.append(event)
            self._wake.notify()

    def put_save(self, save: QueuedSave) -> QueuedSave | None:
        """A save; returns the one that it supersedes."""
        with self._wake:
            superseded, self._save = self._save, save
            self._wake.notify()
            return superseded

    def waiting_values(self) -> QueuedValues | None:
        """Take out the values that wait, and those that are owed, to put them again with more."""
        with self._wake:
            waiting, self._values = self._values, None
            owed, self._owed = self._owed, None
            if waiting is None or owed is None:
                return waiting or owed
            return replace(waiting.joined(owed), frozen=waiting.frozen)

    def put_values(self, values: QueuedValues) -> None:
        """Values that were reported."""
        with self._wake:
            self._values = values
            self._wake.notify()

    def owe(self, values: QueuedValues) -> None:
        """Values whose files could not be made durable now: they are tried again later.

        With the next values, after the next ones that are kept, and once when the task is over.
        """
        with self._wake:
            values = replace(values, frozen=None)
            self._owed = values if self._owed is None else self._owed.joined(values)

    def owed(self) -> QueuedValues | None:
        """Take out the values that are owed, to try them again."""
        with self._wake:
            owed, self._owed = self._owed, None
            return owed

    def finish(self, *, drop: bool) -> None:
        """Nothing more will be put; with ``drop`` what waits is not wanted."""
        with self._wake:
            self._is_finishing = True
            self._is_dropping = drop
            self._wake.notify()

    @property
    def is_finishing(self) -> bool:
        """Whether nothing more will be put."""
        with self._wake:
            return self._is_finishing

    def rest(self, seconds: float) -> bool:
        """Wait before what was taken is tried again; False: it need not be.

        A newer save has come, or what waits is not wanted any more.
        """
        with self._wake:
            return not self._wake.wait_for(
                lambda: self._save is not None or self._is_dropping, timeout=seconds
            )

    def take(self) -> Work | None:
        """The next piece of work; blocks until there is one. None: there will be no more."""
        with self._wake:
            while True:
                work = self._next()
                if work is not None:
                    return work
                if self._is_finishing and (self._is_dropping or not self._draining):
                    return None
                self._wake.wait()

    def dropped(self) -> tuple[Frozen, ...]:
        """Forget all that waits; returns what was stamped for it."""
        with self._wake:
            waiting = (self._save, self._values)
            self._save = self._values = self._owed = None
            self._early.clear()
            return tuple(w.frozen for w in waiting if w is not None and w.frozen is not None)

    def _next(self) -> Work | None:
        if self._is_dropping:
            return None
        if self._drained:
            return self._drained.pop(0)
        if self._save is not None:
            save, self._save = self._save, None
            return save
        if self._values is not None:
            values, self._values = self._values, None
            return values
        if self._digests:
            return self._digests.pop(0)
        if self._is_finishing and not self._draining:
            owed, self._owed = self._owed, None
            if self._was_tried_last:
                return None
            self._was_tried_last = True
            return owed
        if self._early:
            early, self._early = tuple(self._early), []
            return early
        return None


class DeclaredSet:
    """The dataset declared so far; for one thread."""

    def __init__(self) -> None:
        self.generation = 0
        self._files: dict[str, None] = {}
        self._dirs: dict[str, None] = {}
        self._dataset: Dataset | None = Dataset()

    def add(self, event: FilesDeclared) -> None:
        """One declaration."""
        if event.is_reset:
            self.generation += 1
            self._files.clear()
            self._dirs.clear()
        self._files.update(dict.fromkeys(event.files))
        self._dirs.update(dict.fromkeys(event.dirs))
        self._dataset = None

    @property
    def dataset(self) -> Dataset:
        """All of it."""
        if self._dataset is None:
            self._dataset = Dataset(files=tuple(self._files), dirs=tuple(self._dirs))
        return self._dataset


def joined(first: Dataset, second: Dataset) -> Dataset:
    """The files and folders of both."""
    return Dataset(
        files=tuple(dict.fromkeys((*first.files, *second.files))),
        dirs=tuple(dict.fromkeys((*first.dirs, *second.dirs))),
    )
