"""A step's checkpoint as a self-contained file."""

from pathlib import Path

from msgspec import to_builtins
from msgspec.structs import replace

from perdure.cli.keys import sealing_of
from perdure.cli.naming import all_tasks
from perdure.cli.old_slurm.image_files import IMAGE_PART, put_bytes, put_image, read_batch_image
from perdure.cli.old_slurm.image_format import Reference, encode_batch, image_name
from perdure.cli.old_slurm.old_text import OldTextError
from perdure.cli.old_slurm.real import slurm_folder
from perdure.cli.old_slurm.step_images import line_of
from perdure.cli.old_slurm.targets import Target
from perdure.clock import SystemClock, pause
from perdure.manager.exporting import Export, export
from perdure.manager.labels import task_label
from perdure.manager.lineages import read_lineage
from perdure.manager.stored_jobs import stored_job
from perdure.store import layout
from perdure.store.layout import JobId, StepKey, TaskKey
from perdure.store.manifests.manifest_reading import decode_manifest
from perdure.store.opening import Store
from perdure.store.records.log import Log
from perdure.store.records.record_format import decode_record


def write_image(target: Target, job: str, image_dir: str | None, nodes: str) -> None:
    """Write ``<job_id>.<step_id>.ckpt`` with all that is in the step's last checkpoint. Blocks.

    Args:
        target: the step.
        job: of Slurm.
        image_dir: where; None: where its references are.
        nodes: that the job runs on.

    Raises:
        OldTextError: it has no checkpoint, or the file cannot be written.
    """
    view, store = target.opened.view, target.opened.store
    document = view.document
    assert document.options.image_dir is not None
    view.refresh()
    step = next(iter(view.steps.values()))
    stored = read_lineage(view, step, next(all_tasks(step)).ref)
    point = stored.lineage.point
    save = None if point is None else stored.lineage.save(point)
    if save is None:
        raise OldTextError(f"scontrol_checkpoint error: {job}.{target.step} has no checkpoint")
    line = line_of(document)
    reference = Reference(
        store=store.url,
        job=document.job,
        step=stored.step,
        task=stored.task,
        sequence=save.number,
        content=save.content,
        command=line.program,
        slurm=f"{job}.{target.step}",
        root=line.root,
        call=line.call,
    )
    folder = Path(image_dir or document.options.image_dir).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        put_image(
            folder / image_name(job, target.step),
            lambda path: export_step(store, reference, path),
        )
        _put_batch(folder, job, nodes)
    except OSError as error:
        raise OldTextError(
            f"scontrol_checkpoint error: {folder} cannot be written to: {error.strerror}"
        ) from error


def _put_batch(folder: Path, job: str, nodes: str) -> None:
    """What a restart of the whole job needs, beside the files of its steps."""
    name = image_name(job, None)
    kept = read_batch_image(slurm_folder("jobs") / name)
    if kept is not None:
        put_bytes(folder / name, encode_batch(replace(kept, nodes=nodes)))


def export_step(store: Store, reference: Reference, path: Path) -> None:
    """Write the checkpoint that a reference names into a new file. Blocks; all bytes are checked.

    Raises:
        OldTextError: it is not in this store, or not what the reference says.
        CheckpointCorrupt, HomeError, OutOfSpace: it cannot be read or written; no file is left.
    """
    job, step, task = (
        JobId(reference.job),
        StepKey(reference.step),
        TaskKey(reference.task),
    )
    document = stored_job(store.driver, job)
    log = Log(store.driver, layout.lineage_log(job, step, task), clock=SystemClock(), pause=pause)
    numbers = {entry.number for entry in log.read() if entry.kind == "save"}
    if document is None or reference.sequence not in numbers:
        raise OldTextError(
            f"the checkpoint of step {reference.slurm} is not in the store {store.url}:"
            f" its file says {reference.store}"
        )
    key = log.key(reference.sequence)
    data = store.driver.get(key)
    record = decode_record(data, key=key)
    name = task_label(document.name, {})
    manifest = decode_manifest(record.header, record.payload, name=name)
    about = {
        "job": job,
        "step": document.name,
        "task": name,
        "key": task,
        "sequence": reference.sequence,
        "state": manifest.state,
        "file": None if manifest.file is None else manifest.shown_path(manifest.file),
        "job_name": document.name,
        IMAGE_PART: to_builtins(reference),
    }
    export(
        Export(
            driver=store.driver,
            packs=layout.packs(job, step, task),
            manifest=manifest,
            record=data,
            about=about,
            sealing=sealing_of(document),
            name=name,
        ),
        path,
    )
