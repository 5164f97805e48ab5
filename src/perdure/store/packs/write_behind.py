"""Writing one piece while the next is being filled: by a thread of its own, one at a time.

The thread stays from the first write until somebody waits for the last: starting one blocks until
it runs, which on a busy machine takes longer than filling a piece.

Crash behaviour: none of its own; what is written is void until its pack is committed.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue


class WriteBehind:
    """One write under way, at most; for one thread that starts and awaits them."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._writes: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._under_way = threading.Lock()
        self._error: BaseException | None = None

    def start(self, write: Callable[[], None]) -> None:
        """Have ``write`` done; blocks while the one before is under way.

        Raises:
            BaseException: what the one before raised.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="perdure-run", daemon=True)
            self._thread.start()
        self._under_way.acquire()  # the thread releases it
        if self._error is not None:
            self._under_way.release()
            self.wait()
        self._writes.put(write)

    def _run(self) -> None:
        while write := self._writes.get():
            try:
                write()
            except BaseException as error:  # noqa: BLE001 - it is the waiter's
                self._error = error
            finally:
                self._under_way.release()

    def wait(self) -> None:
        """Block until nothing is under way.

        Raises:
            BaseException: what the last write raised.
        """
        if self._thread is not None:
            self._writes.put(None)
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error
