"""An exported checkpoint becomes a checkpoint of a task: what comes from elsewhere is hostile.

Theory of operation. Nothing is extracted. The record in the file is checked like one of the store;
the tar's members only bring bytes, each accepted at the one place that the record names, block by
block, against the digests that the record gives. They go into packs of our own; then a save record
that belongs to no claim is put (a side branch, which nobody starts from), and then a branch record
that makes the lineage go on from it. Killed in between, it leaves a side branch or unnamed packs.

Rules: nobody may hold the lineage, and it has not succeeded. Only files of the session folder are
taken: what lay elsewhere on another host has no place here that perdure may write to.

Source: docs/journal-format.md, "branch"; design 11; docs/decisions/071.
"""

import tarfile
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace
from ulid import ULID

from perdure.errors import (
    CheckpointConflict,
    CheckpointCorrupt,
    CheckpointError,
    HomeBusy,
    PerdureError,
    UsageError,
)
from perdure.manager.branching import branch
from perdure.manager.exporting import FILES, RECORD, member_name
from perdure.manager.job_view import JobView
from perdure.manager.lineages import StoredLineage, read_lineage
from perdure.manager.step_view import StepView
from perdure.policy.resuming import Finished
from perdure.store.layout import LaunchId
from perdure.store.manifests.manifest import (
    BLOCK_BYTES,
    SESSION_ROOT,
    Block,
    Entry,
    EntryType,
    FileRef,
    Kept,
    Manifest,
    RootKind,
    file_digest,
)
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.manifests.manifest_reading import decode_manifest
from perdure.store.manifests.manifest_rows import BODY_LIMIT_BYTES
from perdure.store.packs.blocks import (
    BlockIndex,
    StoredBlock,
    number_packs,
    packs_of,
    to_block,
)
from perdure.store.packs.pack_writing import PackWriter
from perdure.store.packs.sealing import PLAIN, Sealing
from perdure.store.records.job_log import TaskRef
from perdure.store.records.log import Entry as LogEntry
from perdure.store.records.record_format import HEADER_LIMIT_BYTES, Record, decode_record

#: No claim has this number: the save belongs to none.
NO_CLAIM = -1
_RECORD_LIMIT_BYTES = BODY_LIMIT_BYTES + HEADER_LIMIT_BYTES
#: Of a record, what says how far the task was; the rest is made anew.
_CARRIED = ("first_incomplete", "support", "end")


class Imported(Struct, frozen=True, kw_only=True):
    """A checkpoint that was imported.

    Attributes:
        sequence: its number in this lineage.
        left_out: files that were not taken, a sentence each.
        given_back: values of the chunk that were kept and run again.
    """

    sequence: int
    left_out: tuple[str, ...]
    given_back: tuple[int, ...] = ()


def import_checkpoint(
    view: JobView,
    step: StepView,
    ref: TaskRef,
    path: Path,
    sealing: Sealing = PLAIN,
    proof: Sealing = PLAIN,
) -> Imported:
    """Let the task go on from the checkpoint in the file. Blocks while it is read.

    Args:
        view: of the task's job.
        step: the task's.
        ref: the task.
        path: of the file.
        sealing: how the job's blocks are encrypted.
        proof: a key for files whose digests are keyed: those that an earlier perdure exported.

    Raises:
        UsageError: the file is none, or the task cannot be resumed from one.
        HomeBusy: a worker holds the task.
        CheckpointError: its digests are keyed, and the key is not here.
        CheckpointCorrupt, CheckpointConflict: the file's bytes are not what was saved, or its
            checkpoint cannot be used here; nothing was changed.
    """
    stored = read_lineage(view, step, ref)
    check_importable(view, step, ref, stored)
    launch = LaunchId(str(ULID()).lower())
    attempt = max((claim.attempt for claim in stored.lineage.claims), default=1)
    writer = PackWriter(
        view.records.driver,
        stored.packs,
        launch=launch,
        attempt=attempt,
        index=BlockIndex(),
        sealing=sealing,
    )
    try:
        record, manifest, left_out = _read(path, _Taking(writer=writer, path=path, key=proof))
        writer.finish()
    except BaseException:
        writer.abandon()
        raise
    header, payload = encode_manifest(replace(manifest, launch=launch, attempt=attempt))
    carried = {name: record.header[name] for name in _CARRIED if name in record.header}
    saved = {"kind": "save", "claim": NO_CLAIM, "imported": True, **carried, **header}
    while not isinstance(put := stored.log.append(saved, payload), LogEntry):
        now = read_lineage(view, step, ref)
        check_importable(view, step, ref, now)
        _check_packs(manifest, now)
    step.watch(ref).is_stale = True  # its log has grown by our own record
    done = branch(view, step, ref, put.number)
    return Imported(sequence=put.number, left_out=left_out, given_back=done.given_back)


def check_importable(view: JobView, step: StepView, ref: TaskRef, stored: StoredLineage) -> None:
    """Refuse a task that is held by a worker, has succeeded, or cannot be resumed."""
    if not step.step.is_resumable:
        raise UsageError(
            f"step {step.step.name!r} has no onCheckpointResume: it never starts from a checkpoint"
        )
    view.refresh()
    watched = step.watched.get(ref.task)
    is_done = watched is not None and watched.decision is not None
    if ref.task in step.succeeded or (
        is_done and isinstance(watched.decision.answer, Finished)  # type: ignore[union-attr]
    ):
        raise UsageError(f"{stored.label} has succeeded: there is nothing to go on with")
    for claim in stored.lineage.claims:
        account = view.records.attempt(claim.launch, step.key, ref.task, claim.attempt)
        if not (view.has_ended(claim.launch) or account.is_released):
            raise HomeBusy(
                f"{stored.label} is held by launch {claim.launch}",
                hint=f"Stop it first: perdure suspend {view.document.job}",
                launch=claim.launch,
            )


def _check_packs(manifest: Manifest, stored: StoredLineage) -> None:
    """Refuse where somebody who prunes has taken what was just written for a dead import's."""
    if packs_of([manifest]) & stored.lineage.pruned_packs:
        raise HomeBusy(
            f"the checkpoints of {stored.label} were pruned while this one was imported",
            hint="Import it again.",
        )


class _Taking(Struct):
    """A file on its way into the store."""

    writer: PackWriter
    path: Path
    key: Sealing
    proof: Sealing = PLAIN
    record: Record | None = None
    manifest: Manifest | None = None
    wanted: dict[str, Entry] = field(default_factory=dict)
    blocks: dict[str, tuple[StoredBlock, ...]] = field(default_factory=dict)


def _read(path: Path, taking: _Taking) -> tuple[Record, Manifest, tuple[str, ...]]:
    """The record, the manifest with its blocks in our packs, and what was left out."""
    try:
        with path.open("rb") as file, tarfile.open(fileobj=file, mode="r|") as tar:
            for member in tar:
                _take(taking, tar, member)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror or error}",
            hint="Name the file that `perdure checkpoint export` wrote.",
        ) from error
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise _no_export(path, str(error)) from error
    if taking.record is None or taking.manifest is None:
        raise _no_export(path, f"it has no member {RECORD}")
    missing = sorted(set(taking.wanted) - set(taking.blocks))
    if missing:
        raise _damaged(missing[0], "it is not in the file")
    return taking.record, *_ours(taking)


def _take(taking: _Taking, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    """One member: the record, or the bytes of a file that the record names; all else is passed."""
    if member.name == RECORD and taking.record is None:
        if not member.isreg() or member.size > _RECORD_LIMIT_BYTES:
            raise _damaged(RECORD, "it is no record")
        taking.record = _decode(_content(tar, member))
        taking.manifest = decode_manifest(
            taking.record.header, taking.record.payload, name="in the file"
        )
        taking.proof = _proof(taking, taking.manifest.key_id)
        taking.wanted = dict(_wanted(taking.manifest))
        return
    entry = taking.wanted.get(member.name)
    if entry is None:
        return
    if not member.isreg() or member.issparse() or member.size != entry.size:
        raise _damaged(member.name, "it is not the file that was saved")
    if member.name in taking.blocks:
        raise _damaged(member.name, "it is in the file twice")
    taking.blocks[member.name] = tuple(_blocks(taking, tar, member, entry))


def _proof(taking: _Taking, key_id: str) -> Sealing:
    """What the digests in the file were made with; without that nothing can be believed."""
    known = {one.key_id: one for one in (taking.key, taking.writer.sealing, PLAIN)}
    if key_id not in known:
        raise CheckpointError(
            f"the digests in {taking.path} are made with key {key_id}, which is not here:"
            " an earlier perdure exported it from an encrypted job",
            hint="Name the file of that key: PERDURE_KEY_FILE=FILE; or export the checkpoint again,"
            " which needs no key to be imported then.",
            key_id=key_id,
        )
    return known[key_id]


def _decode(data: bytes) -> Record:
    """The save's record."""
    try:
        record = decode_record(data, key=RECORD)
    except PerdureError as error:
        raise _damaged(RECORD, error.message) from error
    if record.kind != "save":
        raise _damaged(RECORD, f"it is a record of another kind: {record.kind!r}")
    return record


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    reader = tar.extractfile(member)
    return reader.read() if reader is not None else b""


def _wanted(manifest: Manifest) -> Iterator[tuple[str, Entry]]:
    """The members whose bytes are needed."""
    for entry in manifest.entries:
        is_ours = manifest.roots[entry.root].kind is RootKind.SESSION
        if is_ours and entry.type is EntryType.FILE and entry.kept is Kept.BYTES:
            yield member_name(manifest, entry), entry


def _blocks(
    taking: _Taking, tar: tarfile.TarFile, member: tarfile.TarInfo, entry: Entry
) -> Iterator[StoredBlock]:
    """The file's bytes, stored, each block as the record says."""
    reader = tar.extractfile(member)
    for block in entry.blocks:
        data = reader.read(min(block.length, BLOCK_BYTES)) if reader is not None else b""
        if len(data) != block.length:
            raise _damaged(member.name, "it is cut")
        if taking.proof.digest(data) != block.digest:
            raise _damaged(member.name, "its bytes are not those that were saved")
        yield taking.writer.add(data)


def _ours(taking: _Taking) -> tuple[Manifest, tuple[str, ...]]:
    """The manifest for this store: our packs and digests, the session folder only."""
    manifest, blocks = taking.manifest, taking.blocks
    assert manifest is not None
    packs = number_packs(blocks.values())
    file = manifest.file
    if file is not None and manifest.roots[file.root].kind is not RootKind.SESSION:
        raise CheckpointConflict(
            f"the checkpoint's file {manifest.shown_path(file)} lay outside of the session folder",
            hint="A task goes on only from a file in its session folder; FILE is a plain tar, and"
            f" what it holds of this one is below {FILES}/outside.",
        )
    entries: list[Entry] = []
    left_out: list[str] = []
    for entry in manifest.entries:
        if manifest.roots[entry.root].kind is not RootKind.SESSION:
            left_out.append(f"{manifest.shown_path(entry)} lay outside of the session folder")
            continue
        stored = blocks.get(member_name(manifest, entry), ())
        own: tuple[Block, ...] = tuple(to_block(block, packs) for block in stored)
        entries.append(replace(entry, root=0, blocks=own, digest=_digest(taking, entry, own)))
    ours = replace(
        manifest,
        roots=(SESSION_ROOT,),
        packs=tuple(packs),
        entries=tuple(entries),
        file=FileRef(root=0, path=file.path) if file is not None else None,
        key_id=taking.writer.sealing.key_id,
        new_bytes=sum(block.stored for row in blocks.values() for block in row),
    )
    return ours, tuple(left_out)


def _digest(taking: _Taking, entry: Entry, blocks: tuple[Block, ...]) -> bytes:
    """A file's digest as this job makes them."""
    if entry.type is EntryType.FILE and entry.kept is Kept.BYTES:
        return file_digest(block.digest for block in blocks)
    return entry.digest if taking.proof.key_id == taking.writer.sealing.key_id else b""


def _no_export(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} is no exported checkpoint: {why}",
        hint="Export one with: perdure checkpoint export JOB/TASK@N FILE",
    )


def _damaged(name: str, why: str) -> CheckpointCorrupt:
    return CheckpointCorrupt(
        f"the exported checkpoint cannot be used: {name}: {why}",
        hint="Export it again; nothing was changed here.",
        member=name,
    )
