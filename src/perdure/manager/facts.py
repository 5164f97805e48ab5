"""What a store says about a job, as plain values: what `status`, `why` and `checkpoints` show.

They follow from the logs and journals up to some *position* in each, and from nothing else, so that
they can be kept in the cache until one of these grows (`perdure.manager.positions`). What lies
outside of the store (whether a process lives, what it says now) is laid over them each time
(`perdure.manager.job_status`). Pure.

The names of the fields of `CheckpointFacts`, `AttemptFacts` and `TaskFacts` are those of the JSON
interface: docs/cli.md.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, convert, field, to_builtins

from perdure.policy.states import Counts

#: Raised whenever the facts of one store are other facts, or an outline has other fields; what was
#: cached before is then made anew.
FACTS_VERSION = 5

#: The kind of notes on what a job's checkpoints will need: one attempt of a launch has them.
SPACE = "space"
#: The kind of notes on saves for which there was no room.
ROOM = "room"


class CheckpointFacts(Struct, frozen=True, kw_only=True):
    """A committed checkpoint.

    Attributes:
        tier: where it is: ``durable``.
        size_bytes: of all its files; ``new_bytes``: that were stored for it.
        file: of the save, as people see it; None when it had none.
        files: how many entries it has.
        parent: the checkpoint that it was saved on top of.
        void: of a side branch.
        support: perdure's own, for kept values.
        imported: it came from a file.
    """

    sequence: int
    committed_at: str
    tier: str
    size_bytes: int
    new_bytes: int
    state: str | None
    file: str | None
    files: int
    content: str
    attempt: int
    save: int
    parent: int | None
    void: bool
    pruned: bool
    pinned: bool
    support: bool
    imported: bool


class AttemptFacts(Struct, frozen=True, kw_only=True):
    """One attempt.

    Attributes:
        task: as people call it; ``key``: of its lineage.
        outcome: None while it is under way.
        saves: how many were announced, committed, skipped, torn.
        save_seconds: how long its last save took from its line to its commit; None: not known.
        notes: what was noted about it, in order, with the kind of each, and when.
        progress, status: what it says now, or said last where it did not succeed.
        last_checkpoint_at: when its newest checkpoint was committed, or the one that it resumed
            from; None for none: its work since the start is not saved.
        values: of the chunk; ``kept``: those that are never run again.
    """

    step: str
    task: str
    key: str
    number: int
    action: str | None
    host: str | None
    started_at: str | None
    ended_at: str | None
    outcome: str | None
    by: str | None
    cause: str | None
    reason: str
    exit_code: int | None
    resumed_from: int | None
    resume_status: str | None
    launch: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[int, ...] = ()
    saves: Mapping[str, int] = field(default_factory=dict)
    save_seconds: float | None = None
    notes: tuple[Mapping[str, str], ...] = ()
    progress: float | None = None
    status: str | None = None
    last_checkpoint_at: str | None = None
    checkpoints: tuple[CheckpointFacts, ...] = ()


class TaskFacts(Struct, frozen=True, kw_only=True):
    """A lineage about which there is more to say than that it is counted.

    Attributes:
        base: the checkpoint that its next attempt starts from: by itself, or when it is resumed.
        wait_seconds: its back-off, from the end of the last attempt.
        choices: checkpoints that a person may choose, newest first: while it is held, has failed,
            or newer checkpoints than ``base`` are passed over.
        unusable: none of its checkpoints can be restored.
        notes: what is to be said about its next start.
    """

    step: str
    task: str
    key: str
    state: str
    held: bool
    reason: str
    base: int | None = None
    wait_seconds: float = 0.0
    choices: tuple[int, ...] = ()
    unusable: bool = False
    notes: tuple[str, ...] = ()


class StepFacts(Struct, frozen=True, kw_only=True):
    """A step that runs.

    Attributes:
        counts: of its tasks, by what is recorded.
        settled: the state of its record, while that counts.
        waiting: what state a task of it has that nobody runs.
    """

    index: int
    name: str
    dependencies: tuple[int, ...]
    resumable: bool
    counts: Counts
    settled: str | None
    reason: str
    waiting: str


class LaunchFacts(Struct, frozen=True, kw_only=True):
    """A launch that has not ended, as far as is recorded.

    Attributes:
        process: the process that said that it started, or that the engine started; None: none did.
        started: whether it said so itself.
        sealed: it was taken to be dead.
        running: step index and key of the tasks that it is at.
    """

    launch: str
    step: int
    process: Mapping[str, Any] | None
    started: bool
    sealed: bool
    running: tuple[tuple[int, str], ...] = ()


class EngineFacts(Struct, frozen=True, kw_only=True):
    """What starts the job's workers.

    Attributes:
        options: of its submit command.
        changed_at: when a person chose it; None: at submit.
    """

    name: str
    options: tuple[str, ...] = ()
    changed_at: str | None = None


class StopFacts(Struct, frozen=True, kw_only=True):
    """A standing stop of the whole job."""

    number: int
    kind: str
    by: str


class JobFacts(Struct, frozen=True, kw_only=True):
    """All of it.

    Attributes:
        settled: the state of the job's record, while that counts; ``reason``: of that record.
        tasks: those about which there is something to say.
        attempts_left_out: how many attempts are not listed.
        damage: what of the journals cannot be read, a sentence each.
    """

    steps: tuple[StepFacts, ...]
    tasks: tuple[TaskFacts, ...]
    tasks_left_out: int
    attempts: tuple[AttemptFacts, ...]
    attempts_left_out: int
    launches: tuple[LaunchFacts, ...]
    engine: EngineFacts
    stop: StopFacts | None
    settled: str | None
    settled_at: str | None
    reason: str
    damage: tuple[str, ...] = ()
    stop_reasons: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As it is cached."""
        described: dict[str, Any] = to_builtins(self)
        return described


def from_json(found: Mapping[str, Any]) -> JobFacts:
    """The opposite of `JobFacts.to_json`.

    Raises:
        ValidationError: it is none.
    """
    return convert(found, JobFacts)
