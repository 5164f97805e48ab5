"""The checkpoint that ``JOB/TASK@N`` means."""

from msgspec import Struct

from perdure.cli.looking import Looked, look_into
from perdure.cli.naming import FoundTask, find_task, split_named_checkpoint
from perdure.cli.places import Places
from perdure.errors import JobMissing, UsageError
from perdure.manager.job_view import JobView
from perdure.manager.labels import checkpoint_label
from perdure.manager.lineages import StoredLineage, meant_base, read_lineage
from perdure.store.manifests.manifest import Manifest
from perdure.store.records.job_document import JobDocument
from perdure.store.records.lineage import Save


class NamedTask(Struct, frozen=True, kw_only=True):
    """A task that was named, with its lineage read."""

    looked: Looked
    document: JobDocument
    view: JobView
    task: FoundTask
    stored: StoredLineage
    sequence: int | None


class NamedCheckpoint(Struct, frozen=True, kw_only=True):
    """A checkpoint that was named."""

    at: NamedTask
    save: Save
    manifest: Manifest

    @property
    def label(self) -> str:
        """As people call it."""
        return checkpoint_label(self.at.document.job, self.at.stored.label, self.save.number)


def named_task(where: Places, text: str, *, write: bool = False) -> NamedTask:
    """The task of ``JOB/TASK`` or ``JOB/TASK@N``.

    Raises:
        UsageError, JobMissing: there is none, or there are several.
    """
    looked = look_into(where, write=write)
    first: UsageError | JobMissing | None = None
    for job, task, sequence in split_named_checkpoint(text):
        try:
            document = looked.job(job)
        except (JobMissing, UsageError) as error:
            first = first or error
            continue
        view = looked.view(document)
        view.refresh()
        found = find_task(view, None, task)
        return NamedTask(
            looked=looked,
            document=document,
            view=view,
            task=found,
            stored=read_lineage(view, found.step, found.ref),
            sequence=sequence,
        )
    assert first is not None  # there is at least one way to read it
    raise first


def named_checkpoint(where: Places, text: str, *, write: bool = False) -> NamedCheckpoint:
    """The checkpoint of ``JOB/TASK@N``; without ``@N`` see `perdure.manager.lineages.meant_base`.

    Raises:
        UsageError, JobMissing, CheckpointMissing, CheckpointCorrupt: see the types.
    """
    at = named_task(where, text, write=write)
    number = at.sequence if at.sequence is not None else meant_base(at.view, at.stored)
    save = at.stored.save(number)
    return NamedCheckpoint(at=at, save=save, manifest=at.stored.manifest(save))
