"""Managing one job: turn after turn until nothing goes on by itself.

Used by `perdure run` in front, by the detached manager of `perdure submit`, and by `resume`. What
people see while it goes on is somebody else's: `between` is called between turns.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from perdure.engines.base import Engine
from perdure.errors import PerdureError
from perdure.manager.job_view import JobView
from perdure.manager.turns import TurnMaker
from perdure.manager.unrecorded import Trouble, not_recorded
from perdure.policy.snapshot import LaunchState
from perdure.policy.states import Status
from perdure.policy.turn import Rest, Wait
from perdure.worker.host import is_of_here

#: How often the store is looked at while launches run: their journals grow, wishes come.
LOOK_SECONDS = 0.25


class Orders(Struct):
    """What signals ask of a manager, posted from signal handlers.

    Attributes:
        suspend: a person wants the job suspended: how many times it was said.
        leave: the host wants this process to go: workers are told, nothing new is started.
        suspends_seen, leave_seen: what the manager has looked at.
        suspends_recorded: how many of them the job's log has.
        suspends_passed_on: how many of them workers on this host were told of.
    """

    suspend: int = 0
    leave: bool = False
    suspends_seen: int = 0
    leave_seen: bool = False
    suspends_recorded: int = 0
    suspends_passed_on: int = 0

    @property
    def are_new(self) -> bool:
        """Whether something was asked that the manager has not looked at yet."""
        leaving = self.leave and not self.leave_seen
        return leaving or self.suspend > self.suspends_seen

    @property
    def is_unrecorded(self) -> bool:
        """Whether a person's wish is not in the job's log yet."""
        return self.suspend > self.suspends_recorded


class Manager:
    """Manages one job; `manage` returns when nothing goes on by itself.

    Args:
        between: called often with the time to wait; it returns sooner when there is something new.
        told: called with what people should know.
        troubled: called with why the store takes no records, and with "" once it does.
    """

    def __init__(
        self,
        view: JobView,
        maker: TurnMaker,
        engine: Engine,
        orders: Orders,
        *,
        between: Callable[[float], None],
        told: Callable[[str], None] = lambda _text: None,
        troubled: Callable[[str], None] = lambda _why: None,
    ) -> None:
        self._view = view
        self._maker = maker
        self._engine = engine
        self._orders = orders
        self._between = between
        self._trouble = Trouble(told, troubled)
        self._known: tuple[int, int] = (0, 0)

    def manage(self) -> Status | None:
        """The job's status at the end; None when the host wanted this process to go.

        Raises:
            OutOfSpace, StoreUnavailable: a person ended the waiting for a store that takes no
                records, when nothing ran here any more.
        """
        while True:
            try:
                match self._step():
                    case Rest(status=status):
                        return status
                    case Wait(seconds=seconds):
                        self._pause(seconds)
                    case None:
                        return None
            except PerdureError as error:
                if error.is_permanent:
                    raise
                self._wait_for_store(error)

    def _step(self) -> Wait | Rest | None:
        """Carry out orders, then one turn."""
        self._pass_suspend_on()
        if self._orders.leave:
            with _as_far_as_the_store_answers():
                self._record_suspend()
            return self._leave()
        self._record_suspend()
        self._known = self._facts()  # before the turn: what ends while it is made is news
        answer = self._maker.make()
        self._trouble.is_over()
        return answer

    def _pass_suspend_on(self) -> None:
        """Tell the workers on this host what a person wishes, each time that it is said.

        Before it is recorded, and whether or not it can be: the work is the person's.
        """
        if self._orders.suspend > self._orders.suspends_seen:
            self._orders.suspends_seen += 1
            if interrupt_workers(self._view, self._engine, by_person=True):
                self._orders.suspends_passed_on += 1

    def _record_suspend(self) -> None:
        """A person's wish goes into the job's log, so that it outlives us."""
        while self._orders.is_unrecorded:
            said = self._orders.suspend
            record = {"kind": "suspend", "scope": {}, "by": "user", "now": said > 1}
            if self._view.records.append(record):
                self._orders.suspends_recorded = said

    def _wait_for_store(self, error: PerdureError) -> None:
        """What happens meanwhile is not recorded: say so, and wait a little.

        Nobody is kept waiting who does not want to: once nothing runs here, Ctrl-C ends that.
        """
        orders = self._orders
        is_idle = not any(workers_here(self._view, self._engine))
        if is_idle and self._trouble.may_be_left(orders.suspend):
            raise not_recorded(self._view.document.job, error) from error
        pause = self._trouble.go_on(
            error,
            suspends=orders.suspend,
            is_suspension=orders.is_unrecorded,
            were_told=orders.suspends_passed_on > 0,
            is_idle=is_idle,
        )
        self._between(pause)

    def _leave(self) -> Wait | None:
        """The host wants us to go: pass it on once, and wait for the workers to save.

        Workers elsewhere go on, and whoever makes the next turn with them.
        """
        if not self._engine.ends_with_host:
            return None
        if not self._orders.leave_seen:
            self._orders.leave_seen = True
            interrupt_workers(self._view, self._engine, by_person=False)
        return Wait(seconds=LOOK_SECONDS) if self._is_worked_on() else None

    def _is_worked_on(self) -> bool:
        """Whether workers live; by their processes alone where the store does not answer."""
        with _as_far_as_the_store_answers():
            self._view.refresh()
            states = [
                self._view.launch_state(intent)
                for intent in self._view.records.state.launches.values()
            ]
            return LaunchState.LIVE in states or LaunchState.QUEUED in states
        return any(workers_here(self._view, self._engine))

    def _pause(self, seconds: float | None) -> None:
        """Wait for the next turn, looking at the store meanwhile."""
        left = seconds
        look_seconds = max(LOOK_SECONDS, self._view.records.driver.look_seconds)
        while True:
            self._between(look_seconds if left is None else min(look_seconds, left))
            if self._orders.are_new or (not self._orders.leave and self._has_news()):
                return
            if left is not None:
                left -= look_seconds
                if left <= 0:
                    return

    def _has_news(self) -> bool:
        """Whether a launch ended or the job's log grew since the last turn was begun."""
        self._view.refresh()
        return self._facts() != self._known

    def _facts(self) -> tuple[int, int]:
        """How far the job's log was read, and how many launches ended or died."""
        over = (LaunchState.DEAD, LaunchState.ENDED)
        intents = self._view.records.state.launches.values()
        ended = sum(self._view.launch_state(intent) in over for intent in intents)
        return self._view.records.state.last, ended


@contextmanager
def _as_far_as_the_store_answers() -> Iterator[None]:
    """Go on behind the block where the store does not answer, or takes nothing."""
    try:
        yield
    except PerdureError as error:
        if error.is_permanent:
            raise


def interrupt_workers(view: JobView, engine: Engine, *, by_person: bool) -> bool:
    """Tell the workers of this host what the log says too, or that the host goes.

    Returns:
        Whether there was one to tell.
    """
    workers = list(workers_here(view, engine))
    for ids in workers:
        engine.interrupt(ids, by_person=by_person)
    return bool(workers)


def workers_here(view: JobView, engine: Engine) -> Iterator[Mapping[str, Any]]:
    """The engine's ids of workers that live on this host; nothing is read from the store.

    One whose ids could not be recorded is found by its token.
    """
    state = view.records.state
    for intent in state.launches.values():
        if view.has_ended(intent.launch):
            continue
        ids = state.launched.get(intent.token)
        if ids is None and intent.token:
            ids = engine.find(intent.token)
        if ids is not None and is_of_here(ids) and engine.is_there(ids):
            yield ids
