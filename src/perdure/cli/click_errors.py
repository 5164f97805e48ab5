"""What click finds wrong with a command line, as an error of ours, with what to do next."""

import difflib
import re
from collections.abc import Sequence

import click

from perdure.errors import UsageError

#: click says this in its sentence; where it belongs is the second one.
_SUGGESTION = re.compile(r"\s*\(?Did you mean (?P<names>.*?)\?\)?$")
_NO_COMMAND = re.compile(r"No such command '(?P<name>.*)'")


def as_ours(error: click.ClickException, arguments: Sequence[str]) -> UsageError:
    """The same in our form.

    Args:
        error: as click raised it.
        arguments: of the command line, from which the command is known where click does not say it.
    """
    text = error.format_message()
    suggestion = _SUGGESTION.search(text)
    what = _SUGGESTION.sub("", text).rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    names = suggestion["names"].removeprefix("one of: ") if suggestion else ""
    if not names and context is not None:
        names = _close_command(what, context)
    meant = f"Did you mean {names}? " if names else ""
    where = context.command_path if context is not None else _command(arguments)
    return UsageError(f"{what[:1].lower()}{what[1:]}", hint=f"{meant}See: {where} --help")


def _close_command(what: str, context: click.Context) -> str:
    """The command that was meant, where only its name was mistyped."""
    missing = _NO_COMMAND.search(what)
    if missing is None or not isinstance(context.command, click.Group):
        return ""
    known = context.command.list_commands(context)
    return ", ".join(f"'{name}'" for name in difflib.get_close_matches(missing["name"], known))


def _command(arguments: Sequence[str]) -> str:
    """``perdure run``, of a command line that begins so."""
    name = next((one for one in arguments[:1] if not one.startswith("-")), None)
    return "perdure" if name is None else f"perdure {name}"
