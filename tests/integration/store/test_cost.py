"""What a checkpoint costs: counted, never timed."""

import os
import tracemalloc

import pytest

from perdure.store.drivers.posix import PosixDriver
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.records.record_format import encode_record
from store_kit import Task

MIB = 1 << 20


@pytest.fixture
def task(tmp_path):
    (tmp_path / "session").mkdir()
    (tmp_path / "store").mkdir()
    return Task(tmp_path / "session", driver=PosixDriver(tmp_path / "store"))


def put(task, saved, number):
    header, payload = encode_manifest(saved.manifest)
    task.driver.put_if_absent(f"log/{number:010d}", encode_record(header, payload))


def test_a_checkpoint_costs_four_syncs_and_a_state_alone_two(task, monkeypatch):
    for name in "abc":
        (task.session / name).write_bytes(os.urandom(1000))
    put(task, task.save(folders=[task.session]), 1)
    counted = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (counted.append(fd), real(fd)))
    for name in "abc":
        (task.session / name).write_bytes(os.urandom(1000))
    task.capture.announce(tuple(str(task.session / name) for name in "ab"))
    put(task, task.save(folders=[task.session]), 2)
    assert len(counted) == 4
    counted.clear()
    put(task, task.save(state="only"), 3)
    assert len(counted) == 2


def test_a_big_file_is_never_held_in_memory(task, tmp_path):
    with (task.session / "big").open("wb") as file:
        for _ in range(12):
            file.write(os.urandom(8 * MIB))
    (tmp_path / "fresh").mkdir()
    tracemalloc.start()
    try:
        manifest = task.save(task.session / "big").manifest
        task.restore(manifest, tmp_path / "fresh")
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert manifest.size_bytes == 96 * MIB
    assert peak < 32 * MIB
