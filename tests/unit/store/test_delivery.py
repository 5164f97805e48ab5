"""Where files are delivered to, what may be replaced there, and the record."""

import json
from pathlib import Path

import pytest

from perdure.errors import UsageError
from perdure.store.delivery.delivery import (
    Act,
    DeliveredFile,
    DeliveryRecord,
    Whose,
    contents_of,
    decide,
    decode_delivery,
    encode_delivery,
    is_for_records,
    listed,
    object_name,
    some,
)
from perdure.store.delivery.delivery_places import check_apart, check_folder, delivery_place
from perdure.store.files.outside_decision import Content
from perdure.store.files.roots import Roots
from perdure.store.layout import JobId, StepKey, TaskKey

JOB = JobId("01jdxyz0000000000000000000")
WHOSE = Whose(job=JOB, step=StepKey(2), task=TaskKey("0123456789abcdef"), attempt=3)
A, B, C = (Content(size=size, digest=bytes([size]) * 32) for size in (1, 2, 3))


@pytest.mark.parametrize(
    ("present", "known", "act"),
    [
        (None, frozenset(), Act.CREATE),
        (None, frozenset({A}), Act.CREATE),
        (A, frozenset(), Act.LEAVE),
        (A, frozenset({A, B}), Act.LEAVE),
        (B, frozenset({B}), Act.REPLACE),
        (B, frozenset({A, B, C}), Act.REPLACE),
        (B, frozenset(), Act.CONFLICT),
        (B, frozenset({A, C}), Act.CONFLICT),
        (Content(size=1, digest=b"x" * 32), frozenset({A}), Act.CONFLICT),
    ],
)
def test_what_is_done_with_a_file(present, known, act):
    assert decide(A, present, known) is act


def record(**fields):
    given = {
        "job": JOB,
        "step": 2,
        "task": "0123456789abcdef",
        "attempt": 3,
        "at": "2026-01-01T00:00:00Z",
        "files": (DeliveredFile.of("a/b", A), DeliveredFile.of("\udcff", B)),
    }
    return DeliveryRecord(**{**given, **fields})


def test_a_record_comes_back_and_is_plain_json():
    one = record(earlier=(DeliveredFile.of("old", C),))
    data = encode_delivery(one)
    assert decode_delivery(data, WHOSE) == one
    plain = json.loads(data)
    assert plain["kind"] == "delivery"
    assert plain["files"][0] == {"path": "a/b", "size": 1, "blake3": "01" * 32}
    assert data.isascii()
    assert data.count(b"\n") == 4  # one a file, and the end


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"null",
        b"[" * 100_000,
        encode_delivery(record(job="another")),
        encode_delivery(record(step=1)),
        encode_delivery(record(task="f" * 16)),
        encode_delivery(record(format=2)),
        encode_delivery(record()).replace(b'"size": 1', b'"size": "1"'),
    ],
)
def test_what_is_no_record_of_the_task_says_nothing(data):
    assert decode_delivery(data, WHOSE) is None


def test_all_that_records_name_is_known():
    plan = record(files=(DeliveredFile.of("x", C),), earlier=(DeliveredFile.of("x", B),))
    bad = record(files=(DeliveredFile(path="x", size=1, blake3="no hex"),))
    known = contents_of([record(), plan, bad])
    assert known == {"a/b": {A}, "\udcff": {B}, "x": {B, C}}
    assert contents_of([record(files=listed(known))]) == known


def test_where_records_lie():
    assert WHOSE.folder == "2-0123456789abcdef"
    assert WHOSE.record == f"perdure/{JOB}/2-0123456789abcdef.json"
    assert WHOSE.plan == f"perdure/{JOB}/2-0123456789abcdef.3.plan.json"


@pytest.mark.parametrize(
    ("path", "is_there"),
    [
        (WHOSE.record, True),
        (f"perdure/{JOB}", True),
        (f"perdure/{JOB.upper()}/x", True),
        ("perdure/mine/x", False),
        ("perdure", False),
        (f"x/perdure/{JOB}/y", False),
    ],
)
def test_no_file_of_a_task_goes_where_records_are(path, is_there):
    assert is_for_records(path) is is_there


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/b c/ü#?%41.exr", "a/b c/ü#?%41.exr"),
        ("\udcff\udcfe/x", "%FF%FE/x"),
        ("100%\udcff", "100%25%FF"),
        ("a\nb\x7f", "a%0Ab%7F"),
        ("ü\udc80", "ü%80"),
    ],
)
def test_names_of_objects(path, name):
    assert object_name(path) == name


def test_a_few_of_many():
    assert some(["a"]) == "a"
    assert some(["a", "b", "c"]) == "a, b, c"
    assert some("abcde") == "a, b, c and 2 more"


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ("/results", "/results"),
        ("/a/../b/", "/b"),
        ("file:///a%20b", "/a b"),
        ("file://localhost/a", "/a"),
        ("s3://bucket/prefix/", "s3://bucket/prefix"),
        ("gs://bucket", "gs://bucket"),
        ("az://account/container/x", "az://account/container/x"),
    ],
)
def test_places(given, place):
    assert delivery_place(given) == place


def test_a_relative_folder_is_of_the_current_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert delivery_place("out") == str(tmp_path / "out")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("", "names no folder"),
        ("a\0b", "names no folder"),
        ("http://x/y", "nothing can be delivered to http://"),
        ("memory://x", "nothing can be delivered to memory://"),
        ("s3://", "no place in an object store"),
        ("s3://key:hidden@bucket/x", "the --deliver URL s3://bucket/x has more in it"),
        ("file://host/x", "names no path of this host"),
    ],
)
def test_what_is_no_place(given, text):
    with pytest.raises(UsageError) as caught:
        delivery_place(given)
    assert text in caught.value.message
    assert "hidden" not in caught.value.message + caught.value.hint


def test_a_folder_that_can_be_made_is_fine_and_nothing_is_made(tmp_path):
    check_folder(str(tmp_path / "a" / "b"))
    check_folder(str(tmp_path))
    check_folder("s3://bucket/x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["", "/a/b"])
def test_a_folder_that_cannot_be_is_refused(tmp_path, below):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError) as caught:
        check_folder(f"{tmp_path}/file{below}")
    assert "file" in caught.value.message


@pytest.mark.parametrize(
    ("place", "store", "is_apart"),
    [
        ("/a/out", "/a/store", True),
        ("/a/store", "/a/store", False),
        ("/a", "/a/store", False),
        ("/a/store/out", "/a/store", False),
        ("/a/store2", "/a/store", True),
        ("/a/out", "file:///a/out", False),
        ("s3://b/out", "s3://b/store", True),
        ("s3://b", "s3://b/store", False),
        ("s3://b/store/x", "s3://b/store/", False),
        ("s3://b/x", "gs://b/x", True),
        ("/a", "s3://a", True),
    ],
)
def test_the_store_and_what_is_delivered_do_not_mix(place, store, is_apart):
    if is_apart:
        check_apart(place, store)
    else:
        with pytest.raises(UsageError, match="lie in each other"):
            check_apart(place, store)


@pytest.mark.parametrize(
    ("path", "below"),
    [
        ("work/a/b", "a/b"),
        ("work/out/x", "x"),
        ("work/out/deep/x", "deep/x"),
        ("work/file.exr", "file.exr"),
        ("elsewhere/x", "x"),
    ],
)
def test_outside_files_go_by_their_nearest_root(tmp_path, path, below):
    """Roots: the work folder, a PATH parameter in it, one that is a file, and an allowed root."""
    (tmp_path / "session").mkdir()
    named = ("work", "work/out", "work/file.exr", "elsewhere")
    roots = Roots(tmp_path / "session", tuple(Path(tmp_path, one) for one in named))
    assert roots.below_root(roots.place(str(tmp_path / path))) == below
