"""Full packs on their way to the store, while the next one is being filled.

On a driver that takes several uploads at once (`Driver.uploads_at_once`) a full pack is committed
by a thread of its own, so that reading, hashing and sending overlap. On any other it is committed
at once, by who filled it.

Memory: where uploads are held in memory, ``uploads_at_once + 1`` packs of at most
``pack_limit_bytes``: 96 MiB on object storage. Who is faster than the line waits in `start`.

Crash behaviour: a pack is there whole or not at all, and nothing names it before `finish` has
returned. A process that ends does not wait for packs that nobody waits for.
"""

import threading
from contextlib import suppress
from typing import Protocol

from perdure.errors import StoreDamaged
from perdure.store.drivers.driver import PutUncertain, Upload
from perdure.store.layout import PackId

_COMMIT_TRIES = 5


def commit_surely(upload: Upload) -> bool:
    """Commit an object whose key nobody else writes, again where a reply is lost.

    False if it is there though no reply was lost: then it is not this caller's doing.

    Raises:
        PutUncertain: no reply came to any of the tries; it may be there.
    """
    may_be_there = False
    for _ in range(_COMMIT_TRIES - 1):
        with suppress(PutUncertain):
            return upload.commit() or may_be_there
        may_be_there = True
    return upload.commit() or may_be_there


class Place(Protocol):
    """What is known of where packs are written."""

    uploads_at_once: int


class PackUploads:
    """Commits packs; for one thread at a time.

    Args:
        place: where these packs are written.
    """

    def __init__(self, place: Place) -> None:
        self._slots = place.uploads_at_once
        self._started: list[_Commit] = []

    def start(self, pack: PackId, upload: Upload) -> None:
        """Commit ``upload``, which is full; blocks while as many as may be are under way.

        Raises:
            HomeError, OutOfSpace: one before it failed. `finish` tries that one and this one.
        """
        commit = _Commit(pack, upload)
        self._started.append(commit)
        if self._slots > 1:
            while len(self._started) > self._slots:
                self._wait_for_first()
            commit.begin()
        else:
            self.finish()

    def finish(self) -> None:
        """Return once all that was started is durable.

        Raises:
            HomeError, OutOfSpace: the first failure. What failed is tried again at the next call.
        """
        while self._started:
            self._wait_for_first()

    def _wait_for_first(self) -> None:
        self._started[0].wait()
        del self._started[0]

    def abandon(self) -> None:
        """Wait for nothing: what is under way may land, and is named by nobody.

        It keeps its place among those that may be under way until it has ended, well or not.
        """
        for commit in self._started:
            commit.abandon()
        self._started = [commit for commit in self._started if commit.is_under_way]


class _Commit:
    """One pack's way into the store."""

    def __init__(self, pack: PackId, upload: Upload) -> None:
        self._is_wanted = True
        self._pack = pack
        self._upload = upload
        self._may_be_there = False
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether a thread still has it, and its memory."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self) -> None:
        """Commit it in a thread."""
        # A daemon: a line that hangs must not keep a worker from ending.
        self._thread = threading.Thread(
            target=self._run, name=f"perdure-upload-{self._pack}", daemon=True
        )
        self._thread.start()

    def _run(self) -> None:
        try:
            self._commit()
        except Exception as error:  # noqa: BLE001 - raised by who waits
            self._error = error
        if not self._is_wanted:
            self._upload.abort()

    def abandon(self) -> None:
        """Nobody waits for it any more; what a thread has is let go of by that thread."""
        self._is_wanted = False
        if not self.is_under_way:
            self._upload.abort()

    def wait(self) -> None:
        """Return once it is durable; where no thread does it, it is done here."""
        if self._thread is None:
            self._commit()
            return
        self._thread.join()
        self._thread = None
        if self._error is not None and self._is_wanted:
            raise self._error

    def _commit(self) -> None:
        try:
            is_ours = commit_surely(self._upload) or self._may_be_there
        except PutUncertain:
            self._may_be_there = True
            raise
        if not is_ours:
            raise StoreDamaged(
                f"the pack {self._pack} exists already, though only this worker makes it",
                hint="Run `perdure verify`; another program may have copied objects there.",
            )
