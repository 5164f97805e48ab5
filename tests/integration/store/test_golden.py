"""Stores that earlier versions wrote are read by this one."""

import json
from pathlib import Path

import pytest
from blake3 import blake3

from perdure.clock import SystemClock, pause
from perdure.store.files.roots import Roots
from perdure.store.layout import (
    JobId,
    StepKey,
    TaskKey,
    lineage_log,
    packs,
    record_key,
    record_number,
)
from perdure.store.manifests.manifest import BLOCK_BYTES, Kept, file_digest, with_digests
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.manifests.manifest_reading import decode_manifest
from perdure.store.opening import open_store
from perdure.store.packs.sealing import read_key
from perdure.store.records.lineage import fold_lineage, share_claim
from perdure.store.records.log import Log
from perdure.store.records.record_format import decode_record
from perdure.store.restore.planning import RestoreRequest
from perdure.store.restore.restore import restore
from perdure.store.restore.verify import verify_checkpoint

GOLDEN = Path(__file__).parents[2] / "golden" / "store-1"
PLACE = (JobId("01jdxyz0000000000000000000"), StepKey(1), TaskKey("0123456789abcdef"))
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())


def digest_of(path: Path) -> str:
    data = path.read_bytes()
    starts = range(0, len(data), BLOCK_BYTES)
    return file_digest(blake3(data[start : start + BLOCK_BYTES]).digest() for start in starts).hex()


@pytest.mark.parametrize("number", range(1, len(EXPECTED) + 1))
def test_a_store_of_format_1_is_read(number, tmp_path):
    driver = open_store(str(GOLDEN / "store"), write=False).driver
    log = lineage_log(*PLACE)
    assert [record_number(key) for key in driver.list(log)] == [1, 2, 3, 4]
    key = record_key(log, number)
    record = decode_record(driver.get(key), key=key)
    manifest = decode_manifest(record.header, record.payload, name=f"@{number}")
    expected = EXPECTED[number - 1]
    assert manifest.content == expected["content"] == record.header["content"]
    assert {int(b.codec) for e in manifest.entries for b in e.blocks} == set(expected["codecs"])
    assert verify_checkpoint(driver, packs(*PLACE), manifest) == ()
    request = RestoreRequest(
        driver=driver, packs=packs(*PLACE), manifest=manifest, name="x", roots=Roots(tmp_path)
    )
    restored = restore(request)
    assert restored.state == expected["state"]
    assert restored.file == tmp_path / "run" / "state.bin"
    for path, kind, size, digest, mode, target in expected["entries"]:
        found = tmp_path / path
        match kind:
            case "f":
                assert digest_of(found) == digest
                assert found.stat().st_size == size
                assert found.stat().st_mode & 0o7777 == mode
            case "d":
                assert found.is_dir()
            case "l":
                assert str(found.readlink()) == target
            case _:
                assert not found.exists()


@pytest.mark.parametrize("number", range(1, len(EXPECTED) + 1))
def test_what_is_written_today_is_format_1(number):
    driver = open_store(str(GOLDEN / "store"), write=False).driver
    key = record_key(lineage_log(*PLACE), number)
    record = decode_record(driver.get(key), key=key)
    manifest = decode_manifest(record.header, record.payload, name="@1")
    header, _payload = encode_manifest(manifest)
    assert {name: record.header[name] for name in header} == header


class TestSealed:
    """What came to format 1 on 2026-11-30: encryption, adopted files."""

    FOLDER = Path(__file__).parents[2] / "golden" / "store-1-sealed"
    EXPECTED = json.loads((FOLDER / "expected.json").read_text())
    JOB = JobId("01jdxyz0000000000000000000")
    SEALED = (JOB, StepKey(1), TaskKey("0123456789abcdef"))
    ADOPTED = (JOB, StepKey(1), TaskKey("fedcba9876543210"))

    def lineage(self, place):
        driver = open_store(str(self.FOLDER / "store"), write=False).driver
        log = Log(driver, lineage_log(*place), clock=SystemClock(), pause=pause)
        log.read()
        return driver, log, fold_lineage(log.entries, share=share_claim("launch", ""))

    def manifest(self, log, number):
        record = log.fetch(number)
        return decode_manifest(record.header, record.payload, name=f"@{number}")

    @pytest.fixture
    def key(self, tmp_path):
        path = tmp_path / "key"  # a checkout gives files modes of its own
        path.touch(mode=0o600)
        path.write_bytes((self.FOLDER / "key").read_bytes())
        return read_key(path)

    @pytest.mark.parametrize("number", [1, 2])
    def test_encrypted_checkpoints_are_read(self, number, key, tmp_path):
        driver, log, lineage = self.lineage(self.SEALED)
        assert lineage.point == 2
        manifest = self.manifest(log, number)
        expected = self.EXPECTED["sealed"][number - 1]
        assert manifest.content == expected["content"]
        assert manifest.key_id == key.key_id
        codecs = {int(b.codec) for e in manifest.entries for b in e.blocks if b.is_sealed}
        assert sorted(codecs) == expected["codecs"] == [0, 1, 3]
        assert verify_checkpoint(driver, packs(*self.SEALED), manifest, key) == ()
        (tmp_path / "out").mkdir()
        restore(
            RestoreRequest(
                driver=driver,
                packs=packs(*self.SEALED),
                manifest=manifest,
                name="x",
                roots=Roots(tmp_path / "out"),
                sealing=key,
            )
        )
        for path, begins in expected["begins"].items():
            assert (tmp_path / "out" / path).read_bytes().hex()[:64] == begins

    def test_an_adopted_file_and_its_digest_are_read(self):
        _driver, log, lineage = self.lineage(self.ADOPTED)
        manifest = with_digests(self.manifest(log, 1), lineage.save(1).digests)
        [entry] = manifest.entries
        assert (entry.kept, entry.hold) == (Kept.ADOPTED, self.EXPECTED["adopted"]["hold"])
        assert entry.digest == bytes.fromhex("ab" * 32)
        assert self.manifest(log, 1).content == self.EXPECTED["adopted"]["content"]
