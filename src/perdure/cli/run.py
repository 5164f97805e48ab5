"""``perdure run``: submit and manage in front, showing what the tasks print."""

from typing import Any

import click

from perdure.cli.given_command import JobCommand
from perdure.cli.job_options import caller_environment, job_document, job_options, with_line
from perdure.cli.places import places, where_options
from perdure.engines.local import LocalEngine

#: So many workers import at once while the template is read; more would only slow each other.
_MOST_PREPARED = 2


@click.command(cls=JobCommand)
@job_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@click.option(
    "--output",
    type=click.Choice(["human-readable", "json", "yaml"]),
    default="human-readable",
    help="How the result is printed.",
)
@click.option("--verbose", is_flag=True, help="Say on standard error what perdure does besides.")
@click.option(
    "--timestamp-format",
    type=click.Choice(["relative", "local", "utc", "none"]),
    help="What stands before each line of output.  [default: relative; none for a COMMAND]",
)
@click.option("--again", is_flag=True, help="With --key: begin a new job if the last has ended.")
@where_options
@click.pass_obj
def run(engine: LocalEngine | None, /, **given: Any) -> int:
    """Run the job of TEMPLATE, or a plain COMMAND; whatever interrupts it, the same line goes on.

    Ctrl-C suspends it at its next save; a second one stops it at once, at its last checkpoint.
    """
    engine = engine or LocalEngine()
    if given["engine"] == "local":
        engine.prepare(min(given["workers"], _MOST_PREPARED))
    try:
        return _run(engine, given)
    finally:
        engine.close()


def _run(engine: LocalEngine, given: dict[str, Any]) -> int:
    """The command, while a worker is being prepared beside it."""
    from perdure.cli.running import Shown, run_job

    where = places(given["home"], given["store"], share=given["share"])
    environment = caller_environment()
    document = job_document(given, environment)
    line = with_line(document, given["key_variables"], environment)
    return run_job(where, line, Shown.by(given), engine, again=given["again"])
