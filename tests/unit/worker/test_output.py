"""The log of a launch: true offsets, bounded size, a full disk; and the ends in the store."""

import errno
import json

import pytest

from perdure.errors import OutOfSpace
from perdure.store.drivers.memory import Call, LoseReply, MemoryDriver
from perdure.worker import output as output_module
from perdure.worker.ends import LIMIT_BYTES, EndsFile, read_ends
from perdure.worker.output import END_BYTES, OutputLog, read_log


def test_ranges_of_attempts_are_read_back(tmp_path):
    log = OutputLog(tmp_path / "l.log")
    log.write(b"before\n")
    start = log.begin_attempt()
    log.write(b"one\n")
    log.write(b"two\n")
    end = log.offset
    log.write(b"after\n")
    log.close()
    assert read_log(tmp_path / "l.log", start, end) == b"one\ntwo\n"
    assert read_log(tmp_path / "l.log", start) == b"one\ntwo\nafter\n"
    assert read_log(tmp_path / "missing.log", 0) == b""
    assert (tmp_path / "l.log").stat().st_mode & 0o777 == 0o600


def test_a_long_log_keeps_its_head_and_its_newest_segments(tmp_path):
    path = tmp_path / "l.log"
    log = OutputLog(path, limit_bytes=400)
    everything = b""
    for number in range(200):
        line = b"%07d\n" % number
        everything += line
        log.write(line)
    assert log.offset == len(everything) == 1600
    log.close()
    kept = read_log(path, 0)
    assert kept[:200] == everything[:200]
    assert everything.endswith(kept[200:])
    assert 100 <= len(kept[200:]) <= 200
    assert sum(part.stat().st_size for part in tmp_path.iterdir()) <= 400
    assert read_log(path, 1592, 1600) == b"0000199\n"
    assert read_log(path, 600, 700) == b""


def test_one_write_may_be_larger_than_everything(tmp_path):
    log = OutputLog(tmp_path / "l.log", limit_bytes=40)
    log.write(bytes(range(256)))
    log.close()
    assert log.offset == 256
    assert read_log(tmp_path / "l.log", 250) == bytes(range(250, 256))


def test_the_end_of_an_attempt_is_its_own(tmp_path):
    log = OutputLog(tmp_path / "l.log")
    log.write(b"x" * 3 * END_BYTES)
    assert log.end_of_attempt() == b"x" * END_BYTES
    log.begin_attempt()
    assert log.end_of_attempt() == b""
    for number in range(5000):
        log.write(b"%09d\n" % number)
    assert log.end_of_attempt().endswith(b"000004999\n")
    assert len(log.end_of_attempt()) == END_BYTES
    log.close()


def test_what_a_full_disk_does_not_take_is_counted_and_said(tmp_path, monkeypatch):
    log = OutputLog(tmp_path / "l.log")
    log.write(b"one\n")
    with monkeypatch.context() as full:

        def refuse(_fd, _data):
            raise OSError(errno.ENOSPC, "full")

        full.setattr(output_module.os, "write", refuse)
        log.write(b"two\n")
        log.write(b"three\n")
        assert (log.lost_bytes, log.offset) == (10, 4)
    start = log.begin_attempt()
    log.write(b"four\n")
    log.write(b"five\n")
    log.close()
    said = b"\nperdure: 10 bytes of output were lost here\nfour\nfive\n"
    assert read_log(tmp_path / "l.log", start) == said
    assert log.offset == 4 + len(said)
    assert log.end_of_attempt() == b"four\nfive\n"


@pytest.fixture(params=[True, False], ids=["append", "segments"])
def store(request):
    return MemoryDriver(appends=request.param)


def test_ends_are_kept_in_the_store(store):
    ends = EndsFile(store, "e")
    ends.add(1, "a", 1, b"one\n\xff")
    ends.add(1, "b", 2, b"")
    ends.add(2, "c", 3, b"two")
    found = list(read_ends(store, "e"))
    assert [(e.step, e.task, e.attempt, e.text) for e in found] == [
        (1, "a", 1, b"one\n\xff"),
        (2, "c", 3, b"two"),
    ]


def test_ends_are_bounded(store):
    ends = EndsFile(store, "e")
    for attempt in range(6):
        ends.add(1, "a", attempt, b"x" * (1 << 20))
    found = list(read_ends(store, "e"))
    assert [end.attempt for end in found] == [0, 1, 2]
    assert sum(len(data) for data in store.objects.held.values()) <= LIMIT_BYTES


def test_a_segment_that_stands_although_its_reply_was_lost_is_passed_over():
    store = MemoryDriver(appends=False)
    ends = EndsFile(store, "e")
    store.before = lost = lambda _call, _key: (_ for _ in ()).throw(LoseReply(applied=True))
    with pytest.raises(Exception, match="did not say"):
        ends.add(1, "a", 1, b"one")
    assert lost
    store.before = None
    ends.add(1, "a", 2, b"two")
    assert [end.text for end in read_ends(store, "e")] == [b"one", b"two"]


def test_a_full_store_says_so(store):
    def refuse(call, _key):
        if call in (Call.APPEND, Call.PUT_IF_ABSENT):
            raise OutOfSpace("full")

    store.before = refuse
    with pytest.raises(OutOfSpace):
        EndsFile(store, "e").add(1, "a", 1, b"one")


@pytest.mark.parametrize(
    "bad",
    [
        b"no json\n",
        b"3\n",
        b"{}\n",
        json.dumps({"step": 1, "task": "a", "attempt": 1, "size": 9}).encode() + b"\nshort",
        json.dumps({"step": 1, "task": "a", "attempt": 1, "size": -90}).encode() + b"\n",
        json.dumps({"step": "x", "task": "a", "attempt": 1, "size": 0}).encode() + b"\n\n",
    ],
)
def test_reading_stops_at_what_is_not_whole(bad):
    store = MemoryDriver()
    EndsFile(store, "e").add(1, "a", 1, b"one")
    store.append("e", bad)
    assert [end.text for end in read_ends(store, "e")] == [b"one"]
