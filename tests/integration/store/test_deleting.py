import os

import pytest

from perdure.errors import StoreUnavailable
from perdure.store import layout
from perdure.store.deleting import (
    Remains,
    delete_pruned,
    packs_to_prune,
    remains,
    remove_job,
)
from perdure.store.drivers.memory import Call, MemoryDriver
from perdure.store.drivers.posix import PosixDriver
from perdure.store.layout import JobId, LaunchId, PackId, StepKey, TaskKey
from perdure.store.packs.blocks import BlockIndex, listed_packs
from perdure.store.packs.pack_writing import PackWriter
from perdure.store.restore.verify import verify_checkpoint
from store_kit import LAUNCH, PACKS, Task, tree

JOB = JobId("01jdxyz0000000000000000000")
OTHER = JobId("01jdxyz0000000000000000009")


@pytest.fixture(params=["memory", "posix"])
def driver(request, tmp_path):
    if request.param == "memory":
        return MemoryDriver()
    (tmp_path / "store").mkdir()
    return PosixDriver(tmp_path / "store")


@pytest.fixture
def history(tmp_path, driver):
    """Three saves: the second shares a block with the first, the third with nobody."""
    session = tmp_path / "session"
    session.mkdir()
    task = Task(session, driver=driver)
    (session / "a").write_bytes(b"a" * 1000)
    first = task.manifest(session / "a")
    (session / "b").write_bytes(b"b" * 1000)
    second = task.manifest(session / "a", session / "b")
    (session / "a").write_bytes(b"c" * 1000)
    third = task.manifest(session / "a")
    return driver, first, second, third


def test_only_packs_that_nobody_needs_are_named(history):
    _driver, first, second, third = history
    assert packs_to_prune([first], [second, third]) == ()
    assert packs_to_prune([second], [first, third]) == (f"{LAUNCH}-1-2",)
    assert packs_to_prune([first, second], [third]) == (f"{LAUNCH}-1-1", f"{LAUNCH}-1-2")


def test_packs_of_ended_launches_that_nobody_names_go_too(history):
    driver, _first, _second, third = history
    dead = LaunchId("01jdxyz0000000000000000005")
    writer = PackWriter(driver, PACKS, launch=dead, attempt=1, index=BlockIndex())
    writer.add(os.urandom(10))
    writer.finish()
    listed = listed_packs(driver, PACKS)
    assert len(listed) == 4
    assert packs_to_prune([], [third], listed=listed, ended=[dead]) == (f"{dead}-1-1",)
    assert packs_to_prune([], [third], listed=listed, ended=[]) == ()


def test_what_is_pruned_goes_and_the_rest_stays_whole(history):
    driver, first, second, third = history
    pruned = packs_to_prune([second], [first, third])
    deleted = delete_pruned(driver, PACKS, pruned=pruned, living=[first, third])
    assert deleted.packs == pruned
    assert verify_checkpoint(driver, PACKS, first) == ()
    assert verify_checkpoint(driver, PACKS, third) == ()
    assert [d.path for d in verify_checkpoint(driver, PACKS, second)] == ["b"]
    assert delete_pruned(driver, PACKS, pruned=pruned, living=[first, third]).packs == ()


def test_a_living_checkpoint_wins_over_a_wrong_record(history):
    driver, first, second, third = history
    named = [*first.packs, *third.packs, PackId(f"{LAUNCH}-7-7")]
    deleted = delete_pruned(driver, PACKS, pruned=named, living=[second, third])
    assert deleted.packs == ()
    assert set(deleted.still_needed) == {*first.packs, *third.packs}
    assert verify_checkpoint(driver, PACKS, second) == ()


def test_a_pruned_pack_is_never_deduplicated_against(history, tmp_path):
    _driver, first, _second, _third = history
    index = BlockIndex()
    index.add_manifest(first, without=set(first.packs))
    block = first.entries[0].blocks[0]
    assert index.find(block.digest, block.length) is None
    index.add_manifest(first)
    found = index.find(block.digest, block.length)
    assert found is not None
    assert found.pack == first.packs[0]
    assert index.find(block.digest, block.length - 1) is None


def job_objects(driver, job):
    driver.put(layout.job_record(job), b"job")
    driver.put(layout.record_key(layout.job_log(job), 1), b"1")
    driver.put(layout.journal(job, LAUNCH), b"j")
    lineage = layout.lineage_log(job, StepKey(1), TaskKey("0" * 16))
    driver.put(layout.record_key(lineage, 1), b"1")


def test_a_job_goes_whole_and_alone(driver):
    job_objects(driver, JOB)
    job_objects(driver, OTHER)
    before = set(driver.list(""))
    assert remove_job(driver, JOB) == 4
    left = set(driver.list(""))
    assert left == {key for key in before if JOB not in key}
    assert driver.children(layout.JOBS) == (OTHER,)
    assert remains(driver) == Remains()


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_removal_that_was_interrupted_is_found_and_finished(after):
    driver = MemoryDriver()
    job_objects(driver, JOB)
    job_objects(driver, OTHER)
    left = [after]

    def before(call, _key):
        if call is Call.DELETE:
            left[0] -= 1
            if left[0] < 0:
                raise StoreUnavailable("away")

    driver.before = before
    with pytest.raises(StoreUnavailable):
        remove_job(driver, JOB)
    driver.before = None
    assert driver.head(layout.job_record(JOB)) is None
    assert remains(driver) == Remains(removals=(JOB,))
    remove_job(driver, JOB)
    assert remains(driver) == Remains()
    assert len(list(driver.list(""))) == 4


def test_a_restore_after_pruning_still_works(history, tmp_path):
    driver, first, second, third = history
    delete_pruned(driver, PACKS, pruned=packs_to_prune([first, second], [third]), living=[third])
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    Task(tmp_path / "session", driver=driver).restore(third, fresh)
    assert tree(fresh)["a"][0] == b"c" * 1000
