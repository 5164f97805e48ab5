"""Journals as rows of segments: read in few requests, each segment once, in whatever portions."""

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.journal.account import LaunchAccount
from perdure.journal.journal_format import Kind
from perdure.journal.medium import Row, mark, read_from, segment_key
from perdure.journal.writer import JournalWriter
from perdure.store.drivers.memory import Call, MemoryDriver


class Store(MemoryDriver):
    """Does not append, takes several gets at once, and counts what is asked."""

    gets_at_once = 8

    def __init__(self) -> None:
        super().__init__(appends=False, before=self._before)
        self.asked: list[Call] = []
        self.got: list[str] = []
        self.at_once: list[int] = []

    def _before(self, call: Call, key: str) -> None:
        self.asked.append(call)
        if call is Call.GET:
            self.got.append(key)

    def get_many(self, keys: Iterable[str]) -> Iterator[bytes | None]:
        asked = list(keys)
        self.at_once.append(len(asked))
        return super().get_many(asked)


def add(store: Store, first: int, last: int) -> None:
    for number in range(first, last + 1):
        store.put_if_absent(segment_key("j", number), b"%d;" % number)
    store.got.clear()
    store.asked.clear()


def test_ever_more_segments_are_asked_for_at_once_and_each_of_them_once():
    store, row = Store(), Row()
    add(store, 1, 40)
    whole = read_from(store, "j", 0, row=row)
    assert whole == b"".join(b"%d;" % n for n in range(1, 41))
    assert (row.segments, row.size) == (40, len(whole))
    assert store.at_once == [1, 2, 4, 8, 8, 8, 8, 8]
    add(store, 41, 42)
    assert read_from(store, "j", row.size, row=row) == b"41;42;"
    assert segment_key("j", 40) not in store.got


def test_a_look_at_a_row_that_has_not_grown_is_one_request():
    store, row = Store(), Row()
    add(store, 1, 10)
    read_from(store, "j", 0, row=row)
    store.asked.clear()
    assert read_from(store, "j", row.size, row=row) == b""
    assert store.asked == [Call.GET]


def test_without_a_row_or_with_another_place_everything_is_read_again():
    store = Store()
    add(store, 1, 5)
    row = Row()
    read_from(store, "j", 0, row=row)
    assert read_from(store, "j", 3) == b"2;3;4;5;"[1:]
    assert read_from(store, "j", 3, row=row) == b"2;3;4;5;"[1:]


@given(there=st.integers(0, 300), known=st.integers(0, 300))
def test_a_mark_is_found_without_listing(there, known):
    known = min(known, there)
    store = Store()
    add(store, 1, there)
    assert mark(store, "j", known) == there
    assert set(store.asked) == {Call.HEAD}
    assert len(store.asked) <= 20
    if known == there:
        assert len(store.asked) == 1


@pytest.mark.parametrize("appends", [True, False])
def test_a_mark_grows_with_the_journal(appends):
    store = MemoryDriver(appends=appends)
    writer = JournalWriter(store, "j")
    marks = [mark(store, "j")]
    for number in range(5):
        fields = {"step": 1, "task": "t", "attempt": 1, "n": number}
        writer.append(Kind.NOTED, fields, durable=True)
        marks.append(mark(store, "j", marks[-1] if not appends else 0))
    assert marks == sorted(set(marks))
    assert marks[0] == 0


def test_an_account_of_a_row_is_read_on_and_bounded_by_a_fence():
    store = Store()
    writer = JournalWriter(store, "j")
    for number in range(1, 10):
        fields = {"step": 1, "task": "t", "attempt": 1, "n": number}
        writer.append(Kind.NOTED, fields, durable=True)
    account = LaunchAccount()
    records = account.read_on(store, "j")
    fence = records[4].end
    fenced = LaunchAccount()
    assert [r.fields["n"] for r in fenced.read_on(store, "j", fence=fence)] == [1, 2, 3, 4, 5]
    assert fenced.length == fence
    store.got.clear()
    assert fenced.read_on(store, "j", fence=fence) == []
    assert store.got == []
    writer.append(Kind.NOTED, {"step": 1, "task": "t", "attempt": 1, "n": 10}, durable=True)
    assert [r.fields["n"] for r in account.read_on(store, "j")] == [10]
    assert store.got[:2] == [segment_key("j", 10), segment_key("j", 11)]
