"""The messages that a task writes, as values.

`decoding` reads them from lines. ``ignored`` holds keys that this revision does not know: told,
never an error, so that a later revision's message still saves.

Source: the RFC idea "task checkpointing"; OpenJD "How jobs are run", stdout messages.
"""

from enum import Enum

from msgspec import Struct

#: One argv element holds at most 128 KiB; this leaves room for escaping on the way.
STATE_LIMIT_BYTES = 48 * 1024
#: PATH_MAX of Linux.
PATH_LIMIT_BYTES = 4096


class FilesMode(Enum):
    """What a declaration does to the dataset declared so far."""

    #: Adds to it.
    ACCUMULATE = "ACCUMULATE"
    #: Replaces it.
    RESET = "RESET"


class ResumeReport(Enum):
    """What a resumed program did with its checkpoint."""

    #: It went on from it.
    RESUMED = "RESUMED"
    #: It began again.
    DISCARDED = "DISCARDED"


class LogLevel(Enum):
    """How much openjd-sessions logs."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


class Ends(Enum):
    """Whether a malformed line ends the action that wrote it, as openjd-sessions does."""

    #: It is reported, the action goes on.
    NO_ACTION = "no action"
    #: It ends the action of an environment as failed; a task goes on.
    ENVIRONMENT_ACTION = "environment action"
    #: It ends any action as failed (``Openjd_env : …``, a near miss).
    ANY_ACTION = "any action"


class CheckpointFiles(Struct, frozen=True, kw_only=True):
    """``openjd_checkpoint_files``: files and folders that belong to the task's output so far."""

    files: tuple[str, ...] = ()
    dirs: tuple[str, ...] = ()
    mode: FilesMode = FilesMode.ACCUMULATE
    ignored: tuple[str, ...] = ()


class TaskComplete(Struct, frozen=True, kw_only=True):
    """``openjd_task_complete``: one value of the chunk is done."""

    parameter: str
    value: int


class CheckpointSave(Struct, frozen=True, kw_only=True):
    """``openjd_checkpoint_save``: the task can go on from here."""

    state: str | None = None
    file: str | None = None
    ignored: tuple[str, ...] = ()


class ResumeStatus(Struct, frozen=True, kw_only=True):
    """``openjd_checkpoint_resume_status``: what became of the checkpoint."""

    status: ResumeReport
    ignored: tuple[str, ...] = ()


class Progress(Struct, frozen=True, kw_only=True):
    """``openjd_progress``: from 0 to 100."""

    percent: float


class Status(Struct, frozen=True, kw_only=True):
    """``openjd_status``: one line for people."""

    text: str


class Fail(Struct, frozen=True, kw_only=True):
    """``openjd_fail``: why the action will fail, for people."""

    text: str


class Env(Struct, frozen=True, kw_only=True):
    """``openjd_env``: sets a variable for the actions inside this environment."""

    name: str
    value: str


class RedactedEnv(Struct, frozen=True, kw_only=True):
    """``openjd_redacted_env``: the same, and the value is hidden in logs."""

    name: str
    value: str

    def __repr__(self) -> str:
        """Without the value."""
        return f"RedactedEnv(name={self.name!r})"


class UnsetEnv(Struct, frozen=True, kw_only=True):
    """``openjd_unset_env``: removes a variable."""

    name: str


class SessionRuntimeLoglevel(Struct, frozen=True, kw_only=True):
    """``openjd_session_runtime_loglevel``: openjd-sessions' own; we swallow it."""

    level: LogLevel


CheckpointMessage = CheckpointFiles | TaskComplete | CheckpointSave | ResumeStatus
StockMessage = Progress | Status | Fail | Env | RedactedEnv | UnsetEnv | SessionRuntimeLoglevel
Message = CheckpointMessage | StockMessage


class Malformed(Struct, frozen=True, kw_only=True):
    """A line that is meant as a message and is none.

    Attributes:
        name: ``openjd_checkpoint_save`` or another; as it stands in the line, in lower case.
        reason: what is wrong, one sentence without a full stop.
        ends: whether the action ends by it.
    """

    name: str
    reason: str
    ends: Ends = Ends.NO_ACTION


class Prefixed(Struct, frozen=True, kw_only=True):
    """A message behind something else, such as ``[rank0]: ``; never obeyed.

    Attributes:
        prefix: what stands before it.
        name: which message it would be.
    """

    prefix: str
    name: str

    @property
    def cure(self) -> str:
        """What to tell the task's author."""
        return (
            f"A message counts only at the beginning of a line; {self.name} stood behind"
            f" {self.prefix[:40]!r}. Write it to the file named by PERDURE_MESSAGES instead, or"
            " without the prefix."
        )
