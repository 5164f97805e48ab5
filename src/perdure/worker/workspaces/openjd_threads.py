"""The second half of the seam in openjd-sessions: threads that are used again.

A script runner makes a thread pool for its one process and takes it down afterwards: a quarter of
what a short task costs. This executor has the calls that runners use (`submit`, `shutdown`) and
lends a thread that is kept for the next one.

Source: openjd-sessions 0.13 and 0.14, ``_runner_base.py`` (``ThreadPoolExecutor(max_workers=1)``);
guarded by contract tests, with the library's own pool as the fall-back.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import Any

_Work = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...]]


class _LentThread:
    """Runs what it is given, one after the other."""

    def __init__(self, number: int) -> None:
        self._work: SimpleQueue[_Work] = SimpleQueue()
        self._thread = threading.Thread(
            target=self._run, name=f"perdure-action-{number}", daemon=True
        )
        self._thread.start()

    def give(self, work: _Work) -> None:
        """Run this next."""
        self._work.put(work)

    def _run(self) -> None:
        while True:
            future, call, arguments = self._work.get()
            if not future.set_running_or_notify_cancel():
                _idle.append(self)
                continue
            try:
                value = call(*arguments)
            except BaseException as error:  # noqa: BLE001 - the future carries it to its owner
                _idle.append(self)
                future.set_exception(error)
            else:
                _idle.append(self)
                future.set_result(value)
            del future, call, arguments


#: Threads that wait for work; as many as ever ran at once.
_idle: list[_LentThread] = []


class LentThreads:
    """What a script runner takes for its `ThreadPoolExecutor`."""

    def __init__(self, max_workers: int | None = None) -> None:
        assert max_workers == 1, "runners have one process"
        self._futures: list[Future[Any]] = []
        self._is_shut_down = False

    def submit(self, call: Callable[..., Any], /, *arguments: Any) -> "Future[Any]":
        """Run ``call`` on a thread of ours.

        Raises:
            RuntimeError: after `shutdown`, as the library's pool does.
        """
        if self._is_shut_down:
            msg = "cannot schedule new futures after shutdown"
            raise RuntimeError(msg)
        future: Future[Any] = Future()
        self._futures.append(future)
        begin = getattr(getattr(call, "__self__", None), "begin", None)
        if begin is not None:
            begin()
        try:
            thread = _idle.pop()
        except IndexError:
            thread = _LentThread(threading.active_count())
        thread.give((future, call, arguments))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - the library's own signature
        """Take no more; with ``wait`` return when all is done."""
        self._is_shut_down = True
        if cancel_futures:
            for future in self._futures:
                future.cancel()
        if wait:
            _wait(self._futures)


def _wait(futures: "list[Future[Any]]") -> None:
    wait(futures)
