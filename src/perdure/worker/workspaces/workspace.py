"""What an attempt needs of the place that its actions run in, whatever kind of work it is."""

from pathlib import Path
from typing import Any, Protocol

from perdure.template import Environment, Step, Symbols, TaskParameters
from perdure.worker.action_output import ActionOutput


class Workspace(Protocol):
    """One session: its folder, the environments around its tasks, the starting of actions.

    Called by the launch's thread; nothing here blocks but for short work, and `wait_idle`.

    Attributes:
        working_directory: the session folder.
    """

    working_directory: Path

    def is_own(self, path: str) -> bool:
        """Whether what lies there (relative to the session folder) is made anew each time."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether a further task may run here: every action so far succeeded."""
        ...

    @property
    def entered(self) -> tuple[Environment, ...]:
        """The environments entered and not yet left, in order."""
        ...

    def enter(self, environment: Environment, output: ActionOutput, step: Step | None) -> None:
        """Start entering an environment; it counts as entered whatever becomes of its onEnter."""
        ...

    def leave(self, output: ActionOutput) -> None:
        """Start leaving the environment entered last."""
        ...

    def run_task(
        self,
        step: Step,
        script: Any,
        symbols: Symbols,
        parameters: TaskParameters,
        output: ActionOutput,
    ) -> None:
        """Start a task's action; ``script`` is the step's ``run_script`` or ``resume_script``."""
        ...

    @property
    def failure(self) -> str | None:
        """What the session says of the last action if it did not succeed, beside its exit."""
        ...

    def wait_idle(self) -> None:
        """Block until the session has taken note of the end of the action started last."""
        ...

    def close(self) -> None:
        """Forget the session and remove its folder unless it is retained."""
        ...
