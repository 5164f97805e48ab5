"""Slurm's commands, given from here.

A controller that does not answer is no refusal: jobs go on running without it, and it is asked
again later. Every command has a time limit of its own, since a controller that hangs would hang
whoever asks.

Blocks: for as long as the command takes, a minute at most; `patiently` for longer.
"""

import os
import subprocess
import time
from collections.abc import Sequence

from perdure.engines.slurm.real_commands import real_command
from perdure.engines.slurm.slurm_format import command_environment
from perdure.errors import EngineRefused, EngineUnavailable
from perdure.worker.processes import TOKEN_VARIABLE

_LONGEST_SECONDS = 60.0
#: A controller that is started anew answers within this; and so often it is asked meanwhile.
_PATIENCE_SECONDS, _AGAIN_SECONDS = 300.0, 5.0
#: What Slurm's commands say where nobody answers; the exit code is 1 as for everything else.
_SILENT = (
    "unable to contact slurm controller",
    "unable to connect to slurm",
    "connection refused",
    "connection timed out",
    "socket timed out",
    "communication connection failure",
    "slurm backup controller in standby mode",
    "munge",
    "temporarily unable to accept",
)


def slurm(command: Sequence[str], *, text: str | None = None) -> str:
    """What one of Slurm's commands prints.

    Args:
        command: with its arguments.
        text: for its standard input.

    Raises:
        EngineUnavailable: nobody answers now.
        EngineRefused: it said no, or is not installed.
    """
    try:
        done = subprocess.run(
            [real_command(command[0]), *command[1:]],
            env=_environment(command[0]),
            input=text,
            stdin=None if text is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EngineUnavailable(
            f"{command[0]} did not answer within {_LONGEST_SECONDS:.0f} s",
            hint="Slurm's controller may be down: jobs that run go on, and it is asked again.",
        ) from error
    except OSError as error:
        raise EngineRefused(
            f"{command[0]} cannot be run: {error.strerror}",
            hint="--engine slurm needs Slurm's commands on PATH: use a login node of the cluster.",
        ) from error
    if done.returncode == 0:
        return done.stdout
    said = (done.stderr.strip() or done.stdout.strip()).removeprefix(f"{command[0]}: ")
    if any(words in said.lower() for words in _SILENT):
        raise EngineUnavailable(
            f"Slurm does not answer: {said}",
            hint="Jobs that run go on without it; it is asked again.",
        )
    raise EngineRefused(
        f"{command[0]} refused: {said}",
        hint='Change what was asked of Slurm (--slurm "…"), then give the command again.',
    )


def _environment(program: str) -> dict[str, str]:
    """A step belongs to the job that this process runs in; a job must not take itself for it."""
    if program == "srun":
        return dict(os.environ)
    return command_environment(os.environ, without=TOKEN_VARIABLE)


def patiently(command: Sequence[str], *, text: str | None = None) -> str:
    """The same, for what nobody would ask again: a controller that is away is waited for.

    Blocks: five minutes more at most.

    Raises:
        EngineUnavailable: nobody answered all that time.
        EngineRefused: it said no, or is not installed.
    """
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return slurm(command, text=text)
        except EngineUnavailable:
            if time.monotonic() > until:
                raise
            time.sleep(_AGAIN_SECONDS)
