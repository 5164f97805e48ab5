"""Removing jobs: nothing of them may run, the record goes first, then everything else.

Without its record a job is nobody's; what is left over by a removal that was killed is removed by
the next one. What still runs when the record is gone finds no job and leaves.

Source: docs/store-format.md, "Deletion"; docs/decisions/073.
"""

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from perdure.clock import Clock
from perdure.errors import HomeBusy, PerdureError
from perdure.journal.heartbeat import Stillness, read_counter
from perdure.manager.presence import live_manager
from perdure.store import layout
from perdure.store.adopting import release
from perdure.store.deleting import remove_job
from perdure.store.driver import Driver
from perdure.store.layout import JobId
from perdure.store.manifest_reading import decode_manifest
from perdure.store.record_format import decode_record
from perdure.store.tiers import forget_job
from perdure.worker.host import is_gone, is_of_here
from perdure.worker.job_records import JobRecords

_LOOK_SECONDS = 0.5


class Rooms(Struct, frozen=True, kw_only=True):
    """What a job has on this host beside the store.

    Attributes:
        logs: its logs.
        sessions: its session folders; None: they were to be preserved.
        local_store: the folder where its saves were taken first, or None.
    """

    logs: Path
    sessions: Path | None
    local_store: Path | None = None


class Removal(Struct, frozen=True, kw_only=True):
    """How a job is removed.

    Attributes:
        heartbeat_seconds: of its launches.
        wait: wait until what runs has ended, or stands still for three intervals.
        adopts: whether it adopted files: their second names go, the files stay.
    """

    job: JobId
    heartbeat_seconds: float
    rooms: Rooms
    wait: bool = False
    adopts: bool = False


def remove(driver: Driver, removal: Removal, clock: Clock, pause: Callable[[int], None]) -> int:
    """Remove a job; how many objects of the store went. May be repeated.

    Raises:
        HomeBusy: something of it runs; nothing was removed.
    """
    stillness = Stillness(clock, removal.heartbeat_seconds)
    while (busy := _busy(driver, removal.job, stillness, clock, pause)) is not None:
        if not removal.wait:
            raise busy
        time.sleep(_LOOK_SECONDS)
    if removal.adopts:
        release_adopted(driver, removal.job)
    removed = remove_job(driver, removal.job)
    if removal.rooms.local_store is not None:
        forget_job(removal.rooms.local_store, removal.job)
    for folder in (removal.rooms.logs, removal.rooms.sessions):
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    return removed


def refuse_busy(driver: Driver, job: JobId, clock: Clock, pause: Callable[[int], None]) -> None:
    """Refuse what may only be done to a job of which nothing runs.

    Raises:
        HomeBusy: something may run.
    """
    busy = _busy(driver, job, Stillness(clock), clock, pause)
    if busy is not None:
        raise busy


def _busy(
    driver: Driver,
    job: JobId,
    stillness: Stillness,
    clock: Clock,
    pause: Callable[[int], None],
) -> HomeBusy | None:
    """The manager or a launch that may be alive; what cannot be read of a damaged job is not."""
    manager = live_manager(driver, job)
    if manager is not None:
        is_still = stillness.observe("manager", manager.get("counter"))
        if is_of_here(manager) or not is_still:
            return _is_busy(job, f"process {manager.get('pid')} on {manager.get('host')}")
    records = JobRecords(driver, job, clock=clock, pause=pause)
    with suppress(PerdureError):
        records.refresh()
    state = records.state
    for launch, intent in state.launches.items():
        if launch in state.fences:
            continue
        account = records.account(launch)
        process = account.opened or state.started.get(launch) or state.launched.get(intent.token)
        if account.is_closed or process is None or ("pid" in process and is_gone(process)):
            continue
        if not stillness.observe(launch, read_counter(driver, layout.heartbeat(job, launch))):
            return _is_busy(job, f"launch {launch} on {process.get('host', 'another host')}")
    return None


def _is_busy(job: JobId, who: str) -> HomeBusy:
    return HomeBusy(
        f"job {job} is at work: {who}",
        hint=f"Stop it first: perdure suspend {job}; or give --wait.",
        job=job,
    )


def release_adopted(driver: Driver, job: JobId) -> None:
    """Remove the second names of the job's adopted files on this host.

    A checkpoint that cannot be read keeps them.
    """
    for key in driver.list(layout.lineages_prefix(job)):
        log, _slash, _number = key.rpartition("/")
        if not log.endswith("/log"):
            continue
        with suppress(PerdureError):
            record = decode_record(driver.get(key), key=key)
            if record.kind == "save":
                manifest = decode_manifest(record.header, record.payload, name=key)
                release(manifest, f"{log.removesuffix('/log')}/packs")
