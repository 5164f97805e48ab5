"""``perdure suspend`` and ``perdure cancel``: a wish goes into the job's log; workers see it."""

import json
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.places import json_option, places, where_options
from perdure.cli.pointing import pointed

if TYPE_CHECKING:
    from perdure.manager.job_view import JobView

_STEP = click.option("--step", metavar="S", help="Only this step.")
_TASK = click.option("--task", metavar="T", help="Only this task: Step[Frame=12], or its key.")
_NOW = click.option(
    "--now",
    is_flag=True,
    help="Kill the tasks without asking them to save: what they saved before stays.",
)


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
    why_not = _nothing_to_stop(view, kind, scope)
    if not why_not:
        while not view.records.append(record):
            pass
        # A signal asks to save first. Other wishes are read by the workers within a second.
        if kind == "suspend" and not scope and not given["now"]:
            interrupt_workers(view, opened.engine, by_person=True)
        turn_if_unmanaged(opened)
    if given["as_json"]:
        click.echo(json.dumps({"job": view.document.job, "recorded": not why_not}))
        return 0
    said = f"nothing is left to stop; {why_not}" if why_not else f"{kind} is recorded"
    goes_on = kind == "suspend" and view.settled(None) is None
    later = f"; it goes on with: perdure resume {view.document.job}" if goes_on else ""
    click.echo(pointed(f"{view.document.job}: {said}{later}"))
    return 0


def _nothing_to_stop(view: "JobView", kind: str, scope: dict[str, Any]) -> str:
    """Why the wish would change nothing; "" where it would."""
    from perdure.policy.outcome import By
    from perdure.policy.stops import Scope

    settled = view.settled(None)
    if settled is not None:
        return f"the job is {settled.value}"
    meant = Scope.of(scope)
    stop = view.stops.stopped(meant)
    if kind != "suspend" or stop is None or stop.by is not By.USER:
        return ""
    if any(step.is_at_work(meant) for step in view.steps.values()):
        return ""
    return f"{'it' if scope else 'the job'} is suspended already"
