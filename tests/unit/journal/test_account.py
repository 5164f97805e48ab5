"""What counts of a journal: folded as it grows, bounded by a fence."""

from pathlib import Path

import pytest

from perdure.journal.account import AttemptKey, LaunchAccount
from perdure.journal.journal_format import Kind, encode_line
from perdure.store.drivers.memory import Call, MemoryDriver

GOLDEN = (Path(__file__).parents[2] / "golden" / "journal-1").read_bytes()
KEY = AttemptKey(1, "0123456789abcdef", 1)
ENDS = [i + 1 for i, byte in enumerate(GOLDEN) if byte == ord("\n")]


def store(data: bytes) -> MemoryDriver:
    driver = MemoryDriver()
    driver.append("j", data)
    return driver


def read(data: bytes, fence=None) -> LaunchAccount:
    account = LaunchAccount()
    account.read_on(store(data), "j", fence=fence)
    return account


def test_everything_is_folded():
    account = read(GOLDEN)
    attempt = account.attempts[KEY]
    assert account.opened["token"] == "ab"
    assert attempt.begun["values"] == {"Frame": "1-4"}
    assert attempt.reported == [1, 2]
    assert attempt.kept == {1: 3, 2: 3}
    assert attempt.notes[0]["text"] == "save 2 torn"
    assert attempt.outcome["state"] == "SUSPENDED"
    assert attempt.is_released
    assert account.is_closed
    assert account.has_released(KEY)
    assert [key for key, _ in account.of(1, KEY.task)] == [KEY]
    assert list(account.of(2, KEY.task)) == []


def test_nothing_is_released_that_was_never_begun_unless_all_is():
    assert not read(b"").has_released(KEY)
    assert read(encode_line(Kind.CLOSED, {})).has_released(KEY)


def test_it_is_read_on_as_it_grows():
    driver, account = store(b""), LaunchAccount()
    assert account.read_on(driver, "missing") == []
    for position in range(0, len(GOLDEN), 50):
        driver.append("j", GOLDEN[position : position + 50])
        account.read_on(driver, "j")
    assert account.length == len(GOLDEN)
    assert account.attempts[KEY].kept == {1: 3, 2: 3}
    assert account.read_on(driver, "j") == []


@pytest.mark.parametrize("number", range(len(ENDS)))
def test_a_fence_cuts_between_lines(number: int):
    fence = ENDS[number]
    account = LaunchAccount()
    assert len(account.read_on(store(GOLDEN), "j", fence=fence)) == number + 1
    assert account.length == fence
    assert account.read_on(store(GOLDEN), "j", fence=fence) == []


def test_a_line_that_ends_behind_the_fence_does_not_count():
    account = LaunchAccount()
    assert account.read_on(store(GOLDEN), "j", fence=ENDS[4] - 1)[-1].kind is Kind.REPORTED
    assert account.attempts[KEY].kept == {}
    assert read(GOLDEN, fence=0).opened is None


def test_nothing_behind_damage_counts_even_if_more_is_written():
    driver = store(GOLDEN[: ENDS[0]] + b"damage\n")
    account = LaunchAccount()
    account.read_on(driver, "j")
    assert account.damaged_at == ENDS[0]
    driver.append("j", GOLDEN[ENDS[0] :])
    assert account.read_on(driver, "j") == []
    assert account.length == ENDS[0]


def test_a_row_of_segments_is_one_journal():
    driver = MemoryDriver(appends=False)
    for number, start in enumerate(range(0, len(GOLDEN), 70), 1):
        driver.put_if_absent(f"j.{number:010d}", GOLDEN[start : start + 70])
        account = LaunchAccount()
        account.read_on(driver, "j")
        assert account.length == max([0, *(end for end in ENDS if end <= start + 70)])
    assert account.is_closed
    assert LaunchAccount().read_on(driver, "j", fence=ENDS[2])[-1].end == ENDS[2]
    one_by_one = LaunchAccount()
    one_by_one.read_on(driver, "j", fence=ENDS[1])
    one_by_one.read_on(driver, "j")
    assert one_by_one.length == len(GOLDEN)


def test_a_fresh_look_opens_the_object_even_where_its_size_seems_old():
    asked: list[Call] = []
    driver = store(GOLDEN)
    account = LaunchAccount()
    account.read_on(driver, "j")
    driver.before = lambda call, _key: asked.append(call)
    account.read_on(driver, "j")
    assert Call.GET not in asked
    account.read_on(driver, "j", fresh=True)
    assert Call.GET in asked
