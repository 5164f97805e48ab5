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
from perdure.manager.step_view import StepView
from perdure.store import layout
from perdure.store.layout import JobId, StepKey, TaskKey
from perdure.store.manifests.manifest import Manifest, with_digests
from perdure.store.manifests.manifest_reading import decode_manifest
from perdure.store.records.job_log import TaskRef
from perdure.store.records.lineage import Lineage, Save
from perdure.store.records.log import Log
from perdure.worker.job_records import LineageId


class StoredLineage(Struct, frozen=True, kw_only=True):
    """A lineage, its log read to the end.

    Attributes:
        label: of its task.
        ref: of the lineage, as it was found.
        packs: prefix of its packs.
    """

    step: StepKey
    task: TaskKey
    label: str
    ref: TaskRef
    log: Log
    lineage: Lineage
    packs: str

    def save(self, sequence: int | None) -> Save:
        """The checkpoint of that sequence; without one, that which the next attempt starts from.

        Raises:
            CheckpointMissing: there is none, or it was pruned.
        """
        number = sequence if sequence is not None else self.lineage.point
        found = self.lineage.save(number) if number is not None else None
        there = ", ".join(str(save.number) for save in self.lineage.saves if not save.is_pruned)
        hint = f"There are: {there}." if there else "It has no checkpoints."
        if found is None:
            what = "no checkpoint to go on from" if number is None else f"no checkpoint {number}"
            raise CheckpointMissing(f"{self.label} has {what}", hint=hint, task=self.task)
        if found.is_pruned:
            raise CheckpointMissing(
                f"checkpoint {number} of {self.label} was pruned", hint=hint, task=self.task
            )
        return found

    def manifest(self, save: Save) -> Manifest:
        """The checkpoint's description, read anew and checked.

        Raises:
            CheckpointCorrupt, StoreDamaged: it is not what was written.
        """
        record = self.log.fetch(save.number)
        name = f"{self.label}@{save.number}"
        return with_digests(decode_manifest(record.header, record.payload, name=name), save.digests)


def next_base(view: JobView, stored: StoredLineage) -> int | None:
    """The checkpoint that the task's next attempt starts from; None where none ever begins."""
    can_go_on = view.steps[stored.step].can_go_on(stored.task, view.stops)
    return stored.lineage.point if can_go_on else None


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
        step=step.key,
        task=ref.task,
        label=task_label(step.step.name, texts),
        ref=ref,
        log=log,
        lineage=view.records.fold(log, share=view.records.share_of(step.key, ref)),
        packs=layout.packs(job, step.key, ref.task),
    )
