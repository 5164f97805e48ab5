"""``perdure why``: why a job or a task is as it is, and the lines that change it."""

import json
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from perdure.cli.places import json_option, places, where_options
from perdure.cli.pointing import pointed
from perdure.cli.tables import plain

if TYPE_CHECKING:
    from perdure.cli.looking import Looked
    from perdure.manager.explaining import Explanation
    from perdure.store.records.job_document import JobDocument


@click.command()
@click.argument("job")
@click.argument("task", required=False)
@json_option
@where_options
def why(**given: Any) -> int:
    """Say why JOB (or its TASK) is as it is, and what can be done."""
    from perdure.cli.looking import look_into
    from perdure.manager.explaining import explain_job

    looked = look_into(places(given["home"], given["store"]))
    document = looked.job(given["job"])
    if given["task"] is None:
        explanations = list(explain_job(looked.status(document)))
    else:
        explanations = _of_task(looked, document, given["task"])
    if given["as_json"]:
        described = [to_builtins(one) for one in explanations]
        print(json.dumps({"job": document.job, "explanations": described}))
    else:
        for explanation in explanations:
            _show(explanation)
    return 0


def _of_task(looked: "Looked", document: "JobDocument", name: str) -> "list[Explanation]":
    """The tasks that are meant, at most a few."""
    from perdure.cli.naming import find_tasks
    from perdure.manager.explaining import (
        EXPLAINED_TASKS,
        explain_counted,
        explain_task,
        state_of_counted,
    )
    from perdure.manager.facts_reading import read_facts
    from perdure.manager.job_status import status_now, task_of

    view = looked.view(document)
    facts, _ = read_facts(view, every_attempt=True)
    status = status_now(looked.store.driver, document, facts, looked.clock.now())
    found: list[Explanation] = []
    for one in find_tasks(view, None, name)[:EXPLAINED_TASKS]:
        task = task_of(status.facts, one.ref.task)
        if task is not None:
            found.append(explain_task(status, task))
            continue
        attempts = [a for a in status.facts.attempts if a.key == one.ref.task]
        state = state_of_counted(status.facts, one.ref.task)
        found.append(explain_counted(one.label, one.ref.task, state, attempts))
    return found


def _show(explanation: "Explanation") -> None:
    state = f": {explanation.state}" if explanation.state else ""
    print(f"{plain(explanation.about)}{state}")
    for sentence in explanation.sentences:
        print(f"  {pointed(plain(sentence))}")
    if explanation.commands:
        print("  What can be done:")
        for command in explanation.commands:
            print(f"    {pointed(command)}")
