"""The dataset: accumulate, reset, limits."""

import pytest

from perdure.protocol import CheckpointFiles, Dataset, DatasetFold, FilesMode
from perdure.protocol import dataset as module

RESET = FilesMode.RESET


def test_declarations_accumulate_in_order_and_each_path_once():
    fold = DatasetFold()
    assert fold.dataset.is_empty
    assert fold.declare(CheckpointFiles(files=("/b", "/a")), line_number=1) is None
    first = fold.dataset
    assert fold.declare(CheckpointFiles(files=("/b", "/c"), dirs=("/b",)), line_number=2) is None
    assert first == Dataset(files=("/b", "/a"))
    assert fold.dataset == Dataset(files=("/b", "/a", "/c"), dirs=("/b",))
    assert fold.dataset is fold.dataset


def test_reset_replaces():
    fold = DatasetFold()
    fold.declare(CheckpointFiles(files=("/a",), dirs=("/d",)), line_number=1)
    fold.declare(CheckpointFiles(files=("/b",), mode=RESET), line_number=2)
    assert fold.dataset == Dataset(files=("/b",))
    fold.declare(CheckpointFiles(mode=RESET), line_number=3)
    assert fold.dataset.is_empty


@pytest.mark.parametrize(("count", "size"), [(3, 10**6), (10**6, 9)])
def test_a_limit_makes_it_incomplete_until_a_reset(monkeypatch, count, size):
    monkeypatch.setattr(module, "PATH_COUNT_LIMIT", count)
    monkeypatch.setattr(module, "PATH_BYTES_LIMIT", size)
    fold = DatasetFold()
    assert fold.declare(CheckpointFiles(files=("/a1", "/a2"), dirs=("/a3",)), line_number=1) is None
    assert fold.declare(CheckpointFiles(files=("/a1",)), line_number=2) is None  # known already
    refused = fold.declare(CheckpointFiles(files=("/a4",)), line_number=7)
    assert "at most" in refused
    assert "line 7" in fold.incomplete
    fold.declare(CheckpointFiles(files=("/a5",)), line_number=8)
    assert "line 7" in fold.incomplete
    assert fold.declare(CheckpointFiles(files=("/a9",), mode=RESET), line_number=9) is None
    assert fold.incomplete is None
    assert fold.dataset == Dataset(files=("/a9",))


def test_the_limits_are_those_of_the_specification():
    assert module.PATH_COUNT_LIMIT == 100_000
    fold = DatasetFold()
    many = tuple(f"/{n}" for n in range(100_000))
    assert fold.declare(CheckpointFiles(files=many), line_number=1) is None
    assert fold.declare(CheckpointFiles(dirs=("/d",)), line_number=2) is not None
