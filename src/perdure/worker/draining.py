"""Saves that are local on their way to the store: the newest first, one at a time.

A thread copies the packs that a save rests on. While one save is on its way the next ones wait, and
of those only the newest is worth it. When time is short (`Drainer.hurry`) a save that is on its way
is given up for a newer one. A store out of reach is tried again for as long as nothing newer waits
and time is not short.

Source: design 7, "Two tiers"; docs/decisions/106.
"""

import threading
from collections.abc import Callable

from msgspec import Struct

from perdure.errors import PerdureError, StoreUnavailable
from perdure.store.layout import PackId, pack_key
from perdure.store.packs.tiers import LocalTier, copy_pack

_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0


class Draining(Struct):
    """One save on its way.

    Attributes:
        save: the how-manieth of its attempt.
        packs: that it rests on.
        ended: called once: with None when all are in the store, with what went wrong, or with the
            draining itself where a newer save took its place.
    """

    save: int
    packs: tuple[PackId, ...]
    ended: Callable[["PerdureError | Draining | None"], None]


class Drainer:
    """Runs from its first save to `close`.

    Args:
        tier: both tiers.
        packs: the lineage's packs prefix.
    """

    def __init__(self, tier: LocalTier, packs: str) -> None:
        self._tier = tier
        self._packs = packs
        self._wake = threading.Condition()
        self._next: Draining | None = None
        self._current: Draining | None = None
        self._left_bytes = 0
        self._is_urgent = False
        self._is_closed = False
        self._copying = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def left_bytes(self) -> int:
        """How much of the save that is on its way is yet to be copied."""
        return self._left_bytes

    def put(self, draining: Draining) -> None:
        """Bring a save to the store; one that still waits gives way to it. Never blocks."""
        with self._wake:
            replaced, self._next = self._next, draining
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="perdure-drain", daemon=True)
                self._thread.start()
            self._wake.notify()
        if replaced is not None:
            replaced.ended(replaced)

    def copy(self, packs: tuple[PackId, ...]) -> None:
        """Bring these packs to the store now; blocks.

        Raises:
            PerdureError: the store did not take them.
        """
        self._copy(Draining(save=0, packs=packs, ended=lambda _how: None), lambda: True)

    def hurry(self) -> None:
        """From now on the newest save is what counts."""
        with self._wake:
            self._is_urgent = True
            self._wake.notify()

    def close(self) -> None:
        """End the thread after the save that is on its way is given up; blocks until then."""
        with self._wake:
            self._is_closed = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()
        self._tier.forget(self._packs)

    def _run(self) -> None:
        while True:
            with self._wake:
                while self._next is None and not self._is_closed:
                    self._wake.wait()
                if self._is_closed:
                    waiting, self._next = self._next, None
                else:
                    self._current, self._next, waiting = self._next, None, None
            if self._is_closed:
                if waiting is not None:
                    waiting.ended(waiting)
                return
            self._drain(self._current)

    def _drain(self, draining: Draining | None) -> None:
        assert draining is not None
        how: PerdureError | Draining | None = None
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                how = None if self._copy(draining, self._is_worth_it) else draining
            except StoreUnavailable as error:
                how = error
                if self._may_wait(pause):
                    pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                    continue
            except PerdureError as error:
                how = error
            break
        self._current, self._left_bytes = None, 0
        draining.ended(how)

    def _may_wait(self, seconds: float) -> bool:
        """Wait for a store that is out of reach; False where there is no time, or no need."""
        with self._wake:

            def is_over() -> bool:
                return self._is_urgent or self._is_closed or self._next is not None

            return not self._wake.wait_for(is_over, timeout=seconds)

    def _is_worth_it(self) -> bool:
        """Whether the save on its way is still the one that counts."""
        with self._wake:
            is_overtaken = self._is_urgent and self._next is not None
            return not self._is_closed and not is_overtaken

    def _copy(self, draining: Draining, is_worth_it: Callable[[], bool]) -> bool:
        """Copy what is only local; whether all was."""
        with self._copying:  # the capture thread may copy packs, too: each once
            sizes = self._tier.only_local(self._packs, draining.packs)
            self._left_bytes = sum(sizes.values())

            def go_on(count: int) -> bool:
                self._left_bytes -= count
                return is_worth_it()

            return all(
                copy_pack(self._tier, pack_key(self._packs, name), go_on=go_on) for name in sizes
            )
