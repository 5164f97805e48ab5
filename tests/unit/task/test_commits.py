"""Waiting for a commit."""

import json
import threading

import pytest

from perdure.task import Commit, commits, wait_committed


@pytest.fixture
def commit_file(tmp_path, monkeypatch):
    path = tmp_path / "checkpoint_committed.json"
    monkeypatch.setenv("PERDURE_COMMIT_FILE", str(path))
    return path


def write(path, **body):
    new = path.with_name("new")
    new.write_text(json.dumps(body), encoding="utf-8")
    new.replace(path)


def test_without_perdure_there_is_nothing_to_wait_for(monkeypatch):
    monkeypatch.delenv("PERDURE_COMMIT_FILE", raising=False)
    assert wait_committed(1) is None


@pytest.mark.parametrize("save", [1, 2])
def test_this_save_or_a_later_one(commit_file, save):
    write(commit_file, save=2, tier="durable", sequence=7)
    assert wait_committed(save) == Commit(save=2, tier="durable", sequence=7)


def test_a_local_one_has_no_sequence(commit_file):
    write(commit_file, save=1, tier="local", sequence=None)
    assert wait_committed(1) == Commit(save=1, tier="local", sequence=None)


def test_it_waits_until_it_is_there(commit_file, monkeypatch):
    looked = threading.Event()
    read = commits._read
    monkeypatch.setattr(commits, "_read", lambda path: looked.set() or read(path))
    found = []
    waiting = threading.Thread(target=lambda: found.append(wait_committed(3, timeout=60)))
    write(commit_file, save=2, tier="durable", sequence=7)
    waiting.start()
    assert looked.wait(30)
    write(commit_file, save=3, tier="durable", sequence=8)
    waiting.join(60)
    assert found == [Commit(save=3, tier="durable", sequence=8)]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"save": "x", "tier": 1}'])
def test_time_ends_whatever_is_in_the_file(commit_file, text):
    commit_file.write_text(text, encoding="utf-8")
    assert wait_committed(1, timeout=0.0) is None
