"""Flips, cuts and swaps of objects, and where a worker goes on then; see the support module."""

import pytest

from perdure.policy import resuming
from perdure.store.packs import sealing
from perdure.store.records import lineage, log
from perdure.store.records.record_format import decode_record
from support.damaged_stores import DamagedStore

SAMPLE = 300
SOAK = 10_000


def test_a_damage_is_named_and_the_newest_whole_checkpoint_is_gone_on_from(tmp_path):
    tried = DamagedStore(tmp_path / "store").try_all(range(SAMPLE))
    print(f"seeds 0 to {SAMPLE - 1}: {tried}")
    assert tried.wrong == []
    assert len(tried.damages) == 9
    assert tried.named.total() + tried.unused + tried.cut_tails == SAMPLE
    assert len(tried.landed) > 3


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", [0, 1])
def test_many_damages(tmp_path, part):
    seeds = range(SAMPLE + part, SAMPLE + SOAK + 1000, 2)
    tried = DamagedStore(tmp_path / "store").try_all(seeds)
    print(f"seeds {seeds}: {tried}")
    assert tried.wrong == []
    assert tried.named.total() >= SOAK // 2


def test_a_damaged_number_of_a_format_is_no_later_format(tmp_path):
    """Found by the long run: the digit 1 became a 3."""
    tried = DamagedStore(tmp_path / "store").try_all(range(6841, 6842))
    assert tried.wrong == []
    assert tried.named.total() == 1


class TestTheHarnessCanFail:
    def wrong(self, tmp_path):
        return " ".join(DamagedStore(tmp_path / "store").try_all(range(60)).wrong)

    def test_blocks_that_nobody_checks(self, tmp_path, monkeypatch):
        class Trusting:
            def __ne__(self, other):
                return False

            __hash__ = None

        store = DamagedStore(tmp_path / "store")
        monkeypatch.setattr(type(sealing.PLAIN), "digest", lambda *_args: Trusting())
        assert "flip of a pack" in " ".join(store.try_all(range(60)).wrong)

    def test_records_that_do_not_say_where_they_belong(self, tmp_path, monkeypatch):
        monkeypatch.setattr(log, "decode_record_of", decode_record)
        monkeypatch.setattr("perdure.manager.checking.decode_record_of", decode_record)
        assert "swap of a record" in self.wrong(tmp_path)

    def test_claims_that_are_lost_for_ever(self, tmp_path, monkeypatch):
        monkeypatch.setattr(lineage._Fold, "damaged", lambda *_args: None)
        assert "went on from 4 and not from 8" in self.wrong(tmp_path)

    def test_a_policy_that_tries_damaged_checkpoints_no_more(self, tmp_path, monkeypatch):
        monkeypatch.setattr(
            resuming.KnownCheckpoint, "is_whole", property(lambda one: one.sequence != 7)
        )
        assert "and not from 7" in self.wrong(tmp_path)
