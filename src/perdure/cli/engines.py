"""Which engine starts a job's workers, by the job's own options."""

import sys
from collections.abc import Sequence
from pathlib import Path

from perdure.cli.places import Places
from perdure.engines.base import Engine
from perdure.engines.local import LocalEngine
from perdure.errors import EngineRefused
from perdure.manager.job_view import this_hosts_capacity
from perdure.policy.resources import Host
from perdure.store.layout import JobId
from perdure.store.records.job_document import Options


def engine_of(
    where: Places, job: JobId, options: Options, local: LocalEngine | None = None
) -> Engine:
    """The engine that the options name.

    Args:
        where: as the workers are told.
        job: whose workers.
        options: the job's, as they are now.
        local: what starts workers on this host, if that is the engine; None: a new one.

    Raises:
        EngineRefused: this perdure does not know the engine.
    """
    if options.engine == "local":
        return local or LocalEngine()
    if options.engine not in ("slurm", "lsf"):
        raise EngineRefused(
            f"job {job} is for the engine {options.engine!r}, which this perdure does not know",
            hint="Use the perdure that it was submitted with, or a later one.",
        )
    settle = settle_command(job, home=where.home, store_url=where.store_url)
    return cluster_engine(options, follow=settle)


def cluster_engine(
    options: Options, follow: Sequence[str] = (), own_job: str | None = None
) -> Engine:
    """The batch system's engine.

    Args:
        options: the job's.
        follow: a command that makes a turn, for what is to follow each array.
        own_job: the batch system's name of the job that this process runs in.
    """
    if options.engine == "lsf":
        from perdure.engines.lsf.engine import LsfEngine

        return LsfEngine(options.lsf, follow=follow, own_job=own_job)
    from perdure.engines.slurm.engine import SlurmEngine

    return SlurmEngine(options.slurm, follow=follow)


def settle_command(job: JobId, *, home: Path, store_url: str) -> list[str]:
    """The command that makes one turn of the job, wherever both are reached at the same paths."""
    command = [sys.executable, "-P", "-m", "perdure", "settle", job]
    return [*command, "--home", str(home), "--store", store_url]


def capacity_of(options: Options) -> Host | None:
    """What the workers of the job share; None where the engine sees to it."""
    return this_hosts_capacity() if options.engine == "local" else None
