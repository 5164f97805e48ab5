"""Large files where they can be cloned: not torn, and read only where they changed."""

import os
import time

import pytest

from perdure.errors import CheckpointTorn
from perdure.store.capture import clones as clones_module
from perdure.store.capture import dataset_reading
from perdure.store.files.cloning import CannotClone, clone, extents
from perdure.store.manifests.manifest import BLOCK_BYTES
from perdure.store.packs.pack_writing import PackWriter
from store_kit import Task, tree
from support.disks import mounted

BLOCKS = 4


@pytest.fixture(scope="module")
def xfs(tmp_path_factory):
    with mounted("xfs", tmp_path_factory.mktemp("xfs"), 512 << 20) as disk:
        yield disk


@pytest.fixture
def session(xfs, request):
    folder = xfs / request.node.name
    folder.mkdir()
    return folder


@pytest.fixture
def read(monkeypatch):
    """Which blocks are read while a save is taken."""
    found = []
    real = dataset_reading.fill

    def fill(fd, start, buffer):
        found.append(start // BLOCK_BYTES)
        return real(fd, start, buffer)

    monkeypatch.setattr(dataset_reading, "fill", fill)
    return found


def task_in(session, **options) -> Task:
    (session / "big").write_bytes(os.urandom(BLOCKS * BLOCK_BYTES))
    return Task(session, settings={"clones": session / ".perdure-clones"}, options=options)


def change(path, block: int) -> None:
    with path.open("r+b") as file:
        file.seek(block * BLOCK_BYTES + 4096)
        file.write(os.urandom(10))


def test_only_blocks_that_changed_are_read(session, read):
    task = task_in(session)
    task.save(session / "big")
    assert sorted(read) == [0, 1, 2, 3]
    read.clear()
    change(session / "big", 2)
    saved = task.save(session / "big")
    assert read == [2]
    assert saved.manifest.new_bytes == BLOCK_BYTES
    read.clear()
    assert task.save(session / "big").manifest.new_bytes == 0
    assert read == []


def test_what_was_not_read_is_what_is_there(session, tmp_path):
    task = task_in(session)
    task.save(session / "big")
    for block in (0, 3):
        change(session / "big", block)
        manifest = task.manifest(session / "big")
    task.restore(manifest, tmp_path)
    assert (tmp_path / "big").read_bytes() == (session / "big").read_bytes()


def test_a_file_that_grew_is_read_where_it_grew(session, read, tmp_path):
    task = task_in(session)
    task.save(session / "big")
    read.clear()
    with (session / "big").open("ab") as file:
        file.write(os.urandom(BLOCK_BYTES // 2))
    manifest = task.manifest(session / "big")
    assert read == [BLOCKS]
    task.restore(manifest, tmp_path)
    assert (tmp_path / "big").read_bytes() == (session / "big").read_bytes()


def test_an_in_place_writer_does_not_tear_what_was_cloned(session, tmp_path, monkeypatch):
    task = task_in(session)
    saved = (session / "big").read_bytes()
    real = PackWriter.add

    def add(self, data, codec):
        change(session / "big", 3)  # the program goes on as soon as bytes are read
        return real(self, data, codec)

    monkeypatch.setattr(PackWriter, "add", add)
    manifest = task.manifest(session / "big")
    task.restore(manifest, tmp_path)
    assert (tmp_path / "big").read_bytes() == saved
    assert (session / "big").read_bytes() != saved


def test_a_file_written_before_it_was_cloned_is_torn(session):
    task = task_in(session)
    frozen = task.freeze(session / "big")
    change(session / "big", 1)
    with pytest.raises(CheckpointTorn):
        task.capture.take(frozen)
    # What was compared with before is no more believed, and nothing is left of the clone.
    assert list((session / ".perdure-clones").iterdir()) == []
    task.save(session / "big")


def test_one_clone_is_kept_and_it_is_no_part_of_a_save(session):
    task = task_in(session)
    for _ in range(3):
        change(session / "big", 0)
        manifest = task.save(folders=[session]).manifest
        assert [entry.path for entry in manifest.entries] == ["big"]
        assert len(list((session / ".perdure-clones").iterdir())) == 1


def test_a_pruned_pack_is_not_rested_on(session, read):
    task = task_in(session)
    packs = task.save(session / "big").manifest.packs
    task.capture.forget(frozenset(packs))
    read.clear()
    assert task.save(session / "big").manifest.new_bytes == BLOCKS * BLOCK_BYTES
    assert sorted(read) == [0, 1, 2, 3]


def test_a_save_that_was_not_taken_makes_the_next_one_read_all(session, read):
    task = task_in(session)
    task.save(session / "big")
    frozen = task.freeze(session / "big", session / "none", file=session / "none")
    with pytest.raises(Exception, match="not there"):
        task.capture.take(frozen)
    read.clear()
    task.save(session / "big")
    assert sorted(read) == [0, 1, 2, 3]


def test_the_session_goes_on_as_soon_as_its_large_files_are_cloned(session, monkeypatch):
    events = []

    class Freezer:
        def __enter__(self):
            events.append("stop")

        def __exit__(self, *_):
            events.append("go")

    task = task_in(session, freezer=Freezer)
    (session / "other").write_text("x")
    for _ in range(2):
        frozen = task.freeze(session / "other")
        (session / "other").write_text(f"{time.monotonic_ns()}")
        with pytest.raises(CheckpointTorn):
            task.capture.take(frozen)
    real = PackWriter.add

    def add(self, data, codec):
        events.append("block")
        return real(self, data, codec)

    monkeypatch.setattr(PackWriter, "add", add)
    task.save(session / "big")
    assert events == ["stop", "go", *["block"] * BLOCKS]


def test_small_files_are_read_where_they_are(session):
    task = task_in(session)
    (session / "small").write_bytes(b"x" * 100_000)
    task.save(session / "small")
    assert not (session / ".perdure-clones").exists()


def test_a_restore_from_what_was_compared_and_not_read(session, tmp_path):
    """Ten saves of random changes; each one restored is what was there."""
    task = task_in(session)
    seen = []
    for count in range(10):
        change(session / "big", count % BLOCKS)
        seen.append((task.manifest(session / "big"), (session / "big").read_bytes()))
    for number, (manifest, data) in enumerate(seen):
        folder = tmp_path / str(number)
        folder.mkdir()
        task.restore(manifest, folder)
        assert (folder / "big").read_bytes() == data


class TestWithoutClones:
    @pytest.fixture
    def ext4(self, tmp_path_factory):
        with mounted("ext4", tmp_path_factory.mktemp("ext4"), 128 << 20) as disk:
            yield disk

    def test_ext4_says_so_once_and_files_are_read(self, ext4, monkeypatch, tmp_path):
        monkeypatch.setattr(clones_module, "may_clone", lambda _device: True)
        task = task_in(ext4)
        manifest = task.manifest(ext4 / "big")
        assert task.capture._clones._folder is None
        task.restore(manifest, tmp_path)
        assert (tmp_path / "big").read_bytes() == (ext4 / "big").read_bytes()

    def test_the_error_is_of_its_own_kind(self, ext4):
        (ext4 / "a").write_bytes(b"x" * 4096)
        with (ext4 / "a").open("rb") as file, pytest.raises(CannotClone):
            clone(file.fileno(), ext4 / "b")
        assert not (ext4 / "b").exists()

    def test_packs_are_written_around_the_cache_of_ext4(self, ext4, tmp_path):
        """Alignment counts on a real file system only: tmpfs takes anything."""
        from perdure.store.drivers.posix import PosixDriver

        (ext4 / "store").mkdir()
        (ext4 / "work").mkdir()
        for name, size in (("a", BLOCK_BYTES + 12345), ("b", 10), ("c", 70_001)):
            (ext4 / "work" / name).write_bytes(os.urandom(size))
        task = Task(ext4 / "work", driver=PosixDriver(ext4 / "store"))
        manifest = task.manifest(folders=[ext4 / "work"])
        task.restore(manifest, tmp_path)
        assert tree(tmp_path) == tree(ext4 / "work")


def test_extents_are_told(session):
    (session / "a").write_bytes(os.urandom(1 << 20))
    with (session / "a").open("rb") as file:
        os.fsync(file.fileno())
        found = extents(file.fileno())
    assert found
    assert sum(one.length for one in found) == 1 << 20
