"""``perdure resume``: go on from the last checkpoint, or from one that a person chooses."""

from typing import Any

import click

from perdure.cli.places import places, where_options
from perdure.engines.local import LocalEngine


@click.command()
@click.argument("job")
@click.option("--step", metavar="S", help="Only this step.")
@click.option("--task", metavar="T", help="Only this task: Step[Frame=12], or its key.")
@click.option(
    "--from", "base", metavar="SEQ|start", help="From this checkpoint, or from the beginning."
)
@click.option(
    "-p",
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="With --as new: another value of a job parameter.",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "slurm", "lsf"]),
    help="From now on this starts the workers; what runs saves and leaves first.",
)
@click.option(
    "--slurm",
    multiple=True,
    metavar='"OPTIONS"',
    help="sbatch's own options from now on, in place of all that were given before.",
)
@click.option(
    "--lsf",
    multiple=True,
    metavar='"OPTIONS"',
    help="bsub's own options from now on, in place of all that were given before.",
)
@click.option("--as", "as_new", type=click.Choice(["new"]), help="As a new job.")
@click.option(
    "--overwrite",
    "conflict",
    flag_value="overwrite",
    help="Over outside files that others wrote (they are renamed).",
)
@click.option(
    "--keep",
    "conflict",
    flag_value="keep",
    help="Leave outside files that others wrote as they are.",
)
@click.option("--detach", is_flag=True, help="Return at once; the job goes on by itself.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@click.option(
    "--timestamp-format",
    type=click.Choice(["relative", "local", "utc", "none"]),
    help="What stands before each line of output.  [default: relative; none for a COMMAND]",
)
@click.option("--verbose", is_flag=True, help="Say on standard error what perdure does besides.")
@where_options
@click.pass_obj
def resume(engine: LocalEngine | None, /, **given: Any) -> int:
    """Go on with JOB, in front: suspended, held, failed, or left by a host that was lost."""
    engine = engine or LocalEngine()
    if not given["detach"]:
        engine.prepare()
    try:
        from perdure.cli.resuming import resume_job

        return resume_job(places(given["home"], given["store"]), given, engine)
    finally:
        engine.close()
