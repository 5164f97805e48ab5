"""Which engine starts a job's workers, by the job's own options."""

import sys

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
    if options.engine == "slurm":
        from perdure.engines.slurm.engine import SlurmEngine

        settle = [sys.executable, "-P", "-m", "perdure", "settle", job]
        settle += ["--home", str(where.home), "--store", where.store_url]
        return SlurmEngine(options.slurm, follow=settle)
    if options.engine != "local":
        raise EngineRefused(
            f"job {job} is for the engine {options.engine!r}, which this perdure does not know",
            hint="Use the perdure that it was submitted with, or a later one.",
        )
    return local or LocalEngine()


def capacity_of(options: Options) -> Host | None:
    """What the workers of the job share; None where the engine sees to it."""
    return this_hosts_capacity() if options.engine == "local" else None
