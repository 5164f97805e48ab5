"""Logs: rows of records numbered from 1, put if absent, never changed, deleted or skipped.

Theory of operation. A log is owned by nobody; whoever wants to add to it puts a record at one past
the last number that they have *read* (never at one found by listing: a record behind one that they
have not seen would be a decision made without it). If that number is taken they read what is there
and decide again. A put whose reply was lost is put again: either it is created now, or what is
there carries the writer's own random id and it was done, or somebody else's record is there.

A number that is not there ends the log, unless the store shows later ones: then a record was lost
(a scratch file system purged it, say), and everything that rests on "nothing came after" would be
wrong. So the end is looked at once, when a log is first read.

Source: docs/journal-format.md, "Logs"; docs/decisions/140.

Crash behaviour: a record is there whole or not at all; an append that died in between either
happened or did not, and the next reader sees which.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from perdure.clock import Clock, to_text
from perdure.errors import OutOfSpace, StoreDamaged, StoreUnavailable
from perdure.store.drivers.driver import Driver, KeyMissing, PutUncertain
from perdure.store.layout import record_key
from perdure.store.records.record_format import Record, decode_record_of, encode_record

#: How often a refused number is looked for before the store is said not to answer: a store that
#: refuses a put shows the object soon (network file systems cache what is not there for a minute).
MAX_STALE_READS = 24
#: How often a record is looked for behind which the store shows others.
_HOLE_READS = 5


class Entry(Struct, frozen=True, kw_only=True):
    """A record at its number; the payload is fetched only when asked for."""

    number: int
    header: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """What the record is."""
        return str(self.header.get("kind", ""))


class Refused(Struct, frozen=True, kw_only=True):
    """The number was taken by somebody else's record: read on and decide again."""

    by: Entry


class Log:
    """One log, read up to somewhere; not for use by two threads at once.

    Args:
        driver: how the store is reached.
        prefix: the log's keys without the number: ``jobs/<job>/log``.
        clock: for the ``at`` that people read.
        pause: called with the how-manieth try before an uncertain put or a stale read is tried
            again; it waits, or raises to give up (a claim of unknown outcome is then left to the
            seal and fence of its launch).
    """

    def __init__(
        self, driver: Driver, prefix: str, *, clock: Clock, pause: Callable[[int], None]
    ) -> None:
        self._driver = driver
        self._prefix = prefix
        self._clock = clock
        self._pause = pause
        self.entries: list[Entry] = []
        self._is_end_known = False

    @property
    def last(self) -> int:
        """The number of the last record read; 0 for none."""
        return len(self.entries)

    def key(self, number: int) -> str:
        """Where record ``number`` is."""
        return record_key(self._prefix, number)

    def read(self) -> list[Entry]:
        """Read on to the end; returns what is new.

        Raises:
            StoreDamaged, FormatTooNew, StoreUnavailable: see `perdure.errors`.
        """
        new = list(self._following())
        self.entries.extend(new)
        if new and not self._is_end_known:
            new += self.look_beyond()
        return new

    def look_beyond(self) -> list[Entry]:
        """Make sure that nothing stands behind the end, once; returns what was added meanwhile.

        `read` does that where there are records. Whoever acts on there being none calls it.

        Raises:
            StoreDamaged: a record is missing, and later ones are there.
        """
        new: list[Entry] = []
        tries = 0
        while not self._is_end_known:
            shown = self._driver.children(self._prefix)
            following = list(self._following())
            self.entries.extend(following)
            new += following
            beyond = [name for name in shown if name.isdigit() and int(name) > self.last]
            if not beyond:
                self._is_end_known = True
                break
            tries += 1
            if tries == _HOLE_READS:
                raise StoreDamaged(
                    f"the record {self.key(self.last + 1)} is missing, and later ones are there",
                    hint="Put it back from a copy of the store, or run `perdure repair`: what it"
                    " said is lost then, and the records behind it count.",
                    key=self.key(self.last + 1),
                )
            self._pause(tries)  # a network file system may not show yet what it lists
        return new

    def fetch(self, number: int) -> Record:
        """Record ``number`` with its payload, read anew and checked.

        Raises:
            KeyMissing: there is no such record.
        """
        key = self.key(number)
        return decode_record_of(self._driver.get(key), key=key)

    def append(self, header: Mapping[str, Any], payload: bytes = b"") -> Entry | Refused:
        """Put a record at one past the last number read; blocks until the outcome is known.

        The entry is read then, ours or the one that was there. One call is one attempt at one
        number: after `Refused` the caller decides anew with what it has now read.
        """
        number = self.last + 1
        identity = secrets.token_hex(16)
        described = {
            **header,
            "id": identity,
            "at": to_text(self._clock.now()),
            "key": self.key(number),
        }
        if self._put(number, encode_record(described, payload)):
            entry = Entry(number=number, header=described)
            self.entries.append(entry)
            return entry
        entry = self._read_refused(number)
        self.entries.append(entry)
        return entry if entry.header.get("id") == identity else Refused(by=entry)

    def _put(self, number: int, data: bytes) -> bool:
        """Whether our put created the object, however often its reply is lost.

        Once a reply was lost no other failure ends the tries: the first put may stand, or land yet,
        and whoever gives it up could decide as if it never were.
        """
        tries = 0
        while True:
            try:
                return self._driver.put_if_absent(self.key(number), data)
            except PutUncertain:
                tries += 1
            except (StoreUnavailable, OutOfSpace):
                if tries == 0:
                    raise
                tries += 1
            self._pause(tries)

    def _read_refused(self, number: int) -> Entry:
        """The record that stands where our put was refused."""
        for tries in range(1, MAX_STALE_READS + 1):
            with suppress(StoreUnavailable):
                entry = self._read_one(number)
                if entry is not None:
                    return entry
            self._pause(tries)
        raise StoreUnavailable(
            f"the store refuses {self.key(number)} and does not show what is there",
            hint="Try again in a minute; if it stays so, run `perdure repair`.",
            key=self.key(number),
        )

    def _following(self) -> Iterator[Entry]:
        """The records behind the last one read; ever more are asked for at once while there are.

        A look at a log that has not grown is one request.
        """
        number, at_once = self.last, 1
        while True:
            keys = [self.key(number + ahead) for ahead in range(1, at_once + 1)]
            for key, data in zip(keys, self._driver.get_many(keys), strict=True):
                if data is None:
                    return
                number += 1
                yield Entry(number=number, header=decode_record_of(data, key=key).header)
            at_once = min(2 * at_once, self._driver.gets_at_once)

    def _read_one(self, number: int) -> Entry | None:
        """Record ``number``, or None where there is none (yet)."""
        key = self.key(number)
        try:
            data = self._driver.get(key)
        except KeyMissing:
            return None
        return Entry(number=number, header=decode_record_of(data, key=key).header)
