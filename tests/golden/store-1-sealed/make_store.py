"""Made ``store/``, ``key`` and ``expected.json``; kept to show how, not to be run again."""

import json
import os
import random
import shutil
import tempfile
import time
from pathlib import Path

from perdure.clock import SystemClock, pause
from perdure.store.capture.capture import Capture
from perdure.store.capture.save_values import Announcement, CaptureSettings
from perdure.store.files.ownership import Ownership
from perdure.store.files.roots import Roots
from perdure.store.layout import JobId, LaunchId, StepKey, TaskKey, lineage_log, packs
from perdure.store.manifests.manifest import Kept
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.opening import open_store
from perdure.store.packs.blocks import BlockIndex
from perdure.store.packs.pack_writing import PackWriter
from perdure.store.packs.sealing import read_key
from perdure.store.records.log import Log

HERE = Path(__file__).parent
JOB = JobId("01jdxyz0000000000000000000")
LAUNCH = LaunchId("01jdxyz0000000000000000001")
SEALED = (JOB, StepKey(1), TaskKey("0123456789abcdef"))
ADOPTED = (JOB, StepKey(1), TaskKey("fedcba9876543210"))
OUTSIDE = Path("/perdure-golden")  # made by hand, and gone since


def plant(session: Path) -> None:
    (session / "run" / "many").mkdir(parents=True)
    numbers = random.Random(2)
    for name in range(50):
        (session / "run" / "many" / f"{name:02d}").write_bytes(numbers.randbytes(100 + name))
    (session / "run" / "log.txt").write_text("step 1\nstep 2\n" * 20_000)
    (session / "run" / "zeros.bin").write_bytes(bytes(5 << 20) + b"end")
    (session / "run" / "state.bin").write_bytes(numbers.randbytes(100_000))


def log_of(driver, place) -> Log:
    return Log(driver, lineage_log(*place), clock=SystemClock(), pause=pause)


def sealed(driver, session: Path, key) -> list:
    """Two saves: the second one rests on blocks of the first."""
    driver.bytes_per_second = 1e6  # slow enough to compress
    writer = PackWriter(
        driver, packs(*SEALED), launch=LAUNCH, attempt=1, index=BlockIndex(), sealing=key
    )
    capture = Capture(
        Roots(session),
        writer,
        CaptureSettings(attempt=1, launch=LAUNCH),
        ownership=Ownership(first_claim_at_ns=0, attempt_began_at_ns=0),
    )
    log, expected = log_of(driver, SEALED), []
    for number in (1, 2):
        (session / "run" / "which.txt").write_text(f"save {number}")
        frozen = capture.freeze(
            Announcement(
                save=number,
                line_at_ns=time.time_ns(),
                state=f"save {number}",
                folders=(str(session / "run"),),
            )
        )
        manifest = capture.take(frozen).manifest
        header, payload = encode_manifest(manifest)
        log.append({"kind": "save", "claim": 0, **header}, payload)
        files = {
            entry.path: (session / entry.path).read_bytes().hex()[:64]
            for entry in manifest.entries
            if entry.type.value == "f"
        }
        codecs = sorted({int(b.codec) for e in manifest.entries for b in e.blocks if b.is_sealed})
        expected.append({"content": manifest.content, "codecs": codecs, "begins": files})
    return expected


def adopted(driver, session: Path) -> dict:
    """A save of one file that stays where it is, and its digest."""
    OUTSIDE.mkdir()
    path = OUTSIDE / "step-1.bin"
    path.write_bytes(b"adopted" * 1000)
    capture = Capture(
        Roots(session, (OUTSIDE,)),
        PackWriter(driver, packs(*ADOPTED), launch=LAUNCH, attempt=1, index=BlockIndex()),
        CaptureSettings(attempt=1, launch=LAUNCH, outside=Kept.ADOPTED, lineage=packs(*ADOPTED)),
        ownership=Ownership(first_claim_at_ns=0, attempt_began_at_ns=0),
    )
    frozen = capture.freeze(
        Announcement(save=1, line_at_ns=time.time_ns(), state="1", file=str(path))
    )
    manifest = capture.take(frozen).manifest
    header, payload = encode_manifest(manifest)
    log = log_of(driver, ADOPTED)
    log.append({"kind": "save", "claim": 0, **header}, payload)
    log.append({"kind": "hashed", "claim": 0, "save": 1, "digests": {"0": "ab" * 32}})
    shutil.rmtree(OUTSIDE)
    return {"content": manifest.content, "hold": manifest.entries[0].hold}


def main() -> None:
    (HERE / "key").touch(mode=0o600)
    (HERE / "key").write_text(os.urandom(32).hex() + "\n")
    driver = open_store(str(HERE / "store"), write=True, create=True).driver
    session = Path(tempfile.mkdtemp())
    plant(session)
    expected = {"sealed": sealed(driver, session, read_key(HERE / "key"))}
    expected["adopted"] = adopted(driver, session)
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    shutil.rmtree(session)


if __name__ == "__main__":
    main()
