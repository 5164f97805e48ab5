"""The life of one attempt, as a table: events in, instructions out. Pure.

Theory of operation. An attempt is one process (and whatever it starts) from its spawn to the moment
when nothing of it is left and every capture is committed or dropped. The order in which it is
stopped is design 8's: cancel_info.json, then the signal, then exit or SIGKILL, then the end of the
whole tree, then the captures; and only then is the outcome written. The machine reads no clock and
touches nothing: timers are named, and the supervisor says when they elapsed.

Rules that the table keeps:

- the action's timeout runs from the spawn and stops at the first notice;
- a later notice never extends an earlier one; it can only shorten it;
- cancel after suspend turns into cancel; suspend after cancel changes nothing;
- a second wish of the same person ("now") kills at once;
- an exit that is collected before the signal was sent makes the notice one that never was.

Source: design 5, 8; Open Job Description 2023-09, <CancelationMethod>. ``TRANSITIONS`` is the whole
machine; docs/attempt-states.md is drawn from it.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from signal import Signals
from typing import Final

from msgspec import Struct, field

from perdure.errors import InvalidTransition

#: How long a process that does not catch the signal yet may take to install its handler: the
#: shorter of this and a tenth of the notice period (design 8).
MAX_HANDLER_WAIT_SECONDS: Final = 10.0
HANDLER_WAIT_SHARE: Final = 0.1


class Intent(Enum):
    """Why an attempt is interrupted."""

    #: stop, keeping progress
    SUSPEND = "suspend"
    #: stop, abandoning
    CANCEL = "cancel"
    #: the action ran longer than its timeout
    TIMEOUT = "timeout"


class State(Enum):
    """Where an attempt is."""

    #: its process is being started
    STARTING = "starting"
    #: its process runs
    RUNNING = "running"
    #: a notice was asked for; who takes the signal is being found
    SEEKING = "seeking"
    #: the signal was sent; the notice period runs
    NOTIFIED = "notified"
    #: SIGKILL was sent to all of it
    KILLING = "killing"
    #: its process has exited; what is left of its tree is being ended
    ENDING = "ending"
    #: nothing of it is left; captures are being committed or dropped
    COMMITTING = "committing"
    #: the outcome can be told
    ENDED = "ended"


class Timer(Enum):
    """The timers that the supervisor keeps."""

    #: the action's own timeout
    TIMEOUT = "timeout"
    #: the notice period
    NOTICE = "notice"


class Spawned(Struct, frozen=True, kw_only=True):
    """The action's process runs."""


class SpawnFailed(Struct, frozen=True, kw_only=True):
    """The action's process could not be started."""


class Interrupt(Struct, frozen=True, kw_only=True):
    """Somebody wants the attempt to stop.

    Attributes:
        signal: of NOTIFY_THEN_TERMINATE; None: TERMINATE.
        notice_seconds: how long the task is given; already shortened by policy.
        by: user, host, engine.
    """

    intent: Intent
    by: str
    signal: Signals | None = None
    notice_seconds: float = 0.0


class NotifySent(Struct, frozen=True, kw_only=True):
    """The signal was sent; ``caught`` is whether its target had a handler just before."""

    caught: bool


class TimerElapsed(Struct, frozen=True, kw_only=True):
    """A timer ran out."""

    timer: Timer


class Exited(Struct, frozen=True, kw_only=True):
    """The exit of the action's process was collected.

    Attributes:
        code: what it exited with; negative: minus the signal that it died of.
    """

    code: int


class TreeGone(Struct, frozen=True, kw_only=True):
    """Nothing of the attempt is left, and its output was read to the end."""


class CapturesDone(Struct, frozen=True, kw_only=True):
    """Every capture is committed or dropped."""


Event = (
    Spawned | SpawnFailed | Interrupt | NotifySent | TimerElapsed | Exited | TreeGone | CapturesDone
)


class StartTimer(Struct, frozen=True, kw_only=True):
    """Start a timer; one that runs already may end earlier by that, never later."""

    timer: Timer
    seconds: float


class StopTimer(Struct, frozen=True, kw_only=True):
    """Forget a timer."""

    timer: Timer


class WriteCancelInfo(Struct, frozen=True, kw_only=True):
    """Tell the task until when it may run: cancel_info.json in its session folder."""

    notice_seconds: float


class Notify(Struct, frozen=True, kw_only=True):
    """Find who takes the signal, waiting at most so long for a handler, send it, and say so.

    A second one takes the place of a first that still looks.
    """

    signal: Signals
    wait_seconds: float


class Kill(Struct, frozen=True, kw_only=True):
    """SIGKILL to all of the attempt."""


class EndTree(Struct, frozen=True, kw_only=True):
    """End what is left of the attempt's tree, read its output to the end, and say so."""


class FinishCaptures(Struct, frozen=True, kw_only=True):
    """Commit what can be, drop the rest, and say so."""


class Finish(Struct, frozen=True, kw_only=True):
    """The attempt has ended; its facts are complete."""


Instruction = (
    StartTimer | StopTimer | WriteCancelInfo | Notify | Kill | EndTree | FinishCaptures | Finish
)


class Facts(Struct):
    """What the machine knows for the outcome.

    Attributes:
        exit_code: negative: minus the signal; None: never collected.
        intent, by: of the interruption in force; None: nobody asked.
        notice_sent: the signal (or SIGKILL, where the method is TERMINATE) was sent before the
            exit was collected.
        signal_caught: whether the notice's target had a handler (nobody has one for SIGKILL); None:
            no signal was sent.
        timed_out: the action's timeout elapsed before any notice.
        killed: we sent SIGKILL.
        spawn_failed: there never was a process.
    """

    exit_code: int | None = None
    intent: Intent | None = None
    by: str = ""
    notice_sent: bool = False
    signal_caught: bool | None = None
    timed_out: bool = False
    killed: bool = False
    spawn_failed: bool = False


class AttemptMachine(Struct):
    """One attempt; ``handle`` is called by one thread, with events in the order they happened.

    Args:
        timeout_seconds: the action's own; None: none.
        timeout_signal, timeout_notice_seconds: how a timeout interrupts: the action's cancelation.
    """

    timeout_seconds: float | None
    timeout_signal: Signals | None = None
    timeout_notice_seconds: float = 0.0
    state: State = State.STARTING
    facts: Facts = field(default_factory=Facts)
    _notice_seconds: float | None = None
    _signal: Signals | None = None
    _waiting: Interrupt | None = None

    def handle(self, event: Event) -> tuple[Instruction, ...]:
        """What to do about ``event``.

        Raises:
            InvalidTransition: the table does not know this event in this state.
        """
        transition = TRANSITIONS.get((self.state, type(event)))
        if transition is None:
            raise InvalidTransition(self.state, event)
        return transition(self, event)

    def spawned(self, _event: Event) -> tuple[Instruction, ...]:
        """Run; an interruption that came meanwhile is carried out now."""
        self.state = State.RUNNING
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            return self._begin(waiting)
        if self.timeout_seconds is None:
            return ()
        return (StartTimer(timer=Timer.TIMEOUT, seconds=self.timeout_seconds),)

    def spawn_failed(self, _event: Event) -> tuple[Instruction, ...]:
        """There is no process; whatever was started by it is ended all the same."""
        self.facts.spawn_failed = True
        self.state = State.ENDING
        return (EndTree(),)

    def interrupt_later(self, event: Event) -> tuple[Instruction, ...]:
        """Keep the interruption until there is a process."""
        assert isinstance(event, Interrupt)
        if self._waiting is None or event.intent is Intent.CANCEL:
            self._waiting = event
        self._note(event)
        return ()

    def interrupt(self, event: Event) -> tuple[Instruction, ...]:
        """The first interruption of a running attempt."""
        assert isinstance(event, Interrupt)
        return self._begin(event)

    def interrupt_again(self, event: Event) -> tuple[Instruction, ...]:
        """A further one: it may turn suspend into cancel, and shorten the time left."""
        assert isinstance(event, Interrupt)
        self._note(event)
        if event.signal is None:
            return self._kill()
        assert self._notice_seconds is not None  # SEEKING and NOTIFIED have a notice
        if event.notice_seconds >= self._notice_seconds:
            return ()
        self._notice_seconds = event.notice_seconds
        shorter: tuple[Instruction, ...] = (
            WriteCancelInfo(notice_seconds=event.notice_seconds),
            StartTimer(timer=Timer.NOTICE, seconds=event.notice_seconds),
        )
        if self.state is State.SEEKING:
            assert self._signal is not None  # SEEKING began with a signal
            return (*shorter, _notify(self._signal, event.notice_seconds))
        return shorter

    def note_only(self, event: Event) -> tuple[Instruction, ...]:
        """Too late to change how it ends; whether it was a cancel still matters."""
        assert isinstance(event, Interrupt)
        if self.facts.exit_code is None:
            self._note(event)
        return ()

    def notify_sent(self, event: Event) -> tuple[Instruction, ...]:
        """The notice counts from here."""
        assert isinstance(event, NotifySent)
        self.facts.notice_sent = True
        self.facts.signal_caught = event.caught
        self.state = State.NOTIFIED
        return ()

    def timer_elapsed(self, event: Event) -> tuple[Instruction, ...]:
        """The timeout interrupts; the end of the notice period kills."""
        assert isinstance(event, TimerElapsed)
        if event.timer is Timer.NOTICE:
            return self._kill()
        if self.state is not State.RUNNING:
            return ()  # the clock of the timeout stops at the notice
        self.facts.timed_out = True
        return self._begin(
            Interrupt(
                intent=Intent.TIMEOUT,
                by="",
                signal=self.timeout_signal,
                notice_seconds=self.timeout_notice_seconds,
            )
        )

    def exited(self, event: Event) -> tuple[Instruction, ...]:
        """Collect the exit; the rest of the tree follows."""
        assert isinstance(event, Exited)
        self.facts.exit_code = event.code
        self.state = State.ENDING
        return (
            StopTimer(timer=Timer.TIMEOUT),
            StopTimer(timer=Timer.NOTICE),
            EndTree(),
        )

    def tree_gone(self, _event: Event) -> tuple[Instruction, ...]:
        """Nothing writes any more: captures are taken for good."""
        self.state = State.COMMITTING
        return (FinishCaptures(),)

    def captures_done(self, _event: Event) -> tuple[Instruction, ...]:
        """The outcome can be told."""
        self.state = State.ENDED
        return (Finish(),)

    def ignore(self, _event: Event) -> tuple[Instruction, ...]:
        """It was on its way when the state changed."""
        return ()

    def _begin(self, event: Interrupt) -> tuple[Instruction, ...]:
        self._note(event)
        if event.signal is None:
            return self._kill()
        self.state = State.SEEKING
        self._signal = event.signal
        self._notice_seconds = event.notice_seconds
        return (
            StopTimer(timer=Timer.TIMEOUT),
            WriteCancelInfo(notice_seconds=event.notice_seconds),
            StartTimer(timer=Timer.NOTICE, seconds=event.notice_seconds),
            _notify(event.signal, event.notice_seconds),
        )

    def _kill(self) -> tuple[Instruction, ...]:
        if self.state is not State.NOTIFIED:
            self.facts.notice_sent = True  # the kill is all the notice that there was,
            self.facts.signal_caught = False  # and nobody can catch it
        self.facts.killed = True
        self.state = State.KILLING
        return (StopTimer(timer=Timer.TIMEOUT), StopTimer(timer=Timer.NOTICE), Kill())

    def _note(self, event: Interrupt) -> None:
        """Whose wish is in force: a cancel over everything, else the first."""
        if self.facts.intent is None or event.intent is Intent.CANCEL:
            self.facts.intent = event.intent
            self.facts.by = event.by


def _notify(number: Signals, notice_seconds: float) -> Notify:
    wait = min(MAX_HANDLER_WAIT_SECONDS, HANDLER_WAIT_SHARE * notice_seconds)
    return Notify(signal=number, wait_seconds=wait)


_Transition = Callable[[AttemptMachine, Event], tuple[Instruction, ...]]

#: The machine. A pair that is not here is a bug of ours: `InvalidTransition`.
TRANSITIONS: Final[Mapping[tuple[State, type[Event]], _Transition]] = {
    (State.STARTING, Spawned): AttemptMachine.spawned,
    (State.STARTING, SpawnFailed): AttemptMachine.spawn_failed,
    (State.STARTING, Interrupt): AttemptMachine.interrupt_later,
    (State.RUNNING, Interrupt): AttemptMachine.interrupt,
    (State.RUNNING, TimerElapsed): AttemptMachine.timer_elapsed,
    (State.RUNNING, Exited): AttemptMachine.exited,
    (State.SEEKING, Interrupt): AttemptMachine.interrupt_again,
    (State.SEEKING, NotifySent): AttemptMachine.notify_sent,
    (State.SEEKING, TimerElapsed): AttemptMachine.timer_elapsed,
    (State.SEEKING, Exited): AttemptMachine.exited,
    (State.NOTIFIED, Interrupt): AttemptMachine.interrupt_again,
    (State.NOTIFIED, TimerElapsed): AttemptMachine.timer_elapsed,
    (State.NOTIFIED, Exited): AttemptMachine.exited,
    (State.KILLING, Interrupt): AttemptMachine.note_only,
    (State.KILLING, NotifySent): AttemptMachine.ignore,
    (State.KILLING, TimerElapsed): AttemptMachine.ignore,
    (State.KILLING, Exited): AttemptMachine.exited,
    (State.ENDING, Interrupt): AttemptMachine.note_only,
    (State.ENDING, NotifySent): AttemptMachine.ignore,
    (State.ENDING, TimerElapsed): AttemptMachine.ignore,
    (State.ENDING, TreeGone): AttemptMachine.tree_gone,
    (State.COMMITTING, Interrupt): AttemptMachine.note_only,
    (State.COMMITTING, NotifySent): AttemptMachine.ignore,
    (State.COMMITTING, TimerElapsed): AttemptMachine.ignore,
    (State.COMMITTING, CapturesDone): AttemptMachine.captures_done,
    (State.ENDED, Interrupt): AttemptMachine.ignore,
    (State.ENDED, TimerElapsed): AttemptMachine.ignore,
    (State.ENDED, NotifySent): AttemptMachine.ignore,
}
