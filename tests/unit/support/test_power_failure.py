"""The model of a disk: what it must allow, and what it must not."""

import pytest

from support.power_failure import (
    ROOT,
    Linked,
    Made,
    Removed,
    Renamed,
    Resized,
    Said,
    Synced,
    Written,
    states,
)

OLD, NEW = b"o" * 1024, b"n" * 1024
FILE = (Made(ROOT, "a", 1), Written(1, 0, OLD))
DURABLE = (*FILE, Synced(1), Synced(ROOT))


def outcomes(*history, each=400):
    """All files that may be there after all of it."""
    found = states(history, each=each, seed=1, prefixes=[len(history)])
    return {tuple(sorted(state.files.items())) for _length, state in found}


def contents(*history, name="a"):
    return {dict(files).get(name) for files in outcomes(*history)}


def test_what_is_synced_is_there():
    assert outcomes(*DURABLE) == {(("a", OLD),)}


def test_a_file_without_a_sync_may_be_empty_torn_or_gone():
    found = contents(*FILE)
    assert {None, b"", OLD} <= found
    assert bytes(512) + OLD[:512] in found


def test_a_name_without_the_sync_of_its_folder_may_be_gone_or_there():
    assert contents(*FILE, Synced(1)) == {None, OLD}


def test_the_sync_of_a_folder_says_nothing_about_bytes():
    assert {b"", OLD} <= contents(*FILE, Synced(ROOT))
    assert None not in contents(*FILE, Synced(ROOT))


def test_a_write_is_torn_between_sectors_only():
    assert contents(*DURABLE, Written(1, 0, NEW)) == {
        OLD,
        NEW,
        OLD[:512] + NEW[:512],
        NEW[:512] + OLD[:512],
    }


def test_writes_land_in_any_order():
    found = contents(*DURABLE, Written(1, 0, b"1" * 512), Written(1, 0, b"2" * 512))
    assert {data[:1] for data in found} == {b"o", b"1", b"2"}


def test_a_cut_may_be_there_or_not():
    assert contents(*DURABLE, Resized(1, 5)) == {OLD, OLD[:5]}


def test_a_rename_is_whole():
    history = (
        *DURABLE,
        Made(ROOT, "b", 2),
        Written(2, 0, NEW),
        Synced(2),
        Renamed(ROOT, "b", ROOT, "a", 2),
    )
    assert contents(*history) == {OLD, NEW}
    assert outcomes(*history, Synced(ROOT)) == {(("a", NEW),)}


def test_a_link_may_be_there_without_the_name_that_was_linked():
    history = (*FILE, Synced(1), Linked(ROOT, "b", 1), Removed(ROOT, "a"))
    assert outcomes(*history) == {(), (("a", OLD),), (("b", OLD),), (("a", OLD), ("b", OLD))}


def test_folders_have_no_order_between_them():
    history = (
        Made(ROOT, "d", 2, is_folder=True),
        Made(ROOT, "e", 3, is_folder=True),
        Synced(ROOT),
        Made(2, "x", 4),
        Made(3, "y", 5),
    )
    names = {tuple(name for name, _data in files) for files in outcomes(*history)}
    assert names == {(), ("d/x",), ("e/y",), ("d/x", "e/y")}


def test_what_lies_in_a_folder_goes_with_it():
    history = (Made(ROOT, "d", 2, is_folder=True), Made(2, "x", 3), Synced(3), Synced(2))
    assert outcomes(*history) == {(), (("d/x", b""),)}


def test_what_was_said_is_known_from_then_on():
    history = (Said("save", 1), *FILE, Said("save", 2))
    said = [state.said for _length, state in states(history, each=1, seed=1)]
    assert [one.get("save") for one in said] == [None, 1, 1, 1, 2]


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_seed_gives_the_same_states(seed):
    def found():
        return [state.files for _length, state in states(FILE, each=20, seed=seed)]

    assert found() == found()
