"""A plain command on perdure's own line: what stands behind ``--``."""

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from perdure.errors import UsageError

#: What says something about a template.
_FOR_TEMPLATES = {
    "parameters": "-p",
    "environments": "--env",
    "path_mapping_rules": "--path-mapping-rules",
    "step": "--step",
    "task_parameters": "--task-param",
    "tasks": "--tasks",
    "maximum_tasks": "--maximum-tasks",
    "extensions": "--extensions",
}


class JobCommand(click.Command):
    """A command that takes a template, or a plain command behind ``--`` (``given["command"]``)."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take off what stands behind ``--``; nobody else looks into it."""
        own, dashes, command = args, "", []
        if "--" in args:
            at = args.index("--")
            own, dashes, command = args[:at], "--", args[at + 1 :]
        ctx.allow_extra_args = True
        left = super().parse_args(ctx, own)
        if left:
            raise UsageError(
                f"{left[0]!r} stands behind the template {str(ctx.params['template'])!r}",
                hint=f"A command stands behind --: perdure {ctx.info_name} -- COMMAND [ARG]...",
            )
        ctx.params["command"] = tuple(command) if dashes else None
        return left


def read_command(given: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[str, ...]:
    """The plain command; empty where a template is given.

    Raises:
        UsageError: there is neither or both, or it cannot be run.
    """
    command = given["command"]
    if command is None:
        _refuse_for_commands(given)
        return ()
    if given["template"] is not None:
        raise UsageError(
            f"both a template ({given['template']}) and a command are given",
            hint="Leave one out; options of perdure stand before --.",
        )
    for name, option in _FOR_TEMPLATES.items():
        if given[name]:
            raise UsageError(f"{option} is for templates", hint="Leave it out.")
    if given["restart_args"] and given["restart_cmd"]:
        raise UsageError("--restart-args and --restart-cmd exclude each other")
    if not command or not command[0]:
        raise UsageError("no command stands behind --", hint="perdure run -- COMMAND [ARG]...")
    _check_text(command)
    again = words(given["restart_cmd"], of="--restart-cmd")
    if given["restart_cmd"] is not None and not again:
        raise UsageError(
            "--restart-cmd is empty", hint="Leave it out: the same line is given again."
        )
    if given["engine"] == "local":
        _check_program(command[0], environment)
        if again and "{" not in again[0]:
            _check_program(again[0], environment)
    return tuple(command)


def _refuse_for_commands(given: Mapping[str, Any]) -> None:
    """What says something about a command, where there is none."""
    if given["template"] is None:
        raise UsageError(
            "neither a template nor a command is given",
            hint="perdure run TEMPLATE; or: perdure run -- COMMAND [ARG]...",
        )
    for name, option in (("restart_args", "--restart-args"), ("restart_cmd", "--restart-cmd")):
        if given[name]:
            raise UsageError(
                f"{option} is for a command behind --",
                hint="A template says with onCheckpointResume how a task goes on.",
            )


def _check_text(command: tuple[str, ...]) -> None:
    """A job is kept as text."""
    for number, word in enumerate(command):
        try:
            word.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UsageError(
                f"word {number + 1} of the command is no UTF-8 text: {word!r}",
                hint="Put the line into a script, and run that.",
            ) from error


def _check_program(program: str, environment: Mapping[str, str]) -> None:
    """Say at once that there is no such program, rather than by three failed attempts."""
    if shutil.which(program, path=environment.get("PATH", os.defpath)) is not None:
        return
    if os.sep not in program:
        raise UsageError(
            f"there is no program {program!r} on PATH",
            hint=f"To run a script that lies here: ./{program}"
            if Path(program).exists()
            else "Check its name, or load what brings it (a module, an environment).",
        )
    what = "cannot be executed" if Path(program).exists() else "is not there"
    raise UsageError(f"{program} {what}", hint="Check its path and its permissions.")


def words(text: str | None, *, of: str) -> tuple[str, ...]:
    """An option's text as a shell would split it.

    Args:
        text: as it was given, or None.
        of: the option that it was given for.

    Raises:
        UsageError: a quote is not closed.
    """
    try:
        return tuple(shlex.split(text)) if text is not None else ()
    except ValueError as error:
        raise UsageError(
            f"{of} {text!r} cannot be read: {error}", hint="Close the quotes."
        ) from error
