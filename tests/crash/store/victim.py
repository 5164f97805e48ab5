"""A process to be killed: saves, puts or restores for ever, and says how far it is."""

import os
import sys
import time
from pathlib import Path

from perdure.store.capture.capture import Capture
from perdure.store.capture.save_values import Announcement, CaptureSettings
from perdure.store.drivers.posix import PosixDriver
from perdure.store.files.ownership import Ownership
from perdure.store.files.roots import Roots
from perdure.store.layout import LaunchId
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.manifests.manifest_reading import decode_manifest
from perdure.store.packs.blocks import BlockIndex
from perdure.store.packs.pack_writing import PackWriter
from perdure.store.records.record_format import decode_record, encode_record
from perdure.store.restore.planning import RestoreRequest
from perdure.store.restore.restore import restore

LAUNCH = LaunchId("01jdxyz0000000000000000001")
PACKS = "packs"


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def put(store: Path) -> None:
    driver = PosixDriver(store)
    number = len(list(driver.list("log")))
    while True:
        number += 1
        body = b"%d " % number * 20_000
        if driver.put_if_absent(f"log/{number:010d}", encode_record({"kind": "x"}, body)):
            say(f"done {number}")


def save(store: Path, session: Path, attempt: int) -> None:
    driver = PosixDriver(store)
    number = len(list(driver.list("log")))
    writer = PackWriter(driver, PACKS, launch=LAUNCH, attempt=attempt, index=BlockIndex())
    settings = CaptureSettings(attempt=attempt, launch=LAUNCH)
    ownership = Ownership(first_claim_at_ns=0, attempt_began_at_ns=0)
    capture = Capture(Roots(session), writer, settings, ownership=ownership)
    while True:
        number += 1
        for name in ("a", "b"):
            (session / f"{name}.new").write_bytes(b"%06d" % number * 300_000)
            (session / f"{name}.new").rename(session / name)
        frozen = capture.freeze(
            Announcement(
                save=number,
                line_at_ns=time.time_ns(),
                state=str(number),
                file=str(session / "a"),
                files=(str(session / "b"),),
            )
        )
        header, payload = encode_manifest(capture.take(frozen).manifest)
        record = encode_record({"kind": "save", **header}, payload)
        driver.put_if_absent(f"log/{number:010d}", record)
        say(f"done {number}")


def put_back(store: Path, session: Path, outside: Path) -> None:
    driver = PosixDriver(store, write=False)
    key = list(driver.list("log"))[-1]
    record = decode_record(driver.get(key), key=key)
    manifest = decode_manifest(record.header, record.payload, name=key)
    say("begun")
    restore(
        RestoreRequest(
            driver=driver,
            packs=PACKS,
            manifest=manifest,
            name=key,
            roots=Roots(session, (outside,)),
        )
    )
    say("done")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["put", store]:
            put(Path(store))
        case ["save", store, session, attempt]:
            save(Path(store), Path(session), int(attempt))
        case ["restore", store, session, outside]:
            put_back(Path(store), Path(session), Path(outside))
