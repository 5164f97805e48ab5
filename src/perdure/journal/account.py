"""What a launch did, folded from its journal: one account an attempt.

A reader keeps the `LaunchAccount` and feeds it what is new (`read_on`); a fence bounds what counts.
Memory: about 300 bytes an attempt, so that the account of 100,000 tasks stays small.

Source: docs/journal-format.md: counts(launch), ended(launch, lineage).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from perdure.journal.journal_format import JournalRecord, Kind, parse
from perdure.journal.medium import Medium, read_from


class AttemptKey(NamedTuple):
    """Which attempt of which lineage."""

    step: int
    task: str
    attempt: int


@dataclass(slots=True)
class AttemptAccount:
    """What the journal says about one attempt.

    Attributes:
        begun, outcome: the fields of those lines, or None.
        reported: values of the chunk that the task called complete, in order.
        kept: values that are never run again, with the checkpoint that holds their files (None:
            they have none).
        notes: what `perdure why` shows.
    """

    begun: Mapping[str, Any] | None = None
    outcome: Mapping[str, Any] | None = None
    is_released: bool = False
    reported: list[int] = field(default_factory=list)
    kept: dict[int, int | None] = field(default_factory=dict)
    notes: list[Mapping[str, Any]] = field(default_factory=list)


class LaunchAccount:
    """The fold of one journal, read up to ``length``.

    Attributes:
        opened: the first line's fields, or None while there is none.
        is_closed: everything that the launch held is released.
        damaged_at: offset of a line that does not match, or None.
    """

    def __init__(self) -> None:
        self.opened: Mapping[str, Any] | None = None
        self.attempts: dict[AttemptKey, AttemptAccount] = {}
        self.is_closed = False
        self.length = 0
        self.damaged_at: int | None = None

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
        if self.damaged_at is not None or (fence is not None and self.length >= fence):
            return []
        parsed = parse(read_from(medium, key, self.length, fresh=fresh), start=self.length)
        counted = [r for r in parsed.records if fence is None or r.end <= fence]
        for record in counted:
            self._fold(record)
        self.length = parsed.length if fence is None else min(parsed.length, fence)
        self.damaged_at = parsed.damaged_at
        return counted

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
                account.begun = fields
            case Kind.REPORTED:
                account.reported.extend(fields["values"])
            case Kind.KEPT:
                account.kept.update(dict.fromkeys(fields["values"], fields.get("support")))
            case Kind.NOTED:
                account.notes.append(fields)
            case Kind.OUTCOME:
                account.outcome = fields
            case Kind.RELEASED:
                account.is_released = True
            case _:  # OPENED and CLOSED are folded by the caller
                pass
