"""Made ``store/`` and ``expected.json`` of format 1; kept to show how, not to be run again."""

import json
import random
import shutil
import tempfile
import time
from pathlib import Path

from perdure.store.capture.capture import Capture
from perdure.store.capture.save_values import Announcement, CaptureSettings
from perdure.store.compression import Codec
from perdure.store.files.ownership import Ownership
from perdure.store.files.roots import Roots
from perdure.store.layout import JobId, LaunchId, StepKey, TaskKey, lineage_log, packs, record_key
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.opening import open_store
from perdure.store.packs.blocks import BlockIndex
from perdure.store.packs.pack_writing import PackWriter
from perdure.store.records.record_format import encode_record

HERE = Path(__file__).parent
JOB = JobId("01jdxyz0000000000000000000")
LAUNCH = LaunchId("01jdxyz0000000000000000001")
PLACE = (JOB, StepKey(1), TaskKey("0123456789abcdef"))


def plant(session: Path) -> None:
    (session / "run" / "empty").mkdir(parents=True)
    (session / "run" / "log.txt").write_text("step 1\nstep 2\n")
    (session / "run" / "none").write_text("")
    (session / "run" / "zeros.bin").write_bytes(bytes(5 << 20) + b"end")
    numbers = random.Random(1)
    data = b"".join(numbers.randbytes(3) + b"\0\0\0\xf0\x3f" for _ in range(9000))
    (session / "run" / "state.bin").write_bytes(data)
    (session / "run" / "latest").symlink_to("state.bin")
    (session / "run" / "tool.sh").write_text("#!/bin/sh\n")
    (session / "run" / "tool.sh").chmod(0o755)


def main() -> None:
    store = open_store(str(HERE / "store"), write=True, create=True)
    top = Path(tempfile.mkdtemp())
    expected = []
    for number, codec in enumerate(Codec, start=1):
        session = top / str(number)
        session.mkdir()
        plant(session)
        (session / "run" / "which.txt").write_text(codec.name * 100)
        writer = PackWriter(
            store.driver,
            packs(*PLACE),
            launch=LAUNCH,
            attempt=number,
            index=BlockIndex(),
            codec=codec,
        )
        capture = Capture(
            Roots(session),
            writer,
            CaptureSettings(attempt=number, launch=LAUNCH),
            ownership=Ownership(first_claim_at_ns=0, attempt_began_at_ns=0),
        )
        frozen = capture.freeze(
            Announcement(
                save=1,
                line_at_ns=time.time_ns(),
                state=f"frame={number} \u2013 ü",
                file=str(session / "run" / "state.bin"),
                files=(str(session / "gone"),),
                folders=(str(session / "run"),),
            )
        )
        manifest = capture.take(frozen).manifest
        header, payload = encode_manifest(manifest)
        record = {"kind": "save", "id": f"{number:032x}", "at": "2026-11-29T17:00:00.000Z"}
        key = record_key(lineage_log(*PLACE), number)
        store.driver.put_if_absent(key, encode_record({**record, "claim": 0, **header}, payload))
        expected.append(
            {
                "content": manifest.content,
                "state": manifest.state,
                "codecs": sorted(
                    {int(block.codec) for entry in manifest.entries for block in entry.blocks}
                ),
                "entries": [
                    [e.path, e.type.value, e.size, e.digest.hex(), e.mode, e.target]
                    for e in manifest.entries
                ],
            }
        )
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
    shutil.rmtree(top)


if __name__ == "__main__":
    main()
