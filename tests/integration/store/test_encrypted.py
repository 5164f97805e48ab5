"""Checkpoints encrypted at rest: nothing of them can be read without the key, all of it with it."""

import os

import pytest

from perdure.errors import CheckpointCorrupt, CheckpointError
from perdure.store.compression import Codec
from perdure.store.drivers.memory import MemoryDriver
from perdure.store.manifests.manifest import BLOCK_BYTES
from perdure.store.packs.sealing import Key
from perdure.store.restore.verify import verify_checkpoint
from store_kit import PACKS, Task, tree

KEY = Key(b"k" * 32)


@pytest.fixture
def saved(session):
    (session / "big").write_bytes(b"a secret of four words " * 400_000)
    (session / "small").write_bytes(b"a secret of four words")
    (session / "zeros").write_bytes(bytes(BLOCK_BYTES))
    task = Task(session, sealing=KEY)
    return task, task.manifest(folders=[session])


def stored(task) -> bytes:
    return b"".join(task.driver.get(key) for key in task.driver.list(""))


def test_it_comes_back(saved, session, fresh):
    task, manifest = saved
    task.restore(manifest, fresh, sealing=KEY)
    assert tree(fresh) == tree(session)
    assert verify_checkpoint(task.driver, PACKS, manifest, KEY) == ()


def test_nothing_of_it_lies_in_the_store(saved):
    task, _ = saved
    assert b"secret" not in stored(task)


def test_equal_blocks_are_still_stored_once(session):
    data = os.urandom(BLOCK_BYTES)
    (session / "a").write_bytes(data)
    (session / "b").write_bytes(data)
    task = Task(session, sealing=KEY)
    assert task.save(folders=[session]).manifest.new_bytes == BLOCK_BYTES + 28
    (session / "c").write_bytes(data)
    assert task.save(folders=[session]).manifest.new_bytes == 0


@pytest.mark.parametrize("sealing", [None, Key(b"x" * 32)])
def test_without_the_key_nothing_is_touched(saved, fresh, sealing):
    task, manifest = saved
    given = {} if sealing is None else {"sealing": sealing}
    with pytest.raises(CheckpointError, match=f"encrypted with key {KEY.key_id}"):
        task.restore(manifest, fresh, **given)
    assert tree(fresh) == {}


def test_a_changed_byte_is_found(saved, fresh):
    task, manifest = saved
    [pack] = task.driver.children(PACKS)
    key = f"{PACKS}/{pack}"
    data = bytearray(task.driver.get(key))
    block = next(e for e in manifest.entries if e.path == "small").blocks[0]
    data[block.offset] ^= 1
    task.driver.put(key, bytes(data))
    assert [one.path for one in verify_checkpoint(task.driver, PACKS, manifest, KEY)] == ["small"]
    with pytest.raises(CheckpointCorrupt, match="small"):
        task.restore(manifest, fresh, sealing=KEY)


def test_content_ids_do_not_tell_what_it_is(session):
    (session / "a").write_bytes(b"known")
    ids = {
        Task(session, sealing=sealing).manifest(session / "a").content
        for sealing in (KEY, Key(b"x" * 32))
    }
    ids.add(Task(session).manifest(session / "a").content)
    assert len(ids) == 3


def test_compressed_first(session, fresh):
    driver = MemoryDriver()
    driver.bytes_per_second = 1e6
    (session / "log").write_bytes(b"a line of a log\n" * 500_000)
    task = Task(session, driver=driver, sealing=KEY)
    manifest = task.manifest(session / "log")
    [entry] = manifest.entries
    assert {block.codec for block in entry.blocks} == {Codec.ZSTD}
    assert all(block.is_sealed for block in entry.blocks)
    assert manifest.new_bytes < 500_000
    task.restore(manifest, fresh, sealing=KEY)
    assert tree(fresh) == tree(session)
