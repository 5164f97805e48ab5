"""The cache: what was read of jobs, so that it need not be read again while nothing grew.

Never a source of truth. Whoever takes something out of it checks that its positions are still those
of the store; with and without it every answer is the same. It may be missing, damaged, locked, on a
full or read-only disk, or written by another version, at any moment: then it is as if it were
empty, and it is made anew where that is possible. No call raises for any of that.

Transactions are single statements; no write-ahead log, so that there is one file, and no syncs,
because a lost cache costs nothing. Each row carries a digest: a flipped bit is a missing row.

Source: design 4 ("cache/perdure.db").
"""

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

from blake3 import blake3
from msgspec import Struct

from perdure.database import statements

DATABASE = "perdure.db"
#: A writer that is longer at work than this is not waited for.
_BUSY_SECONDS = 0.2
#: Facts longer than this are cheaper to make than to keep.
_LARGEST_FACTS = 64 << 20

_Answer = TypeVar("_Answer")


class CachedFacts(Struct, frozen=True, kw_only=True):
    """What was kept of a job: JSON of its facts and of the positions up to which they hold."""

    positions: Mapping[str, Any]
    facts: Mapping[str, Any]


class Cache:
    """The cache of one user on this host.

    Args:
        folder: where it lies; made when something is kept.
        version: of the facts; rows of another one do not count.
    """

    def __init__(self, folder: Path, *, version: int) -> None:
        self._path = folder / DATABASE
        self._version = version

    def find(self, store: str, job: str) -> CachedFacts | None:
        """The facts kept of the job, or None."""
        row = self._find(statements.FIND_FACTS, store, job)
        if row is None:
            return None
        positions, facts = row
        try:
            return CachedFacts(positions=json.loads(positions), facts=json.loads(facts))
        except ValueError:
            return None

    def keep(self, store: str, job: str, found: CachedFacts) -> None:
        """Keep facts, if that is possible."""
        kept = {"positions": _json(found.positions), "facts": _json(found.facts)}
        if len(kept["facts"]) <= _LARGEST_FACTS:
            self._keep(statements.KEEP_FACTS, store, job, kept)

    def find_outline(self, store: str, job: str) -> str | None:
        """The outline kept of the job, or None."""
        row = self._find(statements.FIND_OUTLINE, store, job)
        return None if row is None else row[0]

    def keep_outline(self, store: str, job: str, outline: str) -> None:
        """Keep the outline, if that is possible."""
        self._keep(statements.KEEP_OUTLINE, store, job, {"outline": outline})

    def forget(self, store: str, job: str) -> None:
        """A job that was removed."""
        if self._is_there():
            keys = {"store": store, "job": job}
            self._ask(lambda base: base.execute(statements.FORGET_FACTS, keys).rowcount)
            self._ask(lambda base: base.execute(statements.FORGET_OUTLINE, keys).rowcount)

    def _find(self, statement: str, store: str, job: str) -> tuple[str, ...] | None:
        """A row without its digest, if that is right."""
        if not self._is_there():
            return None
        keys = {"store": store, "job": job, "version": self._version}
        row = self._ask(lambda base: base.execute(statement, keys).fetchone())
        if row is None or row[-1] != _digest(*row[:-1]):
            return None
        return tuple(row[:-1])

    def _keep(self, statement: str, store: str, job: str, texts: Mapping[str, str]) -> None:
        row = {
            "store": store,
            "job": job,
            "version": self._version,
            **texts,
            "digest": _digest(*texts.values()),
        }
        self._ask(lambda base: base.execute(statement, row).rowcount)

    def drop(self) -> bool:
        """Remove it whole; whether there was one."""
        was_there = self._is_there()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
            Path(f"{self._path}-journal").unlink(missing_ok=True)
        return was_there

    def _is_there(self) -> bool:
        try:
            return self._path.exists()
        except OSError:
            return False

    def _ask(self, ask: Callable[[sqlite3.Connection], _Answer]) -> _Answer | None:
        """One transaction; None where the cache is of no use now.

        A file that is no database is removed and made anew, once.
        """
        for _ in range(2):
            try:
                with closing(self._open()) as base, base:
                    return ask(base)
            except sqlite3.OperationalError:
                return None  # locked, full, read-only: it will do another time
            except sqlite3.DatabaseError:
                self.drop()
            except (OSError, sqlite3.Error, ValueError):
                return None
        return None

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._path.exists():
            self._path.touch(mode=0o600)
        base = sqlite3.connect(self._path, timeout=_BUSY_SECONDS)
        try:
            self._prepare(base)
        except BaseException:
            base.close()
            raise
        return base

    def _prepare(self, base: sqlite3.Connection) -> None:
        base.execute("PRAGMA synchronous = OFF")
        (schema,) = base.execute("PRAGMA user_version").fetchone()
        if schema == statements.SCHEMA:
            return
        if schema != 0:
            raise sqlite3.DatabaseError("the cache has another version's tables")
        with base:
            base.execute(statements.CREATE_FACTS)
            base.execute(statements.CREATE_OUTLINES)
            base.execute(f"PRAGMA user_version = {statements.SCHEMA}")


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


def _digest(*texts: str) -> str:
    return blake3("\n".join(texts).encode()).hexdigest()
