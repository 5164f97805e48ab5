"""Writing one piece while the next is being filled: by a thread of its own, one at a time.

Crash behaviour: none of its own; what is written is void until its pack is committed.
"""

import threading
from collections.abc import Callable


class WriteBehind:
    """One write under way, at most; for one thread that starts and awaits them."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, write: Callable[[], None]) -> None:
        """Have ``write`` done; blocks while the one before is under way.

        Raises:
            BaseException: what the one before raised.
        """
        self.wait()
        self._thread = threading.Thread(target=self._run, args=(write,), name="perdure-run")
        self._thread.start()

    def _run(self, write: Callable[[], None]) -> None:
        try:
            write()
        except BaseException as error:  # noqa: BLE001 - it is the waiter's
            self._error = error

    def wait(self) -> None:
        """Block until nothing is under way.

        Raises:
            BaseException: what the last write raised.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error
