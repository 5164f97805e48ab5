"""The commands' table and their group.

Commands are loaded when they are called (`_COMMANDS`), so that ``perdure --help`` imports nothing
heavy.
"""

import importlib
from typing import Any

import click

import perdure

#: Where each command is, with the line that ``perdure --help`` shows: nothing is imported for it.
_COMMANDS = {
    "check": ("perdure.cli.templates", "Say whether a template is valid."),
    "summary": ("perdure.cli.templates", "Show a template's steps, tasks and parameters."),
    "schema": ("perdure.cli.templates", "Print the JSON schema of job templates."),
    "run": ("perdure.cli.run", "Run a job; whatever interrupts it, the same line goes on."),
    "submit": ("perdure.cli.submit", "Start a job that goes on by itself; print its id."),
    "status": ("perdure.cli.status", "Show jobs, or one job."),
    "wait": ("perdure.cli.status", "Wait for a job's end; exit as it ended."),
    "logs": ("perdure.cli.logs", "Show what tasks printed, all attempts in order."),
    "why": ("perdure.cli.why", "Say why a job or task is as it is."),
    "suspend": ("perdure.cli.wishes", "Stop a job, keeping its progress."),
    "resume": ("perdure.cli.resume", "Go on from the last checkpoint, or from a chosen one."),
    "settle": ("perdure.cli.settle", "Make one turn of a job; clusters do it by themselves."),
    "cancel": ("perdure.cli.wishes", "Stop a job and abandon it."),
    "checkpoints": ("perdure.cli.checkpoints", "List a job's checkpoints."),
    "checkpoint": ("perdure.cli.checkpoint", "Look into one checkpoint, restore or pin it."),
    "prune": ("perdure.cli.prune", "Let go of older checkpoints of tasks at rest."),
    "rm": ("perdure.cli.rm", "Remove jobs."),
    "du": ("perdure.cli.du", "Show how much space jobs take."),
    "verify": ("perdure.cli.verify", "Read everything of a job back and check it."),
    "repair": ("perdure.cli.repair", "Rebuild the cache and set damaged objects aside."),
    "engines": ("perdure.cli.engine_listing", "Show where workers can run, and what to beware of."),
    "doctor": ("perdure.cli.doctor", "Say whether jobs can run here, or on a cluster."),
    "srun": ("perdure.cli.slurm_commands", "Slurm's srun, with its old checkpoint options."),
    "sbatch": ("perdure.cli.slurm_commands", "Slurm's sbatch, with its old checkpoint options."),
    "scontrol": ("perdure.cli.slurm_commands", "Slurm's scontrol, with its old `checkpoint`."),
    "shims": ("perdure.cli.shims", "Put these three under their real names into a folder."),
    "demo": ("perdure.cli.demo", "Show a job that is interrupted and resumed."),
}


class LazyGroup(click.Group):
    """Loads a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of the table."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, loaded now."""
        del ctx
        found = _COMMANDS.get(cmd_name)
        if found is None:
            return None
        command: Any = getattr(importlib.import_module(found[0]), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table, without loading anything."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in _COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(perdure.__version__, prog_name="perdure")
def group() -> None:
    """Run long tasks on machines that get interrupted.

    No interruption costs more than the work since the last save.
    """
