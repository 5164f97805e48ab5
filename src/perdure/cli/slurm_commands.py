"""``perdure srun``, ``sbatch`` and ``scontrol``: the real ones, with the old checkpoint options.

Their words are never read as options of perdure's. What has nothing of the old options becomes the
real command, in this very process: its input, its signals and its exit code are its own.

Source: docs/old-slurm.md.
"""

import os
import sys
from collections.abc import Callable, Sequence

import click

from perdure.cli.old_slurm.old_text import OldTextError
from perdure.engines.local import LocalEngine


class _Raw(click.Command):
    """A command that takes its words as they are."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.params["words"] = tuple(args)
        return []


def _raw(name: str, summary: str) -> Callable[[Callable[..., int]], click.Command]:
    def decorate(function: Callable[..., int]) -> click.Command:
        return _Raw(name, callback=function, help=summary, add_help_option=False)

    return decorate


@_raw("srun", "Slurm's srun, with --checkpoint, --checkpoint-dir and --restart-dir.")
@click.pass_obj
def srun(engine: LocalEngine | None, /, words: Sequence[str]) -> int:
    """A step; with an old option it saves, and goes on from its checkpoints."""
    del engine  # a worker that was prepared would have another environment
    from perdure.cli.old_slurm.srun import run_step

    return _told(lambda: run_step(words, os.environ))


@_raw("sbatch", "Slurm's sbatch, with --checkpoint and --checkpoint-dir.")
def sbatch(words: Sequence[str]) -> int:
    """A batch job; with an old option all steps of its script save."""
    from perdure.cli.old_slurm.sbatch import submit_batch

    return _told(lambda: submit_batch(words, os.environ))


@_raw("scontrol", "Slurm's scontrol, with its old `checkpoint`.")
def scontrol(words: Sequence[str]) -> int:
    """What is said about the checkpoints of a job or step."""
    from perdure.cli.old_slurm.scontrol import control

    return _told(lambda: control(words, os.environ))


def _told(act: Callable[[], int]) -> int:
    """Old texts stand as they are, and the exit code was always 1."""
    try:
        return act()
    except OldTextError as error:
        print(error.text, file=sys.stderr, flush=True)
        return 1
