"""What a turn knows of its job: the logs, the journals and the engine's answers, added up.

Built by the manager; plain values, so that a plan can be tried on any of them.
"""

from enum import Enum

from msgspec import Struct, field

from perdure.policy.resources import Grant, Host, Requirements
from perdure.policy.states import Counts, State
from perdure.policy.stops import Scope, Stops


class LaunchState(Enum):
    """What is known about a launch."""

    #: The intent is recorded, and the engine knows nothing of its token.
    INTENDED = "intended"
    #: The engine has it; it has not started yet.
    QUEUED = "queued"
    #: It runs: its counter moves.
    LIVE = "live"
    #: Its counter stands still, not long enough to say more.
    SILENT = "silent"
    #: It is taken to be dead, and not fenced yet.
    DEAD = "dead"
    #: It released all that it held, or is fenced.
    ENDED = "ended"


class LaunchInTurn(Struct, frozen=True, kw_only=True):
    """A launch as the turn sees it.

    Attributes:
        waiting: lineages that it was given and has not claimed yet.
        takes_shares: it goes on with shares of its step.
        grant: of the host; None where nobody bounds it.
    """

    launch: str
    token: str
    step: int
    state: LaunchState
    waiting: tuple[str, ...] = ()
    takes_shares: bool = True
    grant: Grant | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether it takes up a worker."""
        return self.state not in (LaunchState.DEAD, LaunchState.ENDED)


class PendingLineage(Struct, frozen=True, kw_only=True):
    """A lineage with an attempt to start.

    Attributes:
        task: its key.
        wait_seconds: of its back-off that are left; 0 or less: it is due.
        avoid_host: where it could not start; "" for none.
        memory_ends: how often memory ran out in it.
    """

    task: str
    wait_seconds: float = 0.0
    avoid_host: str = ""
    memory_ends: int = 0


class StepInTurn(Struct, frozen=True, kw_only=True):
    """A step as the turn sees it.

    Attributes:
        name: what people call it.
        counts: of its tasks; those that no share has taken are pending.
        unshared: how many no share has taken; for adaptive chunks at least 1 while any is left.
        pending: lineages that exist and have an attempt to start.
        settled: the state of its ``settled`` record, if that counts.
    """

    index: int
    name: str
    dependencies: tuple[int, ...] = ()
    counts: Counts = field(default_factory=Counts)
    requirements: Requirements = field(default_factory=Requirements)
    unshared: int = 0
    pending: tuple[PendingLineage, ...] = ()
    settled: State | None = None


class JobSnapshot(Struct, frozen=True, kw_only=True):
    """All that a turn decides from.

    Attributes:
        workers: how many launches may be under way at once.
        host: what they share; None where the engine sees to it.
        settled: the job's ``settled`` record, if that counts.
    """

    steps: tuple[StepInTurn, ...]
    launches: tuple[LaunchInTurn, ...] = ()
    stops: Stops = field(default_factory=Stops)
    workers: int = 1
    host: Host | None = None
    settled: State | None = None


def startable(step: StepInTurn, snapshot: JobSnapshot) -> tuple[PendingLineage, ...]:
    """The step's lineages that no launch was given and nobody stopped; some wait."""
    given = {
        task
        for launch in snapshot.launches
        if launch.step == step.index and launch.is_under_way
        for task in launch.waiting
    }
    return tuple(
        lineage
        for lineage in step.pending
        if lineage.task not in given
        and snapshot.stops.stopped(Scope(step.index, lineage.task)) is None
    )
