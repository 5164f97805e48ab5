"""Fold one attempt's lines into events for the worker.

The rules that need more than one line stand here: a save includes the dataset so far; saves are
counted by what the task announced, refused ones too, because the task counts the same way
(``checkpoint_committed.json``); a value belongs to this attempt's chunk and is reported once; a
resume status belongs to a resume action; a prefixed message is told once. What is refused is told
with its line number and harms nothing else; after `REFUSED_LIMIT` of them the rest is only counted.

Source: docs/checkpoint-extension.md.
"""

from msgspec import Struct

from perdure.protocol.dataset import Dataset, DatasetFold
from perdure.protocol.decoding import decode
from perdure.protocol.lines import LINE_LIMIT_CHARACTERS, Line, Overlong
from perdure.protocol.messages import (
    CheckpointFiles,
    CheckpointSave,
    Ends,
    FilesMode,
    Malformed,
    Message,
    Prefixed,
    ResumeReport,
    ResumeStatus,
    StockMessage,
    TaskComplete,
)

#: Refusals of one attempt that are told one by one; a journal must not grow by a task's mistakes.
REFUSED_LIMIT = 100


class ChunkContext(Struct, frozen=True, kw_only=True):
    """What this attempt may report.

    Attributes:
        parameter: the step's chunk parameter.
        values: the values that this attempt runs.
        kept: values of the chunk that earlier attempts completed.
    """

    parameter: str
    values: frozenset[int]
    kept: frozenset[int] = frozenset()


class FilesDeclared(Struct, frozen=True, kw_only=True):
    """Capture of these can start.

    Attributes:
        count: the how-manieth accepted declaration of this attempt, from 1.
    """

    line_number: int
    count: int
    files: tuple[str, ...]
    dirs: tuple[str, ...]
    is_reset: bool


class ValueReported(Struct, frozen=True, kw_only=True):
    """The task called a value complete; it is kept once the declarations before it are durable.

    Attributes:
        declared: how many accepted declarations came before it.
    """

    line_number: int
    value: int
    declared: int


class SaveAnnounced(Struct, frozen=True, kw_only=True):
    """The task can go on from here.

    Attributes:
        n: the how-manieth save of this attempt, from 1.
        dataset: the files declared before it.
        reported: the values reported before it, in order.
    """

    line_number: int
    n: int
    state: str | None
    file: str | None
    dataset: Dataset
    reported: tuple[int, ...] = ()


class ResumeStatusSeen(Struct, frozen=True, kw_only=True):
    """What the resumed program did with its checkpoint."""

    line_number: int
    status: ResumeReport


class StockSeen(Struct, frozen=True, kw_only=True):
    """A message of stock Open Job Description."""

    line_number: int
    message: StockMessage


class PrefixedSeen(Struct, frozen=True, kw_only=True):
    """The first message behind a prefix, with the cure."""

    line_number: int
    name: str
    cure: str


class Refused(Struct, frozen=True, kw_only=True):
    """A message that does not count.

    Attributes:
        name: which one.
        reason: one sentence without a full stop.
        ends: whether the action ends by it.
        save: the how-manieth save it would have been; None where it is none.
    """

    line_number: int
    name: str
    reason: str
    ends: Ends = Ends.NO_ACTION
    save: int | None = None


class KeysIgnored(Struct, frozen=True, kw_only=True):
    """A message counted, but for keys that this revision does not know."""

    line_number: int
    keys: tuple[str, ...]


Event = (
    FilesDeclared
    | ValueReported
    | SaveAnnounced
    | ResumeStatusSeen
    | StockSeen
    | PrefixedSeen
    | Refused
    | KeysIgnored
)


class AttemptMessages:
    """What one attempt said so far.

    Attributes:
        saves: announced so far, refused ones included.
        refused: messages that did not count.
    """

    def __init__(self, *, is_resume: bool, chunk: ChunkContext | None = None) -> None:
        self.saves = 0
        self.refused = 0
        self._is_resume = is_resume
        self._chunk = chunk
        self._dataset = DatasetFold()
        self._declared = 0
        self._reported: dict[int, None] = {}
        self._reported_before_save: tuple[int, ...] | None = ()
        self._resume_status: ResumeReport | None = None
        self._prefixed_told = False
        self._keys_told = False

    def handle(self, line: Line | Overlong) -> tuple[Event, ...]:
        """The events of one line; none for ordinary output."""
        if isinstance(line, Overlong):
            return self._overlong(line)
        match decode(line.data):
            case None:
                return ()
            case Malformed() as malformed:
                return self._malformed(line.number, malformed)
            case Prefixed() as prefixed:
                return self._prefixed(line.number, prefixed)
            case message:
                return self._message(line.number, message)

    def _message(self, number: int, message: Message) -> tuple[Event, ...]:
        """A well-formed message at the beginning of a line."""
        match message:
            case CheckpointFiles(ignored=ignored):
                return (*self._files(number, message), *self._ignored(number, ignored))
            case CheckpointSave(ignored=ignored):
                return (*self._save(number, message), *self._ignored(number, ignored))
            case ResumeStatus(ignored=ignored):
                return (*self._status(number, message), *self._ignored(number, ignored))
            case TaskComplete():
                return self._complete(number, message)
            case _:
                return (StockSeen(line_number=number, message=message),)

    def _files(self, number: int, message: CheckpointFiles) -> tuple[Event, ...]:
        refused = self._dataset.declare(message, line_number=number)
        if refused is not None:
            return self._refuse(number, "openjd_checkpoint_files", refused)
        self._declared += 1
        return (
            FilesDeclared(
                line_number=number,
                count=self._declared,
                files=message.files,
                dirs=message.dirs,
                is_reset=message.mode is FilesMode.RESET,
            ),
        )

    def _save(self, number: int, message: CheckpointSave) -> tuple[Event, ...]:
        self.saves += 1
        if self._dataset.incomplete is not None:
            return self._refuse(
                number,
                "openjd_checkpoint_save",
                f"{self._dataset.incomplete}; declare the dataset anew with mode RESET",
                save=self.saves,
            )
        if self._reported_before_save is None:
            self._reported_before_save = tuple(self._reported)
        return (
            SaveAnnounced(
                line_number=number,
                n=self.saves,
                state=message.state,
                file=message.file,
                dataset=self._dataset.dataset,
                reported=self._reported_before_save,
            ),
        )

    def _complete(self, number: int, message: TaskComplete) -> tuple[Event, ...]:
        reason = self._not_completable(message)
        if reason is not None:
            return self._refuse(number, "openjd_task_complete", reason)
        self._reported[message.value] = None
        self._reported_before_save = None
        return (ValueReported(line_number=number, value=message.value, declared=self._declared),)

    def _not_completable(self, message: TaskComplete) -> str | None:
        """Why a value may not be reported."""
        chunk, value = self._chunk, message.value
        if chunk is None:
            return "this step has no chunk parameter"
        if message.parameter != chunk.parameter:
            return f"this step's chunk parameter is {chunk.parameter!r}, not {message.parameter!r}"
        if value in chunk.kept:
            return f"{chunk.parameter} {value} was completed by an earlier attempt"
        if value not in chunk.values:
            return f"{chunk.parameter} {value} is not in this attempt's chunk"
        if value in self._reported:
            return f"{chunk.parameter} {value} was already reported"
        if self._dataset.incomplete is not None:
            return self._dataset.incomplete
        return None

    def _status(self, number: int, message: ResumeStatus) -> tuple[Event, ...]:
        name = "openjd_checkpoint_resume_status"
        if not self._is_resume:
            return self._refuse(number, name, "only onCheckpointResume may say it; this is onRun")
        if self._resume_status is not None:
            said = self._resume_status.value
            return self._refuse(number, name, f"this attempt has said {said} before")
        self._resume_status = message.status
        return (ResumeStatusSeen(line_number=number, status=message.status),)

    def _malformed(self, number: int, malformed: Malformed) -> tuple[Event, ...]:
        save = None
        if malformed.name == "openjd_checkpoint_files":
            self._dataset.refuse(malformed.reason, line_number=number)
        elif malformed.name == "openjd_checkpoint_save":
            self.saves += 1
            save = self.saves
        return self._refuse(
            number, malformed.name, malformed.reason, ends=malformed.ends, save=save
        )

    def _overlong(self, line: Overlong) -> tuple[Event, ...]:
        """A line that was discarded matters only if it would have been a message."""
        head = line.head.decode("utf-8", "replace")
        if not head.startswith("openjd_"):
            return ()
        reason = (
            f"the line is longer than {LINE_LIMIT_CHARACTERS} characters ({line.size_bytes} bytes)"
        )
        return self._malformed(line.number, Malformed(name=head.partition(":")[0], reason=reason))

    def _prefixed(self, number: int, prefixed: Prefixed) -> tuple[Event, ...]:
        if self._prefixed_told:
            return ()
        self._prefixed_told = True
        return (PrefixedSeen(line_number=number, name=prefixed.name, cure=prefixed.cure),)

    def _ignored(self, number: int, keys: tuple[str, ...]) -> tuple[Event, ...]:
        if not keys or self._keys_told:
            return ()
        self._keys_told = True
        return (KeysIgnored(line_number=number, keys=keys),)

    def _refuse(
        self,
        number: int,
        name: str,
        reason: str,
        *,
        ends: Ends = Ends.NO_ACTION,
        save: int | None = None,
    ) -> tuple[Event, ...]:
        """Tell of a refusal, unless too many were told; one that ends the action always is."""
        self.refused += 1
        if self.refused > REFUSED_LIMIT and ends is Ends.NO_ACTION and save is None:
            return ()
        if self.refused == REFUSED_LIMIT:
            reason += "; further refused messages of this attempt are only counted"
        return (Refused(line_number=number, name=name, reason=reason, ends=ends, save=save),)
