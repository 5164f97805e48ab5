"""Managing one job: turn after turn until nothing goes on by itself.

Used by `perdure run` in front, by the detached manager of `perdure submit`, and by `resume`. What
people see while it goes on is somebody else's: `between` is called between turns.
"""

from collections.abc import Callable

from msgspec import Struct

from perdure.engines.base import Engine
from perdure.errors import PerdureError
from perdure.manager.job_view import JobView
from perdure.manager.turns import TurnMaker
from perdure.policy.snapshot import LaunchState
from perdure.policy.states import Status
from perdure.policy.turn import Rest, Wait

#: How often the store is looked at while launches run: their journals grow, wishes come.
LOOK_SECONDS = 0.25
#: A store or an engine that does not answer is asked again, less and less often.
_LONGEST_PAUSE_SECONDS = 30.0


class Orders(Struct):
    """What signals ask of a manager, posted from signal handlers.

    Attributes:
        suspend: a person wants the job suspended: how many times it was said.
        leave: the host wants this process to go: workers are told, nothing new is started.
        suspends_recorded, leave_seen: what the manager has looked at.
    """

    suspend: int = 0
    leave: bool = False
    suspends_recorded: int = 0
    leave_seen: bool = False

    @property
    def are_new(self) -> bool:
        """Whether something was asked that the manager has not looked at yet."""
        leaving = self.leave and not self.leave_seen
        return leaving or self.suspend > self.suspends_recorded


class Manager:
    """Manages one job; `manage` returns when nothing goes on by itself.

    Args:
        between: called often with the time to wait; it returns sooner when there is something new.
    """

    def __init__(
        self,
        view: JobView,
        maker: TurnMaker,
        engine: Engine,
        orders: Orders,
        *,
        between: Callable[[float], None],
    ) -> None:
        self._view = view
        self._maker = maker
        self._engine = engine
        self._orders = orders
        self._between = between
        self._known: tuple[int, int] = (0, 0)

    def manage(self) -> Status | None:
        """The job's status at the end; None when the host wanted this process to go."""
        pause = 0.5
        while True:
            try:
                answer = self._step()
            except PerdureError as error:
                if error.is_permanent:
                    raise
                self._between(pause)
                pause = min(_LONGEST_PAUSE_SECONDS, 2 * pause)
                continue
            pause = 0.5
            match answer:
                case Rest(status=status):
                    return status
                case Wait(seconds=seconds):
                    self._pause(seconds)
                case None:
                    return None

    def _step(self) -> Wait | Rest | None:
        """Carry out orders, then one turn."""
        if self._orders.suspend > self._orders.suspends_recorded:
            self._record_suspend()
        if self._orders.leave:
            return self._leave()
        self._known = self._facts()  # before the turn: what ends while it is made is news
        return self._maker.make()

    def _record_suspend(self) -> None:
        """A person's wish goes into the log; workers on this host are told at once besides."""
        is_now = self._orders.suspend > 1
        self._orders.suspends_recorded = self._orders.suspend
        record = {"kind": "suspend", "scope": {}, "by": "user", "now": is_now}
        while not self._view.records.append(record):
            pass
        interrupt_workers(self._view, self._engine, by_person=True)

    def _leave(self) -> Wait | None:
        """The host wants us to go: pass it on once, and wait for the workers to save."""
        if not self._orders.leave_seen:
            self._orders.leave_seen = True
            interrupt_workers(self._view, self._engine, by_person=False)
        self._view.refresh()
        alive = [
            intent
            for intent in self._view.records.state.launches.values()
            if self._view.launch_state(intent) in (LaunchState.LIVE, LaunchState.QUEUED)
        ]
        return Wait(seconds=LOOK_SECONDS) if alive else None

    def _pause(self, seconds: float | None) -> None:
        """Wait for the next turn, looking at the store meanwhile."""
        left = seconds
        look_seconds = max(LOOK_SECONDS, self._view.records.driver.look_seconds)
        while True:
            self._between(look_seconds if left is None else min(look_seconds, left))
            if self._orders.are_new:
                return
            if self._has_news():
                return
            if left is not None:
                left -= look_seconds
                if left <= 0:
                    return

    def _has_news(self) -> bool:
        """Whether a launch ended or the job's log grew since the last turn was begun.

        A store that is out of reach says nothing: the work goes on, and so does the waiting.
        """
        try:
            self._view.refresh()
            return self._facts() != self._known
        except PerdureError as error:
            if error.is_permanent:
                raise
            return False

    def _facts(self) -> tuple[int, int]:
        """How far the job's log was read, and how many launches ended or died."""
        over = (LaunchState.DEAD, LaunchState.ENDED)
        intents = self._view.records.state.launches.values()
        ended = sum(self._view.launch_state(intent) in over for intent in intents)
        return self._view.records.state.last, ended


def interrupt_workers(view: JobView, engine: Engine, *, by_person: bool) -> None:
    """Tell the workers at once what stands in the log anyway, or that the host goes."""
    state = view.records.state
    for intent in state.launches.values():
        ids = state.launched.get(intent.token)
        if ids is not None and not view.has_ended(intent.launch):
            engine.interrupt(ids, by_person=by_person)
