"""Which engine starts a job's workers, by the job's own options."""

import sys
from pathlib import Path

from perdure.cli.places import Places
from perdure.engines.base import Engine
from perdure.engines.local import LocalEngine
from perdure.manager.job_view import this_hosts_capacity
from perdure.policy.resources import Host
from perdure.store.layout import JobId
from perdure.store.records.job_document import Options


def engine_of(
    where: Places, job: JobId, options: Options, local: LocalEngine | None = None
) -> Engine:
    """The engine that the job was submitted for.

    Args:
        where: as the workers are told.
        job: whose workers.
        options: the job's.
        local: what starts workers on this host, if that is the engine; None: a new one.
    """
    if options.engine == "slurm":
        from perdure.engines.slurm.engine import SlurmEngine

        settle = settle_command(job, home=where.home, store_url=where.store_url)
        return SlurmEngine(options.slurm, follow=settle)
    return local or LocalEngine()


def settle_command(job: JobId, *, home: Path, store_url: str) -> list[str]:
    """The command that makes one turn of the job, wherever both are reached at the same paths."""
    command = [sys.executable, "-P", "-m", "perdure", "settle", job]
    return [*command, "--home", str(home), "--store", store_url]


def capacity_of(options: Options) -> Host | None:
    """What the workers of the job share; None where the engine sees to it."""
    return this_hosts_capacity() if options.engine == "local" else None
