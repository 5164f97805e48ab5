"""What a store says about a job, as plain values: what `status`, `why` and `checkpoints` show.

They follow from the logs and journals up to some *position* in each, and from nothing else, so that
they can be kept in the cache until one of these grows (`perdure.manager.positions`). What lies
outside of the store (whether a process lives, what it says now) is laid over them each time
(`perdure.manager.job_status`). Pure.

The names of the fields of `CheckpointFacts`, `AttemptFacts` and `TaskFacts` are those of the JSON
interface: docs/cli.md.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from perdure.policy.states import Counts

#: Raised whenever the facts of one store are other facts; what was cached before is then made anew.
FACTS_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFacts:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFacts:
    """One attempt.

    Attributes:
        task: as people call it; ``key``: of its lineage.
        outcome: None while it is under way.
        saves: how many were announced, committed, skipped, torn.
        notes: what was noted about it, in order, with the kind of each.
        progress, status: what it says now, while it is under way.
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
    notes: tuple[Mapping[str, str], ...] = ()
    progress: float | None = None
    status: str | None = None
    last_checkpoint_at: str | None = None
    checkpoints: tuple[CheckpointFacts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """A lineage about which there is more to say than that it is counted.

    Attributes:
        base: the checkpoint that its next attempt starts from.
        wait_seconds: its back-off, from the end of the last attempt.
        choices: checkpoints that a person may choose, newest first, while it is held.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFacts:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StopFacts:
    """A standing stop of the whole job."""

    number: int
    kind: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
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
    stop: StopFacts | None
    settled: str | None
    settled_at: str | None
    reason: str
    damage: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As it is cached."""
        return asdict(self)


def from_json(found: Mapping[str, Any]) -> JobFacts:
    """The opposite of `JobFacts.to_json`.

    Raises:
        KeyError, TypeError: it is none.
    """
    described = dict(found)
    described["steps"] = tuple(_step(one) for one in found["steps"])
    described["tasks"] = tuple(_with_tuples(TaskFacts, one) for one in found["tasks"])
    described["attempts"] = tuple(_attempt(one) for one in found["attempts"])
    described["launches"] = tuple(_launch(one) for one in found["launches"])
    stop = found["stop"]
    described["stop"] = StopFacts(**stop) if stop is not None else None
    described["damage"] = tuple(found["damage"])
    return JobFacts(**described)


def _step(found: Mapping[str, Any]) -> StepFacts:
    counts = Counts(**found["counts"])
    return StepFacts(
        **{**found, "counts": counts, "dependencies": tuple(found["dependencies"])},
    )


def _attempt(found: Mapping[str, Any]) -> AttemptFacts:
    checkpoints = tuple(CheckpointFacts(**one) for one in found["checkpoints"])
    attempt: AttemptFacts = _with_tuples(AttemptFacts, {**found, "checkpoints": checkpoints})
    return attempt


def _launch(found: Mapping[str, Any]) -> LaunchFacts:
    running = tuple((int(step), str(task)) for step, task in found["running"])
    return LaunchFacts(**{**found, "running": running})


def _with_tuples(kind: Any, found: Mapping[str, Any]) -> Any:
    """JSON has lists where the values have tuples."""
    known = {one.name for one in fields(kind)}
    return kind(
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in found.items()
            if name in known
        }
    )
