import sqlite3
from contextlib import closing

import pytest

from perdure.database.cache import DATABASE, Cache, CachedFacts

STORE, JOB = "s" * 32, "01jdxyz0000000000000000000"
FACTS = CachedFacts(positions={"log": 3}, facts={"steps": []})


def kept(folder, version=1):
    cache = Cache(folder, version=version)
    cache.keep(STORE, JOB, FACTS)
    return cache


def test_what_was_kept_is_found(tmp_path):
    assert kept(tmp_path).find(STORE, JOB) == FACTS


def test_an_outline_is_found_and_forgotten_with_its_job(tmp_path):
    cache = kept(tmp_path)
    cache.keep_outline(STORE, JOB, "outline")
    assert cache.find_outline(STORE, JOB) == "outline"
    assert Cache(tmp_path, version=2).find_outline(STORE, JOB) is None
    cache.forget(STORE, JOB)
    assert cache.find_outline(STORE, JOB) is None


def test_another_store_job_or_version_finds_nothing(tmp_path):
    cache = kept(tmp_path)
    assert cache.find("t" * 32, JOB) is None
    assert cache.find(STORE, "other") is None
    assert Cache(tmp_path, version=2).find(STORE, JOB) is None


def test_the_last_one_kept_counts(tmp_path):
    cache = kept(tmp_path)
    cache.keep(STORE, JOB, CachedFacts(positions={"log": 4}, facts={}))
    assert cache.find(STORE, JOB).positions == {"log": 4}


def test_only_the_user_may_read_it(tmp_path):
    kept(tmp_path / "cache")
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0
    assert (tmp_path / "cache" / DATABASE).stat().st_mode & 0o077 == 0


def test_looking_makes_no_file(tmp_path):
    cache = Cache(tmp_path / "cache", version=1)
    assert cache.find(STORE, JOB) is None
    assert cache.find_outline(STORE, JOB) is None
    cache.forget(STORE, JOB)
    assert not (tmp_path / "cache").exists()


def test_forgetting_and_dropping(tmp_path):
    cache = kept(tmp_path)
    cache.forget(STORE, JOB)
    assert cache.find(STORE, JOB) is None
    assert cache.drop()
    assert not cache.drop()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", [b"", b"no database at all" * 100, b"SQLite format 3\0" * 50])
def test_a_damaged_file_is_as_if_it_were_empty_and_is_made_anew(tmp_path, damage):
    cache = kept(tmp_path)
    (tmp_path / DATABASE).write_bytes(damage)
    assert cache.find(STORE, JOB) is None
    cache.keep(STORE, JOB, FACTS)
    assert cache.find(STORE, JOB) == FACTS


def test_a_flipped_bit_in_a_row_is_a_missing_row(tmp_path):
    cache = kept(tmp_path)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as base, base:
        base.execute("UPDATE job_facts SET facts = '{\"steps\":[1]}'")
    assert cache.find(STORE, JOB) is None


def test_tables_of_another_version_are_made_anew(tmp_path):
    with closing(sqlite3.connect(tmp_path / DATABASE)) as base, base:
        base.execute("CREATE TABLE job_facts (x)")
        base.execute("PRAGMA user_version = 77")
    assert kept(tmp_path).find(STORE, JOB) == FACTS


def test_a_locked_cache_is_done_without(tmp_path):
    cache = kept(tmp_path)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as base:
        base.execute("BEGIN EXCLUSIVE")
        cache.keep(STORE, JOB, CachedFacts(positions={}, facts={}))
        assert cache.find(STORE, JOB) is None
        base.rollback()
    assert cache.find(STORE, JOB) == FACTS


def test_a_place_that_cannot_be_written_is_done_without(tmp_path):
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "cache", version=1)
    cache.keep(STORE, JOB, FACTS)
    assert cache.find(STORE, JOB) is None
    assert not cache.drop()
