"""Reading all of a job back: every record, journal and checkpoint, and what is wrong with them.

Nothing is changed. A log is a row of numbers: one that is missing below another is damage too,
since records are never deleted.

Source: design 3 (rule 4); docs/store-format.md.
"""

from collections.abc import Collection, Iterator
from contextlib import suppress

from msgspec import Struct

from perdure.errors import CheckpointError, FormatTooNew, PerdureError, StoreDamaged
from perdure.journal.account import LaunchAccount
from perdure.policy.sampling import Subset, choose
from perdure.store import layout
from perdure.store.drivers.driver import Driver, KeyMissing
from perdure.store.layout import JobId, LaunchId
from perdure.store.manifests.manifest import Kept, Manifest, with_digests
from perdure.store.manifests.manifest_reading import decode_manifest
from perdure.store.packs.blocks import StoredBlock
from perdure.store.packs.sealing import PLAIN, Sealing
from perdure.store.records.job_document import from_header
from perdure.store.records.lineage import hashed_digests
from perdure.store.records.record_format import Record, decode_record, decode_record_of
from perdure.store.restore.verify import adopted_damages, blocks_of, damaged_blocks, damages


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
    """How much was read.

    Attributes:
        size_bytes: of all files that the checkpoints describe.
        read_bytes: of the blocks that were read; less than is stored where only a part was asked
            for, more where checkpoints share blocks.
        locked: checkpoints whose bytes were not read, for want of their key.
        recorded_bytes: of files that are only recorded, and lie outside of the store unread.
    """

    records: int = 0
    journals: int = 0
    checkpoints: int = 0
    locked: int = 0
    size_bytes: int = 0
    read_bytes: int = 0
    recorded_bytes: int = 0


class Depth(Struct, frozen=True, kw_only=True):
    """How far the bytes of checkpoints are read.

    Attributes:
        subset: of their blocks, by its part; None: all. Records are read in any case.
        sealing: how the job's blocks are encrypted; what another key is needed for is only counted.
    """

    subset: Subset | None = None
    sealing: Sealing = PLAIN


WHOLE = Depth()


def check_job(
    driver: Driver, job: JobId, checked: Checked, depth: Depth = WHOLE
) -> Iterator[Finding]:
    """What is wrong with a job; blocks while it is read.

    Args:
        driver: of the store.
        job: which.
        checked: what was read is added to it.
        depth: how far.
    """
    yield from _check_document(driver, job, checked)
    logs = _logs(driver, job)
    for log, numbers in logs.items():
        yield from _missing(log, numbers)
        yield from _check_log(driver, log, numbers, checked, depth)
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
        layout.shares_prefix(job),
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


def stored_bytes(driver: Driver, job: JobId) -> int:
    """What the blocks of all checkpoints of a job take, as far as their records can be read."""
    total = 0
    for log, numbers in _logs(driver, job).items():
        saves, _findings = _saves(driver, log, numbers, Checked())
        manifests = [one for save in saves if isinstance(one := _read_save(driver, save), Manifest)]
        total += sum(block.stored for block in blocks_of(manifests))
    return total


def _check_log(
    driver: Driver, log: str, numbers: list[int], checked: Checked, depth: Depth
) -> Iterator[Finding]:
    saves, findings = _saves(driver, log, numbers, checked)
    yield from findings
    manifests: list[tuple[str, Manifest]] = []
    for save in saves:
        key = save.key
        manifest = _read_save(driver, save)
        if isinstance(manifest, Finding):
            yield manifest
            continue
        checked.checkpoints += 1
        checked.size_bytes += manifest.size_bytes
        checked.recorded_bytes += sum(
            entry.size for entry in manifest.entries if entry.kept is Kept.RECORD
        )
        if manifest.key_id != depth.sealing.key_id:
            checked.locked += 1
        elif depth.subset is None:
            yield from _check_blocks(driver, log, [(key, manifest)], checked, depth)
            for damage in adopted_damages(manifest, depth.sealing):
                yield Finding(key=key, kind="checkpoint", reason=damage.reason)
        else:
            manifests.append((key, manifest))
    if depth.subset is not None:
        yield from _check_blocks(driver, log, manifests, checked, depth)


class _Save(Struct):
    """A save's record, and what was found out of its adopted files later."""

    key: str
    digests: dict[int, bytes]


def _saves(
    driver: Driver, log: str, numbers: list[int], checked: Checked
) -> tuple[list[_Save], list[Finding]]:
    """The log's checkpoints that are not pruned, and its records that cannot be read."""
    pruned: set[int] = set()
    saves: dict[int, _Save] = {}
    findings: list[Finding] = []
    for number in sorted(numbers):
        key = layout.record_key(log, number)
        record = _read(driver, key, checked)
        if isinstance(record, Finding):
            findings.append(record)
        elif record.kind == "save":
            saves[number] = _Save(key=key, digests={})
        elif record.kind == "hashed" and (save := saves.get(record.header["save"])) is not None:
            save.digests |= hashed_digests(record.header)
        elif record.kind == "prune":
            pruned.update(record.header.get("saves", ()))
    return [save for number, save in saves.items() if number not in pruned], findings


def _check_blocks(
    driver: Driver,
    log: str,
    manifests: list[tuple[str, Manifest]],
    checked: Checked,
    depth: Depth,
) -> Iterator[Finding]:
    """Every byte of these checkpoints of one lineage, or of a subset of their blocks."""
    packs = f"{log.removesuffix('/log')}/packs"
    blocks = _chosen(blocks_of(manifest for _key, manifest in manifests), packs, depth.subset)
    checked.read_bytes += sum(block.stored for block in blocks)
    judged = damaged_blocks(driver, packs, blocks, depth.sealing)
    there = set(_looked_again(driver, log)) if judged else set()
    for key, manifest in manifests:
        # One that was pruned while it was read is no damage.
        for damage in damages(manifest, judged) if key in there else ():
            yield Finding(key=key, kind="checkpoint", reason=f"{damage.path}: {damage.reason}")


def _looked_again(driver: Driver, log: str) -> list[str]:
    """The checkpoints that are there now."""
    numbers = [
        int(last)
        for key in driver.list(log)
        if len(last := key.rpartition("/")[2]) == 10 and last.isdigit()
    ]
    saves, _findings = _saves(driver, log, numbers, Checked())
    return [save.key for save in saves]


def _chosen(
    blocks: frozenset[StoredBlock], packs: str, subset: Subset | None
) -> Collection[StoredBlock]:
    if subset is None:
        return blocks
    there = sorted(
        (block for block in blocks if block.pack is not None),
        key=lambda block: (block.pack, block.offset, block.digest),
    )
    chosen = choose([block.stored for block in there], subset, name=packs)
    return [there[index] for index in chosen]


def _read_save(driver: Driver, save: _Save) -> Manifest | Finding:
    """A checkpoint's description, or what is wrong with it."""
    key = save.key
    try:
        record = decode_record(driver.get(key), key=key)
        manifest = decode_manifest(record.header, record.payload, name=key)
    except PerdureError as error:
        return Finding(key=key, kind="checkpoint", reason=error.message)
    return with_digests(manifest, save.digests)


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
