"""``perdure suspend`` and ``perdure cancel``: a wish goes into the job's log; workers see it."""

import json
from typing import Any

import click

from perdure.cli.places import json_option, places, where_options
from perdure.cli.pointing import pointed

_STEP = click.option("--step", metavar="S", help="Only this step.")
_TASK = click.option("--task", metavar="T", help="Only this task: Step[Frame=12], or its key.")
_NOW = click.option("--now", is_flag=True, help="Without notice: at the last checkpoint.")


@click.command()
@click.argument("job")
@_STEP
@_TASK
@_NOW
@json_option
@where_options
def suspend(**given: Any) -> int:
    """Stop JOB, keeping its progress: it waits for `perdure resume`."""
    return _wish("suspend", given)


@click.command()
@click.argument("job")
@_STEP
@_TASK
@json_option
@where_options
def cancel(**given: Any) -> int:
    """Stop JOB and abandon it; what was canceled never goes on."""
    return _wish("cancel", {**given, "now": False})


def _wish(kind: str, given: dict[str, Any]) -> int:
    """Record the wish, tell workers of this host at once, and make a turn where nobody does."""
    from perdure.cli.jobs import open_job
    from perdure.cli.naming import scope_of
    from perdure.cli.turning import turn_if_unmanaged
    from perdure.manager.managing import interrupt_workers

    opened = open_job(places(given["home"], given["store"]), given["job"], write=True)
    view = opened.view
    scope = scope_of(view, given["step"], given["task"])
    record = {"kind": kind, "scope": scope, "by": "user", "now": given["now"]}
    settled = view.settled(None)
    if settled is None:
        while not view.records.append(record):
            pass
        if kind == "suspend" and not scope:  # cancels are read by the workers within a second
            interrupt_workers(view, opened.engine, by_person=True)
        turn_if_unmanaged(opened)
    said = "nothing is left to stop" if settled is not None else f"{kind} is recorded"
    if given["as_json"]:
        click.echo(json.dumps({"job": view.document.job, "recorded": settled is None}))
    else:
        click.echo(pointed(f"{view.document.job}: {said}" + _next(kind, settled is None, view)))
    return 0


def _next(kind: str, recorded: bool, view: Any) -> str:  # noqa: FBT001 - one word of a sentence
    if not recorded:
        return f"; the job is {view.settled(None).value}"
    if kind == "suspend":
        return f"; it goes on with: perdure resume {view.document.job}"
    return ""
