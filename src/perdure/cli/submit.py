"""``perdure submit``: put a job into the store and let a manager of its own take it on."""

import json
from typing import Any

import click

from perdure.cli.given_command import JobCommand
from perdure.cli.job_options import (
    caller_environment,
    check_places,
    job_document,
    job_options,
    told_at_submit,
    with_line,
)
from perdure.cli.places import json_option, places, where_options
from perdure.cli.pointing import pointed


@click.command(cls=JobCommand)
@job_options
@json_option
@click.option("--again", is_flag=True, help="With --key: begin a new job if the last has ended.")
@where_options
def submit(**given: Any) -> int:
    """Start the job of TEMPLATE, or a plain COMMAND, and print its id; it goes on by itself.

    A reboot of this host ends its processes: `perdure resume JOB` goes on from the last saves.
    """
    from msgspec.structs import replace

    from perdure.cli.detached import start_manager
    from perdure.cli.engines import capacity_of
    from perdure.cli.kept_options import kept_options
    from perdure.cli.managed import present_document
    from perdure.cli.memory_growth import check_growth
    from perdure.cli.probing import probe_of
    from perdure.cli.settling import start_on_engine
    from perdure.cli.turns_by_hand import told_of_turns
    from perdure.clock import SystemClock, pause
    from perdure.manager.submission import check_runnable, open_job_of_line
    from perdure.manager.submission import submit as put
    from perdure.worker.loading import load

    where = places(given["home"], given["store"], share=given["share"])
    environment = caller_environment()
    document = job_document(given, environment)
    line = with_line(document, given["key_variables"], environment)
    job = load(document)
    document = replace(document, name=document.name or job.name)
    check_runnable(document, job, capacity_of(document.options))
    check_places(document.options, where)
    check_growth(document.options, job)
    store = where.open(write=True, create=True)
    if (other := open_job_of_line(store.driver, line, SystemClock(), pause)) is not None:
        resume = pointed(f"perdure resume {other.job}")
        click.echo(
            f"perdure: job {other.job} of this very line has not ended, and may write into the"
            f" same folders as this new one; to go on with it: {resume}",
            err=True,
        )
    probe = probe_of(document, store.driver)
    submitted = put(store.driver, document, SystemClock(), pause, again=given["again"], probe=probe)
    found = submitted.document
    if not submitted.is_new:
        found = present_document(store.driver, found)
    for sentence in () if submitted.is_new else kept_options(document, found):
        click.echo(f"perdure: {sentence}", err=True)
    if found.options.engine == "local":
        start_manager(where, found.job, resume=not submitted.is_new)
        goes_on = f"It goes on by itself on this host; after a reboot: perdure resume {found.job}"
    else:
        start_on_engine(where, store, submitted)
        goes_on = f"It goes on by itself on the cluster; look with: perdure status {found.job}"
        if (by_hand := told_of_turns(found, job)) is not None:
            click.echo(pointed(f"perdure: {by_hand}"), err=True)
    if given["as_json"]:
        click.echo(json.dumps({"job": found.job, "key": found.key, "new": submitted.is_new}))
        return 0
    if (told := told_at_submit(found.options)) is not None and submitted.is_new:
        click.echo(f"perdure: {told}", err=True)
    click.echo(found.job)
    click.echo(
        pointed(goes_on),
        err=True,
    )
    return 0
