"""``perdure checkpoints``: all checkpoints of a job or task."""

import json
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from perdure.cli.places import json_option, places, where_options
from perdure.cli.tables import console, duration, moment, plain, show_table
from perdure.sizes import size_text as size

if TYPE_CHECKING:
    from perdure.manager.facts import CheckpointFacts
    from perdure.store.records.job_document import Options


@click.command()
@click.argument("job")
@click.option("--task", metavar="T", help="Only of this task: Step[Frame=12], or its key.")
@click.option("--all", "show_all", is_flag=True, help="Also those that were pruned.")
@json_option
@where_options
def checkpoints(**given: Any) -> int:
    """List the checkpoints of JOB, the newest of each task last."""
    from perdure.cli.looking import look_into
    from perdure.cli.naming import find_tasks
    from perdure.manager.attempt_facts import checkpoint_facts
    from perdure.manager.labels import checkpoint_label
    from perdure.manager.lineages import next_base, read_lineage, stored_lineages

    looked = look_into(places(given["home"], given["store"]))
    document = looked.job(given["job"])
    view = looked.view(document)
    view.refresh()
    if given["task"] is None:
        lineages = list(stored_lineages(view))
    else:
        found = find_tasks(view, None, given["task"])
        lineages = [read_lineage(view, one.step, one.ref) for one in found]
    rows: list[dict[str, Any]] = []
    for lineage in lineages:
        point = next_base(view, lineage)
        for save in lineage.lineage.saves:
            if save.is_pruned and not (given["show_all"] or given["as_json"]):
                continue
            rows.append(
                {
                    "name": checkpoint_label(document.job, lineage.label, save.number),
                    "step": view.job.step(lineage.step).name,
                    "task": lineage.label,
                    "key": lineage.task,
                    "point": save.number == point,
                    "facts": checkpoint_facts(save),
                }
            )
    if given["as_json"]:
        listed = [_plain_row(row) for row in rows]
        described = {"job": document.job, "retention": document.options.retention()}
        print(json.dumps({**described, "checkpoints": listed}))
    else:
        _show(document.job, rows)
        if rows:
            print(_kept(document.options))
    return 0


def _kept(options: "Options") -> str:
    """The job's rules, in plain sentences."""
    last = f"last {options.keep_last} are" if options.keep_last > 1 else "last one is"
    text = f"Of each task the {last} kept"
    if options.keep_age_seconds is not None:
        text += f", and all that are younger than {duration(options.keep_age_seconds)}."
    else:
        text += (
            "; while there is room, also the last one of each hour of a day and of each day of a"
            " week."
        )
    if options.keep_size_bytes is not None:
        text += f" Those of one task take at most {size(options.keep_size_bytes)}."
    return text


def _plain_row(row: dict[str, Any]) -> dict[str, Any]:
    described = {name: value for name, value in row.items() if name != "facts"}
    return {**described, **to_builtins(row["facts"])}


def _show(job: str, rows: list[dict[str, Any]]) -> None:
    if not rows:
        print(f"Job {job} has no checkpoints.")
        return
    show_table(
        console(),
        ("TASK", "SEQ", "COMMITTED", "ATTEMPT", "SIZE", "NEW", "FILES", "", "STATE"),
        [_row(row, row["facts"]) for row in rows],
        right=("SEQ", "ATTEMPT", "SIZE", "NEW", "FILES"),
    )


def _row(row: dict[str, Any], facts: "CheckpointFacts") -> tuple[str, ...]:
    return (
        plain(row["task"]),
        f"@{facts.sequence}",
        moment(facts.committed_at),
        "imported" if facts.imported else str(facts.attempt),
        size(facts.size_bytes),
        size(facts.new_bytes),
        str(facts.files),
        ", ".join(_marks(facts, is_point=row["point"])),
        plain(facts.state or "")[:60],
    )


def _marks(facts: "CheckpointFacts", *, is_point: bool) -> list[str]:
    """What is to be known about a checkpoint, in single words."""
    marks = {
        "next": is_point,
        "pinned": facts.pinned,
        "side branch": facts.void,
        "pruned": facts.pruned,
        "perdure's own": facts.support,
    }
    return [name for name, holds in marks.items() if holds]
