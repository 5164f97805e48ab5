"""A worker in an allocation of Slurm or LSF: as which launch it begins, and what it leaves behind.

Theory of operation. An element of an array may run several times: at its time limit it puts itself
back into the queue, and so does Slurm when it is preempted or its node is lost. Each run of it is a
launch of its own, with a token of its own: before it asks to be put back it records the intent of
the next run, with what it was working at, so that whoever makes a turn meanwhile knows that this is
seen to. A run that finds no intent (its predecessor could not record one) makes a turn that starts
nobody but itself.

What somebody cancelled stays stopped: what this launch worked at is suspended by a person's wish.
Where Slurm does not say why it ended a job, it is taken to be cancelled. LSF says why only when the
job is over. So there the intent of the next run is recorded whatever the reason is: either the
element begins again and finds it, or LSF says that it will not, and a turn holds what the intent
names, unless the reason is one to go on (`perdure.manager.turns`).

Source: docs/engines.md; docs/journal-format.md "A second `started`".
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from perdure.engines.allocation import Allocation, is_time_limit
from perdure.engines.base import Engine, LaunchRequest
from perdure.engines.causes import TOLD_LATER, Cause
from perdure.engines.tokens import Token, parse_token
from perdure.errors import EngineRefused, PerdureError
from perdure.manager.holding import hold
from perdure.manager.job_view import JobView
from perdure.manager.next_runs import record_next_run
from perdure.manager.turns import TurnMaker, TurnParts
from perdure.manager.vain_rounds import has_begun
from perdure.policy.snapshot import LaunchState
from perdure.policy.stops import Scope
from perdure.policy.turn import Wait
from perdure.store.layout import LaunchId, StepKey
from perdure.store.records.job_log import LaunchIntent
from perdure.worker.machine import Intent
from perdure.worker.stops import Stop, StopBoard

_LOOK_SECONDS = 1.0


class _Itself:
    """An engine that starts one worker: the next run of this allocation, or this one.

    Attributes:
        was_put_back: Slurm was told to run the allocation again, and ends this run of it soon.
    """

    ends_with_host = True

    def __init__(self, engine: Engine, allocation: Allocation, token: str, *, is_now: bool) -> None:
        self._engine = engine
        self._allocation = allocation
        self._token = token
        self._is_now = is_now
        self.was_put_back = is_now

    def new_tokens(self, count: int) -> Sequence[str]:
        assert count == 1
        return [self._token]

    def start(self, requests: Sequence[LaunchRequest]) -> Sequence[Mapping[str, Any]]:
        """Put the allocation back into the queue; where that may not be, submit another one."""
        if self._is_now:
            return [self._allocation.ids()]
        try:
            self._allocation.requeue()
        except EngineRefused:
            return self._engine.start(requests)
        self.was_put_back = True
        return [self._allocation.ids()]

    def find(self, token: str) -> Mapping[str, Any] | None:
        return self._engine.find(token)

    def is_there(self, ids: Mapping[str, Any]) -> bool:
        return self._engine.is_there(ids)

    def may_live(self, ids: Mapping[str, Any]) -> bool:
        return self._engine.may_live(ids)

    def why_stopped(self, ids: Mapping[str, Any], *, has_begun: bool) -> str | None:
        return self._engine.why_stopped(ids, has_begun=has_begun)

    def ran_out_of_memory(self, ids: Mapping[str, Any]) -> bool:
        return self._engine.ran_out_of_memory(ids)

    def follow_later(self, seconds: float, logs: Path) -> bool:
        return self._engine.follow_later(seconds, logs)

    def interrupt(self, ids: Mapping[str, Any], *, by_person: bool) -> None:
        self._engine.interrupt(ids, by_person=by_person)

    def withdraw(self, ids: Mapping[str, Any]) -> None:
        self._engine.withdraw(ids)

    def wait(self, seconds: float) -> bool:
        return self._engine.wait(seconds)


class Allocated:
    """What a worker's entry asks about its allocation.

    Args:
        allocation: the one that it runs in.
        view: of the job, with the engine that started this worker.
        parts: for turns.
        token: of this run.
    """

    def __init__(self, allocation: Allocation, view: JobView, parts: TurnParts, token: str) -> None:
        self._allocation = allocation
        self._view = view
        self._with = parts
        self._token = token

    def launch(self, first: LaunchId) -> LaunchId | None:
        """As which launch this run begins; None: there is nothing left for it to do.

        Blocks while the run before it may still be alive.

        Args:
            first: the launch of the allocation's first run.
        """
        mine = parse_token(self._token)
        if mine is None or not mine.restarts:
            return first
        self._view.refresh()
        before = self._view.records.state.launches.get(first)
        if before is None:
            return first  # who begins with it says what is missing
        if self._view.records.state.is_outdated(first):
            return None  # the job goes on elsewhere
        itself = _Itself(self._with.engine, self._allocation, self._token, is_now=True)
        maker = self._maker(self._token, before.step, itself)
        while (intent := self._intent(self._token)) is None:
            if isinstance(maker.make(), Wait) and self._runs_before(mine):
                time.sleep(_LOOK_SECONDS)
            elif self._intent(self._token) is None:
                return None
        return intent.launch

    def _intent(self, token: str) -> LaunchIntent | None:
        launches = self._view.records.state.launches.values()
        return next((intent for intent in launches if intent.token == token), None)

    def _runs_before(self, mine: Token) -> bool:
        """Whether an earlier run of this allocation may still be at work."""
        for intent in self._view.records.state.launches.values():
            token = parse_token(intent.token)
            if (
                token is not None
                and (token.array, token.index) == (mine.array, mine.index)
                and token.restarts < mine.restarts
                and self._view.launch_state(intent) in (LaunchState.LIVE, LaunchState.SILENT)
            ):
                return True
        return False

    def watched(self, board: StopBoard) -> AbstractContextManager[object]:
        """While it is entered, what Slurm tells the job's steps first stops the task, too."""

        def told() -> None:
            end = self._allocation.killed_at()
            left = None if end is None else (end - self._with.clock.now()).total_seconds()
            now = self._with.clock.monotonic()
            deadline = None if left is None else now + max(0.0, left)
            reason = "Slurm ends the job"
            board.post(Stop(intent=Intent.SUSPEND, by="engine", deadline=deadline, reason=reason))

        return self._allocation.first_word(told)

    def leave(self, launch: LaunchId, stop: Stop | None) -> int:
        """What follows from how this run ended; its journal is closed. Returns the exit code.

        Blocks until this process is ended, where the batch system was asked to put it back, or is
        ending it.

        Args:
            launch: the one that ended.
            stop: why it stopped before all was done; None: it did not.
        """
        self._view.records.refresh()
        if self._view.records.state.is_outdated(launch):
            return self._allocation.exit_code  # the job goes on elsewhere, and so do its turns
        if stop is None:
            self._record_turn()
        elif stop.by != "user":
            cause = Cause.TIME_LIMIT if is_time_limit(stop.reason) else self._allocation.cause()
            print(f"perdure-worker: {cause.value}", flush=True)
            print(self._allocation.last_words(), flush=True)
            if cause is Cause.TOLD_LATER:
                self._leave_the_next_run(launch)
            elif cause in (Cause.CANCELLED, Cause.UNKNOWN):
                self._hold(launch, cause)
            elif cause is Cause.DIED:
                self._record_turn()  # Slurm kills what is left; the turn behind the array goes on
            else:
                self._come_back(launch, is_queued=cause is Cause.REQUEUED)
        return self._allocation.exit_code

    def _record_turn(self) -> None:
        """What has ended is recorded; what is next is started by the turn behind the array."""
        TurnMaker(self._view, self._with, name="worker", starts=False).make()

    def _come_back(self, launch: LaunchId, *, is_queued: bool) -> None:
        token = self._next_token()
        self._view.refresh()
        step = self._view.records.state.launches[launch].step
        itself = _Itself(self._with.engine, self._allocation, token, is_now=is_queued)
        self._maker(token, step, itself).make()
        if self._intent(token) is not None and itself.was_put_back:
            self._allocation.wait_for_the_end(
                until_killed=False, is_replaced=lambda: self._has_begun(token)
            )

    def _next_token(self) -> str:
        mine = parse_token(self._token)
        assert mine is not None
        return str(mine.next)

    def _leave_the_next_run(self, launch: LaunchId) -> None:
        """Record the intent of this element's next run, without knowing whether there is one."""
        self._view.refresh()
        ids = {**self._allocation.ids(), TOLD_LATER: True}
        if record_next_run(self._view, launch, self._next_token(), ids):
            self._allocation.wait_for_the_end(until_killed=True)

    def _has_begun(self, token: str) -> bool:
        """Whether the run with that token has begun."""
        with suppress(PerdureError):
            self._view.refresh()
        intent = self._intent(token)
        return intent is not None and has_begun(self._view, intent)

    def _maker(self, token: str, step: StepKey, engine: _Itself) -> TurnMaker:
        """Makes turns that start this allocation's next run, or this one, and nobody else."""
        parts = replace(self._with, engine=engine)
        return TurnMaker(self._view, parts, name=f"worker {token}", only=step, most=1)

    def _hold(self, launch: LaunchId, cause: Cause) -> None:
        """Nothing that this launch worked at is started again before a person says so."""
        self._view.refresh()
        step = self._view.records.state.launches[launch].step
        for task in self._view.steps[step].last_held_by(launch, self._view.stops):
            hold(self._view, Scope(step, task), cause.value)
