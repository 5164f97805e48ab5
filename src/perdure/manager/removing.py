"""Removing jobs: nothing of them may run, the record goes first, then everything else.

Without its record a job is nobody's; what is left over by a removal that was killed is removed by
the next one. What still runs when the record is gone finds no job and leaves.

Source: docs/store-format.md, "Deletion"; docs/decisions/073.
"""

import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from perdure.clock import Clock, to_text
from perdure.errors import HomeBusy, PerdureError
from perdure.journal.heartbeat import Stillness, read_counter
from perdure.manager.presence import live_manager
from perdure.store import layout
from perdure.store.deleting import remove_job
from perdure.store.drivers.driver import Driver
from perdure.store.files.adopting import release
from perdure.store.layout import JobId, LaunchId
from perdure.store.manifests.manifest_reading import decode_manifest
from perdure.store.packs.tiers import forget_job
from perdure.store.records.record_format import decode_record
from perdure.worker.holders import holders
from perdure.worker.host import is_gone, is_of_here
from perdure.worker.job_records import JobRecords

_LOOK_SECONDS = 0.5


class Rooms(Struct, frozen=True, kw_only=True):
    """What a job has on this host beside the store.

    Attributes:
        logs: its logs.
        sessions: its session folders; None: they were to be preserved.
        lock: by which its managers on this host exclude each other.
        local_store: the folder where its saves were taken first, or None.
    """

    logs: Path
    sessions: Path | None
    lock: Path
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
    removed = remove_job(driver, removal.job, at=to_text(clock.now()))
    if removal.rooms.local_store is not None:
        forget_job(removal.rooms.local_store, removal.job)
    for folder in (removal.rooms.logs, removal.rooms.sessions):
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        removal.rooms.lock.unlink(missing_ok=True)
    return removed


def is_busy(driver: Driver, job: JobId, clock: Clock, pause: Callable[[int], None]) -> bool:
    """Whether anything of the job may run, at one look."""
    return _busy(driver, job, Stillness(clock), clock, pause) is not None


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
    for launch in _launches(records):
        process = _may_live(records, launch)
        if process is None:
            continue
        if not stillness.observe(launch, read_counter(driver, layout.heartbeat(job, launch))):
            return _is_busy(job, f"launch {launch} on {process.get('host', 'another host')}")
    return None


def _launches(records: JobRecords) -> list[LaunchId]:
    """Every launch that may hold something: by intents, shares, claims, and by what they wrote.

    One that is known from a claim alone (the job's log is damaged or was purged) counts, too.
    """
    driver, job = records.driver, records.job
    found = [*records.state.launches, *records.state.started]
    found += [LaunchId(name) for name in driver.children(layout.launches(job))]
    found += holders(driver, job)
    return [launch for launch in dict.fromkeys(found) if layout.is_ulid(launch)]


def _may_live(records: JobRecords, launch: LaunchId) -> Mapping[str, Any] | None:
    """What is known of a launch that has not ended; None where it has, or never lived."""
    state = records.state
    if launch in state.fences:
        return None
    with suppress(PerdureError):
        if records.account(launch).is_closed:
            return None
    opened = records.known_account(launch).opened
    intent = state.launches.get(launch)
    process = opened or state.started.get(launch)
    if process is None and intent is not None:
        process = state.launched.get(intent.token)
    if process is None:
        heartbeat = layout.heartbeat(records.job, launch)
        return {} if records.driver.head(heartbeat) is not None else None
    return None if "pid" in process and is_gone(process) else process


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
