"""One process that saves and restores as a worker does, for `bench/store.py`.

    python bench/store_subject.py capture STORE PATH     a save of PATH; then one for each line read
    python bench/store_subject.py early STORE PATH       bytes taken early, then a save of them
    python bench/store_subject.py restore STORE FOLDER   the newest save, into FOLDER

What runs is what a worker runs between "the save's line was read" and "committed": `TaskStore` with
a lineage's log, the capture of the declared file or folder, the record. A line that names a path
makes that the dataset from then on. Each save prints ``seconds cpu-seconds stored-bytes
peak-resident-KiB``; CPU seconds count from the start of the process.
"""

import contextlib
import sys
import time
from pathlib import Path

from perdure.clock import SystemClock
from perdure.store import layout
from perdure.store.capture.capture import Capture
from perdure.store.capture.save_values import Announcement
from perdure.store.layout import JobId, LaunchId, StepKey, TaskKey
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.opening import open_store
from perdure.store.records.lineage import share_claim
from perdure.store.records.log import Log
from perdure.worker.collecting import collect_seldom
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


def capture_of(store: TaskStore, dataset: Path) -> Capture:
    """What takes the saves."""
    return store.capture(
        CaptureSurroundings(
            session_dir=dataset.parent,
            base=None,
            began_at_ns=time.time_ns(),
            freezer=contextlib.nullcontext,
            is_made_anew=lambda _path: False,
            told=print,
        )
    )


def save(store: TaskStore, taking: Capture, dataset: Path, number: int) -> None:
    """A save, from its line to its record."""
    began = time.monotonic()
    is_folder = dataset.is_dir()
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
    sequence = store.put({"kind": "save", **header}, payload)
    assert sequence is not None
    told(time.monotonic() - began, saved.manifest.new_bytes)
    store.remember(sequence, saved.manifest)
    store.prune()


def told(seconds: float, stored: int) -> None:
    """One line for `bench/store.py`."""
    print(f"{seconds:.4f} {time.process_time():.4f} {stored} {_peak_kib()}", flush=True)


def _peak_kib() -> int:
    """The most memory this program had; what getrusage tells counts its parent's before exec."""
    about = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(about.partition("VmHWM:")[2].split()[0])


def capture(url: str, dataset: Path) -> None:
    """A save now, and one for each line that is read."""
    store = task_store(url)
    taking = capture_of(store, dataset)
    number = 1
    save(store, taking, dataset, number)
    for line in sys.stdin:
        number += 1
        save(store, taking, Path(line.strip() or dataset), number)


def early(url: str, dataset: Path) -> None:
    """A save whose bytes were taken before it was announced, and nothing has changed since."""
    store = task_store(url)
    taking = capture_of(store, dataset)
    for number in range(1, 6):
        dataset.touch()
        taking.announce((str(dataset),))
        save(store, taking, dataset, number)


def restore(url: str, folder: Path) -> None:
    """The newest save."""
    began = time.monotonic()
    store = task_store(url)
    point = store.lineage().point
    assert point is not None
    store.restore(point, folder)
    told(time.monotonic() - began, 0)


if __name__ == "__main__":
    action, url, path = sys.argv[1:]
    collect_seldom()  # as a worker does
    run = {"capture": capture, "early": early, "restore": restore}[action]
    run(str(Path(url).absolute()), Path(path).absolute())
