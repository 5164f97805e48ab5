"""The power fails after every operation that the store does; see the support modules."""

import os

import pytest

from perdure.store.drivers.posix import PosixDriver
from support.broken_drivers import (
    NeverSyncs,
    NeverSyncsData,
    NeverSyncsNames,
    NeverSyncsParents,
    SaysCreatedBeforeTheSync,
    StepByStep,
    SyncsNoJournal,
    WritesUnderItsName,
    making_a_store,
)
from support.lineage_life import LARGE
from support.lives_without_power import powered_off, recorded_life
from support.recorded_disk import Recorder
from support.system_calls import watched

SEED = 20261130
SAMPLE_EACH = 10
SOAK_STATES = 24_000


def test_the_last_acknowledged_checkpoint_is_there_whenever_the_power_fails(tmp_path):
    history = recorded_life(tmp_path / "life")
    tried = powered_off(history, tmp_path, each=SAMPLE_EACH, seed=SEED)
    print(f"seed {SEED}: {tried}")
    assert tried.wrong == []
    assert tried.distinct > 100
    assert tried.lived_on


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_many_states_after_a_power_failure(tmp_path):
    history = recorded_life(tmp_path / "life")
    each = -(-SOAK_STATES // (len(history) + 1))
    tried = powered_off(history, tmp_path, each=each, seed=SEED + 1)
    print(f"seed {SEED + 1}: {tried}")
    assert tried.wrong == []
    assert tried.states >= SOAK_STATES


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_states_of_a_file_of_several_blocks(tmp_path):
    history = recorded_life(tmp_path / "life", sizes=LARGE)
    tried = powered_off(history, tmp_path, each=5, seed=SEED + 2, sizes=LARGE)
    print(f"two blocks, seed {SEED + 2}: {tried}")
    assert tried.wrong == []


class TestTheHarnessCanFail:
    @pytest.mark.parametrize(
        "broken",
        [
            NeverSyncs,
            NeverSyncsData,
            NeverSyncsNames,
            NeverSyncsParents,
            SaysCreatedBeforeTheSync,
            WritesUnderItsName,
            SyncsNoJournal,
        ],
    )
    def test_a_driver_without_one_of_the_syncs(self, tmp_path, broken):
        history = recorded_life(tmp_path / "life", opened=making_a_store(broken))
        assert powered_off(history, tmp_path, each=SAMPLE_EACH, seed=SEED).wrong

    def test_the_plain_driver_with_all_of_them(self, tmp_path):
        history = recorded_life(tmp_path / "life", opened=making_a_store(StepByStep))
        assert powered_off(history, tmp_path, each=SAMPLE_EACH, seed=SEED).wrong == []

    def test_a_delete_before_its_record(self, tmp_path):
        class DeletesEarly(PosixDriver):
            """Packs go when a record about them is about to be put."""

            def put_if_absent(self, key, data):
                if b'"kind":"prune"' in bytes(data):
                    for pack in list(self.list(key.rpartition("/log/")[0] + "/packs"))[:1]:
                        self.delete(pack)
                return super().put_if_absent(key, data)

        history = recorded_life(tmp_path / "life", opened=making_a_store(DeletesEarly))
        assert powered_off(history, tmp_path, each=SAMPLE_EACH, seed=SEED).wrong

    def test_a_call_that_was_not_seen(self, tmp_path):
        (tmp_path / "disk").mkdir()
        recorder = Recorder(tmp_path / "disk")
        with watched(recorder, tmp_path / "disk"):
            PosixDriver(tmp_path / "disk").put("a", b"x")
        recorder.expect_complete()
        fd = os.open(tmp_path / "disk" / "a", os.O_WRONLY)
        os.pwrite(fd, b"y", 0)
        os.close(fd)
        with pytest.raises(AssertionError, match="not seen"):
            recorder.expect_complete()
