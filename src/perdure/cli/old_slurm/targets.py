"""The jobs of perdure's that a job or step of Slurm is: found in the store, without any daemon.

A job says which job of Slurm it was begun in, and a worker that runs a step of the old command line
says in its heartbeat in which job and step it is. The arrays of ``--engine slurm`` are not looked
for: `perdure checkpoint save` is for them.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from perdure.cli.jobs import open_job
from perdure.cli.managed import Managed
from perdure.cli.old_slurm.old_text import OldTextError
from perdure.cli.old_slurm.request_format import Request
from perdure.cli.places import Places
from perdure.clock import SystemClock, pause
from perdure.journal.heartbeat import read_heartbeat
from perdure.manager.stored_jobs import newest_first
from perdure.manager.submission import is_settled
from perdure.store import layout
from perdure.store.drivers.driver import Driver
from perdure.store.layout import LaunchId
from perdure.store.records.job_document import JobDocument

INVALID_ID, COMPLETED = 2017, 2021
_PREFIX = "scontrol_checkpoint error"


class Target(Struct, frozen=True, kw_only=True):
    """A job of perdure's that is meant.

    Attributes:
        opened: the job, read.
        step: the number of its step of Slurm; "" where it has none, or it is not known yet.
    """

    opened: Managed
    step: str


def find_targets(where: Places, request: Request) -> list[Target]:
    """The jobs that are not over, at least one.

    Raises:
        OldTextError: there is none; the old texts say why.
    """
    if "://" not in where.store_url and not Path(where.store_url).exists():
        raise failed("Invalid job id specified", INVALID_ID)
    driver = where.open(write=True).driver
    found: list[Target] = []
    is_known = False
    for document in newest_first(driver):
        beats = list(_heartbeats(driver, document))
        if not _is_of(document, beats, request.job):
            continue
        is_known = True
        step = _step(beats, request.job)
        is_meant = request.step is None or request.step == step
        if is_meant and not is_settled(driver, document.job, SystemClock(), pause):
            found.append(Target(opened=open_job(where, document.job, write=True), step=step))
    if not found and is_known:
        raise failed("Job/step already completing or completed", COMPLETED)
    if not found:
        raise failed("Invalid job id specified", INVALID_ID)
    return found


def step_of(target: Target, job: str) -> str:
    """The number of its step of Slurm as its workers say it now; "" where they do not yet."""
    opened = target.opened
    return _step(list(_heartbeats(opened.store.driver, opened.view.document)), job)


def failed(text: str, number: int) -> OldTextError:
    """How scontrol says that a request failed."""
    return OldTextError(f"{_PREFIX}: {text}", number=number)


def _is_of(document: JobDocument, beats: list[Mapping[str, object]], job: str) -> bool:
    if document.variables.get("SLURM_JOB_ID") == job and document.options.engine == "local":
        return True
    return any(beat.get("slurm_job") == job for beat in beats)


def _heartbeats(driver: Driver, document: JobDocument) -> Iterator[Mapping[str, object]]:
    """What its launches said last, the last of them last."""
    for name in driver.children(layout.launches(document.job)):
        beat = read_heartbeat(driver, layout.heartbeat(document.job, LaunchId(name)))
        if beat is not None:
            yield beat


def _step(beats: list[Mapping[str, object]], job: str) -> str:
    steps = [str(beat["slurm_step"]) for beat in beats if beat.get("slurm_job") == job]
    return next((step for step in reversed(steps) if step), "")
