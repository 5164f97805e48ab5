"""Logs: appended at one past what was read, whatever the store does to the replies."""

import pytest

from clock_kit import HandClock
from perdure.errors import OutOfSpace, StoreDamaged, StoreUnavailable
from perdure.store.drivers.driver import KeyMissing
from perdure.store.drivers.memory import (
    Call,
    LandLater,
    LoseReply,
    MemoryDriver,
    Objects,
    ServeStale,
)
from perdure.store.records.log import MAX_STALE_READS, Entry, Log, Refused


class Troubles:
    """Raises what it was given, one after the other, at calls of one kind."""

    def __init__(self, call: Call, *troubles: Exception | None) -> None:
        self.call = call
        self.troubles = list(troubles)

    def __call__(self, call: Call, key: str) -> None:
        if call is self.call and self.troubles:
            trouble = self.troubles.pop(0)
            if trouble is not None:
                raise trouble


def made(objects: Objects, before=None):
    waited: list[int] = []
    log = Log(MemoryDriver(objects, before=before), "l", clock=HandClock(), pause=waited.append)
    return log, waited


def test_records_are_numbered_from_one_and_read_by_others():
    objects = Objects()
    mine, _ = made(objects)
    assert mine.append({"kind": "a"}).number == 1
    assert mine.append({"kind": "b"}, b"payload").number == 2
    other, _ = made(objects)
    assert [entry.kind for entry in other.read()] == ["a", "b"]
    assert other.read() == []
    assert other.last == 2
    assert other.fetch(2).payload == b"payload"
    assert other.entries[0].header["at"] == "2026-01-01T00:00:00.000Z"
    with pytest.raises(KeyMissing):
        other.fetch(3)


def test_refused_is_read_and_decided_anew():
    objects = Objects()
    mine, _ = made(objects)
    other, _ = made(objects)
    assert isinstance(other.append({"kind": "theirs"}), Entry)
    result = mine.append({"kind": "mine"})
    assert isinstance(result, Refused)
    assert result.by.kind == "theirs"
    assert mine.last == 1
    assert mine.append({"kind": "mine"}).number == 2


@pytest.mark.parametrize("applied", [True, False])
def test_a_lost_reply_is_put_again_until_it_is_known(applied: bool):
    objects = Objects()
    lost = Troubles(Call.PUT_IF_ABSENT, *[LoseReply(applied=applied)] * 3)
    log, waited = made(objects, lost)
    assert log.append({"kind": "a"}).number == 1
    assert waited == [1, 2, 3]
    assert [entry.kind for entry in made(objects)[0].read()] == ["a"]


def test_a_lost_reply_behind_which_another_came_first_is_refused():
    objects = Objects()
    other, _ = made(objects)

    class Overtaken(Troubles):
        def __call__(self, call: Call, key: str) -> None:
            try:
                super().__call__(call, key)
            except LoseReply:
                other.append({"kind": "theirs"})
                raise

    log, _ = made(objects, Overtaken(Call.PUT_IF_ABSENT, LoseReply(applied=False)))
    assert isinstance(log.append({"kind": "mine"}), Refused)


def test_a_put_that_lands_later_is_not_put_twice():
    objects = Objects()
    log, _ = made(objects, Troubles(Call.PUT_IF_ABSENT, LandLater()))
    assert log.append({"kind": "a"}).number == 1
    assert objects.land() == [False]
    assert len(made(objects)[0].read()) == 1


@pytest.mark.parametrize("error", [StoreUnavailable("away"), OutOfSpace("full")])
def test_once_a_reply_was_lost_no_other_error_ends_the_tries(error: Exception):
    objects = Objects()
    log, waited = made(objects, Troubles(Call.PUT_IF_ABSENT, LoseReply(applied=True), error, error))
    assert log.append({"kind": "a"}).number == 1
    assert waited == [1, 2, 3]


def test_an_error_before_anything_was_put_is_the_callers():
    objects = Objects()
    log, waited = made(objects, Troubles(Call.PUT_IF_ABSENT, OutOfSpace("full")))
    with pytest.raises(OutOfSpace):
        log.append({"kind": "a"})
    assert (log.last, waited, objects.held) == (0, [], {})
    assert log.append({"kind": "a"}).number == 1


def test_giving_up_is_the_pauses_to_decide():
    class LeavingError(Exception):
        pass

    def leave(_tries):
        raise LeavingError

    before = Troubles(Call.PUT_IF_ABSENT, LoseReply(applied=True))
    log = Log(MemoryDriver(Objects(), before=before), "l", clock=HandClock(), pause=leave)
    with pytest.raises(LeavingError):
        log.append({"kind": "a"})
    assert log.last == 0


def test_a_refused_number_is_looked_for_until_it_shows():
    objects = Objects()
    made(objects)[0].append({"kind": "theirs"})
    stale = Troubles(Call.GET, *[ServeStale({})] * 3, StoreUnavailable("away"))
    log, waited = made(objects, stale)
    assert isinstance(log.append({"kind": "mine"}), Refused)
    assert waited == [1, 2, 3, 4]


def test_a_store_that_refuses_and_never_shows_is_said_so():
    objects = Objects()
    made(objects)[0].append({"kind": "theirs"})
    log, waited = made(objects, Troubles(Call.GET, *[ServeStale({})] * 100))
    with pytest.raises(StoreUnavailable, match="refuses l/0000000001 and does not show"):
        log.append({"kind": "mine"})
    assert len(waited) == MAX_STALE_READS


def test_the_next_number_is_never_found_by_listing():
    objects = Objects()
    other, _ = made(objects)
    for _ in range(3):
        other.append({"kind": "theirs"})
    log, _ = made(objects)
    result = log.append({"kind": "mine"})
    assert isinstance(result, Refused)
    assert result.by.number == 1


def test_damage_is_said_with_its_key_and_nothing_is_half_read():
    objects = Objects()
    log, _ = made(objects)
    log.append({"kind": "a"})
    log.append({"kind": "b"})
    objects.held["l/0000000002"] = objects.held["l/0000000002"].replace(b'"b"', b'"c"')
    reader, _ = made(objects)
    with pytest.raises(StoreDamaged, match="l/0000000002 is damaged"):
        reader.read()
    assert reader.last == 0
