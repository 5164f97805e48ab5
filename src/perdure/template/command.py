"""A plain command as a job of one step with one task: no template, no environments, no parameters.

The task is resumable: it is started again as it was, or as the person said that it is restarted. A
program that saves by messages finds its checkpoint in its variables (PERDURE_CHECKPOINT_FILE and
PERDURE_CHECKPOINT_STATE), or in the words that are added.

Source: docs/command.md; design 8 (without anything said, SIGTERM and two minutes).
"""

import re
from collections.abc import Sequence
from pathlib import PurePath

from msgspec import Struct
from openjd.expr import SerializedSymbolTable

from perdure.template.actions import (
    SUSPEND_NOTIFY_SECONDS,
    TASK_NOTIFY_SECONDS,
    Action,
    ActionName,
    WrittenCancelation,
)
from perdure.template.job import Job, Step
from perdure.template.requirements import HostRequirements
from perdure.template.space import SpaceOutline, TaskSpace
from perdure.template.symbols import Symbols

_LONGEST_NAME = 64
_REFERENCE = re.compile(r"\{(file|state)\}")


class CommandLine(Struct, frozen=True, kw_only=True):
    """How the program is started.

    Attributes:
        words: the program and its arguments, never looked into.
        added: words behind them, in which ``{file}`` and ``{state}`` stand for the checkpoint's.
    """

    words: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    def arguments(self, *, file: str, state: str) -> list[str]:
        """The words of the line; what is put in is not looked into again."""
        values = {"file": file, "state": state}
        return [
            *self.words,
            *(_REFERENCE.sub(lambda found: values[found[1]], word) for word in self.added),
        ]


def command_job(
    command: Sequence[str], *, restart_args: Sequence[str] = (), restart_cmd: Sequence[str] = ()
) -> Job:
    """The job that runs ``command``.

    Args:
        command: the program and its arguments.
        restart_args: words that are added where it goes on from a checkpoint.
        restart_cmd: the line that is given there instead of ``command``.
    """
    name = _name(command[0])
    restart = (
        CommandLine(added=tuple(restart_cmd))
        if restart_cmd
        else CommandLine(words=tuple(command), added=tuple(restart_args))
    )
    symbols = Symbols(table=SerializedSymbolTable.from_json_str("[]"))
    step = Step(
        index=1,
        name=name,
        dependencies=(),
        requirements=HostRequirements(),
        space=TaskSpace.of(SpaceOutline()),
        is_resumable=True,
        environments=(),
        run=_action(ActionName.ON_RUN),
        resume=_action(ActionName.ON_CHECKPOINT_RESUME),
        run_script=CommandLine(words=tuple(command)),
        resume_script=restart,
        wrapped_by=None,
        symbols=symbols,
    )
    return Job(
        name=name,
        extensions=(),
        environments=(),
        steps=(step,),
        parameters=(),
        session_parameters={},
        revision_extensions=None,
        model=None,
        symbols=symbols,
    )


def _name(program: str) -> str:
    """What the job and its step are called: the program, without what only a shell could read."""
    name = re.sub(r"[^A-Za-z0-9_.+-]", "_", PurePath(program).name)
    return name[:_LONGEST_NAME] or "command"


def _action(name: ActionName) -> Action:
    return Action(
        name=name,
        path="command",
        cancelation=_terminated(TASK_NOTIFY_SECONDS),
        checkpoint_cancelation=_terminated(SUSPEND_NOTIFY_SECONDS),
    )


def _terminated(seconds: int) -> WrittenCancelation:
    return WrittenCancelation(
        mode="NOTIFY_THEN_TERMINATE", notify_period_seconds=seconds, signal_name="SIGTERM"
    )
