"""Stores that earlier versions wrote are read by this one."""

import json
from pathlib import Path

import pytest
from blake3 import blake3

from perdure.store.layout import (
    JobId,
    StepKey,
    TaskKey,
    lineage_log,
    packs,
    record_key,
    record_number,
)
from perdure.store.manifest import BLOCK_BYTES, file_digest
from perdure.store.manifest_format import encode_manifest
from perdure.store.manifest_reading import decode_manifest
from perdure.store.opening import open_store
from perdure.store.record_format import decode_record
from perdure.store.restore import RestoreRequest, restore
from perdure.store.roots import Roots
from perdure.store.verify import verify_checkpoint

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
