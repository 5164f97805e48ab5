"""One writer: in order, durable when asked, waiting in memory while the store is away."""

import pytest

from perdure.errors import HomeError, OutOfSpace, StoreUnavailable
from perdure.journal import writer as writer_module
from perdure.journal.account import LaunchAccount
from perdure.journal.journal_format import Kind, parse
from perdure.journal.writer import JournalWriter
from perdure.store.drivers.memory import Call, LandLater, LoseReply, MemoryDriver


class Store(MemoryDriver):
    """Fails calls of one kind while ``trouble`` is set, and says what was asked."""

    def __init__(self, *, appends: bool) -> None:
        super().__init__(appends=appends, before=self._before)
        self.trouble: dict[Call, Exception] = {}
        self.asked: list[Call] = []

    def _before(self, call: Call, _key: str) -> None:
        self.asked.append(call)
        if call in self.trouble:
            raise self.trouble[call]

    def numbers(self) -> list[int]:
        account = LaunchAccount()
        records = account.read_on(self.sibling(), "j")
        assert account.damaged_at is None
        return [record.fields["n"] for record in records]


@pytest.fixture(params=[True, False], ids=["append", "segments"])
def store(request) -> Store:
    return Store(appends=request.param)


def write(writer: JournalWriter, number: int, *, durable: bool = False) -> bool:
    return writer.append(
        Kind.NOTED, {"step": 1, "task": "t", "attempt": 1, "n": number}, durable=durable
    )


def test_lines_are_there_in_order_and_durable_when_asked(store: Store):
    writer = JournalWriter(store, "j")
    write(writer, 1)
    assert write(writer, 2, durable=True) is True
    assert store.numbers() == [1, 2]
    assert not writer.is_dirty
    write(writer, 3)
    assert writer.is_dirty
    assert writer.sync() is True
    assert store.numbers() == [1, 2, 3]


def test_where_it_can_append_a_line_is_there_at_once_and_synced_in_groups():
    store = Store(appends=True)
    writer = JournalWriter(store, "j")
    for number in range(5):
        write(writer, number)
    assert store.numbers() == [0, 1, 2, 3, 4]
    assert Call.SYNC not in store.asked
    assert writer.sync()
    assert writer.sync()
    assert store.asked.count(Call.SYNC) == 1


def test_segments_are_one_put_a_flush():
    store = Store(appends=False)
    writer = JournalWriter(store, "j")
    for number in range(3):
        assert write(writer, number) is False
    assert store.numbers() == []
    assert write(writer, 3, durable=True)
    assert sorted(store.objects.held) == ["j.0000000001"]
    assert store.numbers() == [0, 1, 2, 3]


@pytest.mark.parametrize("error", [OutOfSpace("full"), StoreUnavailable("away"), HomeError("ro")])
def test_lines_wait_while_the_store_takes_none(store: Store, error: Exception):
    writer = JournalWriter(store, "j")
    write(writer, 1, durable=True)
    store.trouble = {Call.APPEND: error, Call.PUT_IF_ABSENT: error}
    assert write(writer, 2, durable=True) is False
    write(writer, 3)
    assert writer.trouble is error
    assert writer.is_dirty
    assert store.numbers() == [1]
    store.trouble = {}
    assert write(writer, 4, durable=True) is True
    assert writer.trouble is None
    assert store.numbers() == [1, 2, 3, 4]


def test_what_could_not_be_synced_is_not_called_durable():
    store = Store(appends=True)
    writer = JournalWriter(store, "j")
    store.trouble = {Call.SYNC: StoreUnavailable("away")}
    assert write(writer, 1, durable=True) is False
    assert writer.is_dirty
    store.trouble = {}
    assert writer.sync() is True


@pytest.mark.parametrize(
    "fault", [LoseReply(applied=True), LoseReply(applied=False), LandLater()], ids=repr
)
def test_a_segment_whose_reply_was_lost_is_put_again_as_it_was(fault: Exception):
    store = Store(appends=False)
    writer = JournalWriter(store, "j")
    store.trouble = {Call.PUT_IF_ABSENT: fault}
    assert write(writer, 1, durable=True) is False
    assert write(writer, 2, durable=True) is False
    store.trouble = {}
    store.objects.land()
    assert write(writer, 3, durable=True) is True
    assert store.numbers() == [1, 2, 3]
    assert parse(store.objects.held["j.0000000001"]).records[0].fields["n"] == 1
    assert len(parse(store.objects.held["j.0000000001"]).records) == 1


def test_what_waits_is_bounded_and_what_is_not_taken_is_counted(monkeypatch):
    monkeypatch.setattr(writer_module, "MAX_WAITING_BYTES", 200)
    store = Store(appends=True)
    writer = JournalWriter(store, "j")
    store.trouble = {Call.APPEND: OutOfSpace("full")}
    results = [write(writer, number, durable=True) for number in range(6)]
    assert results == [False] * 6
    assert writer.dropped > 0
    store.trouble = {}
    assert writer.sync()
    assert store.numbers() == list(range(6 - writer.dropped))
