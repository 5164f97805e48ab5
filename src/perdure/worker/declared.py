"""Which outside files the job's tasks declared: so that nobody saves a neighbour's.

Every launch says in an object of its own (``launches/<launch>/declared``) which files and folders
outside of the session folder its tasks declared, before it looks at them. Whoever walks a declared
outside folder reads what the others said: a file is none of ours if another lineage names it, or
declares a folder that it lies in and that is no farther from it than ours.

A line of the object is JSON; a last line that is cut is read again later. What an attempt declared
counts until it is over: what changes later is nobody's but of those that run then.

Source: design 6, "Files outside the session folder" (2); docs/store-format.md, "Declared files".
"""

import json
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from typing import Any

from msgspec import Struct, field

from perdure.errors import PerdureError
from perdure.journal.bounded import BoundedObject
from perdure.journal.medium import Medium, Row, read_from
from perdure.protocol.dataset import Dataset
from perdure.store import layout
from perdure.store.drivers.driver import Driver
from perdure.store.layout import JobId, LaunchId
from perdure.worker.job_records import LineageId

#: Of one launch no more is written or read: what is beyond is as if it were not declared.
LIMIT_BYTES = 64 << 20
_LINE_PATHS = 1000
#: Clocks of two hosts may differ so much.
_CLOCKS_DIFFER_NS = 60 * 10**9


class Declarer(Struct, frozen=True):
    """One attempt that declared something."""

    launch: LaunchId
    step: int
    task: str
    attempt: int


class DeclaredFile:
    """Writes what the attempts of one launch declare; for one thread at a time."""

    def __init__(self, medium: Medium, key: str) -> None:
        self._object = BoundedObject(medium, key, limit_bytes=LIMIT_BYTES)
        self._attempt: tuple[LineageId, int] | None = None
        self._known: set[str] = set()

    def add(self, lineage: LineageId, attempt: int, outside: Dataset) -> None:
        """Say what an attempt declared, what was said before left out.

        Raises:
            HomeError, OutOfSpace: the store does not take it.
        """
        if self._attempt != (lineage, attempt):
            self._attempt = (lineage, attempt)
            self._known.clear()
        files = [path for path in outside.files if path not in self._known]
        dirs = [path for path in outside.dirs if path not in self._known]
        self._object.append(b"".join(_lines(lineage, attempt, files, dirs)))
        self._known.update(files, dirs)

    def end(self, lineage: LineageId, attempt: int, *, at_ns: int) -> None:
        """The attempt is over; nothing to say where it declared nothing.

        Raises:
            HomeError, OutOfSpace: the store does not take it.
        """
        if self._attempt == (lineage, attempt):
            self._attempt = None
            self._object.append(_line(lineage, attempt, ended_at_ns=at_ns))


def _lines(lineage: LineageId, attempt: int, files: list[str], dirs: list[str]) -> Iterator[bytes]:
    for name, paths in (("files", files), ("dirs", dirs)):
        for start in range(0, len(paths), _LINE_PATHS):
            yield _line(lineage, attempt, **{name: paths[start : start + _LINE_PATHS]})


def _line(lineage: LineageId, attempt: int, **fields: object) -> bytes:
    line = {"step": lineage.step, "task": lineage.task, "attempt": attempt, **fields}
    return json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n"


class Neighbours(Struct):
    """Reads what all launches of a job say; for one thread at a time.

    Args:
        me: the launch that reads: its attempts follow each other, so that none of them is another's
            neighbour.
    """

    driver: Driver
    job: JobId
    me: LaunchId
    _lengths: dict[LaunchId, int] = field(default_factory=dict)
    _rows: dict[LaunchId, Row] = field(default_factory=dict)
    _files: dict[str, set[Declarer]] = field(default_factory=dict)
    _dirs: dict[str, set[Declarer]] = field(default_factory=dict)
    _ended: dict[Declarer, int] = field(default_factory=dict)

    def refresh(self, *, over: Container[LaunchId]) -> None:
        """Read on, but for launches that are ``over``. What cannot be read now is read later."""
        with suppress(PerdureError):
            for name in self.driver.children(layout.launches(self.job)):
                launch = LaunchId(name)
                if launch != self.me and launch not in over:
                    self._read_on(launch)

    def owner_of(
        self,
        path: str,
        lineage: LineageId,
        since_ns: int,
        *,
        ours: Container[str],
        over: Container[LaunchId],
    ) -> Declarer | None:
        """An attempt of another lineage whose an outside file may be.

        Args:
            path: of the file, absolute; we do not name it.
            lineage: ours.
            since_ns: when our attempt began: what ended before changed nothing since.
            ours: the folders that we declare.
            over: launches that had ended when our attempt began.
        """
        others = self._running(self._files.get(path, ()), lineage, since_ns, over)
        for folder in _above(path):
            others += self._running(self._dirs.get(folder, ()), lineage, since_ns, over)
            if others or folder in ours:
                break
        return min(others, key=lambda one: (one.step, one.task, one.attempt), default=None)

    def _running(
        self,
        declarers: Iterable[Declarer],
        lineage: LineageId,
        since_ns: int,
        over: Container[LaunchId],
    ) -> list[Declarer]:
        """Those of other lineages that ran at some time since."""
        return [
            one
            for one in declarers
            if (one.step, one.task) != (lineage.step, lineage.task)
            and one.launch not in over
            and self._ended.get(one, since_ns) >= since_ns - _CLOCKS_DIFFER_NS
        ]

    def _read_on(self, launch: LaunchId) -> None:
        start = self._lengths.get(launch, 0)
        if start >= LIMIT_BYTES:
            return
        row = self._rows.setdefault(launch, Row())
        data = read_from(self.driver, layout.declared(self.job, launch), start, row=row)
        end = data.rfind(b"\n") + 1
        self._lengths[launch] = start + end
        for line in data[:end].splitlines():
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                self._add(launch, json.loads(line))

    def _add(self, launch: LaunchId, line: dict[str, Any]) -> None:
        declarer = Declarer(launch, int(line["step"]), str(line["task"]), int(line["attempt"]))
        if "ended_at_ns" in line:
            self._ended[declarer] = int(line["ended_at_ns"])
        for known, name in ((self._files, "files"), (self._dirs, "dirs")):
            for path in line.get(name, []):
                known.setdefault(path.rstrip("/") or "/", set()).add(declarer)


def _above(path: str) -> Iterator[str]:
    """The folders that a path lies in, nearest first."""
    while path.rstrip("/"):
        path = path.rpartition("/")[0]
        yield path or "/"
