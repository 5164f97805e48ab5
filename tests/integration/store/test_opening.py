import os
import shutil

import pytest

from perdure.errors import FormatTooNew, HomeError, StoreDamaged, UsageError
from perdure.store.driver import PutUncertain
from perdure.store.memory import Call, LoseReply, MemoryDriver
from perdure.store.opening import open_store, prove
from perdure.store.record_format import encode_record


def test_a_store_is_made_once_and_keeps_its_id(tmp_path):
    path = tmp_path / "a" / "store"
    made = open_store(str(path), write=True, create=True)
    again = open_store(f"file://{path}", write=True, create=True)
    read = open_store(str(path), write=False)
    assert made.store_id == again.store_id == read.store_id
    assert len(made.store_id) == 32
    assert (made.is_writable, read.is_writable) == (True, False)
    assert [p.name for p in path.iterdir()] == ["format"]


def test_what_is_made_is_its_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        store = open_store(str(tmp_path / "home" / "store"), write=True, create=True)
        store.driver.put_if_absent("jobs/a/job", b"x")
        store.driver.append("jobs/a/journal", b"x")
    finally:
        os.umask(before)
    modes = {
        path.relative_to(tmp_path).as_posix(): path.stat().st_mode & 0o7777
        for path in tmp_path.rglob("*")
    }
    assert modes == {
        "home": 0o700,
        "home/store": 0o700,
        "home/store/format": 0o600,
        "home/store/jobs": 0o700,
        "home/store/jobs/a": 0o700,
        "home/store/jobs/a/job": 0o600,
        "home/store/jobs/a/journal": 0o600,
    }


def test_a_store_for_a_group_is_the_groups_whatever_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        open_store(str(tmp_path / "s"), write=True, create=True, share_with_group=True)
        store = open_store(str(tmp_path / "s"), write=True)
        store.driver.put_if_absent("jobs/a/job", b"x")
        store.driver.append("jobs/a/journal", b"x")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o7777 for path in tmp_path.rglob("*") if path.is_dir()} == {
        0o2770
    }
    assert {path.stat().st_mode & 0o7777 for path in tmp_path.rglob("*") if path.is_file()} == {
        0o660
    }


def test_reading_makes_nothing(tmp_path):
    with pytest.raises(HomeError, match="there is no store"):
        open_store(str(tmp_path / "none"), write=False, create=True)
    with pytest.raises(HomeError, match="there is no store"):
        open_store(str(tmp_path / "none"), write=True)
    with pytest.raises(HomeError, match="there is no store"):
        open_store(str(tmp_path), write=True)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_cannot_write(tmp_path):
    open_store(str(tmp_path / "s"), write=True, create=True)
    driver = open_store(str(tmp_path / "s"), write=False).driver
    for call in (
        lambda: driver.put_if_absent("a", b""),
        lambda: driver.put("a", b""),
        lambda: driver.delete("format"),
        lambda: driver.append("a", b""),
        lambda: driver.upload("a"),
        lambda: driver.sweep("", older_than_seconds=0),
    ):
        with pytest.raises(HomeError, match="reading only"):
            call()


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(HomeError, match=r"holds other things \(thesis.tex\)"):
        open_store(str(tmp_path), write=True, create=True)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_no_store(tmp_path):
    (tmp_path / "s").write_text("x")
    with pytest.raises(HomeError, match="is no folder"):
        open_store(str(tmp_path / "s"), write=True, create=True)


def test_a_later_store_is_left_untouched(tmp_path):
    later = encode_record({"kind": "store", "id": "1", "at": "", "number": 2, "store": "0" * 32})
    (tmp_path / "format").write_bytes(later)
    for write in (True, False):
        with pytest.raises(FormatTooNew, match="format 2"):
            open_store(str(tmp_path), write=write, create=write)
    assert [path.name for path in tmp_path.iterdir()] == ["format"]
    assert (tmp_path / "format").read_bytes() == later


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage",
        encode_record({"kind": "store", "id": "1", "number": 1, "store": "0" * 32})[:-3],
        encode_record({"kind": "job", "id": "1"}),
        encode_record({"kind": "store", "id": "1", "number": "1", "store": "0" * 32}),
        encode_record({"kind": "store", "id": "1", "number": 1}),
    ],
)
def test_a_damaged_marker_is_said(tmp_path, data):
    (tmp_path / "format").write_bytes(data)
    with pytest.raises(StoreDamaged, match="format"):
        open_store(str(tmp_path), write=True, create=True)
    assert (tmp_path / "format").read_bytes() == data


@pytest.mark.root
def test_a_store_of_somebody_else_is_not_written(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can make a store of somebody else")
    open_store(str(tmp_path / "s"), write=True, create=True)
    shutil.chown(tmp_path / "s", user=65534)
    with pytest.raises(HomeError, match="belongs to nobody"):
        open_store(str(tmp_path / "s"), write=True)
    assert open_store(str(tmp_path / "s"), write=False).store_id


def test_a_store_that_anybody_may_write_is_not_trusted(tmp_path):
    open_store(str(tmp_path / "s"), write=True, create=True)
    (tmp_path / "s").chmod(0o777)
    with pytest.raises(HomeError, match="everybody may write"):
        open_store(str(tmp_path / "s"), write=True)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("s3://", "no place in an object store"),
        ("az://account", "no place in an object store"),
        ("s3://key:secret@bucket", "must hold no secret"),
        ("s3a://bucket", "no kind of store"),
        ("https://host/x", "no kind of store"),
        ("ftp://host/x", "ftp:// is no kind of store"),
        ("file://otherhost/x", "no path of this host"),
    ],
)
def test_what_cannot_be_a_store_is_said_in_one_sentence(url, text):
    with pytest.raises(UsageError, match=text) as caught:
        open_store(url, write=True, create=True)
    assert caught.value.hint
    assert "\n" not in caught.value.message


def test_memory_stores_have_names(request):
    name = request.node.nodeid.replace("/", "-")
    made = open_store(f"memory://{name}", write=True, create=True)
    made.driver.put("a", b"x")
    again = open_store(f"memory://{name}", write=True)
    assert again.driver.get("a") == b"x"
    with pytest.raises(HomeError, match="there is no store"):
        open_store(f"memory://{name}-other", write=False)


def test_a_store_that_creates_twice_is_refused():
    class SaysCreatedTwice(MemoryDriver):
        def put_if_absent(self, key, data):
            super().put_if_absent(key, data)
            return True

    with pytest.raises(StoreDamaged, match="creates an object that exists already"):
        prove(SaysCreatedTwice(), "format", b"x")
    kept = MemoryDriver()
    kept.put("format", b"x")
    prove(kept, "format", b"x")
    assert kept.get("format") == b"x"


def test_a_lost_reply_is_asked_again():
    lost = iter([LoseReply(applied=True), LoseReply(applied=False)])

    def before(call, _key):
        if call is Call.PUT_IF_ABSENT and (fault := next(lost, None)):
            raise fault

    prove(MemoryDriver(before=before), "format", b"x")
    assert next(lost, None) is None

    def always(call, _key):
        raise LoseReply(applied=False)

    with pytest.raises(PutUncertain):
        prove(MemoryDriver(before=always), "format", b"x")
