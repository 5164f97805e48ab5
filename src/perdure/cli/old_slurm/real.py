"""Becoming the real command, and where perdure keeps what belongs to jobs of Slurm."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from perdure.cli.old_slurm.old_text import OldTextError
from perdure.cli.places import places
from perdure.engines.slurm.real_commands import real_command


def become(command: str, words: Sequence[str]) -> NoReturn:
    """Replace this process by the real command of that name.

    Raises:
        OldTextError: it cannot be run.
        EngineRefused: there is only a shim of ours.
    """
    path = real_command(command)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvp(path, [command, *words])  # noqa: S606 - no shell: that is the point
    except OSError as error:
        raise OldTextError(f"perdure: {command} cannot be run: {error.strerror}") from error


def slurm_folder(*parts: str) -> Path:
    """A folder of the home for what belongs to jobs of Slurm; it is made."""
    folder = places(None, None).home.joinpath("slurm", *parts)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def run_name(environment: Mapping[str, str]) -> str:
    """The run of the job of Slurm that this process is in: one that was put back runs again."""
    cluster = environment.get("SLURM_CLUSTER_NAME", "")
    again = environment.get("SLURM_RESTART_COUNT") or "0"
    return f"{cluster}-{environment['SLURM_JOB_ID']}-{again}"
