"""What every driver of a store must do; run against ours, and broken ones, which must fail.

Two kinds of checks: those that anybody can see (`CHECKS`, of a driver), and those of a store in a
folder that show only when the power fails (`DURABLE_CHECKS`, of a kind of driver and an empty
folder), looked for in all states that the disk may be in then (`support.power_failure`).
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure.store.drivers.driver import Driver, KeyMissing
from support.power_failure import State, states
from support.recorded_disk import Recorder, laid_out
from support.system_calls import watched

Check = Callable[[Driver], None]
CHECKS: dict[str, Check] = {}
Kind = Callable[[Path], Driver]
DurableCheck = Callable[[Kind, Path], None]
DURABLE_CHECKS: dict[str, DurableCheck] = {}

_STATES_EACH = 12


def check(function: Check) -> Check:
    """Add ``function`` to the contract."""
    CHECKS[function.__name__] = function
    return function


def durable_check(function: DurableCheck) -> DurableCheck:
    """Add ``function`` to what must hold when the power fails."""
    DURABLE_CHECKS[function.__name__] = function
    return function


@check
def a_put_object_is_read_whole(driver: Driver) -> None:
    data = bytes(range(256)) * 1000 + b"end"
    assert driver.put_if_absent("jobs/a/job", data) is True
    assert driver.get("jobs/a/job") == data
    assert driver.head("jobs/a/job") == len(data)


@check
def every_object_that_was_put_is_there(driver: Driver) -> None:
    keys = [f"log/{number:010d}" for number in range(1, 11)]
    for key in keys:
        assert driver.put_if_absent(key, key.encode()) is True
    assert list(driver.list("log")) == keys
    assert [driver.get(key) for key in keys] == [key.encode() for key in keys]


@check
def an_empty_object_is_one(driver: Driver) -> None:
    assert driver.put_if_absent("empty", b"") is True
    assert driver.get("empty") == b""
    assert driver.head("empty") == 0
    assert driver.put_if_absent("empty", b"x") is False


@check
def pieces_make_one_object(driver: Driver) -> None:
    assert driver.put_if_absent("a", [b"one", bytearray(b"two"), memoryview(b"three")])
    assert driver.get("a") == b"onetwothree"


@check
def a_second_put_if_absent_is_refused_and_changes_nothing(driver: Driver) -> None:
    assert driver.put_if_absent("a", b"first") is True
    assert driver.put_if_absent("a", b"second") is False
    assert driver.get("a") == b"first"
    assert driver.put_if_absent("a", b"first") is False
    assert driver.get("a") == b"first"


@check
def of_many_writers_exactly_one_creates(driver: Driver) -> None:
    for round_number in range(20):
        start = threading.Barrier(4)
        created: list[bytes] = []

        def write(
            me: bytes,
            key: str,
            start: threading.Barrier = start,
            created: list[bytes] = created,
        ) -> None:
            start.wait(timeout=30)
            if driver.put_if_absent(key, me):
                created.append(me)

        key = f"race/{round_number}"
        threads = [threading.Thread(target=write, args=(b"writer %d" % n, key)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        assert created == [driver.get(key)]


@check
def a_put_replaces(driver: Driver) -> None:
    driver.put("a", b"long before")
    assert driver.get("a") == b"long before"
    driver.put("a", b"now")
    assert driver.get("a") == b"now"
    assert driver.head("a") == 3


@check
def a_put_in_place_replaces_too(driver: Driver) -> None:
    driver.put("a", b"1234", in_place=True)
    driver.put("a", b"5678", in_place=True)
    assert driver.get("a") == b"5678"
    driver.put("a", b"another size", in_place=True)
    assert driver.get("a") == b"another size"


@check
def ranges_are_cut_at_the_end(driver: Driver) -> None:
    driver.put("a", b"0123456789")
    assert driver.get("a", 3) == b"3456789"
    assert driver.get("a", 3, 4) == b"3456"
    assert driver.get("a", 8, 100) == b"89"
    assert driver.get("a", 10) == b""
    assert driver.get("a", 100, 5) == b""
    assert driver.get("a", 4, 0) == b""


@check
def what_is_not_there_is_missing(driver: Driver) -> None:
    driver.put("folder/a", b"x")
    for key in ("nothing", "folder", "folder/a/b", "folder/b"):
        with pytest.raises(KeyMissing):
            driver.get(key)
        assert driver.head(key) is None


@check
def lists_are_sorted_and_of_whole_parts(driver: Driver) -> None:
    keys = ["a/10", "a/2", "a-b", "a.b/c", "a/b/c", "a/b-c", "ab", "b/a", "a0"]
    for key in keys:
        driver.put(key, b"")
    assert list(driver.list("")) == sorted(keys)
    assert list(driver.list("a")) == ["a/10", "a/2", "a/b-c", "a/b/c"]
    assert list(driver.list("a/b")) == ["a/b/c"]
    assert list(driver.list("nothing")) == []
    assert list(driver.list("ab")) == []


@check
def children_stop_at_the_next_slash(driver: Driver) -> None:
    for key in ("jobs/b/job", "jobs/a/log/1", "jobs/a/job", "format"):
        driver.put(key, b"")
    assert driver.children("") == ("format", "jobs")
    assert driver.children("jobs") == ("a", "b")
    assert driver.children("jobs/a") == ("job", "log")
    assert driver.children("nothing") == ()


@check
def a_deleted_object_is_gone_and_its_key_free(driver: Driver) -> None:
    driver.put("a/b", b"x")
    driver.delete("a/b")
    driver.delete("a/b")
    driver.delete("c/d")
    assert driver.head("a/b") is None
    assert list(driver.list("")) == []
    assert driver.children("") == ()
    assert driver.put_if_absent("a/b", b"y") is True


@check
def many_go_at_once_also_those_that_are_gone(driver: Driver) -> None:
    keys = [f"jobs/a/{number}" for number in range(5)]
    for key in keys:
        driver.put(key, b"x")
    driver.delete_all([*keys[:3], "jobs/a/nothing"])
    assert list(driver.list("")) == keys[3:]
    driver.delete_all([])
    driver.delete_all(iter(keys))
    assert list(driver.list("")) == []


@check
def pieces_say_where_they_begin(driver: Driver) -> None:
    upload = driver.upload("packs/a")
    assert upload.write(b"one") == 0
    assert upload.write(b"two") == 3
    assert upload.write(b"three", aligned=True) == 4096
    assert upload.size == 4101
    assert upload.write(b"", aligned=True) == 8192
    assert upload.write(b"four", aligned=True) == 8192
    upload.commit()
    data = driver.get("packs/a")
    assert data == b"onetwo".ljust(4096, b"\0") + b"three".ljust(4096, b"\0") + b"four"


@check
def pieces_of_several_threads_do_not_mix(driver: Driver) -> None:
    upload = driver.upload("packs/a")
    began: list[tuple[int, bytes]] = []

    def write(mark: bytes) -> None:
        for number in range(20):
            piece = mark * (number + 1)
            began.append((upload.write(piece, aligned=number % 2 == 0), piece))

    threads = [threading.Thread(target=write, args=(b"%d" % n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    upload.commit()
    data = driver.get("packs/a")
    assert len(began) == 80
    assert all(data[at : at + len(piece)] == piece for at, piece in began)


@check
def many_are_read_in_the_order_they_were_asked_for(driver: Driver) -> None:
    for number in range(40):
        driver.put(f"a/{number}", b"%d" % number)
    keys = [f"a/{number}" for number in (7, 50, 3, *range(39, 10, -1))]
    found = list(driver.get_many(iter(keys)))
    assert found == [b"7", None, b"3", *(b"%d" % n for n in range(39, 10, -1))]
    assert list(driver.get_many([])) == []
    assert list(driver.get_many(["a/1"])) == [b"1"]
    assert next(driver.get_many(keys)) == b"7"


@check
def a_large_object_is_read_whole_and_in_part(driver: Driver) -> None:
    data = bytes(range(251)) * 9000
    driver.put("a", data)
    assert driver.get("a") == data
    assert driver.get("a", 1_500_000) == data[1_500_000:]
    assert driver.get("a", 1_500_000, 300_000) == data[1_500_000:1_800_000]
    assert driver.head("a") == len(data)


@check
def an_upload_is_seen_only_after_its_commit(driver: Driver) -> None:
    upload = driver.upload("packs/a")
    upload.write(b"one")
    upload.write(memoryview(b"two"))
    assert upload.size == 6
    assert driver.head("packs/a") is None
    assert list(driver.list("")) == []
    assert upload.commit() is True
    assert driver.get("packs/a") == b"onetwo"
    upload.abort()
    assert driver.get("packs/a") == b"onetwo"


@check
def an_upload_to_a_taken_key_is_refused(driver: Driver) -> None:
    upload = driver.upload("a")
    upload.write(b"late")
    driver.put_if_absent("a", b"early")
    assert upload.commit() is False
    assert driver.get("a") == b"early"


@check
def an_aborted_upload_leaves_nothing(driver: Driver) -> None:
    upload = driver.upload("a")
    upload.write(b"x")
    upload.abort()
    assert driver.head("a") is None
    assert list(driver.list("")) == []
    assert driver.put_if_absent("a", b"y") is True


@check
def a_journal_grows_at_its_end(driver: Driver) -> None:
    if not driver.appends:
        with pytest.raises(NotImplementedError):
            driver.append("j", b"x")
        return
    driver.append("launches/a/journal", b"one\n")
    driver.sync("launches/a/journal")
    driver.append("launches/a/journal", b"two\n")
    assert driver.get("launches/a/journal") == b"one\ntwo\n"
    assert driver.get("launches/a/journal", 4) == b"two\n"
    assert driver.head("launches/a/journal") == 8
    driver.sync("launches/a/journal")


@check
def names_that_are_no_keys_are_refused(driver: Driver) -> None:
    for key in ("", "/a", "a/", "a//b", "../a", "a/../b", ".", ".hidden", "A", "a b", "ä", "a\0"):
        with pytest.raises(ValueError, match="no key"):
            driver.put_if_absent(key, b"")
        with pytest.raises(ValueError, match="no key"):
            driver.get(key)
    with pytest.raises(ValueError, match="no key"):
        driver.put("a" * 201, b"")


def states_of(kind: Kind, folder: Path, act: Callable[[Driver, Recorder], None]) -> Iterator[State]:
    """Every state after a power failure while ``act`` does something with a driver."""
    disk = folder / "disk"
    disk.mkdir()
    recorder = Recorder(disk)
    driver = kind(disk)
    with watched(recorder, disk):
        act(driver, recorder)
        driver.close()
    recorder.expect_complete()
    for _length, state in states(recorder.history, each=_STATES_EACH, seed=1):
        yield state


def objects(kind: Kind, folder: Path, state: State) -> dict[str, bytes]:
    """What a driver shows of such a state."""
    laid_out(state, folder / "after")
    driver = kind(folder / "after")
    found = {key: driver.get(key) for key in driver.list("")}
    driver.close()
    return found


@durable_check
def what_was_created_survives(kind: Kind, folder: Path) -> None:
    data = {f"log/{number}": bytes([number]) * 3000 for number in (1, 2, 3)}

    def act(driver: Driver, recorder: Recorder) -> None:
        for number in (1, 2, 3):
            assert driver.put_if_absent(f"log/{number}", data[f"log/{number}"])
            recorder.said("created", number)

    for state in states_of(kind, folder, act):
        found = objects(kind, folder, state)
        assert all(found[key] == data[key] for key in found), "an object is there in part"
        assert len(found) >= state.said.get("created", 0), "an object that was created is gone"


@durable_check
def what_was_uploaded_survives(kind: Kind, folder: Path) -> None:
    pieces = [b"a" * 4096, b"b" * 70_000, b"c" * 10]

    def act(driver: Driver, recorder: Recorder) -> None:
        upload = driver.upload("packs/one")
        for piece in pieces:
            upload.write(piece)
        assert upload.commit()
        recorder.said("created", 1)

    for state in states_of(kind, folder, act):
        found = objects(kind, folder, state)
        assert found.get("packs/one", b"".join(pieces)) == b"".join(pieces)
        assert len(found) >= state.said.get("created", 0)


@durable_check
def what_was_replaced_is_the_old_or_the_new_object(kind: Kind, folder: Path) -> None:
    versions = [bytes([number]) * 2000 for number in range(4)]

    def act(driver: Driver, recorder: Recorder) -> None:
        for number, data in enumerate(versions):
            driver.put("heart/beat", data)
            recorder.said("put", number)

    for state in states_of(kind, folder, act):
        found = objects(kind, folder, state).get("heart/beat")
        if "put" in state.said:
            assert found in versions[state.said["put"] :], "it is neither"
        assert found is None or found in versions


@durable_check
def what_was_deleted_after_a_put_is_not_gone_before_it(kind: Kind, folder: Path) -> None:
    def act(driver: Driver, _recorder: Recorder) -> None:
        assert driver.put_if_absent("packs/one", b"x" * 1000)
        assert driver.put_if_absent("log/1", b"prune")
        driver.delete("packs/one")
        assert driver.put_if_absent("log/2", b"next")

    seen: set[frozenset[str]] = set()
    for state in states_of(kind, folder, act):
        found = objects(kind, folder, state)
        seen.add(frozenset(found))
        assert "log/2" not in found or "log/1" in found
        assert "log/1" in found or "packs/one" in found or not found
    assert frozenset({"log/1", "log/2"}) in seen


@durable_check
def what_was_synced_of_a_journal_survives(kind: Kind, folder: Path) -> None:
    lines = [b"line %d\n" % number * 100 for number in range(4)]

    def act(driver: Driver, recorder: Recorder) -> None:
        for number, line in enumerate(lines, start=1):
            driver.append("launches/a/journal", line)
            if number != 3:
                driver.sync("launches/a/journal")
                recorder.said("synced", number)

    for state in states_of(kind, folder, act):
        found = objects(kind, folder, state).get("launches/a/journal", b"")
        assert found.startswith(b"".join(lines[: state.said.get("synced", 0)]))
