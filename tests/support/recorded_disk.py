"""What the store really does to a folder, as a history for `support.power_failure`.

A `Recorder` is the hook of `support.system_calls.watched`: it does every call and writes down what
it changed. Whether it has seen everything is proved at the end: the model's files, with all that
was done, are compared with those in the folder (`Recorder.expect_complete`). So a call that it does
not know is found, not overlooked.

Threads: one call after the other; the lock is held over the call.
"""

import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.power_failure import (
    ROOT,
    Linked,
    Made,
    Operation,
    Removed,
    Renamed,
    Resized,
    Said,
    State,
    Synced,
    Written,
    states,
)
from support.system_calls import Call

_DESCRIPTOR = "/proc/self/fd/"
_KEEP_SIZE = 1


@dataclass
class Recorder:
    """Does and records the calls below ``top``, which is an empty folder at the beginning."""

    top: Path
    history: list[Operation] = field(default_factory=list)
    _nodes: dict[str, int] = field(default_factory=dict)
    _opened: dict[int, int] = field(default_factory=dict)
    _synced_writes: set[int] = field(default_factory=set)
    _next: int = ROOT + 1
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.top = self.top.resolve()
        assert list(self.top.iterdir()) == []
        self._nodes[str(self.top)] = ROOT

    def __call__(self, call: Call) -> Any:
        with self._lock:
            record: Callable[[Call], Any] = getattr(self, f"_{call.name}", self._refuse)
            return record(call)

    def said(self, what: str, number: int) -> None:
        """The program said something."""
        with self._lock:
            self.history.append(Said(what, number))

    def expect_complete(self) -> None:
        """Compare the model with the folder.

        Raises:
            AssertionError: something was changed by a call that was not seen.
        """
        *_, (_length, last) = states(self.history, each=2, seed=0, prefixes=[len(self.history)])
        found = {
            str(path.relative_to(self.top)): path.read_bytes()
            for path in self.top.rglob("*")
            if path.is_file()
        }
        assert last.files.keys() == found.keys(), last.files.keys() ^ found.keys()
        for name, data in found.items():
            assert last.files[name] == data, f"{name} was written by a call that was not seen"

    def _refuse(self, call: Call) -> Any:
        msg = f"{call.name} is not known to the recorder"
        raise NotImplementedError(msg)

    def _pass(self, call: Call) -> Any:
        return call.real()

    _read = _readv = _pread = _preadv = _scandir = _readlink = _fchmod = _utime = _pass
    _stat = _lstat = _fstat = _statvfs = _fstatvfs = _pass

    def _open(self, call: Call) -> Any:
        path, flags = call.paths[0], call.args[1]
        is_new = bool(flags & os.O_CREAT) and path not in self._nodes
        is_nameless = flags & os.O_TMPFILE == os.O_TMPFILE
        fd = call.real()
        if is_nameless:
            self._opened[fd] = self._new_node()
            self.history.append(Made(ROOT, f"nameless {fd}", self._opened[fd]))
            self.history.append(Removed(ROOT, f"nameless {fd}"))
        elif is_new:
            self._opened[fd] = self._made(path, is_folder=False)
        else:
            self._opened[fd] = self._nodes[path]
            if flags & os.O_TRUNC:
                self.history.append(Resized(self._opened[fd], 0))
        if flags & (os.O_SYNC | os.O_DSYNC):
            self._synced_writes.add(fd)
        return fd

    def _close(self, call: Call) -> Any:
        self._opened.pop(call.args[0], None)
        self._synced_writes.discard(call.args[0])
        return call.real()

    def _pwrite(self, call: Call) -> Any:
        return self._write_at(call, call.args[2], [call.args[1]])

    def _pwritev(self, call: Call) -> Any:
        return self._write_at(call, call.args[2], list(call.args[1]))

    def _write(self, call: Call) -> Any:
        return self._write_at(call, os.lseek(call.args[0], 0, os.SEEK_CUR), [call.args[1]])

    def _writev(self, call: Call) -> Any:
        return self._write_at(call, os.lseek(call.args[0], 0, os.SEEK_CUR), list(call.args[1]))

    def _write_at(self, call: Call, start: int, parts: list[Any]) -> Any:
        data = b"".join(bytes(part) for part in parts)
        length = call.real()
        fd = call.args[0]
        self.history.append(Written(self._opened[fd], start, data[:length]))
        if fd in self._synced_writes:
            self.history.append(Synced(self._opened[fd]))
        return length

    def _ftruncate(self, call: Call) -> Any:
        call.real()
        self.history.append(Resized(self._opened[call.args[0]], call.args[1]))

    def _truncate(self, call: Call) -> Any:
        call.real()
        self.history.append(Resized(self._nodes[call.paths[0]], call.args[1]))

    def _posix_fallocate(self, call: Call) -> Any:
        return self._extend(call)

    def _fallocate(self, call: Call) -> Any:
        return call.real() if call.args[1] & _KEEP_SIZE else self._extend(call)

    def _extend(self, call: Call) -> Any:
        fd = call.args[0]
        before = os.fstat(fd).st_size
        result = call.real()
        after = os.fstat(fd).st_size
        if after != before:
            self.history.append(Resized(self._opened[fd], after))
        return result

    def _fsync(self, call: Call) -> Any:
        result = call.real()
        self.history.append(Synced(self._opened[call.args[0]]))
        return result

    _fdatasync = _fsync

    def _mkdir(self, call: Call) -> Any:
        call.real()
        self._made(call.paths[0], is_folder=True)

    def _link(self, call: Call) -> Any:
        call.real()
        source, path = call.paths
        is_open = source.startswith(_DESCRIPTOR)
        fd = int(source.removeprefix(_DESCRIPTOR)) if is_open else -1
        node = self._opened[fd] if is_open else self._nodes[source]
        self._nodes[path] = node
        self.history.append(Linked(*self._name(path), node))

    def _rename(self, call: Call) -> Any:
        call.real()
        source, path = call.paths
        node = self._nodes.pop(source)
        self._nodes[path] = node
        self.history.append(Renamed(*self._name(source), *self._name(path), node))

    _replace = _rename

    def _unlink(self, call: Call) -> Any:
        call.real()
        del self._nodes[call.paths[0]]
        self.history.append(Removed(*self._name(call.paths[0])))

    _remove = _rmdir = _unlink

    def _made(self, path: str, *, is_folder: bool) -> int:
        node = self._nodes[path] = self._new_node()
        self.history.append(Made(*self._name(path), node, is_folder))
        return node

    def _new_node(self) -> int:
        self._next += 1
        return self._next

    def _name(self, path: str) -> tuple[int, str]:
        folder, _slash, name = path.rpartition("/")
        return self._nodes[folder], name


def laid_out(state: State, top: Path) -> None:
    """Make the state's files in ``top``, which is emptied first."""
    shutil.rmtree(top, ignore_errors=True)
    top.mkdir(mode=0o700)
    for folder in state.folders:
        (top / folder).mkdir(mode=0o700)
    for name, data in state.files.items():
        (top / name).write_bytes(data)
