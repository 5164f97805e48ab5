"""Which blocks of two clones are the same, by where they lie on the disk."""

from perdure.store.files.cloning import Extent, unchanged_blocks

BLOCK = 100


def same(before, after, size=300):
    pairs = ([Extent(*one) for one in before], [Extent(*one) for one in after])
    return unchanged_blocks(*pairs, size, BLOCK)


def test_the_same_extents_are_the_same_blocks():
    assert same([(0, 1000, 300)], [(0, 1000, 300)]) == [True, True, True]


def test_a_block_that_was_written_lies_elsewhere():
    before = [(0, 1000, 300)]
    after = [(0, 1000, 100), (100, 5000, 100), (200, 1200, 100)]
    assert same(before, after) == [True, False, True]


def test_part_of_a_block_is_enough():
    after = [(0, 1000, 150), (150, 7000, 10), (160, 1160, 140)]
    assert same([(0, 1000, 300)], after) == [True, False, True]


def test_how_extents_are_cut_does_not_matter():
    before = [(0, 1000, 120), (120, 1120, 180)]
    after = [(0, 1000, 10), (10, 1010, 290)]
    assert same(before, after) == [True, True, True]


def test_a_hole_tells_nothing():
    extents = [(0, 1000, 100), (200, 1200, 100)]
    assert same(extents, extents) == [True, False, True]


def test_a_last_block_ends_with_the_file():
    assert same([(0, 1000, 4096)], [(0, 1000, 4096)], size=250) == [True, True, True]


def test_what_was_moved_is_not_the_same():
    assert same([(0, 1000, 300)], [(0, 1100, 300)]) == [False, False, False]


def test_nothing_was_there_before():
    assert same([], [(0, 1000, 300)]) == [False, False, False]
