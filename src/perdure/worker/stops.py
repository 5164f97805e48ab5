"""Who wants this launch to stop, and the action that is told.

Signals, the job's log and the host's notices all end here; whatever action runs at the moment is
subscribed and gets an `Interrupt` made for it. A stop outlives the action: the launch looks before
each attempt.

Threads: posted from any thread and from signal handlers' threads; `SimpleQueue.put` and plain
assignments only, and one lock that no signal handler takes.
"""

from collections.abc import Callable
from threading import Lock, Thread

from msgspec import Struct

from perdure.store.layout import StepKey, TaskKey
from perdure.worker.machine import Intent


class Stop(Struct, frozen=True, kw_only=True):
    """A wish that covers this launch or one of its tasks.

    Attributes:
        by: user, host or engine.
        is_now: without notice: at once, at the last checkpoint.
        deadline: when the host will be gone, on this process's monotonic clock; None: not known.
        step, task: what it covers; None: everything of this launch.
        reason: one sentence for people.
    """

    intent: Intent
    by: str
    is_now: bool = False
    deadline: float | None = None
    step: StepKey | None = None
    task: TaskKey | None = None
    reason: str = ""

    def covers(self, step: StepKey, task: TaskKey) -> bool:
        """Whether that task has to stop."""
        return self.step in (None, step) and self.task in (None, task)


class StopBoard:
    """All stops of this launch, and the action to tell."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._stops: list[Stop] = []
        self._tell: Callable[[Stop], None] | None = None
        self._running: tuple[StepKey, TaskKey] | None = None

    def post(self, stop: Stop) -> None:
        """Add a stop, and tell the running action if it is covered."""
        with self._lock:
            self._stops.append(stop)
            tell = self._tell
            running = self._running
        if tell is not None and running is not None and stop.covers(*running):
            tell(stop)

    def signal(self, stop: Stop) -> None:
        """Post from a signal handler: the lock may be held by the very thread that it interrupts.

        So the posting is left to a thread of its own; signals are few.
        """
        Thread(target=self.post, args=(stop,), name="perdure-signal", daemon=True).start()

    def replace_wishes(self, stops: list[Stop]) -> None:
        """What the job's log says now: new wishes are posted, lifted ones are forgotten."""
        with self._lock:
            known = [stop for stop in self._stops if stop.reason == _WISH]
            self._stops = [stop for stop in self._stops if stop.reason != _WISH or stop in stops]
        for stop in stops:
            if stop not in known:
                self.post(stop)

    def subscribe(self, step: StepKey, task: TaskKey, tell: Callable[[Stop], None]) -> None:
        """``tell`` is called for every stop that covers the task, those already there included."""
        with self._lock:
            self._tell = tell
            self._running = (step, task)
            covering = [stop for stop in self._stops if stop.covers(step, task)]
        for stop in covering:
            tell(stop)

    def unsubscribe(self) -> None:
        """No action runs."""
        with self._lock:
            self._tell = None
            self._running = None

    def stops_all(self, step: StepKey | None = None) -> Stop | None:
        """A stop that covers the whole launch, the strongest first.

        Args:
            step: whose tasks the launch runs, so that stops of other steps do not count; None: it
                is not known, and they do.
        """
        with self._lock:
            stops = [
                stop
                for stop in self._stops
                if stop.task is None and (step is None or stop.step in (None, step))
            ]
        return _strongest(stops)

    def stops_task(self, step: StepKey, task: TaskKey) -> Stop | None:
        """A stop that covers the task, the strongest first."""
        with self._lock:
            stops = [stop for stop in self._stops if stop.covers(step, task)]
        return _strongest(stops)


_WISH = "a person's wish"


def wish(intent: Intent, by: str, step: StepKey | None, task: TaskKey | None, *, now: bool) -> Stop:
    """The stop for a wish in the job's log."""
    return Stop(intent=intent, by=by, is_now=now, step=step, task=task, reason=_WISH)


def _strongest(stops: list[Stop]) -> Stop | None:
    """Cancel over suspend, at once over with notice; else the first."""
    return max(stops, key=lambda s: (s.intent is Intent.CANCEL, s.is_now), default=None)
