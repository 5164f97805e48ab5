"""Folders that tasks work in."""

import pytest


@pytest.fixture
def session(tmp_path):
    folder = tmp_path / "session"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


@pytest.fixture
def fresh(tmp_path):
    folder = tmp_path / "new session"
    folder.mkdir()
    return folder
