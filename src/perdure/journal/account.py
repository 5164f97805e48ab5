"""What a launch did, folded from its journal: one account an attempt.

A reader keeps the `LaunchAccount` and feeds it what is new (`read_on`); a fence bounds what counts.
Memory: about 1.5 KB an attempt, most of it the moments and the values of its parameters.

Source: docs/journal-format.md: counts(launch), ended(launch, lineage).
"""

from collections.abc import Iterator, Mapping
from sys import intern
from typing import Any, NamedTuple

from msgspec import Struct, field

from perdure.journal.journal_format import LINE_LIMIT_BYTES, JournalRecord, Kind, parse
from perdure.journal.medium import Medium, Row, read_from

#: So much of a journal is parsed at once, or where not one line fits in: a bit more than the
#: longest that there can be.
_PIECE_BYTES = 1 << 20
_LARGEST_PIECE_BYTES = LINE_LIMIT_BYTES + 1
#: Fields whose texts are the same in many attempts.
_REPEATED = frozenset({"action", "host", "state", "cause", "by", "reason", "resume_status"})

_IN_THE_KEY = frozenset({"step", "task", "attempt"})


class AttemptKey(NamedTuple):
    """Which attempt of which lineage."""

    step: int
    task: str
    attempt: int


class AttemptAccount(Struct):
    """What the journal says about one attempt.

    Attributes:
        begun, outcome: the fields of those lines but for those of the key, or None.
        reported: values of the chunk that the task called complete, in order.
        kept: values that are never run again, with the checkpoint that holds their files (None:
            they have none).
        notes: what `perdure why` shows.
        trouble: the error of which its worker ended before it did, or "".
    """

    begun: Mapping[str, Any] | None = None
    outcome: Mapping[str, Any] | None = None
    is_released: bool = False
    reported: list[int] = field(default_factory=list)
    kept: dict[int, int | None] = field(default_factory=dict)
    notes: list[Mapping[str, Any]] = field(default_factory=list)
    trouble: str = ""


class LaunchAccount:
    """The fold of one journal, read up to ``length``.

    Attributes:
        opened: the first line's fields, or None while there is none.
        is_closed: everything that the launch held is released.
        trouble: the error that ended the worker, or "".
        damaged_at: offset of a line that does not match, or None.
    """

    def __init__(self) -> None:
        self.opened: Mapping[str, Any] | None = None
        self.attempts: dict[AttemptKey, AttemptAccount] = {}
        self.is_closed = False
        self.trouble = ""
        self.length = 0
        self.damaged_at: int | None = None
        self._row = Row()

    def read_on(
        self, medium: Medium, key: str, *, fence: int | None = None, fresh: bool = False
    ) -> list[JournalRecord]:
        """Read what is new in the journal and fold it; returns the new records.

        Args:
            medium: the store.
            key: the journal's key.
            fence: records that end behind this offset do not count; None: all count.
            fresh: trust no size that was cached (see `read_from`).
        """
        return list(self.news(medium, key, fence=fence, fresh=fresh))

    def news(
        self, medium: Medium, key: str, *, fence: int | None = None, fresh: bool = False
    ) -> Iterator[JournalRecord]:
        """The same, record by record as they are folded: a long journal is never in memory whole.

        What was not iterated over was not read.
        """
        if self.damaged_at is not None or (fence is not None and self.length >= fence):
            return
        data = memoryview(read_from(medium, key, self.length, fresh=fresh, row=self._row))
        position, size = 0, _PIECE_BYTES
        while position < len(data) and (fence is None or self.length < fence):
            began_at = self.length
            parsed = parse(bytes(data[position : position + size]), start=began_at)
            for record in parsed.records:
                if fence is not None and record.end > fence:
                    break
                self._fold(record)
                self.length = record.end
                yield record
            self.length = parsed.length if fence is None else min(parsed.length, fence)
            self.damaged_at = parsed.damaged_at
            position += self.length - began_at
            if parsed.damaged_at is not None:
                return
            if self.length == began_at:
                if size == _LARGEST_PIECE_BYTES or position + size >= len(data):
                    return
                size = _LARGEST_PIECE_BYTES

    def of(self, step: int, task: str) -> Iterator[tuple[AttemptKey, AttemptAccount]]:
        """The attempts of one lineage in this journal."""
        return ((key, a) for key, a in self.attempts.items() if key[:2] == (step, task))

    def has_released(self, key: AttemptKey) -> bool:
        """Whether this launch adds nothing more to that attempt's lineage."""
        account = self.attempts.get(key)
        return self.is_closed or (account is not None and account.is_released)

    def _fold(self, record: JournalRecord) -> None:
        match record.kind:
            case Kind.OPENED:
                self.opened = record.fields
            case Kind.CLOSED:
                self.is_closed = True
                self.trouble = str(record.fields.get("trouble", ""))
                for account in self.attempts.values() if self.trouble else ():
                    if account.outcome is None:
                        account.trouble = self.trouble
            case _:
                self._fold_attempt(record)

    def _fold_attempt(self, record: JournalRecord) -> None:
        fields = record.fields
        key = AttemptKey(int(fields["step"]), str(fields["task"]), int(fields["attempt"]))
        account = self.attempts.get(key)
        if account is None:
            account = self.attempts[key] = AttemptAccount()
        match record.kind:
            case Kind.BEGUN:
                account.begun = _lean(fields)
            case Kind.REPORTED:
                account.reported.extend(fields["values"])
            case Kind.KEPT:
                account.kept.update(dict.fromkeys(fields["values"], fields.get("support")))
            case Kind.NOTED:
                account.notes.append(fields)
            case Kind.OUTCOME:
                account.outcome = _lean(fields)
            case Kind.RELEASED:
                account.is_released = True
            case _:  # OPENED and CLOSED are folded by the caller
                pass


def _lean(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields without those of the `AttemptKey`, what repeats shared with all other attempts'.

    The decoder makes every key and text anew for each line: this is a third of the size.
    """
    return {
        intern(name): intern(value) if name in _REPEATED and isinstance(value, str) else value
        for name, value in fields.items()
        if name not in _IN_THE_KEY
    }
