"""One turn: read, decide, record, act.

Theory of operation. A turn may be made by anyone, even by two at once: an intent is put at one past
the last record read, so that whoever comes second is refused, reads on and decides anew. What is
done (a worker started, a process ended) comes after its intent is in the log, with a token that the
engine knows it by; a maker that dies in between leaves an intent that the next one carries out.

Source: docs/journal-format.md, "turn"; policy.turn decides.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from msgspec import Struct, to_builtins
from msgspec.structs import replace
from ulid import ULID

from perdure.clock import Clock
from perdure.engines.base import Engine, LaunchRequest
from perdure.errors import EngineRefused
from perdure.manager.holding import hold
from perdure.manager.job_view import JobView, grant_of, requirements
from perdure.manager.starting import Starts
from perdure.manager.vain_rounds import (
    LIMIT,
    delay_seconds,
    last_resume,
    trouble_of,
    vain_rounds,
)
from perdure.policy.memory_growth import memory_wish
from perdure.policy.resources import Grant
from perdure.policy.snapshot import LaunchState
from perdure.policy.states import Counts
from perdure.policy.stops import Scope
from perdure.policy.turn import (
    Action,
    Impossible,
    Launch,
    Relaunch,
    Rest,
    Seal,
    Settle,
    Wait,
    plan_turn,
)
from perdure.store import layout
from perdure.store.drivers.driver import Driver
from perdure.store.layout import LaunchId, StepKey, TaskKey
from perdure.store.records.job_log import OUT_OF_MEMORY, LaunchIntent
from perdure.worker.claiming import fence, seal
from perdure.worker.keeper import end_launch

#: How often a turn is begun anew because somebody else recorded something meanwhile.
MAX_ROUNDS = 100


class TurnParts(Struct, frozen=True, kw_only=True):
    """What a turn acts with.

    Attributes:
        store: URL of the store, for the workers.
        logs, sessions: folders of this host, for the workers.
        environment: variables that the workers bring their tasks.
        told: called with what people should know.
        noted: called with what the turn did, for whoever asked for more.
    """

    store: str
    driver: Driver
    engine: Engine
    logs: Path
    sessions: Path
    environment: Mapping[str, str]
    clock: Clock
    told: Callable[[str], None] = lambda _text: None
    noted: Callable[[str], None] = lambda _text: None


class TurnMaker:
    """Makes turns of one job; one object belongs to one thread.

    Args:
        view: the job's.
        parts: what it acts with.
        name: who makes them, for the log.
        starts: whether workers are started; without, only what has happened is recorded.
        only: the step whose workers may be started; None: any.
        most: how many may be started; None: as many as the plan has.
    """

    def __init__(
        self,
        view: JobView,
        parts: TurnParts,
        *,
        name: str,
        starts: bool = True,
        only: StepKey | None = None,
        most: int | None = None,
    ) -> None:
        self._view = view
        self._with = parts
        self._name = name
        self._may_start = starts
        self._only = only
        self._most = most
        self._impossible: set[int] = set()
        self._starts = Starts(view, parts.driver, parts.clock)

    def make(self) -> Wait | Rest:
        """One turn; says when to look again, or that nothing goes on by itself.

        Raises:
            EngineRefused: workers end before they begin, one after the other.
            EngineRefused: a person chose another engine meanwhile; nothing was started.
            JobMissing: the job was removed.
        """
        for _ in range(MAX_ROUNDS):
            self._view.refresh()
            self._refuse_moved()
            if self._hold_cancelled():
                continue
            answer = self._round()
            if answer is not None:
                return answer
        return Wait(seconds=1.0)

    def _refuse_moved(self) -> None:
        """Start and judge nothing by an engine that is not the job's any more."""
        if self._view.is_moved:
            job = self._view.document.job
            raise EngineRefused(
                f"job {job} was given another engine, or other options of it, meanwhile",
                hint=f"It goes on there; see: perdure status {job}",
            )

    def _hold_cancelled(self) -> bool:
        """Hold what workers left that were cancelled while they saved; whether there was any.

        A worker holds that itself; the engine may have killed it before it came to do so.
        """
        if self._with.engine.ends_with_host:
            return False
        held = [
            (Scope(intent.step, task), why)
            for intent in self._view.records.state.launches.values()
            if (why := self._why_cancelled(intent)) is not None
            for task in self._view.steps[intent.step].last_held_by(intent.launch, self._view.stops)
            if last_resume(self._view, Scope(intent.step, task)) < intent.number
        ]
        for scope, why in held:
            hold(self._view, scope, why)
        return bool(held)

    def _why_cancelled(self, intent: LaunchIntent) -> str | None:
        """Why what an ended launch left is not to be started again."""
        ids = self._view.records.state.launched.get(intent.token)
        if ids is None or intent.step not in self._view.steps:
            return None
        is_outdated = self._view.records.state.is_outdated(intent.launch)
        if is_outdated or not self._view.has_ended(intent.launch):
            return None
        return self._with.engine.why_stopped(ids, has_begun=True)

    def _round(self) -> Wait | Rest | None:
        """Carry a plan out; None when something was recorded or refused: plan anew."""
        plan = plan_turn(self._view.snapshot())
        for action in plan:
            match action:
                case Wait() | Rest():
                    return action
                case Relaunch() | Launch() if not self._may_start:
                    pass
                case Relaunch() if self._most is not None:
                    pass
                case Launch(step=step) if self._only not in (None, step) or self._most == 0:
                    pass
                case Seal(launch=launch):
                    self._seal(LaunchId(launch))
                    return None
                case Relaunch(launch=launch, token=token):
                    self._relaunch(LaunchId(launch), token)
                    return None
                case Settle():
                    self._settle(action)
                    return None
                case Launch(step=step):
                    found = [one for one in plan if _is_launch_of(one, step)]
                    return self._launch_step(StepKey(step), found[: self._most])
                case Impossible(step=step, reasons=reasons):
                    self._tell_impossible(step, reasons)
        msg = "a plan ends in Wait or Rest"
        raise AssertionError(msg)

    def _seal(self, launch: LaunchId) -> None:
        """Seal, then fence, then end what is left of it on this host."""
        records = self._view.records
        tell = self._with.told if launch in records.state.started else self._with.noted
        tell(f"worker {launch} has died, or its host has: what it held is taken back")
        intent = records.state.launches.get(launch)
        if intent is not None and not records.state.is_outdated(launch):
            self._hold_if_stopped(intent)
        seal(records, launch, by=self._name, reason=self._reason_of(intent))
        fence(records, launch)
        if intent is not None:
            end_launch(intent.token, folder=self._with.sessions / launch)

    def _reason_of(self, intent: LaunchIntent | None) -> str | None:
        """What the engine says of the end of a launch, where that matters for the next one."""
        state = self._view.records.state
        is_ours = intent is not None and not state.is_outdated(intent.launch)
        ids = state.launched.get(intent.token) if intent is not None and is_ours else None
        ran_out = ids is not None and self._with.engine.ran_out_of_memory(ids)
        return OUT_OF_MEMORY if ran_out else None

    def _hold_if_stopped(self, intent: LaunchIntent) -> None:
        """What somebody ended in the engine stays stopped: its tasks, or its step without any."""
        ids = self._view.records.state.launched.get(intent.token)
        has_begun = self._view.has_begun(intent.launch)
        engine = self._with.engine
        why = None if ids is None else engine.why_stopped(ids, has_begun=has_begun)
        if why is None or last_resume(self._view, Scope(intent.step)) > intent.number:
            return
        held = self._view.held_by(intent) if self._others_go_on(intent) else ()
        what = f"{len(held)} tasks of step" if held else "step"
        self._with.told(f"{what} {self._name_of(intent.step)!r} suspended: {why}")
        for scope in [Scope(intent.step, task) for task in held] or [Scope(intent.step)]:
            hold(self._view, scope, why)

    def _others_go_on(self, intent: LaunchIntent) -> bool:
        """Whether others work at the step: if not, who ended the last one ended all of it."""
        return any(
            other.step == intent.step
            and other.launch != intent.launch
            and self._view.launch_state(other) not in (LaunchState.DEAD, LaunchState.ENDED)
            for other in self._view.records.state.launches.values()
        )

    def _settle(self, action: Settle) -> None:
        """Record the end of a step, or of the job; the journals that say so are made durable."""
        self._sync_journals()
        record = {
            "kind": "settled",
            "step": action.step,
            "state": action.state.value,
            "outcomes": _counts(action.outcomes),
            "upto": self._view.records.state.last,
            "reason": action.reason,
        }
        if self._view.records.append(record):
            step = "the job" if action.step is None else f"step {self._name_of(action.step)}"
            self._with.noted(f"{step} is settled: {action.state.value}")

    def _sync_journals(self) -> None:
        if not self._with.driver.appends:
            return
        for launch in self._view.records.state.launches:
            key = layout.journal(self._view.document.job, launch)
            if self._with.driver.head(key) is not None:
                self._with.driver.sync(key)

    def _launch_step(self, step: StepKey, actions: Sequence[Launch]) -> Wait | None:
        """Start workers, unless those before them ended before they began."""
        if self._with.engine.ends_with_host:
            if wait := self._starts.pause():
                return Wait(seconds=wait)
            self._launch(actions)
            return None
        rounds = vain_rounds(self._view, step)
        if rounds >= LIMIT:
            self._give_up(step, rounds)
        else:
            self._launch(actions, delay_seconds(rounds))
        return None

    def _give_up(self, step: StepKey, rounds: int) -> None:
        """A step whose workers do not come to begin waits for a person."""
        trouble = trouble_of(self._view, step)
        why = (
            f"workers ended before they began, {rounds} times in a row"
            f"{f': {trouble}' if trouble else ''}; what the last one said is in the newest .out"
            f" file in {self._with.logs}"
        )
        self._with.told(f"step {self._name_of(step)!r} is suspended: {why}")
        hold(self._view, Scope(step), why)

    def _launch(self, actions: Sequence[Launch], delay: float = 0.0) -> None:
        """Record the intents of one step's launches; start the workers of those that are ours."""
        requests: list[LaunchRequest] = []
        tokens = self._with.engine.new_tokens(len(actions))
        for action, token in zip(actions, tokens, strict=True):
            launch = LaunchId(str(ULID()).lower())
            if not self._view.records.append(self._intent(launch, token, action)):
                break
            request = self._request(launch, token, action.step, action.grant, action.memory_ends)
            requests.append(replace(request, delay_seconds=delay, avoid_hosts=action.avoid_hosts))
        if requests:
            self._start(requests)
            if self._most is not None:
                self._most -= len(requests)

    def _intent(self, launch: LaunchId, token: str, action: Launch) -> dict[str, Any]:
        view = self._view.steps[StepKey(action.step)]
        return {
            "kind": "launch",
            "launch": launch,
            "token": token,
            "step": action.step,
            "tasks": [
                self._view.records.named(view.key, view.watched[TaskKey(task)].ref).to_json()
                for task in action.tasks
            ],
            "shares": action.takes_shares,
            "resources": _resources(action.grant, action.memory_ends),
        }

    def _relaunch(self, launch: LaunchId, token: str) -> None:
        """An intent whose author died before the engine's ids were recorded."""
        found = self._with.engine.find(token)
        if found is not None:
            self._record_ids(token, found)
            return
        intent = self._view.records.state.launches[launch]
        ends = int(intent.resources.get("memory_ends", 0))
        grant = grant_of(intent.resources)
        self._start([self._request(launch, token, intent.step, grant, ends)])

    def _request(
        self,
        launch: LaunchId,
        token: str,
        step: int,
        grant: Grant | None,
        memory_ends: int,
    ) -> LaunchRequest:
        gpus = None
        if grant is not None and grant.gpus is not None:
            gpus = ",".join(str(index) for index in grant.gpus)
        return LaunchRequest(
            store=self._with.store,
            job=self._view.document.job,
            launch=launch,
            token=token,
            logs=self._with.logs,
            sessions=self._with.sessions,
            gpus=gpus,
            environment=self._with.environment,
            requirements=requirements(self._view.job.step(step).requirements),
            memory=memory_wish(memory_ends, self._view.document.options.memory_growth),
        )

    def _start(self, requests: Sequence[LaunchRequest]) -> None:
        for request, ids in zip(requests, self._with.engine.start(requests), strict=True):
            self._starts.add(LaunchId(request.launch))
            self._with.noted(f"launch {request.launch} is started: {dict(ids)}")
            self._record_ids(request.token, ids)

    def _record_ids(self, token: str, ids: Mapping[str, Any]) -> None:
        while not self._view.records.append({"kind": "launched", "token": token, "ids": dict(ids)}):
            pass

    def _tell_impossible(self, step: int, reasons: tuple[str, ...]) -> None:
        if step not in self._impossible:
            self._impossible.add(step)
            self._with.told(
                f"step {self._name_of(step)!r} cannot run on this host: {'; '.join(reasons)}"
            )

    def _name_of(self, step: int) -> str:
        return self._view.job.step(step).name


def _is_launch_of(action: Action, step: int) -> TypeGuard[Launch]:
    return isinstance(action, Launch) and action.step == step


def _counts(counts: Counts) -> dict[str, int]:
    return {name: number for name, number in to_builtins(counts).items() if number}


def _resources(grant: Grant | None, memory_ends: int) -> dict[str, Any]:
    described: dict[str, Any] = {"memory_ends": memory_ends} if memory_ends else {}
    if grant is None:
        return described
    described["amounts"] = [list(pair) for pair in grant.amounts]
    if grant.gpus is not None:
        described["gpus"] = list(grant.gpus)
    return described
