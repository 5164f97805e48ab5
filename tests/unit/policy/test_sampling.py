"""Which blocks are read back."""

import pytest

from perdure.policy.sampling import Subset, choose

SIZES = [100] * 50


@pytest.mark.parametrize(
    ("sizes", "part", "count"),
    [
        (SIZES, 0.1, 5),
        (SIZES, 0.101, 6),
        (SIZES, 1.0, 50),
        (SIZES, 1e-9, 1),
        ([], 0.5, 0),
        ([1], 0.01, 1),
        ([0, 0], 1.0, 1),
    ],
)
def test_as_many_as_make_up_that_part_and_at_least_one(sizes, part, count):
    assert len(choose(sizes, Subset(part=part), name="x")) == count


def test_a_seed_chooses_the_same_and_another_one_or_place_others():
    part = Subset(part=0.2, seed=7)
    assert choose(SIZES, part, name="x") == choose(SIZES, part, name="x")
    assert choose(SIZES, part, name="x") != choose(SIZES, part, name="y")
    assert choose(SIZES, part, name="x") != choose(SIZES, Subset(part=0.2, seed=8), name="x")


def test_sooner_or_later_every_block_is_read():
    read = {n for seed in range(100) for n in choose(SIZES, Subset(part=0.1, seed=seed), name="x")}
    assert read == set(range(50))


@pytest.mark.parametrize(
    ("size", "total", "part"), [(500, 5000, 0.1), (9000, 5000, 1.0), (10, 0, 1.0)]
)
def test_a_size_is_a_part_of_all(size, total, part):
    assert Subset(size_bytes=size, seed=3).of(total) == Subset(size_bytes=size, part=part, seed=3)


def test_a_part_is_that_part_of_whatever():
    assert Subset(part=0.3).of(5) == Subset(part=0.3)
