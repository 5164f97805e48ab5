"""Reading all of a job back: every record, journal and checkpoint, and what is wrong with them.

Nothing is changed. A log is a row of numbers: one that is missing below another is damage too,
since records are never deleted.

Source: design 3 (rule 4); docs/store-format.md.
"""

from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct

from perdure.errors import CheckpointError, FormatTooNew, PerdureError, StoreDamaged
from perdure.journal.account import LaunchAccount
from perdure.store import layout
from perdure.store.driver import Driver, KeyMissing
from perdure.store.job_document import from_header
from perdure.store.layout import JobId, LaunchId
from perdure.store.manifest import Manifest
from perdure.store.manifest_reading import decode_manifest
from perdure.store.record_format import Record, decode_record, decode_record_of
from perdure.store.verify import verify_checkpoint


class Finding(Struct, frozen=True, kw_only=True):
    """Something that is not what was written.

    Attributes:
        key: of the object; of a checkpoint's file that of the save's record.
        kind: ``record``, ``missing``, ``journal`` or ``checkpoint``.
        reason: one sentence.
    """

    key: str
    kind: str
    reason: str


class Checked(Struct):
    """How much was read; ``locked``: checkpoints whose bytes were not, for want of their key."""

    records: int = 0
    journals: int = 0
    checkpoints: int = 0
    locked: int = 0
    size_bytes: int = 0


def check_job(driver: Driver, job: JobId, checked: Checked) -> Iterator[Finding]:
    """What is wrong with a job; blocks while all of it is read."""
    yield from _check_document(driver, job, checked)
    logs = _logs(driver, job)
    for log, numbers in logs.items():
        yield from _missing(log, numbers)
        yield from _check_log(driver, log, numbers, checked)
    fences = _fences(driver, logs.get(layout.job_log(job), []), job)
    for name in driver.children(layout.launches(job)):
        if layout.is_ulid(name):
            launch = LaunchId(name)
            yield from _check_journal(driver, job, launch, checked, fences.get(launch, 0))


def _check_document(driver: Driver, job: JobId, checked: Checked) -> Iterator[Finding]:
    key = layout.job_record(job)
    record = _read(driver, key, checked)
    if isinstance(record, Finding):
        yield record
        return
    try:
        from_header(record.header)
    except (KeyError, TypeError) as error:
        yield Finding(key=key, kind="record", reason=f"it does not describe a job: {error!r}")


def _logs(driver: Driver, job: JobId) -> dict[str, list[int]]:
    """The job's logs with the numbers that the store shows."""
    found: dict[str, list[int]] = {}
    prefixes = (
        layout.job_log(job),
        f"{layout.job_prefix(job)}/shares",
        layout.lineages_prefix(job),
    )
    for prefix in prefixes:
        for key in driver.list(prefix):
            log, _slash, last = key.rpartition("/")
            is_log = log.endswith("/log") or "/shares/" in log
            if is_log and len(last) == 10 and last.isdigit():
                found.setdefault(log, []).append(int(last))
    return found


def _missing(log: str, numbers: list[int]) -> Iterator[Finding]:
    for number in sorted(set(range(1, max(numbers) + 1)) - set(numbers)):
        yield Finding(
            key=layout.record_key(log, number),
            kind="missing",
            reason="it is not there, and later ones are",
        )


def _check_log(driver: Driver, log: str, numbers: list[int], checked: Checked) -> Iterator[Finding]:
    pruned: set[int] = set()
    saves: list[tuple[int, str]] = []
    for number in sorted(numbers):
        key = layout.record_key(log, number)
        record = _read(driver, key, checked)
        if isinstance(record, Finding):
            yield record
        elif record.kind == "save":
            saves.append((number, key))
        elif record.kind == "prune":
            pruned.update(record.header.get("saves", ()))
    for number, key in saves:
        if number not in pruned:
            yield from _check_save(driver, log, key, checked)


def _check_save(driver: Driver, log: str, key: str, checked: Checked) -> Iterator[Finding]:
    """Every byte of one checkpoint."""
    packs = f"{log.removesuffix('/log')}/packs"
    try:
        manifest = _manifest(driver, key)
    except PerdureError as error:
        yield Finding(key=key, kind="checkpoint", reason=error.message)
        return
    checked.checkpoints += 1
    checked.size_bytes += manifest.size_bytes
    if manifest.key_id:
        checked.locked += 1
        return
    for damage in verify_checkpoint(driver, packs, manifest):
        yield Finding(key=key, kind="checkpoint", reason=f"{damage.path}: {damage.reason}")


def _manifest(driver: Driver, key: str) -> Manifest:
    record = decode_record(driver.get(key), key=key)
    return decode_manifest(record.header, record.payload, name=key)


def _fences(driver: Driver, numbers: list[int], job: JobId) -> dict[LaunchId, int]:
    """How much of a launch's journal counted when it was fenced, as far as the log can be read."""
    fences: dict[LaunchId, int] = {}
    for number in numbers:
        key = layout.record_key(layout.job_log(job), number)
        with suppress(PerdureError):
            header = decode_record_of(driver.get(key), key=key).header
            if header.get("kind") == "fence":
                fences.setdefault(LaunchId(header["launch"]), int(header["offset"]))
    return fences


def _check_journal(
    driver: Driver, job: JobId, launch: LaunchId, checked: Checked, fence: int
) -> Iterator[Finding]:
    key = layout.journal(job, launch)
    account = LaunchAccount()
    try:
        account.read_on(driver, key)
    except (PerdureError, KeyError, ValueError, TypeError) as error:
        yield Finding(key=key, kind="journal", reason=f"it cannot be read: {error}")
        return
    checked.journals += 1
    if account.damaged_at is None and account.length < fence:
        reason = f"it has {account.length} bytes; {fence} counted when its launch was fenced"
        yield Finding(key=key, kind="journal", reason=reason)
    own = (account.opened or {}).get("launch", launch)
    if own != launch:
        yield Finding(key=key, kind="journal", reason=f"it is the journal of the launch {own}")
    if account.damaged_at is not None:
        yield Finding(
            key=key,
            kind="journal",
            reason=f"it is damaged from byte {account.damaged_at} on; what follows does not count",
        )


def _read(driver: Driver, key: str, checked: Checked) -> Record | Finding:
    """One record, or what is wrong with it.

    Raises:
        FormatTooNew: a later perdure wrote it: that is no damage.
    """
    try:
        is_in_log = "/log/" in key or "/shares/" in key
        decode = decode_record_of if is_in_log else decode_record
        record = decode(driver.get(key), key=key)
    except FormatTooNew:
        raise
    except KeyMissing:
        return Finding(key=key, kind="missing", reason="it is not there")
    except (StoreDamaged, CheckpointError) as error:
        return Finding(key=key, kind="record", reason=error.message)
    checked.records += 1
    return record
