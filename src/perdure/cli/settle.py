"""``perdure settle``: a turn by whoever comes when an array of workers is over."""

import os
from typing import Any

import click

from perdure.cli.places import places, where_options


@click.command()
@click.argument("job")
@where_options
def settle(job: str, **given: Any) -> int:
    """Make one turn of JOB: what has ended is recorded, what is next is started.

    Each array of workers on Slurm or LSF is followed by a small job that does this, so that nobody
    has to stay logged in. Anybody may do it at any time: two turns at once do no harm. There a step
    whose workers the cluster refuses is suspended with the reason: `perdure why` shows it.
    """
    from perdure.cli.allocations import job_of
    from perdure.cli.managed import managed_job
    from perdure.cli.naming import find_job
    from perdure.cli.settling import settle_job
    from perdure.worker.loading import load

    where = places(given["home"], given["store"])
    store = where.open(write=True)
    document = find_job(store, job)
    managed = managed_job(where, store, document, load(document))
    status = settle_job(managed, holds=job_of(os.environ) is not None)
    word = "under way" if status is None else status.state.value
    click.echo(f"perdure: job {document.job} is {word}", err=True)
    return 0
