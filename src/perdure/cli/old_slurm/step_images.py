"""What a worker does for a step of the old command line: it knows its id, and writes its file.

After each commit ``<job_id>.<step_id>.ckpt`` names the checkpoint; of a job that sbatch was given
``--checkpoint`` for, ``<job_id>.ckpt`` is written besides. Neither can fail a commit: what goes
wrong is said once in the worker's output.

Threads: `committed` is called by the capture's thread, `about` by the ticker's; the step's id is
asked for on a thread of its own, since Slurm may not answer for a while.
"""

import json
import os
import socket
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from perdure.cli.old_slurm.image_files import put_bytes, read_batch_image
from perdure.cli.old_slurm.image_format import (
    Reference,
    encode_batch,
    encode_reference,
    image_name,
)
from perdure.clock import SystemClock, pause
from perdure.errors import PerdureError, StoreDamaged
from perdure.store import layout
from perdure.store.drivers.driver import Driver
from perdure.store.layout import StepKey, TaskKey
from perdure.store.records.job_document import JobDocument
from perdure.store.records.log import Log
from perdure.worker.processes import children_of, name_of
from perdure.worker.steps import LAUNCHER, Steps

#: Where the record of the batch job is that the step belongs to.
BATCH_VARIABLE = "PERDURE_SLURM_BATCH"
#: Where srun_cr, which started an srun in the old days, wants to hear of its step.
SOCKET_VARIABLE = "SLURM_SRUN_CR_SOCKET"
_LOOK_SECONDS = 0.5
_SOCKET_SECONDS = 5.0


class StepImages:
    """The files of one worker's step; used as a context, in which its id is looked for.

    Args:
        document: the job.
        store: the store's URL.
        driver: of the store.
        steps: of the job of Slurm.
        environment: of the worker.
    """

    def __init__(
        self,
        document: JobDocument,
        store: str,
        driver: Driver,
        steps: Steps,
        environment: Mapping[str, str],
    ) -> None:
        self._document = document
        self._store = store
        self._driver = driver
        self._steps = steps
        self._environment = environment
        self._folder = Path(
            environment.get("SLURM_CHECKPOINT_DIR") or document.options.image_dir or "."
        )
        self._job = environment.get("SLURM_JOB_ID", "")
        self._lock = threading.Lock()
        self._known: tuple[frozenset[int], str] = (frozenset(), "")
        self._has_told = False
        self._has_batch = False
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="perdure-step-id", daemon=True)

    def __enter__(self) -> Self:
        """Begin to look for the step's id."""
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Look no more."""
        self._done.set()

    def about(self) -> Mapping[str, object]:
        """For the heartbeat: the step as far as it is known. Never blocks."""
        return {"slurm_job": self._job, "slurm_step": self._known[1]}

    def committed(self, step: StepKey, task: TaskKey, sequence: int) -> None:
        """Write the files; never raises. Blocks for a question to Slurm where the step is new."""
        try:
            name = self._step_id()
            if name:
                self._folder.mkdir(parents=True, exist_ok=True)
                data = encode_reference(self._reference(step, task, sequence, name))
                put_bytes(self._folder / image_name(self._job, name), data)
                self._put_batch()
        except (OSError, PerdureError) as error:
            if not self._has_told:
                self._has_told = True
                print(f"perdure-worker: no checkpoint file: {error}", file=sys.stderr, flush=True)

    def _reference(self, step: StepKey, task: TaskKey, sequence: int, name: str) -> Reference:
        key = layout.lineage_log(self._document.job, step, task)
        record = Log(self._driver, key, clock=SystemClock(), pause=pause).fetch(sequence)
        line = line_of(self._document)
        return Reference(
            store=self._store,
            job=self._document.job,
            step=step,
            task=task,
            sequence=sequence,
            content=str(record.header.get("content", "")),
            command=line.program,
            slurm=f"{self._job}.{name}",
            root=line.root,
            call=line.call,
        )

    def _put_batch(self) -> None:
        """The whole job's file, once."""
        record = self._environment.get(BATCH_VARIABLE)
        if self._has_batch or not record:
            return
        image = read_batch_image(Path(record))
        if image is not None:
            nodes = self._environment.get("SLURM_JOB_NODELIST", "")
            data = encode_batch(replace(image, nodes=nodes))
            put_bytes(self._folder / image_name(self._job, None), data)
            self._has_batch = True

    def _watch(self) -> None:
        told: set[str] = set()
        while not self._done.wait(_LOOK_SECONDS):
            name = self._step_id()
            if name and name not in told:
                told.add(name)
                tell_srun_cr(self._environment, self._job, name)

    def _step_id(self) -> str:
        """The number of the step that this worker's srun started; "" where that is not known."""
        launchers = _launchers()
        with self._lock:
            before, name = self._known
            if launchers and (launchers != before or not name):
                found = self._steps.of(launchers)
                name = found[-1].rpartition(".")[2] if found else ""
                self._known = (launchers, name)
            return name


def has_step(environment: Mapping[str, str]) -> bool:
    """Whether a process below this one has started a step of this job; asks Slurm only then."""
    launchers = _launchers()
    if not launchers:
        return False
    from perdure.engines.slurm.steps import JobSteps

    return bool(JobSteps(environment["SLURM_JOB_ID"], 1).of(launchers))


class StepLine(Struct, frozen=True, kw_only=True):
    """What a step's job is known by.

    Attributes:
        root: the job of Slurm that its work began in.
        call: the how-manieth of its line in the script it is.
        program: with its arguments.
    """

    root: str
    call: int
    program: tuple[str, ...]


def line_of(document: JobDocument) -> StepLine:
    """What the job of a step is known by.

    Raises:
        StoreDamaged: its record does not say so.
    """
    try:
        return convert(json.loads(document.line or "")["slurm"], StepLine)
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise StoreDamaged(f"the record of job {document.job} is of no step of Slurm") from error


def tell_srun_cr(environment: Mapping[str, str], job: str, step: str) -> None:
    """Tell whoever waits at the socket which step was started; nobody may wait there."""
    path = environment.get(SOCKET_VARIABLE)
    if not path or not (job.isdigit() and step.isdigit()):
        return
    nodes = environment.get("SLURM_JOB_NODELIST", "").encode()
    data = struct.pack("=IIi", int(job), int(step), len(nodes)) + nodes
    with suppress(OSError), socket.socket(socket.AF_UNIX) as there:
        there.settimeout(_SOCKET_SECONDS)
        there.connect(path)
        there.sendall(data)


def _launchers() -> frozenset[int]:
    """This worker's processes that started steps."""
    waiting: Sequence[int] = [os.getpid()]
    found: set[int] = set()
    seen = set(waiting)
    while waiting:
        below = {child for pid in waiting for child in children_of(pid)} - seen
        seen |= below
        found |= {pid for pid in below if name_of(pid) == LAUNCHER}
        waiting = list(below)
    return frozenset(found)
