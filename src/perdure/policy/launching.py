"""Which launches a turn starts: free workers are filled by the ready steps in turns.

A step never waits for another one's work to fit: what does not fit now is passed over, and the next
step is looked at. Lineages that are due are dealt evenly to the step's new launches, which then go
on with shares.
"""

from collections.abc import Mapping

from msgspec import Struct

from perdure.policy.resources import Grant, Host, minus, take, unsatisfiable
from perdure.policy.snapshot import JobSnapshot, LaunchState, PendingLineage, StepInTurn

#: Shares beyond this size save nothing and lose more when their worker is lost.
SHARE_LIMIT = 2048


class Launch(Struct, frozen=True, kw_only=True):
    """Record an intent and start a worker.

    Attributes:
        tasks: lineages that it takes first, in order.
        takes_shares: whether it then takes shares of the step.
        grant: what it gets of the host; None where nobody bounds it.
        avoid_hosts: where some of its lineages could not start.
        memory_ends: how often memory ran out in the one of its lineages that had most of that.
    """

    step: int
    tasks: tuple[str, ...] = ()
    takes_shares: bool = True
    grant: Grant | None = None
    avoid_hosts: tuple[str, ...] = ()
    memory_ends: int = 0


class Impossible(Struct, frozen=True, kw_only=True):
    """Tell that no launch of a step fits this host, even alone."""

    step: int
    reasons: tuple[str, ...]


def share_size(remaining: int, workers: int) -> int:
    """How many tasks a worker takes at once: fewer the fewer remain, so that all end together."""
    return max(1, min(SHARE_LIMIT, remaining // (2 * max(1, workers))))


def plan_launches(
    snapshot: JobSnapshot,
    ready: tuple[StepInTurn, ...],
    lineages: Mapping[int, tuple[PendingLineage, ...]],
) -> tuple[Launch | Impossible, ...]:
    """Fill the free workers of the ``ready`` steps, one launch a step in turns.

    Args:
        snapshot: of the turn.
        ready: steps whose attempts may start.
        lineages: of each of them, by its index, what is `startable`.
    """
    slots = snapshot.workers - sum(launch.is_under_way for launch in snapshot.launches)
    due = {step.index: _due(lineages[step.index]) for step in ready}
    needs = {step.index: len(due[step.index]) + _shares(step, snapshot) for step in ready}
    granted: dict[int, list[Grant | None]] = {step.index: [] for step in ready}
    free = _free(snapshot)
    impossible: list[Impossible] = []
    waiting = [step for step in ready if needs[step.index] > 0]
    while slots > 0 and waiting:
        for step in tuple(waiting):
            if slots <= 0:
                break
            fits = (None, free) if free is None else take(step.requirements, free)
            if fits is None:
                waiting.remove(step)
                impossible += _impossible(step, snapshot)
                continue
            grant, free = fits
            granted[step.index].append(grant)
            slots -= 1
            if len(granted[step.index]) >= needs[step.index]:
                waiting.remove(step)
    dealt = [
        launch for step in ready for launch in _deal(step, due[step.index], granted[step.index])
    ]
    return (*dealt, *impossible)


def _free(snapshot: JobSnapshot) -> Host | None:
    """What the launches under way leave of the host."""
    if snapshot.host is None:
        return None
    used = (launch.grant for launch in snapshot.launches if launch.is_under_way)
    return minus(snapshot.host, tuple(grant for grant in used if grant is not None))


def _shares(step: StepInTurn, snapshot: JobSnapshot) -> int:
    """How many further launches the step has shares for.

    A live launch is busy, so it takes nothing off; one that has not begun will take a share.
    """
    coming = sum(
        launch.step == step.index
        and launch.takes_shares
        and launch.state in (LaunchState.INTENDED, LaunchState.QUEUED)
        for launch in snapshot.launches
    )
    return max(0, step.unshared - coming)


def _due(lineages: tuple[PendingLineage, ...]) -> tuple[PendingLineage, ...]:
    """Those whose attempt may start now."""
    return tuple(lineage for lineage in lineages if lineage.wait_seconds <= 0)


def _deal(
    step: StepInTurn, due: tuple[PendingLineage, ...], grants: list[Grant | None]
) -> list[Launch]:
    """The step's due lineages, dealt evenly to its new launches."""
    launches = []
    for number, grant in enumerate(grants):
        hand = due[number :: len(grants)]
        avoid = tuple(sorted({lineage.avoid_host for lineage in hand} - {""}))
        launches.append(
            Launch(
                step=step.index,
                tasks=tuple(lineage.task for lineage in hand),
                takes_shares=step.unshared > 0,
                grant=grant,
                avoid_hosts=avoid,
                memory_ends=max((lineage.memory_ends for lineage in hand), default=0),
            )
        )
    return launches


def _impossible(step: StepInTurn, snapshot: JobSnapshot) -> tuple[Impossible, ...]:
    """Whether a step that does not fit now never will."""
    assert snapshot.host is not None
    reasons = unsatisfiable(step.requirements, snapshot.host)
    return (Impossible(step=step.index, reasons=reasons),) if reasons else ()
