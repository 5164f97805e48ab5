"""The attempt machine: every pair of state and event is allowed, ignored or refused on purpose."""

from itertools import product
from pathlib import Path
from signal import Signals

import pytest

from perdure.errors import InvalidTransition
from perdure.worker.diagrams import render_attempt_states
from perdure.worker.machine import (
    TRANSITIONS,
    AttemptMachine,
    CapturesDone,
    EndTree,
    Exited,
    Finish,
    FinishCaptures,
    Intent,
    Interrupt,
    Kill,
    Notify,
    NotifySent,
    Spawned,
    SpawnFailed,
    StartTimer,
    State,
    StopTimer,
    Timer,
    TimerElapsed,
    TreeGone,
    WriteCancelInfo,
)

SUSPEND = Interrupt(intent=Intent.SUSPEND, by="user", signal=Signals.SIGUSR1, notice_seconds=100.0)
CANCEL = Interrupt(intent=Intent.CANCEL, by="user")
EVENTS = {
    Spawned: Spawned(),
    SpawnFailed: SpawnFailed(),
    Interrupt: SUSPEND,
    NotifySent: NotifySent(caught=True),
    TimerElapsed: TimerElapsed(timer=Timer.NOTICE),
    Exited: Exited(code=0),
    TreeGone: TreeGone(),
    CapturesDone: CapturesDone(),
}

# Where each event leads from each state; "-": refused as a bug of ours.
TABLE = """
               Spawned SpawnFailed Interrupt NotifySent TimerElapsed Exited TreeGone   CapturesDone
STARTING       RUNNING ENDING      STARTING  -          -            -      -          -
RUNNING        -       -           SEEKING   -          KILLING      ENDING -          -
SEEKING        -       -           SEEKING   NOTIFIED   KILLING      ENDING -          -
NOTIFIED       -       -           NOTIFIED  -          KILLING      ENDING -          -
KILLING        -       -           KILLING   KILLING    KILLING      ENDING -          -
ENDING         -       -           ENDING    ENDING     ENDING       -      COMMITTING -
COMMITTING     -       -           COMMITTING COMMITTING COMMITTING  -      -          ENDED
ENDED          -       -           ENDED     ENDED      ENDED        -      -          -
"""


def rows():
    header, *lines = TABLE.strip().splitlines()
    names = header.split()
    for line in lines:
        state, *cells = line.split()
        for name, cell in zip(names, cells, strict=True):
            yield State[state], name, None if cell == "-" else State[cell]


def machine_in(state):
    machine = AttemptMachine(timeout_seconds=None)
    paths = {
        State.STARTING: [],
        State.RUNNING: [Spawned()],
        State.SEEKING: [Spawned(), SUSPEND],
        State.NOTIFIED: [Spawned(), SUSPEND, NotifySent(caught=True)],
        State.KILLING: [Spawned(), CANCEL],
        State.ENDING: [Spawned(), Exited(code=0)],
        State.COMMITTING: [Spawned(), Exited(code=0), TreeGone()],
        State.ENDED: [Spawned(), Exited(code=0), TreeGone(), CapturesDone()],
    }
    for event in paths[state]:
        machine.handle(event)
    assert machine.state is state
    return machine


@pytest.mark.parametrize(("state", "name", "after"), list(rows()))
def test_every_pair_leads_where_the_table_says(state, name, after):
    event = next(event for kind, event in EVENTS.items() if kind.__name__ == name)
    machine = machine_in(state)
    if after is None:
        with pytest.raises(InvalidTransition):
            machine.handle(event)
    else:
        machine.handle(event)
        assert machine.state is after


def test_the_table_names_every_pair():
    assert len(list(rows())) == len(State) * len(EVENTS)
    known = {(state, kind) for state, kind in product(State, EVENTS)}
    assert set(TRANSITIONS) <= known


def test_a_suspend_is_written_timed_and_sent_in_that_order():
    machine = machine_in(State.RUNNING)
    assert machine.handle(SUSPEND) == (
        StopTimer(timer=Timer.TIMEOUT),
        WriteCancelInfo(notice_seconds=100.0),
        StartTimer(timer=Timer.NOTICE, seconds=100.0),
        Notify(signal=Signals.SIGUSR1, wait_seconds=10.0),
    )


def test_the_handler_is_waited_for_a_tenth_of_a_short_period():
    machine = machine_in(State.RUNNING)
    short = Interrupt(intent=Intent.SUSPEND, by="host", signal=Signals.SIGTERM, notice_seconds=5.0)
    assert machine.handle(short)[-1] == Notify(signal=Signals.SIGTERM, wait_seconds=0.5)


def test_terminate_kills_at_once_and_counts_as_notice():
    machine = machine_in(State.RUNNING)
    assert machine.handle(CANCEL)[-1] == Kill()
    assert machine.facts.notice_sent
    assert machine.facts.killed
    assert machine.facts.signal_caught is False


def test_a_later_longer_notice_never_extends_the_first():
    machine = machine_in(State.NOTIFIED)
    longer = Interrupt(
        intent=Intent.SUSPEND, by="host", signal=Signals.SIGUSR1, notice_seconds=500.0
    )
    assert machine.handle(longer) == ()
    shorter = Interrupt(
        intent=Intent.SUSPEND, by="host", signal=Signals.SIGUSR1, notice_seconds=7.0
    )
    assert machine.handle(shorter) == (
        WriteCancelInfo(notice_seconds=7.0),
        StartTimer(timer=Timer.NOTICE, seconds=7.0),
    )
    assert machine.facts.by == "user"


def test_cancel_after_suspend_is_a_cancel_and_suspend_after_cancel_changes_nothing():
    machine = machine_in(State.NOTIFIED)
    machine.handle(CANCEL)
    assert machine.facts.intent is Intent.CANCEL
    machine.handle(SUSPEND)
    assert machine.facts.intent is Intent.CANCEL


def test_cancel_after_the_exit_was_collected_does_not_count():
    machine = machine_in(State.ENDING)
    machine.handle(CANCEL)
    assert machine.facts.intent is None


def test_a_signal_sent_after_the_exit_was_collected_is_no_notice():
    machine = machine_in(State.SEEKING)
    machine.handle(Exited(code=0))
    machine.handle(NotifySent(caught=True))
    assert not machine.facts.notice_sent


def test_an_interruption_while_starting_is_carried_out_when_there_is_a_process():
    machine = machine_in(State.STARTING)
    assert machine.handle(SUSPEND) == ()
    assert Notify(signal=Signals.SIGUSR1, wait_seconds=10.0) in machine.handle(Spawned())
    assert machine.state is State.SEEKING


def test_a_timeout_interrupts_by_the_actions_cancelation_and_stops_at_a_notice():
    machine = AttemptMachine(
        timeout_seconds=60.0, timeout_signal=Signals.SIGTERM, timeout_notice_seconds=30.0
    )
    assert machine.handle(Spawned()) == (StartTimer(timer=Timer.TIMEOUT, seconds=60.0),)
    instructions = machine.handle(TimerElapsed(timer=Timer.TIMEOUT))
    assert Notify(signal=Signals.SIGTERM, wait_seconds=3.0) in instructions
    assert machine.facts.timed_out
    assert machine.facts.intent is Intent.TIMEOUT


def test_a_timeout_that_elapses_in_the_notice_period_does_nothing():
    machine = AttemptMachine(timeout_seconds=60.0)
    machine.handle(Spawned())
    machine.handle(SUSPEND)
    assert machine.handle(TimerElapsed(timer=Timer.TIMEOUT)) == ()
    assert not machine.facts.timed_out


def test_an_exit_ends_the_tree_then_the_captures_then_the_attempt():
    machine = machine_in(State.RUNNING)
    assert machine.handle(Exited(code=3))[-1] == EndTree()
    assert machine.handle(TreeGone()) == (FinishCaptures(),)
    assert machine.handle(CapturesDone()) == (Finish(),)
    assert machine.facts.exit_code == 3


def test_a_failed_spawn_still_ends_what_was_started():
    machine = machine_in(State.STARTING)
    assert machine.handle(SpawnFailed()) == (EndTree(),)
    assert machine.facts.spawn_failed


def test_the_page_is_up_to_date():
    page = Path(__file__).parents[3] / "docs" / "attempt-states.md"
    assert page.read_text(encoding="utf-8") == render_attempt_states(), (
        "write it anew: python -m perdure.worker.diagrams > docs/attempt-states.md"
    )
