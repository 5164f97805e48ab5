"""A program that overwrites its only file is killed in its next save; see the support module."""

import pytest

from perdure.store.capture import dataset_reading
from perdure.store.files.gathering import Line
from support.in_place_writer import Moment, killed_in_its_next_save

SEED = 20261130
POINTS = 8
SOAK_POINTS = 100


def test_a_mixture_is_never_offered_for_resuming(tmp_path):
    tried = killed_in_its_next_save(tmp_path, points=POINTS, seed=SEED)
    print(f"seed {SEED}: {tried}")
    assert tried.mixtures == []
    assert tried.kills == POINTS * len(Moment)
    assert tried.outcomes == {
        f"{Moment.AT_ONCE.value}: whole": POINTS,
        f"{Moment.EARLY.value}: whole": POINTS,
        f"{Moment.LATE.value}: torn, the save before it stays": POINTS,
        f"{Moment.UNSEEN.value}: torn, the save before it stays": POINTS,
    }


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_mixture_is_never_offered_at_a_hundred_points(tmp_path):
    tried = killed_in_its_next_save(tmp_path, points=SOAK_POINTS, seed=SEED + 1)
    print(f"seed {SEED + 1}: {tried}")
    assert tried.mixtures == []


class TestTheHarnessCanFail:
    def test_a_capture_that_does_not_look_at_the_line(self, tmp_path, monkeypatch):
        monkeypatch.setattr(Line, "has_passed", lambda *_args: False)
        tried = killed_in_its_next_save(tmp_path, points=2, seed=SEED)
        assert len(tried.mixtures) == 2
        assert all(Moment.UNSEEN.value in mixture for mixture in tried.mixtures)

    def test_a_capture_that_does_not_compare_stamps(self, tmp_path, monkeypatch):
        monkeypatch.setattr(dataset_reading, "_is_wanted", lambda *_args: True)
        tried = killed_in_its_next_save(tmp_path, points=2, seed=SEED)
        assert len(tried.mixtures) == 2
        assert all(Moment.LATE.value in mixture for mixture in tried.mixtures)
