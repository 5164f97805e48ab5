"""``perdure resume JOB --as new``: a new job that goes on from the old one's checkpoints.

The old job stays as it is. Checkpoints go over by an export and an import: every byte checked, only
files of the session folder. A task that the new job does not have (its parameters may differ) is
left out and told.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from perdure.cli.engines import capacity_of
from perdure.cli.keys import sealing_of
from perdure.cli.managed import Managed, managed_job
from perdure.cli.moving import chosen_options
from perdure.cli.naming import FoundTask, find_tasks
from perdure.cli.probing import probe_of
from perdure.cli.resuming import base_of, detach, only_one
from perdure.cli.running import Shown, go_on
from perdure.clock import SystemClock, pause
from perdure.engines.local import LocalEngine
from perdure.errors import UsageError
from perdure.manager.exporting import Export, export
from perdure.manager.importing import import_checkpoint
from perdure.manager.job_view import JobView
from perdure.manager.lineages import StoredLineage, read_lineage, resumed_base
from perdure.manager.submission import check_runnable, new_job_id, submit
from perdure.store.layout import TaskKey
from perdure.store.records.job_log import TaskRef
from perdure.template import parse_parameters, task_key
from perdure.worker.loading import load


def renew(old: Managed, given: dict[str, Any]) -> int:
    """Make the new job, give it the checkpoints, and manage it in front; the exit code.

    Raises:
        UsageError, CheckpointMissing: it cannot be done; no new job was made.
    """
    before = old.view.document
    if before.command and given["parameters"]:
        raise UsageError(
            "-p is for templates: this job runs a command", hint="Give the new command by itself."
        )
    parameters = {**before.parameters, **parse_parameters(given["parameters"])}
    document = replace(
        before,
        job=new_job_id(),
        parameters=parameters,
        key=None,
        line=None,
        options=chosen_options(before.options, given),
    )
    check_runnable(document, load(document), capacity_of(document.options))
    chosen = _chosen(old.view, given)
    driver = old.store.driver
    probe = probe_of(document, driver)
    submitted = submit(driver, document, SystemClock(), pause, probe=probe)
    local = old.engine if isinstance(old.engine, LocalEngine) else None
    new = managed_job(old.places, old.store, submitted.document, load(submitted.document), local)
    new.view.refresh()
    for found, stored, sequence in chosen:
        _carry_over(old, found, stored, sequence, new.view)
    if given["detach"]:
        return detach(old.places, new)
    return go_on(new, Shown.by(given))


def _chosen(view: JobView, given: dict[str, Any]) -> list[tuple[FoundTask, StoredLineage, int]]:
    """Which checkpoints go over: the one named, or where each task would go on from."""
    base = None if given["base"] is None else base_of(given["base"], view.document.job)
    if given["base"] is not None and base is None:
        return []
    tasks = find_tasks(view, given["step"], given["task"])
    read = [(found, read_lineage(view, found.step, found.ref)) for found in tasks]
    if base is None:
        bases = ((found, stored, resumed_base(view, stored)) for found, stored in read)
        return [(found, stored, number) for found, stored, number in bases if number is not None]
    found, stored = only_one(read)
    return [(found, stored, stored.save(base).number)]


def _carry_over(
    old: Managed, found: FoundTask, stored: StoredLineage, sequence: int, view: JobView
) -> None:
    """Give one checkpoint to the new job's task of the same name."""
    texts = found.step.texts(found.ref)
    step = view.steps.get(found.step.key)
    if step is None or not step.step.space.contains(texts):
        _say(f"{found.label} is no task of the new job: its checkpoint is left out")
        return
    ref = TaskRef(
        task=TaskKey(task_key(texts)), index=step.step.space.find(texts), values=dict(texts)
    )
    with tempfile.TemporaryDirectory(prefix="perdure-renew-") as folder:
        path = Path(folder) / "checkpoint.tar"
        driver, sealing = old.store.driver, sealing_of(old.view.document)
        export(
            Export(
                driver=driver,
                packs=stored.packs,
                manifest=stored.manifest(stored.save(sequence)),
                record=driver.get(stored.log.key(sequence)),
                about={"job": old.view.document.job},
                sealing=sealing,
            ),
            path,
        )
        imported = import_checkpoint(view, step, ref, path, sealing)
    for sentence in imported.left_out:
        _say(sentence)
    _say(f"{found.label} goes on from checkpoint {sequence}")


def _say(text: str) -> None:
    print(f"perdure: {text}", file=sys.stderr)
