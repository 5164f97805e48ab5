import json

import pytest
import zstandard
from blake3 import blake3

from perdure.errors import CheckpointCorrupt, CheckpointError, SaveRefused
from perdure.store.compression import Codec
from perdure.store.layout import LaunchId, PackId
from perdure.store.manifests.entry_paths import stays_inside
from perdure.store.manifests.manifest import (
    BLOCK_BYTES,
    SESSION_ROOT,
    Block,
    Entry,
    EntryType,
    FileRef,
    Kept,
    Manifest,
    Root,
    RootKind,
    content_id,
    file_digest,
)
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.manifests.manifest_reading import decode_manifest

LAUNCH = LaunchId("01jdxyz0000000000000000001")
PACK = PackId(f"{LAUNCH}-2-1")
OUTSIDE = Root(kind=RootKind.OUTSIDE, path="/data/out")


def block(data: bytes, **changes) -> Block:
    values = {
        "pack": 0,
        "offset": 4096,
        "stored": len(data),
        "codec": Codec.RAW,
        "digest": blake3(data).digest(),
        "length": len(data),
    }
    return Block(**{**values, **changes})


def file(path: str, *blocks: Block, root: int = 0, **changes) -> Entry:
    values = {
        "mode": 0o644,
        "mtime_ns": 1_700_000_000_000_000_000,
        "size": sum(b.length for b in blocks),
        "digest": file_digest(b.digest for b in blocks),
        "blocks": blocks,
    }
    return Entry(root=root, path=path, type=EntryType.FILE, **{**values, **changes})


BIG = bytes(range(256)) * (BLOCK_BYTES // 256)


def example() -> Manifest:
    return Manifest(
        attempt=2,
        launch=LAUNCH,
        save=3,
        state="frame=7 ü",
        file=FileRef(root=0, path="a/restart.bin"),
        roots=(SESSION_ROOT, OUTSIDE),
        packs=(PACK,),
        entries=(
            Entry(root=0, path="a", type=EntryType.FOLDER, mode=0o755, mtime_ns=5),
            Entry(root=0, path="a/latest", type=EntryType.LINK, target="restart.bin"),
            file("a/restart.bin", block(BIG), block(b"tail", offset=4096 + BLOCK_BYTES)),
            file("empty"),
            Entry(root=0, path="gone", type=EntryType.ABSENT),
            file("raw\udcff", block(bytes(100), pack=-1, offset=0, stored=0)),
            file("in.dat", root=1, size=9, digest=bytes(32), kept=Kept.INPUT),
            file("log", block(b"line\n"), root=1),
        ),
        new_bytes=BLOCK_BYTES + 9,
    )


def rewritten(change) -> tuple[dict, bytes]:
    """The example's record after ``change(header, body)``, its sizes made right again."""
    header, payload = encode_manifest(example())
    body = json.loads(zstandard.ZstdDecompressor().decompress(payload))
    change(header, body)
    data = json.dumps(body).encode()
    if isinstance(header.get("body"), dict) and "keep" not in header["body"]:
        header["body"]["size"] = len(data)
    return header, zstandard.ZstdCompressor().compress(data)


def test_a_manifest_is_read_back():
    header, payload = encode_manifest(example())
    header = json.loads(json.dumps(header))
    assert decode_manifest(header, payload, name="@3") == example()
    assert header["files"] == 8
    assert header["size"] == BLOCK_BYTES + 4 + 100 + 9 + 5
    assert header["content"] == example().content


def test_a_raw_body_is_read_too():
    header, payload = encode_manifest(example())
    header["body"]["codec"] = "raw"
    raw = zstandard.ZstdDecompressor().decompress(payload)
    assert decode_manifest(header, raw, name="@3") == example()


def test_later_versions_may_add():
    def add(header, body):
        header["tier"] = "durable"
        body["entries"][2]["zz"] = 1
        body["more"] = []

    header, payload = rewritten(add)
    assert decode_manifest(header, payload, name="@3") == example()


def entry(number: int, **changes):
    return lambda _header, body: body["entries"][number].update(changes)


def block_of(number: int, at: int, value):
    def change(_header, body):
        body["entries"][number]["b"][0][at] = value

    return change


def header(**changes):
    return lambda header, _body: header.update(changes)


HOSTILE = {
    "path up": entry(2, p="../../etc/passwd"),
    "path up inside": entry(2, p="a/../../x"),
    "path absolute": entry(2, p="/etc/passwd"),
    "path empty": entry(3, p=""),
    "path with empty part": entry(2, p="a//b"),
    "path dot": entry(3, p="."),
    "path with nul": entry(3, p="a\0b"),
    "path too long": entry(3, p="x" * 4097),
    "path no text": entry(3, p=7),
    "path twice": entry(3, p="a"),
    "below a file": entry(3, p="a/restart.bin/x"),
    "below a link": entry(3, p="a/latest/x"),
    "root unknown": entry(2, r=2),
    "root negative": entry(2, r=-1),
    "root no number": entry(2, r="0"),
    "root true": entry(2, r=True),
    "link up": entry(1, l="../../x"),
    "link absolute": entry(1, l="/etc/passwd"),
    "link up behind a name": entry(1, l="x/../../y"),
    "link empty": entry(1, l=""),
    "mode setuid": entry(2, m=0o4755),
    "mode negative": entry(2, m=-1),
    "time no number": entry(2, n=1.5),
    "size other": entry(2, s=BLOCK_BYTES),
    "size negative": entry(3, s=-1),
    "size huge": entry(3, s=1 << 70),
    "digest other": entry(2, h="00" * 32),
    "digest short": entry(2, h="00"),
    "digest missing": entry(2, h=""),
    "digest no text": entry(2, h=None),
    "no blocks": entry(2, b=[]),
    "blocks no list": entry(2, b={}),
    "blocks too many": entry(2, b=[[0, 0, 1, 0, "00" * 32, 1]] * 9),
    "block short": lambda _header, body: body["entries"][2]["b"][0].pop(),
    "block pack unknown": block_of(2, 0, 1),
    "block pack below none": block_of(2, 0, -2),
    "block offset": block_of(2, 1, -1),
    "block stored": block_of(2, 2, BLOCK_BYTES + 1),
    "block stored raw": block_of(2, 2, 5),
    "block digest": block_of(2, 4, "zz" * 32),
    "block length": block_of(2, 5, BLOCK_BYTES + 1),
    "block length none": block_of(7, 5, 0),
    "zeros somewhere": block_of(5, 1, 4096),
    "entry no object": lambda _header, body: body["entries"].__setitem__(0, []),
    "entries missing": lambda _header, body: body.pop("entries"),
    "packs missing": lambda _header, body: body.pop("packs"),
    "pack up": lambda _header, body: body.update(packs=["packs/../../x-1-1"]),
    "pack elsewhere": lambda _header, body: body.update(packs=[PACK]),
    "pack no text": lambda _header, body: body.update(packs=[1]),
    "attempt": header(attempt=0),
    "save": header(save=-1),
    "launch": header(launch="../x"),
    "launch none": header(launch=None),
    "state no text": header(state=5),
    "state too long": header(state="x" * (48 * 1024 + 1)),
    "state with nul": header(state="a\0"),
    "state other": header(state="another"),
    "file no object": header(file="a"),
    "file up": header(file={"root": 0, "path": "../x"}),
    "file root": header(file={"root": 5, "path": "x"}),
    "file other": header(file={"root": 0, "path": "x"}),
    "roots none": header(roots=[]),
    "roots no list": header(roots=None),
    "roots twice": header(roots=[{"kind": "session"}, {"kind": "session"}]),
    "root relative": header(roots=[{"kind": "session"}, {"kind": "outside", "path": "data"}]),
    "root up": header(roots=[{"kind": "session"}, {"kind": "outside", "path": "/data/.."}]),
    "root no object": header(roots=["session"]),
    "size of all": header(size=1),
    "files": header(files=2),
    "content": header(content="00" * 32),
    "new": header(new=-1),
    "body none": header(body=None),
    "body size huge": header(body={"codec": "zstd", "size": 1 << 40, "keep": 1}),
    "body size other": header(body={"codec": "zstd", "size": 3, "keep": 1}),
}
UNKNOWN = {
    "codec": block_of(2, 3, 4),
    "type": entry(2, t="device"),
    "kept": entry(6, k="cloud"),
    "hash": header(hash="sha512"),
    "root kind": header(roots=[{"kind": "session"}, {"kind": "url", "path": "s3://x"}]),
    "body codec": header(body={"codec": "lzma", "size": 5, "keep": 1}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_descriptions_are_refused(name):
    header, payload = rewritten(HOSTILE[name])
    with pytest.raises(CheckpointCorrupt, match=r"checkpoint job/step@3 .*wrong"):
        decode_manifest(header, payload, name="job/step@3")


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_a_later_version_wrote_is_refused_by_name(name):
    header, payload = rewritten(UNKNOWN[name])
    with pytest.raises(CheckpointError, match=r"@3 uses .* does not know") as caught:
        decode_manifest(header, payload, name="@3")
    assert not isinstance(caught.value, CheckpointCorrupt)


def test_what_could_not_be_read_again_is_not_written():
    contradictions = (
        (file("a"), file("a/b")),
        (Entry(root=0, path="a", type=EntryType.LINK, target="b"), file("a/b")),
        (file("a"), file("a")),
    )
    for entries in contradictions:
        manifest = Manifest(attempt=1, launch=LAUNCH, save=1, entries=entries)
        with pytest.raises(SaveRefused, match="cannot be described"):
            encode_manifest(manifest)
    apart = (file("a", root=0), file("a/b", root=1), file("a-b"), file("b"))
    manifest = Manifest(
        attempt=1, launch=LAUNCH, save=0, roots=(SESSION_ROOT, OUTSIDE), entries=apart
    )
    header, payload = encode_manifest(manifest)
    assert decode_manifest(header, payload, name="@1") == manifest


@pytest.mark.parametrize("payload", [b"", b"rubbish", b"\x28\xb5\x2f\xfd"])
def test_a_body_that_is_none_is_refused(payload):
    header, _payload = encode_manifest(example())
    with pytest.raises(CheckpointCorrupt):
        decode_manifest(header, payload, name="@3")


@pytest.mark.parametrize("text", [b"[]", b"{", b"\xff", b"[" * 100_000, b'"x"'])
def test_a_body_that_is_no_object_is_refused(text):
    header, _payload = encode_manifest(example())
    header["body"] = {"codec": "raw", "size": len(text)}
    with pytest.raises(CheckpointCorrupt, match="body"):
        decode_manifest(header, text, name="@3")


def test_a_bomb_is_not_inflated():
    header, _payload = encode_manifest(example())
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 30))
    header["body"] = {"codec": "zstd", "size": 1000}
    with pytest.raises(CheckpointCorrupt, match="length of its body"):
        decode_manifest(header, bomb, name="@3")


@pytest.mark.parametrize(
    ("path", "target", "is_inside"),
    [
        ("a", "b", True),
        ("a", "b/c", True),
        ("a", ".", True),
        ("a", "..", False),
        ("a/b", "..", True),
        ("a/b", "../c", True),
        ("a/b", "../../c", False),
        ("a/b/c", "../../d", True),
        ("a/b", "c/../d", False),
        ("a/b", "../c/..", False),
        ("a", "/a", False),
        ("a", "", False),
        ("a", "b/", False),
        ("a", "./b", False),
    ],
)
def test_links_stay_inside(path, target, is_inside):
    assert stays_inside(path, target) is is_inside


class TestContentId:
    ENTRIES = example().entries
    ROOTS = (SESSION_ROOT, OUTSIDE)

    def of(self, *, state="s", file=None, roots=ROOTS, entries=ENTRIES):
        return content_id(state, file, roots, entries)

    def test_times_and_modes_do_not_count(self):
        touched = tuple(Entry(**{**fields(e), "mtime_ns": 1, "mode": 0o600}) for e in self.ENTRIES)
        assert self.of(entries=touched) == self.of()

    def test_order_does_not_count(self):
        assert self.of(entries=self.ENTRIES[::-1]) == self.of()
        swapped = tuple(Entry(**{**fields(e), "root": 1 - e.root}) for e in self.ENTRIES)
        assert self.of(roots=(OUTSIDE, SESSION_ROOT), entries=swapped) == self.of()

    def test_inputs_do_not_count(self):
        kept = tuple(e for e in self.ENTRIES if e.kept is not Kept.INPUT)
        assert self.of(entries=kept) == self.of()

    @pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 5, 7])
    def test_every_entry_counts(self, number):
        fewer = self.ENTRIES[:number] + self.ENTRIES[number + 1 :]
        assert self.of(entries=fewer) != self.of()

    def test_state_and_file_count(self):
        seen = {
            self.of(),
            self.of(state=None),
            self.of(state=""),
            self.of(file=FileRef(root=0, path="empty")),
            self.of(file=FileRef(root=1, path="empty")),
        }
        assert len(seen) == 5

    def test_content_counts(self):
        other = tuple(
            file("log", block(b"LINE\n"), root=1) if e.path == "log" else e for e in self.ENTRIES
        )
        assert self.of(entries=other) != self.of()

    def test_it_is_what_it_always_was(self):
        expected = blake3(b'["s",null,[["","a","a",null,null]]]').hexdigest()
        one = (Entry(root=0, path="a", type=EntryType.ABSENT),)
        assert self.of(entries=one) == expected


def fields(entry: Entry) -> dict:
    return {name: getattr(entry, name) for name in Entry.__struct_fields__}
