"""Who makes a job's turns now, so that a second one leaves with a word of who does.

Courtesy, not safety: two makers of turns harm nothing (see `turns`). On one host a file lock
decides; across hosts a counter in the store that moves, judged like a launch's.

Source: design 4 (a manager belongs to one job).
"""

import fcntl
import os
import secrets
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from perdure.clock import Clock
from perdure.errors import HomeBusy, HomeError, OutOfSpace, StoreUnavailable
from perdure.journal.heartbeat import Heartbeat, Stillness, read_heartbeat, shortened
from perdure.store import layout
from perdure.store.drivers.driver import Driver
from perdure.store.layout import JobId
from perdure.worker.host import describe_process, is_gone, is_of_here

_OBSERVE_SECONDS = 0.2
_LOCK_SECONDS = 0.02


class Presence:
    """Being the job's manager; a context manager.

    Args:
        driver: of the store.
        job: the job.
        locks: a folder of this host for lock files.
        interval_seconds: how often the counter moves.
        patience_seconds: so long a manager of this host that is leaving is waited for.
    """

    def __init__(
        self,
        driver: Driver,
        job: JobId,
        *,
        locks: Path,
        clock: Clock,
        interval_seconds: float,
        patience_seconds: float = 0.0,
    ) -> None:
        self._driver = driver
        self._job = job
        self._locks = locks
        self._clock = clock
        self._interval = interval_seconds
        self._patience = patience_seconds
        self._lock: int | None = None
        self._heartbeat = Heartbeat(driver, layout.manager(job))
        self._id = secrets.token_hex(8)
        self._trouble = ""
        self._saying = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="perdure-manager", daemon=True)

    def __enter__(self) -> Self:
        """Become the manager.

        Raises:
            HomeBusy: somebody else is; says who.
        """
        self._take_lock()
        try:
            self._wait_until_free()
        except BaseException:
            self._drop_lock()
            raise
        with suppress(StoreUnavailable):  # the next beat says it; a bad line is no reason to leave
            self._say()
        self._thread.start()
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Be it no more."""
        self._stop.set()
        self._thread.join()
        with suppress(HomeError, OutOfSpace):
            self._heartbeat.beat({"gone": True})
        self._drop_lock()

    def _take_lock(self) -> None:
        """The lock is a courtesy: where the cache cannot be written, the store alone must do."""
        path = self._locks / f"{self._job}.lock"
        try:
            self._locks.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return
        until = time.monotonic() + self._patience
        while not _is_locked(lock):
            if time.monotonic() >= until:
                os.close(lock)
                raise self._busy(read_manager(self._driver, self._job) or {})
            time.sleep(_LOCK_SECONDS)
        self._lock = lock

    def _drop_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _wait_until_free(self) -> None:
        """Leave while another host's manager moves; take over from one that is gone or still."""
        stillness = Stillness(self._clock, self._interval)
        first: object = None
        while True:
            described = live_manager(self._driver, self._job)
            if described is None:
                return
            if is_of_here(described):
                raise self._busy(described)
            counter = described.get("counter")
            if first is not None and counter != first:
                raise self._busy(described)
            first = counter
            if stillness.observe("manager", counter):
                return
            time.sleep(max(_OBSERVE_SECONDS, self._driver.look_seconds))

    def _busy(self, described: Mapping[str, Any]) -> HomeBusy:
        who = f"process {described.get('pid', '?')} on {described.get('host', 'this host')}"
        return HomeBusy(
            f"job {self._job} is managed by {who}",
            hint=f"Watch it with `perdure status {self._job}`, or stop it with `perdure suspend`.",
            job=self._job,
            pid=described.get("pid"),
            host=described.get("host"),
        )

    def be_troubled(self, why: str) -> None:
        """Show whoever looks why nothing is recorded; "": it is again."""
        self._trouble = shortened(why)
        with suppress(HomeError, OutOfSpace):
            self._say()

    def _say(self) -> None:
        about = {"id": self._id, **describe_process(os.getpid())}
        with self._saying:
            self._heartbeat.beat({**about, "trouble": self._trouble} if self._trouble else about)

    def _beat(self) -> None:
        while not self._stop.wait(self._interval):
            with suppress(HomeError, OutOfSpace):
                self._say()


def _is_locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_manager(driver: Driver, job: JobId) -> Mapping[str, Any] | None:
    """What the job's manager last said, or None."""
    return read_heartbeat(driver, layout.manager(job))


def live_manager(driver: Driver, job: JobId) -> Mapping[str, Any] | None:
    """What the job's manager last said, unless it left or is known to be gone."""
    described = read_manager(driver, job)
    if described is None or described.get("gone") or is_gone(described):
        return None
    return described


def has_live_manager(driver: Driver, job: JobId) -> bool:
    """Whether a manager is known to be alive here, or may be alive elsewhere.

    For a worker that ends: a manager elsewhere that died is found out by the next command.
    """
    return live_manager(driver, job) is not None
