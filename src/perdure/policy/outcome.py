"""How an attempt ended: observed facts in, one outcome with its reason out.

`RULES` is the whole decision: the first rule that applies decides. Its last row is the table of
what stopped the attempt, how it exited and whether a save followed (`TABLE`). Where files are to be
delivered what would have SUCCEEDED is judged once more (`UNDELIVERED`). docs/states.md is drawn
from all three. A notice counts only if its signal was sent before the exit was collected;
otherwise the process ended by itself.

Source: design of perdure, "How an attempt ends"; docs/decisions/026, 027, 116.
"""

from collections.abc import Callable, Mapping
from enum import Enum

from msgspec import Struct

_SIGKILL = 9
_SIGNAL_NAMES = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    10: "SIGUSR1",
    11: "SIGSEGV",
    12: "SIGUSR2",
    13: "SIGPIPE",
    14: "SIGALRM",
    15: "SIGTERM",
    24: "SIGXCPU",
    25: "SIGXFSZ",
}


class AttemptState(Enum):
    """How an attempt ended."""

    #: Its work is done.
    SUCCEEDED = "SUCCEEDED"
    #: It ended of its own making, and not with its work done.
    FAILED = "FAILED"
    #: It was asked to stop and keeps its progress.
    SUSPENDED = "SUSPENDED"
    #: A person abandoned it.
    CANCELED = "CANCELED"
    #: Nobody saw how it ended.
    LOST = "LOST"
    #: Its process never ran, for a reason outside of the task.
    NOT_STARTED = "NOT_STARTED"


class By(Enum):
    """Who asked for a suspension."""

    #: A person: the job waits for a person.
    USER = "user"
    #: The engine, at a time limit or a preemption: the job goes on by itself.
    ENGINE = "engine"
    #: The host, which is going away or shutting down: the job goes on by itself.
    HOST = "host"


class Cause(Enum):
    """Why an attempt failed or did not start."""

    #: It exited with a code that is not 0.
    EXIT = "exit"
    #: It died of a signal.
    SIGNAL = "signal"
    #: It died of a SIGKILL that perdure did not send.
    KILLED_FROM_OUTSIDE = "killed from outside"
    #: It was proven to be out of memory.
    MEMORY = "memory"
    #: It ran longer than its action's timeout.
    TIMEOUT = "timeout"
    #: The checkpoint that it was to start from is not what was saved.
    NOT_VERIFIED = "not verified"
    #: The process could not be started.
    SPAWN = "spawn"
    #: An environment could not be entered.
    ENTER = "enter"
    #: The checkpoint's files could not be put back.
    RESTORE = "restore"
    #: Outside files are in the way that the task did not write: a person decides.
    CONFLICT = "conflict"
    #: The store did not answer.
    STORE = "store"
    #: Its work is done, and its files could not be delivered.
    DELIVERY = "delivery"


class Exit(Struct, frozen=True, kw_only=True):
    """How a process ended: by an exit code or by a signal's number."""

    code: int | None = None
    signal: int | None = None

    @property
    def is_success(self) -> bool:
        """Whether it exited with 0."""
        return self.code == 0

    def __str__(self) -> str:
        """In words."""
        if self.signal is None:
            return f"exited with code {self.code}"
        return f"died of {_SIGNAL_NAMES.get(self.signal, f'signal {self.signal}')}"


class Notice(Struct, frozen=True, kw_only=True):
    """That the attempt was asked to stop, keeping its progress.

    Attributes:
        by: who wanted it.
        sent_before_exit: whether the signal was sent before the exit was collected.
        signal_caught: whether the process that got the signal had a handler for it (SigCgt, read
            just before sending); None where it could not be told.
        signal_name: of the signal, for the reason.
    """

    by: By
    sent_before_exit: bool = True
    signal_caught: bool | None = None
    signal_name: str = "the signal"


class SaveAfterNotice(Struct, frozen=True, kw_only=True):
    """A save that was announced after the notice.

    Attributes:
        seconds: from the notice to the announcement.
        is_durable: whether it was committed, durably.
        problem: why it was not, where that is known.
    """

    seconds: float
    is_durable: bool
    problem: str = ""


class NotStarted(Struct, frozen=True, kw_only=True):
    """Why no process of the task ever ran."""

    cause: Cause
    reason: str


class DeliveryEnd(Enum):
    """Why files did not come to where they were to be delivered."""

    #: It cannot be done, or not by trying again.
    FAILED = "it failed"
    #: Somebody asked to stop, and the time was over.
    STOPPED = "it was stopped"
    #: A person asked to cancel.
    CANCELED = "cancel was asked meanwhile"


class Undelivered(Struct, frozen=True, kw_only=True):
    """That files did not come to where they were to be delivered.

    Attributes:
        end: why.
        reason: the same in words, without a full stop.
        by: who asked to stop, for STOPPED.
        kept: the checkpoint that keeps the files, so that nothing is done again; or None.
    """

    end: DeliveryEnd
    reason: str
    by: By | None = None
    kept: int | None = None


class AttemptFacts(Struct, frozen=True, kw_only=True):
    """Everything observed about an attempt that is over.

    Attributes:
        cancel_asked: before the exit was collected.
        not_started: why its process never ran, if so.
        exit: as collected; None when nobody collected it, or not that of all of its parts.
        lost: which part of it nobody collected, where it is known.
        out_of_memory: the proof (cgroup, Slurm, LSF), also when it came in the grace.
        timed_out_seconds: the action's timeout, when it ran out before any notice.
        all_values_kept: every value of the chunk, by this attempt and earlier ones.
        notice: the first one, if any.
        save_after_notice: the last save announced after it, if any.
        done_marker_seen: the output said that the work is done (adapter).
        killed_by_us: perdure sent SIGKILL.
        point: the checkpoint that the next attempt can start from, by its sequence.
        unsaved_seconds: how long it ran since that save (or its start); None where not known.
        undelivered: that its files were not delivered, where they were to be (``--deliver``).
    """

    cancel_asked: bool = False
    not_started: NotStarted | None = None
    exit: Exit | None = None
    lost: str = ""
    out_of_memory: str | None = None
    timed_out_seconds: float | None = None
    all_values_kept: bool = False
    notice: Notice | None = None
    save_after_notice: SaveAfterNotice | None = None
    done_marker_seen: bool = False
    killed_by_us: bool = False
    point: int | None = None
    unsaved_seconds: float | None = None
    undelivered: Undelivered | None = None


class Outcome(Struct, frozen=True, kw_only=True):
    """How an attempt ended.

    Attributes:
        cause: for FAILED and NOT_STARTED.
        by: for SUSPENDED.
        reason: one plain sentence, without a full stop.
    """

    state: AttemptState
    reason: str
    cause: Cause | None = None
    by: By | None = None


def judge(facts: AttemptFacts) -> Outcome:
    """The outcome of an attempt."""
    rule = next(rule for rule in RULES if rule.applies(facts))  # the last one always applies
    outcome = rule.then(facts)
    if outcome.state is AttemptState.SUCCEEDED and facts.undelivered is not None:
        return UNDELIVERED[facts.undelivered.end](facts)
    return outcome


class Rule(Struct, frozen=True, kw_only=True):
    """One row of the decision."""

    when: str
    applies: Callable[[AttemptFacts], bool]
    then: Callable[[AttemptFacts], Outcome]


def _canceled(_facts: AttemptFacts) -> Outcome:
    return Outcome(state=AttemptState.CANCELED, reason="canceled before it ended")


def _stopped_before_start(facts: AttemptFacts) -> Outcome:
    return _suspended(facts, f"stopped before it began; {_next_start(facts)}")


def _not_started(facts: AttemptFacts) -> Outcome:
    assert facts.not_started is not None
    return Outcome(
        state=AttemptState.NOT_STARTED,
        cause=facts.not_started.cause,
        reason=f"could not start: {facts.not_started.reason}",
    )


_UNSEEN = "nobody saw it end: its worker or its host was lost"


def _lost(facts: AttemptFacts) -> Outcome:
    return Outcome(
        state=AttemptState.LOST,
        reason=f"{facts.lost or _UNSEEN}; {_next_start(facts)}",
    )


def _out_of_memory(facts: AttemptFacts) -> Outcome:
    return _failed(Cause.MEMORY, f"out of memory ({facts.out_of_memory})", facts)


def _timed_out(facts: AttemptFacts) -> Outcome:
    return _failed(Cause.TIMEOUT, f"ran longer than {facts.timed_out_seconds:.0f} s", facts)


def _all_kept(facts: AttemptFacts) -> Outcome:
    how = "" if facts.exit is None or facts.exit.is_success else f", although it {facts.exit}"
    return Outcome(
        state=AttemptState.SUCCEEDED, reason=f"all values of its chunk are complete{how}"
    )


def _given_up(facts: AttemptFacts) -> Outcome:
    return Outcome(
        state=AttemptState.LOST,
        reason=f"its worker ended it because it could not go on with it; {_next_start(facts)}",
    )


def _killed_from_outside(facts: AttemptFacts) -> Outcome:
    return _failed(Cause.KILLED_FROM_OUTSIDE, "killed from outside, perhaps out of memory", facts)


def _by_table(facts: AttemptFacts) -> Outcome:
    assert facts.exit is not None
    save = facts.save_after_notice
    asked = _was_asked(facts)
    saved = asked and save is not None and save.is_durable
    return TABLE[asked, facts.exit.is_success, saved](facts)


def _exited_well(_facts: AttemptFacts) -> Outcome:
    return Outcome(state=AttemptState.SUCCEEDED, reason="exited with code 0")


def _ended_badly(facts: AttemptFacts) -> Outcome:
    assert facts.exit is not None
    cause = Cause.EXIT if facts.exit.signal is None else Cause.SIGNAL
    return _failed(cause, str(facts.exit), facts)


def _saved(facts: AttemptFacts) -> Outcome:
    assert facts.save_after_notice is not None
    return _suspended(facts, f"saved {facts.save_after_notice.seconds:.1f} s after the notice")


def _exited_without_save(facts: AttemptFacts) -> Outcome:
    """Exit 0 after the notice: finished only if something says that it is no answer to it."""
    assert facts.notice is not None
    if facts.done_marker_seen:
        return Outcome(
            state=AttemptState.SUCCEEDED,
            reason="finished after the notice: its output said that the work is done",
        )
    if facts.notice.signal_caught is False:
        return Outcome(
            state=AttemptState.SUCCEEDED,
            reason="exited with code 0 after the notice, of which it took no notice",
        )
    return _suspended(
        facts, f"exited 0 after the notice without a save{_problem(facts)}; {_next_start(facts)}"
    )


def _nothing_saved(facts: AttemptFacts) -> Outcome:
    return _suspended(
        facts, f"no save after the notice ({_why_no_save(facts)}); {_next_start(facts)}"
    )


def _delivery_failed(facts: AttemptFacts) -> Outcome:
    assert facts.undelivered is not None
    return Outcome(
        state=AttemptState.FAILED,
        cause=Cause.DELIVERY,
        reason=f"{facts.undelivered.reason}; {_next_delivery(facts.undelivered, facts)}",
    )


def _delivery_stopped(facts: AttemptFacts) -> Outcome:
    assert facts.undelivered is not None
    return Outcome(
        state=AttemptState.SUSPENDED,
        by=facts.undelivered.by or By.ENGINE,
        reason=f"{facts.undelivered.reason}; {_next_delivery(facts.undelivered, facts)}",
    )


def _next_delivery(undelivered: Undelivered, facts: AttemptFacts) -> str:
    """Where the files are, or what is done again for them."""
    if undelivered.kept is None:
        return _next_start(facts)
    return f"its work is done, and its files are kept in checkpoint {undelivered.kept}"


def _delivery_canceled(_facts: AttemptFacts) -> Outcome:
    return Outcome(
        state=AttemptState.CANCELED, reason="canceled while its files were being delivered"
    )


def _failed(cause: Cause, what: str, facts: AttemptFacts) -> Outcome:
    return Outcome(state=AttemptState.FAILED, cause=cause, reason=f"{what}; {_next_start(facts)}")


def _suspended(facts: AttemptFacts, reason: str) -> Outcome:
    assert facts.notice is not None
    return Outcome(state=AttemptState.SUSPENDED, by=facts.notice.by, reason=reason)


def _was_asked(facts: AttemptFacts) -> bool:
    """Whether a notice counts."""
    return facts.notice is not None and facts.notice.sent_before_exit


def _was_killed(facts: AttemptFacts, *, by_us: bool) -> bool:
    """Whether SIGKILL ended it, with no notice sent."""
    exit_ = facts.exit
    is_kill = exit_ is not None and exit_.signal == _SIGKILL
    return is_kill and not _was_asked(facts) and facts.killed_by_us is by_us


def _next_start(facts: AttemptFacts) -> str:
    """Where the next attempt starts, and what is done again."""
    where = f"the last checkpoint is {facts.point}" if facts.point else "there is no checkpoint"
    lost = facts.unsaved_seconds
    if lost is None or lost < 1:
        return where
    return f"{where}, {f'{lost:.0f} s' if lost < 60 else f'{lost / 60:.1f} min'} of work are lost"


def _why_no_save(facts: AttemptFacts) -> str:
    """Why no save followed the notice, where it can be told."""
    assert facts.notice is not None
    if facts.save_after_notice is not None:
        return _problem(facts).removeprefix(": ")
    if facts.notice.signal_name == "SIGKILL":
        return "it cannot be asked to save: it has no checkpointCancelation"
    if facts.notice.signal_caught is False:
        return f"no process of the task catches {facts.notice.signal_name}"
    if facts.killed_by_us:
        return "it still ran when the notice period was over"
    return f"it {facts.exit}"


def _problem(facts: AttemptFacts) -> str:
    """What became of a save that was announced and is not durable."""
    save = facts.save_after_notice
    if save is None:
        return ""
    return f": one was announced, {save.problem or 'but it was not durable in time'}"


#: (was asked to stop, exited 0, a save announced after the notice is durable) → what it means.
TABLE: Mapping[tuple[bool, bool, bool], Callable[[AttemptFacts], Outcome]] = {
    (False, True, False): _exited_well,
    (False, False, False): _ended_badly,
    (True, True, True): _saved,
    (True, True, False): _exited_without_save,
    (True, False, True): _saved,
    (True, False, False): _nothing_saved,
}

#: What becomes of an attempt that would have SUCCEEDED, where its files were not delivered.
UNDELIVERED: Mapping[DeliveryEnd, Callable[[AttemptFacts], Outcome]] = {
    DeliveryEnd.FAILED: _delivery_failed,
    DeliveryEnd.STOPPED: _delivery_stopped,
    DeliveryEnd.CANCELED: _delivery_canceled,
}

#: The first that applies decides.
RULES: tuple[Rule, ...] = (
    Rule(
        when="cancel was asked before the exit was collected",
        applies=lambda facts: facts.cancel_asked,
        then=_canceled,
    ),
    Rule(
        when="it never started, and a notice had come",
        applies=lambda facts: facts.not_started is not None and facts.notice is not None,
        then=_stopped_before_start,
    ),
    Rule(
        when="it could not start (spawn, onEnter, restore, store)",
        applies=lambda facts: facts.not_started is not None,
        then=_not_started,
    ),
    Rule(
        when="no exit was ever collected",
        applies=lambda facts: facts.exit is None,
        then=_lost,
    ),
    Rule(
        when="it was proven out of memory, also in the grace",
        applies=lambda facts: facts.out_of_memory is not None,
        then=_out_of_memory,
    ),
    Rule(
        when="the action's timeout fired before the notice",
        applies=lambda facts: facts.timed_out_seconds is not None,
        then=_timed_out,
    ),
    Rule(
        when="all values of the chunk are kept, whatever the exit",
        applies=lambda facts: facts.all_values_kept,
        then=_all_kept,
    ),
    Rule(
        when="SIGKILL by perdure, and no notice was sent",
        applies=lambda facts: _was_killed(facts, by_us=True),
        then=_given_up,
    ),
    Rule(
        when="SIGKILL that perdure did not send, and no notice was sent",
        applies=lambda facts: _was_killed(facts, by_us=False),
        then=_killed_from_outside,
    ),
    Rule(when="the table", applies=lambda _facts: True, then=_by_table),
)
