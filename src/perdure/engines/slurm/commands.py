"""Slurm's commands, given from here.

Blocks: for as long as the command takes, a minute at most; `patiently` for longer.
"""

import os
import time
from collections.abc import Sequence

from perdure.engines.batch_commands import BatchSystem, give, printed
from perdure.engines.slurm.real_commands import real_command
from perdure.engines.slurm.slurm_format import command_environment
from perdure.errors import EngineRefused, EngineUnavailable
from perdure.worker.processes import TOKEN_VARIABLE

#: A controller that is started anew answers within this; and so often it is asked meanwhile.
_PATIENCE_SECONDS, _AGAIN_SECONDS = 300.0, 5.0
_SLURM = BatchSystem(
    name="Slurm",
    server="Slurm's controller",
    option="--slurm",
    silent=(
        "unable to contact slurm controller",
        "unable to connect to slurm",
        "connection refused",
        "connection timed out",
        "socket timed out",
        "communication connection failure",
        "slurm backup controller in standby mode",
        "munge",
        "temporarily unable to accept",
    ),
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
        done = give(
            [real_command(command[0]), *command[1:]],
            _SLURM,
            called=command[0],
            text=text,
            environment=_environment(command[0]),
        )
    except OSError as error:
        raise EngineRefused(
            f"{command[0]} cannot be run: {error.strerror}",
            hint="--engine slurm needs Slurm's commands on PATH: use a login node of the cluster.",
        ) from error
    return printed(done, _SLURM, called=command[0])


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
