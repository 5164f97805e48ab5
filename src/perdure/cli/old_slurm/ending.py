"""Jobs of Slurm that are to end at their checkpoint: what is behind a step must not run yet.

A mark in the home says so; a step that was saved and suspended stays in front while it is there,
until Slurm ends the job. It is of one run of the job: the next one has none.
"""

from collections.abc import Mapping
from pathlib import Path

from perdure.cli.old_slurm.real import slurm_folder


def mark_ending(job: str, restarts: str) -> None:
    """Say that this run of a job is to end."""
    _mark(job, restarts).touch(mode=0o600)


def is_ending(environment: Mapping[str, str]) -> bool:
    """Whether the run of the job that this environment is of is to end."""
    restarts = environment.get("SLURM_RESTART_COUNT") or "0"
    return _mark(environment["SLURM_JOB_ID"], restarts).exists()


def _mark(job: str, restarts: str) -> Path:
    return slurm_folder("ending") / f"{job}-{restarts}"
