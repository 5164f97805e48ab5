"""A plain command: it runs in the folder in which the person stood, with their variables.

The session folder is perdure's own: it has the checkpoint folder and the messages file, and the
program need not know of it. openjd's messages that change a session (`openjd_env` and its kin) mean
nothing here.

Threads: called by the launch's thread; the process is read on a thread of its own.

Source: design 9, 10; docs/command.md.
"""

import secrets
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

from perdure.template import CommandLine, Environment, Step, Symbols, TaskParameters
from perdure.worker.action_output import ActionOutput
from perdure.worker.workspaces import openjd_subprocess


class CommandSession:
    """One session of a plain command.

    Args:
        root: the folder in which the session folder is made; it exists.
        folder: where the command runs.
        retain: whether the session folder is kept when the session ends.

    Attributes:
        working_directory: the session folder.
        failure: nothing: the command's exit says all.

    Raises:
        OSError: the session folder cannot be made.
    """

    failure: str | None = None

    def __init__(self, root: Path, folder: Path, *, retain: bool) -> None:
        self.working_directory = Path(tempfile.mkdtemp(prefix="command-", dir=root))
        self._folder = folder
        self._retain = retain
        self._id = secrets.token_hex(8)
        self._output: ActionOutput | None = None
        self._process: openjd_subprocess.SteeredSubprocess | None = None
        self._thread: threading.Thread | None = None
        openjd_subprocess.steer(self._id, self._steering)

    def is_own(self, path: str) -> bool:
        """Nothing: what lies in the session folder is the program's."""
        del path
        return False

    @property
    def is_ready(self) -> bool:
        """Whether nothing has failed here."""
        return self._process is None or self._process.exit_code == 0

    @property
    def entered(self) -> tuple[Environment, ...]:
        """A command has no environments."""
        return ()

    def enter(self, environment: Environment, output: ActionOutput, step: Step | None) -> None:
        """Never called: a command has no environments."""
        raise NotImplementedError

    def leave(self, output: ActionOutput) -> None:
        """Never called: a command has no environments."""
        raise NotImplementedError

    def run_task(
        self,
        step: Step,
        script: Any,
        symbols: Symbols,
        parameters: TaskParameters,
        output: ActionOutput,
    ) -> None:
        """Start the command."""
        del step, parameters
        assert isinstance(script, CommandLine)
        self._output = output
        process = openjd_subprocess.SteeredSubprocess(
            logger=_Unsaid(self._id),
            args=script.arguments(file=symbols.file, state=symbols.state),
            working_dir=str(self._folder),
        )
        process.begin()
        self._process = process
        self._thread = threading.Thread(target=process.run, name="perdure-command", daemon=True)
        self._thread.start()

    def wait_idle(self) -> None:
        """Block until the output was read to its end."""
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """Remove the session folder unless it is retained."""
        openjd_subprocess.release(self._id)
        if not self._retain:
            shutil.rmtree(self.working_directory, ignore_errors=True)

    def _steering(self) -> ActionOutput:
        assert self._output is not None, "no process outside of an action"
        return self._output


class _Unsaid:
    """The log of a session that has nothing to say beside what the command prints."""

    def __init__(self, session_id: str) -> None:
        self.extra = {"session_id": session_id}

    def log(self, *_said: object, **_more: object) -> None:
        """What openjd's tools look for: people who give a command do not."""

    def info(self, *_said: object, **_more: object) -> None:
        """Lines that openjd-sessions would act on."""
