"""Two manifests in one: the save as it was, and the files declared since."""

from perdure.store.compression import Codec
from perdure.store.layout import LaunchId, PackId
from perdure.store.manifests.manifest import (
    NO_PACK,
    SESSION_ROOT,
    Block,
    Entry,
    EntryType,
    FileRef,
    Manifest,
    Root,
    RootKind,
    file_digest,
)
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.manifests.manifest_reading import decode_manifest
from perdure.store.manifests.merging import changed, merge

A, B = (f"01jdxyz000000000000000000{n}-1-1" for n in (1, 2))
OUT = Root(kind=RootKind.OUTSIDE, path="/out")


def block(pack, digest=b"\1" * 32):
    return Block(pack=pack, offset=4096, stored=3, codec=Codec.RAW, digest=digest, length=3)


def file(path, *, root=0, pack=0, digest=b"\1"):
    whole = (digest * 32)[:32]
    return Entry(
        root=root,
        path=path,
        type=EntryType.FILE,
        size=3,
        digest=file_digest([whole]),
        blocks=(block(pack, whole),),
    )


def other(path, type_, root=0):
    return Entry(root=root, path=path, type=type_)


def manifest(*entries, save=1, state=None, file=None, roots=(SESSION_ROOT,), packs=(A,)):
    return Manifest(
        attempt=1,
        launch=LaunchId("01jdxyz0000000000000000001"),
        save=save,
        state=state,
        file=file,
        roots=roots,
        packs=tuple(PackId(pack) for pack in packs),
        entries=entries,
    )


def paths(merged):
    return [(entry.root, entry.path, entry.type) for entry in merged.entries]


def test_the_saves_state_file_and_versions_stay():
    first = manifest(file("a", digest=b"\1"), save=3, state="s", file=FileRef(root=0, path="a"))
    second = manifest(file("a", digest=b"\2"), file("b"), save=0, packs=(B,))
    merged = merge(first, second)
    assert (merged.save, merged.state, merged.file) == (3, "s", FileRef(root=0, path="a"))
    assert merged.entries[0] == first.entries[0]
    assert merged.packs == (A, B)
    assert merged.entries[1].blocks[0].pack == 1
    assert changed(first, second) == ("a",)
    assert changed(first, first) == ()


def test_indexes_are_those_of_the_union():
    first = manifest(file("x", root=0), roots=(OUT,), packs=(A,))
    second = manifest(
        file("x", root=0, pack=1),
        file("y", root=1, pack=0),
        roots=(SESSION_ROOT, OUT),
        packs=(B, A),
    )
    merged = merge(first, second)
    assert merged.roots == (OUT, SESSION_ROOT)
    assert [(merged.shown_path(e), merged.packs[e.blocks[0].pack]) for e in merged.entries] == [
        ("/out/x", A),
        ("/out/y", B),
        ("x", A),
    ]
    header, payload = encode_manifest(merged)
    assert decode_manifest(header, payload, name="@1").entries == merged.entries


def test_zeros_have_no_pack():
    zeros = Entry(
        root=0, path="z", type=EntryType.FILE, size=3, digest=b"\1" * 32, blocks=(block(NO_PACK),)
    )
    assert merge(manifest(file("a")), manifest(zeros)).entries[1].blocks[0].pack == NO_PACK


def test_what_was_absent_gives_way():
    first = manifest(other("a", EntryType.ABSENT), other("b", EntryType.ABSENT))
    second = manifest(file("a"), other("b", EntryType.ABSENT))
    assert paths(merge(first, second)) == [
        (0, "a", EntryType.FILE),
        (0, "b", EntryType.ABSENT),
    ]
    assert changed(first, second) == ()


def test_nothing_lies_below_a_file_and_no_file_takes_a_folders_place():
    first = manifest(file("a"), file("d/x"))
    second = manifest(other("a", EntryType.FOLDER), file("a/b"), file("d"), file("d/y"))
    assert [path for _, path, _ in paths(merge(first, second))] == ["a", "d/x", "d/y"]
    folder = manifest(other("d", EntryType.FOLDER), file("d/y"))
    assert [path for _, path, _ in paths(merge(manifest(file("d/x")), folder))] == [
        "d",
        "d/x",
        "d/y",
    ]
