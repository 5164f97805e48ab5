"""One process that saves and restores as a worker does, for `bench/store.py`.

    python bench/store_subject.py capture STORE DATASET      a save; then one for each line on stdin
    python bench/store_subject.py restore STORE FOLDER       the newest save, into FOLDER

What runs is what a worker runs between "the save's line was read" and "committed": `TaskStore` with
a lineage's log, the capture of the declared files or folder, the record. Each save prints
``seconds cpu-seconds stored-bytes peak-resident-KiB``.
"""

import contextlib
import resource
import sys
import time
from pathlib import Path

from perdure.clock import SystemClock
from perdure.policy.stops import Scope  # noqa: F401 - what a worker has imported before its task starts
from perdure.store import layout
from perdure.store.capture import Announcement
from perdure.store.layout import JobId, LaunchId, StepKey, TaskKey
from perdure.store.lineage import share_claim
from perdure.store.log import Log
from perdure.store.manifest_format import encode_manifest
from perdure.store.opening import open_store
from perdure.worker.declared import DeclaredFile, Neighbours
from perdure.worker.job_records import LineageId
from perdure.worker.task_store import CaptureSurroundings, TaskStore, TaskStorePlan

JOB = JobId("01jdxyz0000000000000000000")
LAUNCH = LaunchId("01jdxyz0000000000000000001")
LINEAGE = LineageId(step=StepKey(1), task=TaskKey("0123456789abcdef"))


def task_store(url: str) -> TaskStore:
    """What one attempt does with the store, its log read."""
    clock = SystemClock()
    driver = open_store(url, write=True, create=True).driver
    log = Log(driver, layout.lineage_log(JOB, LINEAGE.step, LINEAGE.task), clock=clock, pause=print)
    log.read()
    share = share_claim(LAUNCH, "2020-01-01T00:00:00Z")
    return TaskStore(
        TaskStorePlan(
            driver=driver,
            job=JOB,
            lineage=LINEAGE,
            launch=LAUNCH,
            claim=share,
            share=share,
            log=log,
            clock=clock,
            declared=DeclaredFile(driver, layout.declared(JOB, LAUNCH)),
            neighbours=Neighbours(driver, JOB, LAUNCH),
        )
    )


def capture(url: str, dataset: Path) -> None:
    """A save now, and one for each line that is read."""
    store = task_store(url)
    taking = store.capture(
        CaptureSurroundings(
            session_dir=dataset.parent,
            base=None,
            began_at_ns=time.time_ns(),
            freezer=contextlib.nullcontext,
            is_made_anew=lambda _path: False,
            told=print,
        )
    )
    is_folder = dataset.is_dir()
    number = 0
    while True:
        number += 1
        began, cpu = time.monotonic(), time.process_time()
        frozen = taking.freeze(
            Announcement(
                save=number,
                line_at_ns=time.time_ns(),
                files=() if is_folder else (str(dataset),),
                folders=(str(dataset),) if is_folder else (),
            )
        )
        saved = taking.take(frozen)
        header, payload = encode_manifest(saved.manifest)
        store.put({"kind": "save", **header}, payload)
        took = time.monotonic() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(
            f"{took:.4f} {time.process_time() - cpu:.4f} {saved.manifest.new_bytes} {peak}",
            flush=True,
        )
        if not sys.stdin.readline():
            return


def restore(url: str, folder: Path) -> None:
    """The newest save."""
    began, cpu = time.monotonic(), time.process_time()
    store = task_store(url)
    point = store.lineage().point
    assert point is not None
    store.restore(point, folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{time.monotonic() - began:.4f} {time.process_time() - cpu:.4f} 0 {peak}")


if __name__ == "__main__":
    action, url, path = sys.argv[1:]
    run = {"capture": capture, "restore": restore}[action]
    run(str(Path(url).absolute()), Path(path).absolute())
