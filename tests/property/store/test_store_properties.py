import json
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import zstandard
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from perdure.errors import CheckpointError
from perdure.store.compression import Codec, compress, decompress, shuffle, unshuffle
from perdure.store.drivers.driver import check_key
from perdure.store.drivers.memory import MemoryDriver
from perdure.store.drivers.posix import PosixDriver
from perdure.store.manifests.entry_paths import stays_inside
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.manifests.manifest_reading import decode_manifest
from perdure.store.restore.verify import verify_checkpoint
from store_kit import PACKS, Task, tree

NAMES = st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="/\0"), min_size=1, max_size=12
).filter(
    # Names that begin like this are perdure's own in a session folder.
    lambda name: name not in (".", "..") and not name.startswith(".perdure-")
)
CONTENTS = st.one_of(st.binary(max_size=60), st.just(bytes(5000)), st.just(b"same"))
TREES = st.recursive(
    CONTENTS, lambda inner: st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
).filter(lambda tree: isinstance(tree, dict))


def plant(folder: Path, contents) -> None:
    folder.mkdir(exist_ok=True)
    for name, inner in contents.items():
        if isinstance(inner, dict):
            plant(folder / name, inner)
        else:
            (folder / name).write_bytes(inner)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(first=TREES, second=TREES)
def test_any_two_trees_are_saved_and_come_back(first, second):
    top = Path(tempfile.mkdtemp())
    try:
        session, driver = top / "session", MemoryDriver()
        manifests = []
        task = None
        expected = []
        for contents in (first, second):
            shutil.rmtree(session, ignore_errors=True)
            plant(session, contents)
            expected.append(tree(session))
            task = task or Task(session, driver=driver)
            manifests.append(task.manifest(folders=[session]))
        for number, manifest in enumerate(manifests):
            assert verify_checkpoint(driver, PACKS, manifest) == ()
            fresh = top / f"fresh-{number}"
            fresh.mkdir()
            task.restore(manifest, fresh)
            assert tree(fresh) == expected[number]
            fresh.rename(top / "moved")
            task.restore(manifest, top / "moved")
            assert tree(top / "moved") == expected[number]
            shutil.rmtree(top / "moved")
        strip = [{name: about[:1] for name, about in e.items()} for e in expected]
        if strip[0] == strip[1]:
            assert manifests[0].content == manifests[1].content
        else:
            assert manifests[0].content != manifests[1].content
    finally:
        shutil.rmtree(top)


def one_manifest():
    top = Path(tempfile.mkdtemp())
    try:
        plant(top, {"a": {"b": b"x" * 300, "c": bytes(100)}, "d": b"x" * 300})
        (top / "l").symlink_to("a")
        saved = Task(top).save(folders=[top], file=top / "d", state="s")
        return encode_manifest(saved.manifest)
    finally:
        shutil.rmtree(top)


HEADER, PAYLOAD = one_manifest()
BODY = json.loads(zstandard.ZstdDecompressor().decompress(PAYLOAD))
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False),
        st.text(max_size=8),
        st.sampled_from(["..", "/", "a/../b", "f", "session", "00" * 32]),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


def paths_into(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for key, inner in items:
        yield from paths_into(inner, (*path, key))


PLACES = [("header", *path) for path in paths_into(HEADER) if path] + [
    ("body", *path) for path in paths_into(BODY) if path
]


@settings(max_examples=600, deadline=None)
@given(where=st.sampled_from(PLACES), value=JSON)
def test_a_changed_description_is_refused_or_means_the_same_content(where, value):
    document = json.loads(json.dumps({"header": HEADER, "body": BODY}))
    at = document
    for key in where[:-1]:
        at = at[key]
    at[where[-1]] = value
    data = json.dumps(document["body"]).encode()
    if isinstance(document["header"].get("body"), dict) and where[:2] != ("header", "body"):
        document["header"]["body"] = {"codec": "raw", "size": len(data)}
    try:
        manifest = decode_manifest(document["header"], data, name="@1")
    except CheckpointError:
        return
    assert manifest.content == HEADER["content"]
    for entry in manifest.entries:
        assert not entry.path.startswith("/")
        assert not {"", ".", ".."} & set(entry.path.split("/"))
        assert entry.mode & ~0o777 == 0


@settings(max_examples=300, deadline=None)
@given(payload=st.binary(max_size=200), cut=st.integers(0, len(PAYLOAD)))
def test_any_payload_is_refused_or_right(payload, cut):
    for data in (payload, PAYLOAD[:cut], PAYLOAD[:cut] + payload):
        try:
            manifest = decode_manifest(HEADER, data, name="@1")
        except CheckpointError:
            continue
        assert manifest.content == HEADER["content"]


@settings(deadline=None)
@given(data=st.binary(max_size=3000), codec=st.sampled_from(list(Codec)))
def test_compression_is_undone(data, codec):
    used, stored = compress(data, codec)
    assert decompress(stored, used, len(data)) == data


@settings(deadline=None)
@given(data=st.binary(max_size=500), width=st.sampled_from([4, 8]))
def test_shuffling_is_undone(data, width):
    assert unshuffle(shuffle(data, width), width) == data


@settings(deadline=None, max_examples=200)
@given(data=st.binary(max_size=300), codec=st.sampled_from(list(Codec)))
def test_decompressing_anything_is_refused_or_as_long_as_said(data, codec):
    with suppress(ValueError):
        assert len(decompress(data, codec, 64)) == 64


@given(
    link=st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4),
    target=st.text("ab./", max_size=8),
)
@example(link=["a", "b"], target="../../a")
def test_a_link_that_stays_inside_really_does(link, target):
    if stays_inside("/".join(link), target):
        folder = ["root", *link[:-1]]
        for part in target.split("/"):
            if part == "..":
                folder.pop()
            elif part != ".":
                folder.append(part)
        assert folder[:1] == ["root"]


KEYS = st.lists(
    st.text("ab.-_0", min_size=1, max_size=3).filter(lambda part: part[0] != "."),
    min_size=1,
    max_size=3,
).map("/".join)
CALLS = st.lists(
    st.tuples(st.sampled_from(["create", "put", "delete", "list", "get"]), KEYS, st.binary()),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(calls=CALLS)
def test_a_folder_does_what_memory_does(calls):
    top = Path(tempfile.mkdtemp())
    try:
        drivers = (PosixDriver(top), MemoryDriver())
        used: set[str] = set()
        for call, key, data in calls:
            # A key below another key is never used: a folder cannot hold both.
            if any(key.startswith(f"{other}/") or other.startswith(f"{key}/") for other in used):
                continue
            used.add(check_key(key))
            answers = [act(driver, call, key, data) for driver in drivers]
            assert answers[0] == answers[1]
        assert list(drivers[0].list("")) == list(drivers[1].list(""))
    finally:
        shutil.rmtree(top)


def act(driver, call, key, data):
    match call:
        case "create":
            return driver.put_if_absent(key, data)
        case "put":
            return driver.put(key, data)
        case "delete":
            return driver.delete(key)
        case "list":
            return list(driver.list(key.rpartition("/")[0])), driver.children("")
        case _:
            return driver.get(key, 1, 3) if driver.head(key) is not None else None
