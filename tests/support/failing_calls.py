"""One call of a lineage's life fails, the n-th that can fail in that way; nothing may be lost.

For each way to fail the life (`support.lineage_life`) is lived with the first such call failing,
then with the second, and so on until a pass in which nothing was left to fail. What must hold of
each pass is in `lived_through`: a step is refused with an error of ours or it succeeds, what was
acknowledged stays and verifies, the step tried again succeeds, and nothing is left open or behind.

Source: design 3 (rules 1 and 3); close(2), fsync(2), open(2), write(2) on what they may say.
"""

import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from perdure.errors import PerdureError
from perdure.store.drivers.driver import Driver
from perdure.store.opening import open_store
from support.lineage_life import (
    SMALL,
    Life,
    Sizes,
    examined,
    expect_files,
    leftovers,
    open_descriptors,
    put_back,
)
from support.system_calls import READS, SYNCS, WRITES, Call, watched

_ALIGNMENT = 4096


class Way(Enum):
    """How a call fails; once, unless it says so."""

    #: no space is left
    ENOSPC = "ENOSPC"
    #: the quota is used up
    EDQUOT = "EDQUOT"
    #: the disk reports an error
    EIO = "EIO"
    #: no descriptor is left
    EMFILE = "EMFILE"
    #: fewer bytes are written or read than were given
    SHORT = "short"
    #: it is done, and an error is reported
    DONE_EIO = "done, and EIO"
    #: what was written turns out not to fit when the file is closed (NFS)
    CLOSE_EDQUOT = "EDQUOT at close"
    #: a sync reports an error, and what was written since the last one is gone
    LOST = "lost sync"
    #: no space is left, for all calls until the step is over
    FULL = "ENOSPC until the step is over"

    def applies(self, call: Call) -> bool:
        """Whether ``call`` can fail in this way."""
        return _APPLIES[self](call)


_GROWS = WRITES | SYNCS | {"link", "rename", "replace", "mkdir", "symlink", "fallocate"}


def _needs_space(call: Call) -> bool:
    return call.makes_a_file or call.name in _GROWS or call.name == "posix_fallocate"


def _is_close_of_a_written_file(call: Call) -> bool:
    if call.name != "close":
        return False
    flags = fcntl.fcntl(call.args[0], fcntl.F_GETFL)
    return flags & os.O_ACCMODE != os.O_RDONLY and not flags & os.O_PATH


_APPLIES: dict[Way, Callable[[Call], bool]] = {
    Way.ENOSPC: _needs_space,
    Way.EDQUOT: _needs_space,
    Way.EIO: lambda call: call.name != "close",
    Way.EMFILE: lambda call: call.name in ("open", "scandir"),
    Way.SHORT: lambda call: call.name in WRITES | READS,
    Way.DONE_EIO: lambda call: call.name in ("link", "rename", "replace", "mkdir", "unlink"),
    Way.CLOSE_EDQUOT: _is_close_of_a_written_file,
    Way.LOST: lambda call: call.name in SYNCS,
    Way.FULL: _needs_space,
}
_NUMBERS = {
    Way.EDQUOT: errno.EDQUOT,
    Way.EIO: errno.EIO,
    Way.EMFILE: errno.EMFILE,
    Way.DONE_EIO: errno.EIO,
    Way.CLOSE_EDQUOT: errno.EDQUOT,
    Way.LOST: errno.EIO,
}


@dataclass
class Failing:
    """The hook: lets the ``number``-th call that can fail in that way fail."""

    way: Way
    number: int
    seen: int = 0
    injected: list[str] = field(default_factory=list)
    _paused: int = 0
    _lasts: bool = False
    _unsynced: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, call: Call) -> Any:
        if self.way is Way.LOST and call.name in ("pwrite", "pwritev"):
            return self._written(call)
        if self._paused or not self.way.applies(call):
            return call.real()
        with self._lock:
            self.seen += 1
            fails = self._lasts or self.seen == self.number
            if fails:
                self.injected.append(f"{call.name} {call.paths}")
                self._lasts = self.way is Way.FULL
        if fails:
            return self._fail(call)
        result = call.real()
        if call.name in SYNCS:
            self._unsynced.pop(_file(call.args[0]), None)
        return result

    def _fail(self, call: Call) -> Any:
        if self.way is Way.SHORT:
            return _short(call)
        if self.way in (Way.DONE_EIO, Way.CLOSE_EDQUOT):
            call.real()
        if self.way is Way.LOST:
            self._lose(call.args[0])
        number = _NUMBERS.get(self.way, errno.ENOSPC)
        raise OSError(number, os.strerror(number))

    def _written(self, call: Call) -> Any:
        """Do a write, and keep in mind what it wrote."""
        length = call.real()
        with self._lock:
            place = (call.args[2], length)
            self._unsynced.setdefault(_file(call.args[0]), []).append(place)
        return length

    def _lose(self, fd: int) -> None:
        """As a kernel that could not write pages and has dropped them."""
        with self._lock:
            lost = self._unsynced.pop(_file(fd), [])
        if lost:
            with Path(f"/proc/self/fd/{fd}").open("r+b") as file:
                for start, length in lost:
                    file.seek(start)
                    file.write(bytes(length))

    def lift(self) -> None:
        """The trouble is over."""
        self._lasts = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing fails inside, and nothing is counted."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1


def _file(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _short(call: Call) -> Any:
    """Half of it is done; a whole number of pages, for descriptors that want that."""
    fd, first, *rest = call.args
    if call.name in ("read", "pread"):
        return call.real()[: max(1, first // 2)] if first else call.real()
    if call.name in ("readv", "preadv", "writev", "pwritev"):
        return _SHORT_CALLS[call.name](fd, [_half(first[0])], *rest)
    return _SHORT_CALLS[call.name](fd, _half(first), *rest)


def _half(data: Any) -> memoryview:
    whole = memoryview(data).cast("B")
    half = whole.nbytes // 2
    return whole[: half - half % _ALIGNMENT if half >= _ALIGNMENT else max(1, half)]


_SHORT_CALLS: dict[str, Callable[..., int]] = {
    name: getattr(os, name) for name in ("write", "writev", "pwrite", "pwritev", "readv", "preadv")
}


@dataclass
class Counts:
    """What was tried."""

    passes: int = 0
    injected: int = 0
    refused: int = 0
    clean: int = 0

    def add(self, other: "Counts") -> None:
        """Count another one's too."""
        self.passes += other.passes
        self.injected += other.injected
        self.refused += other.refused
        self.clean += other.clean

    def __str__(self) -> str:
        """For a report."""
        return (
            f"{self.passes} passes, {self.injected} faults injected, {self.refused} steps refused,"
            f" {self.clean} clean"
        )


Opened = Callable[[Path], Driver]


def opened(path: Path) -> Driver:
    """The driver that a worker would use."""
    return open_store(str(path), write=True, create=True).driver


def lived_through(
    folder: Path,
    way: Way,
    number: int,
    *,
    sizes: Sizes = SMALL,
    opened: Opened = opened,
) -> Counts:
    """Live once in the empty ``folder``, the ``number``-th call that can failing.

    Raises:
        AssertionError: something was lost, or an error was none of ours.
    """
    store, session, fresh = (folder / name for name in ("store", "session", "fresh"))
    session.mkdir(parents=True)
    fresh.mkdir()
    before = open_descriptors()
    failing = Failing(way, number)
    acknowledged = [0]

    def said(what: str, count: int) -> None:
        if what == "save":
            acknowledged[0] = count

    def what_was_saved_is_there() -> None:
        if acknowledged[0] or (store / "format").exists():
            assert examined(store, sizes).version >= acknowledged[0]

    life = Life(store, session, sizes=sizes, said=said, opened=opened, unharmed=failing.paused)
    counts = Counts(passes=1)
    with watched(failing, store, session, fresh):
        for name, step in (*life.steps(), ("restore", lambda: _restore(store, fresh))):
            try:
                step()
            except PerdureError:
                counts.refused += 1
                failing.lift()
                with failing.paused():
                    what_was_saved_is_there()
                step()
            except OSError as error:
                raise AssertionError(f"{name} raised a raw {error!r}") from error
            failing.lift()
        life.end()
    counts.injected = len(failing.injected)
    counts.clean = not failing.injected
    found = examined(store, sizes)
    assert found.version == acknowledged[0] == 13
    expect_files(fresh, 13, sizes)
    assert found.lines[1] == life.lines
    _expect_nothing_left(store, session, fresh)
    assert open_descriptors() <= before, open_descriptors() - before
    return counts


def every_call(
    folder: Path,
    way: Way,
    *,
    sizes: Sizes = SMALL,
    opened: Opened = opened,
    stride: int = 1,
) -> Counts:
    """Live with the first call failing, the second, … until a pass in which none was left to fail.

    With a ``stride`` only every so-manieth one, for a sample.

    Raises:
        AssertionError: as `lived_through`, with which call it was.
    """
    counts = Counts()
    number = 1 - stride
    while not counts.clean:
        number += stride
        here = folder / f"{way.name}-{number}"
        try:
            passed = lived_through(here, way, number, sizes=sizes, opened=opened)
        except Exception as error:
            raise AssertionError(f"{way.value}, call {number}: {error!r}") from error
        counts.add(passed)
        shutil.rmtree(here)
    return counts


def _restore(store: Path, fresh: Path) -> None:
    """Restore the newest checkpoint, as a worker that has just opened the store."""
    driver = open_store(str(store), write=False).driver
    try:
        put_back(driver, None, fresh)
    finally:
        driver.close()


def _expect_nothing_left(store: Path, *folders: Path) -> None:
    driver = opened(store)
    driver.sweep("", older_than_seconds=0)
    driver.close()
    assert leftovers(store, *folders) == []
