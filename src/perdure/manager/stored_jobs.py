"""The jobs that a store has, read without loading their templates.

Commands that only look start fast by this: a template takes half a second to load.

Source: docs/store-format.md, "Keys".
"""

from collections.abc import Callable, Iterator

from perdure.clock import Clock
from perdure.errors import JobMissing
from perdure.store import layout
from perdure.store.deleting import remains
from perdure.store.drivers.driver import Driver, KeyMissing
from perdure.store.layout import JobId
from perdure.store.opening import Store
from perdure.store.records.job_document import JobDocument, from_header
from perdure.store.records.log import Log
from perdure.store.records.record_format import decode_record


def stored_job(driver: Driver, job: JobId) -> JobDocument | None:
    """The job's record, or None where there is none.

    Raises:
        StoreDamaged, FormatTooNew: it cannot be read.
    """
    key = layout.job_record(job)
    try:
        data = driver.get(key)
    except KeyMissing:
        return None
    return from_header(decode_record(data, key=key).header)


def read_job(store: Store, job: JobId) -> JobDocument:
    """The job's record.

    Raises:
        JobMissing: the store has no such job.
        StoreDamaged, FormatTooNew: it cannot be read.
    """
    document = stored_job(store.driver, job)
    if document is None:
        raise JobMissing(
            f"the store {store.url} has no job {job}", hint="`perdure status` lists its jobs."
        )
    return document


def job_ids(driver: Driver) -> tuple[JobId, ...]:
    """The jobs that the store shows, in the order in which they were made.

    What a removal left over is none: its record is gone.
    """
    return tuple(
        JobId(name)
        for name in driver.children(layout.JOBS)
        if layout.is_ulid(name) and driver.head(layout.job_record(JobId(name))) is not None
    )


def all_job_ids(driver: Driver) -> tuple[JobId, ...]:
    """All jobs, also those of which the record alone was lost."""
    return (*job_ids(driver), *remains(driver).lost)


def newest_first(driver: Driver) -> Iterator[JobDocument]:
    """All jobs, the newest first."""
    for name in reversed(driver.children(layout.JOBS)):
        document = stored_job(driver, JobId(name)) if layout.is_ulid(name) else None
        if document is not None:
            yield document


def job_by_key(
    driver: Driver, key: str, *, clock: Clock, pause: Callable[[int], None]
) -> JobDocument | None:
    """The job that has the key now: the last one that took it, if it is still there."""
    log = Log(driver, layout.name_log(key), clock=clock, pause=pause)
    log.read()
    return key_holder(driver, log)


def key_holder(driver: Driver, log: Log) -> JobDocument | None:
    """The last job that took the key whose log was read, if it is still there."""
    if not log.entries:
        return None
    return stored_job(driver, JobId(str(log.entries[-1].header["job"])))
