"""The plan of a turn: what the logs, journals and the engine say in, actions out.

The maker of the turn records an intent before it acts, and plans anew after each record that was
refused; so a plan may be made by two at once, and carried out by one. Order: what is dead is
sealed first; intents without an engine's id are started again under the same token; what is over is
settled; then new launches fill the free workers, one step after the other, so that no step keeps
the others waiting. Steps that depend on what did not succeed are canceled; other branches go on.

A ``settled`` record counts only while no later ``resume`` covers its step; the snapshot says so.

Source: docs/journal-format.md, turn; design of perdure, 3 (rules 6 and 10), 4, 5.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from perdure.policy.dependencies import in_order
from perdure.policy.launching import Impossible, Launch, plan_launches, share_size
from perdure.policy.outcome import By
from perdure.policy.snapshot import (
    JobSnapshot,
    LaunchInTurn,
    LaunchState,
    PendingLineage,
    StepInTurn,
    startable,
)
from perdure.policy.states import (
    Counts,
    State,
    Status,
    StepInJob,
    job_status,
    step_status,
)
from perdure.policy.stops import JOB, Scope, Stops

__all__ = [
    "Action",
    "Impossible",
    "JobSnapshot",
    "Launch",
    "LaunchInTurn",
    "LaunchState",
    "PendingLineage",
    "Relaunch",
    "Rest",
    "Seal",
    "Settle",
    "StepInTurn",
    "Wait",
    "plan_turn",
    "share_size",
]


class Seal(Struct, frozen=True, kw_only=True):
    """Record that a launch is taken to be dead, read its journal, fence it."""

    launch: str


class Relaunch(Struct, frozen=True, kw_only=True):
    """Start the worker of an intent that the engine knows nothing of, under the same token."""

    launch: str
    token: str


class Settle(Struct, frozen=True, kw_only=True):
    """Record that a step (None: the job) is over.

    Attributes:
        outcomes: the counts to record.
    """

    step: int | None
    state: State
    outcomes: Counts
    reason: str = ""


class Wait(Struct, frozen=True, kw_only=True):
    """Look again after so many seconds, or when a launch or a wish says something new."""

    seconds: float | None = None


class Rest(Struct, frozen=True, kw_only=True):
    """Nothing happens by itself any more: the manager may leave."""

    status: Status


Action = Seal | Relaunch | Launch | Settle | Impossible | Wait | Rest


def plan_turn(snapshot: JobSnapshot) -> tuple[Action, ...]:
    """What to do now, in order; the last one says when to look again."""
    if snapshot.settled is not None:
        return (Rest(status=Status(state=snapshot.settled)),)
    seals = _seals(snapshot)
    settles = _settles(snapshot)
    settled = {settle.step: settle.state for settle in settles}
    states = {s.index: settled.get(s.index, _state(s)) for s in snapshot.steps}
    end = _settle_job(snapshot, settles, states)
    if end is not None:
        return (*seals, *settles, end, Rest(status=Status(state=end.state)))
    ready = tuple(step for step in snapshot.steps if _is_ready(step, states, snapshot.stops))
    lineages = {step.index: startable(step, snapshot) for step in ready}
    launches = plan_launches(snapshot, ready, lineages)
    return (
        *seals,
        *_relaunches(snapshot, states),
        *settles,
        *launches,
        _pause(snapshot, lineages, launches, is_sealing=bool(seals)),
    )


def _state(step: StepInTurn) -> State:
    """The state of a step by what is recorded and counted."""
    return step.settled or step_status(step.counts).state


def _seals(snapshot: JobSnapshot) -> tuple[Seal, ...]:
    """The dead, and intents that nobody needs any more."""
    return tuple(
        Seal(launch=launch.launch)
        for launch in snapshot.launches
        if launch.state is LaunchState.DEAD
    )


def _relaunches(snapshot: JobSnapshot, states: dict[int, State]) -> tuple[Action, ...]:
    """Intents whose author died between the record and the engine's answer."""
    actions: list[Action] = []
    for launch in snapshot.launches:
        if launch.state is not LaunchState.INTENDED:
            continue
        stopped = snapshot.stops.stopped(Scope(launch.step)) is not None
        if stopped or states[launch.step].is_final:
            actions.append(Seal(launch=launch.launch))
        else:
            actions.append(Relaunch(launch=launch.launch, token=launch.token))
    return tuple(actions)


def _settles(snapshot: JobSnapshot) -> tuple[Settle, ...]:
    """Steps that are over and not recorded so, those that cannot begin any more included."""
    by_index = {step.index: step for step in snapshot.steps}
    states: dict[int, State] = {}
    settles: list[Settle] = []
    for index in in_order({step.index: step.dependencies for step in snapshot.steps}):
        step = by_index[index]
        states[index] = _state(step)
        if step.settled is not None:
            continue
        if step.counts.is_settled:
            settles.append(_settle(step))
        elif not step.counts.running and (culprit := _culprit(step, states)) is not None:
            reason = f"step {by_index[culprit].name} did not succeed: {states[culprit].value}"
            settles.append(_settle_canceled(step, reason))
            states[index] = State.CANCELED
    return tuple(settles)


def _culprit(step: StepInTurn, states: dict[int, State]) -> int | None:
    """The dependency because of which the step can never begin."""
    for index in step.dependencies:
        if states[index] in (State.FAILED, State.CANCELED):
            return index
    return None


def _settle(step: StepInTurn) -> Settle:
    """All of its tasks are in a final state."""
    status = step_status(step.counts)
    return Settle(step=step.index, state=status.state, outcomes=step.counts, reason=status.reason)


def _settle_canceled(step: StepInTurn, reason: str) -> Settle:
    """What was not done of it never will be."""
    counts = step.counts
    abandoned = counts.canceled + counts.pending + counts.suspended
    outcomes = replace(counts, canceled=abandoned, pending=0, suspended=0, held=0)
    return Settle(step=step.index, state=State.CANCELED, outcomes=outcomes, reason=reason)


def _settle_job(
    snapshot: JobSnapshot, settles: tuple[Settle, ...], states: dict[int, State]
) -> Settle | None:
    """The end of the job, when all of its steps are over."""
    if not all(state.is_final for state in states.values()):
        return None
    steps = tuple(
        StepInJob(index=step.index, name=step.name, status=Status(state=states[step.index]))
        for step in snapshot.steps
    )
    status = job_status(steps, stop=snapshot.stops.stopped(JOB))
    new = {settle.step: settle.outcomes for settle in settles}
    counts = [new.get(step.index, step.counts) for step in snapshot.steps]
    return Settle(step=None, state=status.state, outcomes=_sum(counts), reason=status.reason)


def _sum(counts: list[Counts]) -> Counts:
    """The counts of all steps."""
    return Counts(
        succeeded=sum(c.succeeded for c in counts),
        failed=sum(c.failed for c in counts),
        canceled=sum(c.canceled for c in counts),
    )


def _is_ready(step: StepInTurn, states: dict[int, State], stops: Stops) -> bool:
    """Whether attempts of the step may start."""
    return (
        not states[step.index].is_final
        and all(states[before] is State.SUCCEEDED for before in step.dependencies)
        and stops.stopped(Scope(step.index)) is None
    )


def _pause(
    snapshot: JobSnapshot,
    lineages: Mapping[int, tuple[PendingLineage, ...]],
    launches: tuple[Launch | Impossible, ...],
    *,
    is_sealing: bool,
) -> Wait | Rest:
    """When to look again."""
    waits = [
        lineage.wait_seconds
        for found in lineages.values()
        for lineage in found
        if lineage.wait_seconds > 0
    ]
    under_way = any(launch.is_under_way for launch in snapshot.launches)
    if waits:
        return Wait(seconds=min(waits))
    if under_way or is_sealing or any(isinstance(launch, Launch) for launch in launches):
        return Wait()
    return Rest(status=_resting_status(snapshot))


def _resting_status(snapshot: JobSnapshot) -> Status:
    """Why nothing goes on: a person asked, must choose, or no host fits."""
    steps = tuple(
        StepInJob(
            index=s.index,
            name=s.name,
            status=_status(s, snapshot.stops),
            dependencies=s.dependencies,
        )
        for s in snapshot.steps
    )
    return job_status(steps, stop=snapshot.stops.stopped(JOB))


def _status(step: StepInTurn, stops: Stops) -> Status:
    """A step's status, where a person's stop holds what is pending."""
    if step.settled is not None:
        return Status(state=step.settled)
    status = step_status(step.counts)
    stop = stops.stopped(Scope(step.index))
    if status.state is State.PENDING and stop is not None and stop.by is By.USER:
        return Status(state=State.SUSPENDED, is_held=status.is_held, reason="a person suspended it")
    return status
