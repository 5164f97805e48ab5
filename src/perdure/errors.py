"""Every error that perdure raises on purpose; the second level says whose turn it is.

An error's message says what happened, with which value; its ``hint`` says what to do next. ``kind``
and ``exit_code`` are part of the command line's interface (docs/cli.md). Expected outcomes (no
checkpoint yet, a refused put, a line that is no message) are return values, never errors, and a
task that fails is a recorded outcome.
"""

from typing import ClassVar

from msgspec import Struct


class PerdureError(Exception):
    """The root; never raised itself.

    Attributes:
        kind: the machine-readable name, as ``--json`` shows it.
        exit_code: what a command that ends with this error exits with.
        is_permanent: whether trying the same again is of no use.
        hint: one sentence on what to do next, or "".
        fields: the values in the message, for programs.
    """

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 70
    is_permanent: ClassVar[bool] = True

    def __init__(self, message: str, *, hint: str = "", **fields: object) -> None:
        super().__init__(message)
        self.hint = hint
        self.fields = fields

    @property
    def message(self) -> str:
        """What happened, in one sentence."""
        return str(self.args[0])


class Problem(Struct, frozen=True, kw_only=True):
    """One thing that a template's author must change.

    Attributes:
        path: where, in the template: ``steps[0] -> script -> actions -> onRun``; "" for the whole.
        message: what is wrong there.
        line: line number in the document, from 1; None where it cannot be told.
        advice: what to write instead, or "".
    """

    path: str
    message: str
    line: int | None = None
    advice: str = ""

    def __str__(self) -> str:
        """The problem as it is shown to the author, on one or more lines."""
        where = self.path or "template"
        line = f" (line {self.line})" if self.line is not None else ""
        advice = f" {self.advice}" if self.advice else ""
        return f"{where}{line}: {self.message}{advice}"


class UsageError(PerdureError):
    """The command line is wrong; nothing was done."""

    kind = "usage"
    exit_code = 2


class TemplateError(PerdureError):
    """The template's author must edit it; all problems at once."""

    kind = "template"
    exit_code = 2

    def __init__(self, message: str, problems: tuple[Problem, ...] = (), *, hint: str = "") -> None:
        super().__init__(message, hint=hint, problems=[str(problem) for problem in problems])
        self.problems = problems


class CheckpointError(PerdureError):
    """This checkpoint cannot be used; an older one may do."""

    kind = "checkpoint"
    exit_code = 3


class CheckpointCorrupt(CheckpointError):
    """Bytes of a checkpoint are not those that were saved."""

    kind = "checkpoint-corrupt"


class CheckpointMissing(CheckpointError):
    """There is no such checkpoint, or it was pruned."""

    kind = "checkpoint-missing"


class CheckpointTorn(CheckpointError):
    """A file changed after the save was announced and before its bytes were taken."""

    kind = "checkpoint-torn"


class CheckpointConflict(CheckpointError):
    """A file outside the session folder is not one that perdure may replace."""

    kind = "checkpoint-conflict"


class SaveFileMissing(CheckpointError):
    """The save's ``file`` is not there."""

    kind = "save-file-missing"


class SaveRefused(CheckpointError):
    """The save names what may not be saved: outside the roots, too much, or no regular file."""

    kind = "save-refused"


class DeliveryConflict(PerdureError):
    """What is to be delivered would take the place of something else, or cannot lie there."""

    kind = "delivery-conflict"
    exit_code = 1


class EngineError(PerdureError):
    """What starts workers did not."""

    kind = "engine"
    exit_code = 4


class EngineUnavailable(EngineError):
    """The engine does not answer now."""

    kind = "engine-unavailable"
    is_permanent = False


class EngineRefused(EngineError):
    """The engine said no."""

    kind = "engine-refused"


class HomeError(PerdureError):
    """The home or the store cannot be used: read-only, of another user, no such place."""

    kind = "home"
    exit_code = 5


class FormatTooNew(HomeError):
    """Written by a later perdure; left untouched."""

    kind = "format-too-new"


class StoreUnavailable(HomeError):
    """The store does not answer now."""

    kind = "store-unavailable"
    is_permanent = False


class JobMissing(HomeError):
    """The store has no such job."""

    kind = "job-missing"
    exit_code = 2


class HomeBusy(HomeError):
    """Somebody else is managing this job."""

    kind = "busy"
    exit_code = 6
    is_permanent = False


class OutOfSpace(HomeError):
    """No space or quota left."""

    kind = "out-of-space"
    exit_code = 7
    is_permanent = False


class StoreDamaged(HomeError):
    """An object of the store is not what was written."""

    kind = "store-damaged"
    exit_code = 8


class InvalidTransition(Exception):
    """A bug of ours: an event that this state does not allow. Never swallowed."""

    def __init__(self, state: object, event: object) -> None:
        super().__init__(f"{state} does not allow {event}")
        self.state = state
        self.event = event
