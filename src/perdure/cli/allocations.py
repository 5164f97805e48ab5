"""The job of a batch system that this process runs in, by its environment."""

from collections.abc import Mapping

from perdure.engines.allocation import Allocation


def found_allocation(environment: Mapping[str, str]) -> Allocation | None:
    """The Slurm or LSF job that this process runs in; None on a host of one's own."""
    if "SLURM_JOB_ID" in environment:
        from perdure.engines.slurm.allocation import Allocation as SlurmAllocation

        return SlurmAllocation.of(environment)
    if "LSB_JOBID" in environment:
        from perdure.engines.lsf.allocation import LsfAllocation

        return LsfAllocation.of(environment)
    return None


def element_of(environment: Mapping[str, str]) -> str | None:
    """The index of the element of an array that this process runs in; None for no array."""
    slurm = environment.get("SLURM_ARRAY_TASK_ID")
    lsf = environment.get("LSB_JOBINDEX")
    return slurm if slurm is not None else (lsf if lsf not in (None, "", "0") else None)


def is_script(environment: Mapping[str, str]) -> bool:
    """Whether this is in a batch job: an interactive one of LSF's ends with its terminal."""
    if "SLURM_JOB_ID" in environment:
        return True
    return "LSB_JOBID" in environment and environment.get("LSB_INTERACTIVE") != "Y"


def job_of(environment: Mapping[str, str]) -> str | None:
    """By what runs of one script are known to be one job's; None where there is none."""
    if "SLURM_JOB_ID" in environment:
        return environment["SLURM_JOB_ID"]
    job = environment.get("LSB_JOBID")
    return None if job is None else f"lsf {job}[{environment.get('LSB_JOBINDEX', '0')}]"


def batch_system(environment: Mapping[str, str]) -> str:
    """The engine whose job this process runs in; ``local`` where there is none."""
    if "SLURM_JOB_ID" in environment:
        return "slurm"
    return "lsf" if "LSB_JOBID" in environment else "local"
