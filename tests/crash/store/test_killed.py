"""SIGKILL from outside at seeded moments: what is visible is whole, what was said is there."""

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from perdure.store.drivers.posix import PosixDriver
from perdure.store.files.outside_decision import Window
from perdure.store.files.roots import Roots
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.manifests.manifest_reading import decode_manifest
from perdure.store.packs.blocks import listed_packs, packs_of
from perdure.store.records.record_format import decode_record, encode_record
from perdure.store.restore.planning import RestoreRequest
from perdure.store.restore.restore import restore
from perdure.store.restore.verify import verify_checkpoint
from store_kit import FUTURE_NS, Task, tree

VICTIM = Path(__file__).with_name("victim.py")
ROUNDS = 6
SOAK_ROUNDS = 150


def run_and_kill(delay_seconds: float, *args: object) -> list[str]:
    """Start the victim, kill it that long after its first word; what it said."""
    victim = subprocess.Popen(
        [sys.executable, VICTIM, *map(str, args)], stdout=subprocess.PIPE, text=True
    )
    said = []
    try:
        first = victim.stdout.readline()
        assert first, "the victim did not start"
        said.append(first)
        # No condition to wait for: the moment of the kill is what is tried out.
        threading.Event().wait(delay_seconds)
    finally:
        victim.kill()
        said += victim.stdout.readlines()
        victim.stdout.close()
        victim.wait(timeout=60)
    return [line.strip() for line in said]


def acknowledged(said: list[str]) -> int:
    return max((int(line.split()[1]) for line in said if line.startswith("done ")), default=0)


def rounds(count: int) -> list[float]:
    return [random.Random(seed).uniform(0.0, 0.08) for seed in range(count)]


@pytest.fixture
def store(tmp_path):
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


def kill_puts(store: Path, delays: list[float]) -> None:
    for delay in delays:
        last = acknowledged(run_and_kill(delay, "put", store))
        driver = PosixDriver(store)
        keys = list(driver.list("log"))
        assert [int(key[-10:]) for key in keys] == list(range(1, len(keys) + 1))
        assert len(keys) >= last
        for number, key in enumerate(keys, start=1):
            record = decode_record(driver.get(key), key=key)
            assert record.payload == b"%d " % number * 20_000
        driver.sweep("", older_than_seconds=0)
        assert [path for path in store.rglob("*") if path.name.startswith(".")] == []


def kill_saves(store: Path, session: Path, tmp_path: Path, delays: list[float]) -> None:
    for attempt, delay in enumerate(delays, start=1):
        last = acknowledged(run_and_kill(delay, "save", store, session, attempt))
        driver = PosixDriver(store)
        keys = list(driver.list("log"))
        assert len(keys) >= last
        manifests = []
        for key in keys:
            record = decode_record(driver.get(key), key=key)
            manifests.append(decode_manifest(record.header, record.payload, name=key))
            assert verify_checkpoint(driver, "packs", manifests[-1]) == ()
        assert packs_of(manifests) <= set(listed_packs(driver, "packs"))
        number = int(keys[-1][-10:])
        fresh = tmp_path / f"fresh-{attempt}"
        fresh.mkdir()
        request = RestoreRequest(
            driver=driver, packs="packs", manifest=manifests[-1], name="x", roots=Roots(fresh)
        )
        assert restore(request).state == str(number)
        for name in ("a", "b"):
            assert (fresh / name).read_bytes() == b"%06d" % number * 300_000


def test_a_put_that_is_killed_leaves_whole_objects_only(store):
    kill_puts(store, rounds(ROUNDS))


@pytest.mark.soak
def test_many_puts_that_are_killed(store):
    kill_puts(store, rounds(SOAK_ROUNDS))


def test_a_capture_that_is_killed_leaves_whole_checkpoints_only(store, tmp_path):
    (tmp_path / "session").mkdir()
    kill_saves(store, tmp_path / "session", tmp_path, rounds(ROUNDS))


@pytest.mark.soak
def test_many_captures_that_are_killed(store, tmp_path):
    (tmp_path / "session").mkdir()
    kill_saves(store, tmp_path / "session", tmp_path, rounds(SOAK_ROUNDS // 5))


def kill_restores(store: Path, tmp_path: Path, delays: list[float]) -> None:
    session, outside = tmp_path / "session", tmp_path / "outside"
    session.mkdir()
    outside.mkdir()
    driver = PosixDriver(store)
    for number in range(60):
        (session / f"f{number}").write_bytes(os.urandom(100_000))
        (outside / f"o{number}").write_bytes(os.urandom(100_000))
    task = Task(session, (outside,), driver=driver)
    manifest = task.save(folders=[session, outside]).manifest
    header, payload = encode_manifest(manifest)
    for key in driver.list("lineages"):
        driver.put(f"packs/{key.rpartition('/')[2]}", driver.get(key))
    driver.put_if_absent("log/0000000001", encode_record({"kind": "save", **header}, payload))
    wanted, wanted_outside = tree(session), tree(outside)
    for number, delay in enumerate(delays):
        fresh = tmp_path / f"fresh-{number}"
        fresh.mkdir()
        for path in list(outside.iterdir())[::2]:
            path.unlink()
        run_and_kill(delay, "restore", store, fresh, outside)
        run_and_kill(delay / 2, "restore", store, fresh, outside)
        request = RestoreRequest(
            driver=driver,
            packs="packs",
            manifest=manifest,
            name="x",
            roots=Roots(fresh, (outside,)),
            windows=(Window(began_at_ns=0, ended_at_ns=FUTURE_NS),),
        )
        restore(request)
        assert tree(fresh) == wanted
        assert tree(outside) == wanted_outside


def test_a_restore_that_is_killed_is_done_again(store, tmp_path):
    kill_restores(store, tmp_path, rounds(ROUNDS))


@pytest.mark.soak
def test_many_restores_that_are_killed(store, tmp_path):
    kill_restores(store, tmp_path, rounds(SOAK_ROUNDS // 5))
