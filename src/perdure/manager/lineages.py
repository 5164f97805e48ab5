"""The lineages of a job that have records, for commands that look at checkpoints.

Which there are is taken from a listing, which may be stale on network file systems: good enough to
show, and nothing else follows from it.

Source: docs/store-format.md, "Keys".
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from perdure.errors import CheckpointMissing
from perdure.manager.job_view import JobView
from perdure.manager.labels import task_label
from perdure.manager.step_view import StepView, Watched
from perdure.store import layout
from perdure.store.layout import JobId, StepKey, TaskKey
from perdure.store.manifests.manifest import Manifest, with_digests
from perdure.store.manifests.manifest_reading import decode_manifest
from perdure.store.records.job_log import TaskRef
from perdure.store.records.lineage import Lineage, Save
from perdure.store.records.log import Log
from perdure.worker.job_records import LineageId

_NONE = "It has no checkpoints."


class StoredLineage(Struct, frozen=True, kw_only=True):
    """A lineage, its log read to the end.

    Attributes:
        label: of its task.
        ref: of the lineage, as it was found.
        packs: prefix of its packs.
    """

    job: JobId
    step: StepKey
    task: TaskKey
    label: str
    ref: TaskRef
    log: Log
    lineage: Lineage
    packs: str

    def save(self, number: int | None) -> Save:
        """The checkpoint with that number (None: it has none to go on from).

        Raises:
            CheckpointMissing: there is none, or it was pruned.
        """
        return named_save(self.lineage, number, label=self.label, job=self.job)

    def manifest(self, save: Save) -> Manifest:
        """The checkpoint's description, read anew and checked.

        Raises:
            CheckpointCorrupt, StoreDamaged: it is not what was written.
        """
        record = self.log.fetch(save.number)
        name = f"{self.label}@{save.number}"
        return with_digests(decode_manifest(record.header, record.payload, name=name), save.digests)


def named_save(lineage: Lineage, number: int | None, *, label: str, job: JobId) -> Save:
    """The checkpoint of a lineage with that number (None: it has none to go on from).

    Args:
        lineage: whose checkpoint it is.
        number: of the checkpoint.
        label: what people call the task.
        job: whose lineage it is.

    Raises:
        CheckpointMissing: there is none, or it was pruned; says which there are.
    """
    found = lineage.save(number) if number is not None else None
    if found is not None and not found.is_pruned:
        return found
    there = ", ".join(str(save.number) for save in lineage.saves if not save.is_pruned)
    hint = f"There are: {there}. See: perdure checkpoints {job}" if there else _NONE
    if found is not None:
        raise CheckpointMissing(f"checkpoint {number} of {label} was pruned", hint=hint)
    what = "no checkpoint to go on from" if number is None else f"no checkpoint {number}"
    raise CheckpointMissing(f"{label} has {what}", hint=hint)


def next_base(view: JobView, stored: StoredLineage) -> int | None:
    """The checkpoint that the task's next attempt starts from; None where none ever begins."""
    step = view.steps[stored.step]
    if stored.task in step.succeeded:
        return None
    return step.next_base(_glance(view, stored), view.stops)


def meant_base(view: JobView, stored: StoredLineage) -> int | None:
    """The checkpoint that a task's name means alone.

    That which its next attempt starts from; of a task that never has one, its last.
    """
    base = next_base(view, stored)
    return base if base is not None else stored.lineage.point


def resumed_base(view: JobView, stored: StoredLineage) -> int | None:
    """The checkpoint that a person's resume goes on from; of a task that is done, its last."""
    step = view.steps[stored.step]
    base = None if stored.task in step.succeeded else step.resumed_base(_glance(view, stored))
    return base if base is not None else stored.lineage.point


def _glance(view: JobView, stored: StoredLineage) -> Watched:
    return view.steps[stored.step].glance(stored.ref, stored.log, stored.lineage)


def read_lineage(view: JobView, step: StepView, ref: TaskRef) -> StoredLineage:
    """One lineage, read."""
    return _read(view, step, ref, step.texts(ref))


def stored_lineages(view: JobView) -> Iterator[StoredLineage]:
    """Every lineage of the job that has records, by step."""
    job = view.document.job
    texts = _texts(view)
    for step in view.steps.values():
        for name in view.records.driver.children(_lineages_of(job, step.key)):
            task = TaskKey(name)
            if not layout.is_task_key(name):
                continue
            watched = step.watched.get(task)
            if watched is not None:
                yield _read(view, step, watched.ref, step.texts(watched.ref))
            else:
                known = texts.get((step.key, task), {})
                yield _read(view, step, step.ref_of(task, known), known)


def _lineages_of(job: JobId, step: StepKey) -> str:
    any_task = TaskKey("0" * 16)
    return layout.lineage_prefix(job, step, any_task).rpartition("/")[0]


def _texts(view: JobView) -> dict[tuple[int, str], Mapping[str, str]]:
    """Parameter values of lineages, as the journals of their attempts name them."""
    found: dict[tuple[int, str], Mapping[str, str]] = {}
    for launch in view.records.state.launches:
        for key, account in view.records.known_account(launch).attempts.items():
            values = (account.begun or {}).get("values")
            if values:
                found.setdefault((key.step, key.task), values)
    return found


def _read(view: JobView, step: StepView, ref: TaskRef, texts: Mapping[str, str]) -> StoredLineage:
    job = view.document.job
    log = view.records.lineage_log(LineageId(step=step.key, task=ref.task))
    if not log.read():
        log.look_beyond()
    return StoredLineage(
        job=job,
        step=step.key,
        task=ref.task,
        label=task_label(step.step.name, texts),
        ref=ref,
        log=log,
        lineage=view.records.fold(log, share=view.records.share_of(step.key, ref)),
        packs=layout.packs(job, step.key, ref.task),
    )
