"""States: the machine, the roll-ups, the page drawn from them."""

from itertools import product
from pathlib import Path

import pytest

from perdure.policy.dependencies import in_order
from perdure.policy.diagrams import render_states
from perdure.policy.outcome import AttemptState, By
from perdure.policy.resuming import Action, Failed, Finished, Held, Start
from perdure.policy.states import (
    TRANSITIONS,
    Counts,
    State,
    Status,
    StepInJob,
    TaskEvent,
    count,
    job_status,
    step_status,
    task_status,
    waiting_status,
)
from perdure.policy.stops import Stop, StopKind

DECISIONS = (
    Start(action=Action.RUN),
    Held(reason="choose"),
    Finished(reason="done"),
    Failed(reason="three times"),
)
STOPS = (None, *(Stop(number=1, kind=kind, by=by) for kind, by in product(StopKind, By)))


@pytest.mark.parametrize(("state", "event"), list(product(State, TaskEvent)))
def test_every_pair_is_allowed_or_refused(state, event):
    after = TRANSITIONS.get((state, event))
    if event is TaskEvent.RESUME:
        assert (after is State.PENDING) == (
            state in (State.SUSPENDED, State.FAILED, State.SUCCEEDED)
        )
    elif event is TaskEvent.START:
        assert (after is State.RUNNING) == (state is State.PENDING)
    elif state.is_final:
        assert after is None
    elif event is TaskEvent.CANCEL:
        assert after is State.CANCELED
    elif state is State.SUSPENDED:
        assert after is None


@pytest.mark.parametrize(
    ("is_running", "last", "decision", "stop"),
    list(product((False, True), (None, *AttemptState), DECISIONS, STOPS)),
)
def test_every_task(is_running, last, decision, stop):
    status = task_status(is_running=is_running, last=last, decision=decision, stop=stop)
    canceled = last is AttemptState.CANCELED or (stop and stop.kind is StopKind.CANCEL)
    if is_running:
        wanted = State.RUNNING
    elif isinstance(decision, Finished):
        wanted = State.SUCCEEDED
    elif canceled:
        wanted = State.CANCELED
    elif isinstance(decision, Failed):
        wanted = State.FAILED
    elif isinstance(decision, Held) or (stop and stop.by is By.USER):
        wanted = State.SUSPENDED
    else:
        wanted = State.PENDING
    assert status.state is wanted
    assert status.is_held == (wanted is State.SUSPENDED and isinstance(decision, Held))


@pytest.mark.parametrize("stop", STOPS)
def test_a_task_that_nobody_took(stop):
    wanted = State.PENDING
    if stop is not None and stop.kind is StopKind.CANCEL:
        wanted = State.CANCELED
    elif stop is not None and stop.by is By.USER:
        wanted = State.SUSPENDED
    assert waiting_status(stop).state is wanted


NAMES = ("pending", "running", "suspended", "succeeded", "failed", "canceled")
STEP_ORDER = ("running", "pending", "suspended", "failed", "canceled", "succeeded")


@pytest.mark.parametrize("present", list(product((0, 1), repeat=6)))
def test_every_mixture_of_tasks(present):
    counts = Counts(**dict(zip(NAMES, present, strict=True)))
    there = {name for name, n in zip(NAMES, present, strict=True) if n}
    wanted = next((name for name in STEP_ORDER if name in there), "succeeded")
    assert step_status(counts).state.value == wanted.upper()
    assert counts.total == sum(present)
    assert counts.is_settled == (not there & {"pending", "running", "suspended"})


def test_counting_tasks():
    held = Status(state=State.SUSPENDED, is_held=True)
    counts = count([Status(state=State.PENDING), held, Status(state=State.SUSPENDED)])
    assert counts == Counts(pending=1, suspended=2, held=1)
    assert step_status(Counts(running=1, suspended=1, held=1)).is_held


def steps(*states, dependencies=None):
    return [
        StepInJob(
            index=index,
            name=f"Step{index}",
            status=Status(state=state),
            dependencies=(dependencies or {}).get(index, ()),
        )
        for index, state in enumerate(states, 1)
    ]


P, R, H, D, F, C = State  # pending running suspended succeeded failed canceled


@pytest.mark.parametrize(("one", "two"), list(product(State, repeat=2)))
def test_every_pair_of_independent_steps(one, two):
    order = (R, P, H, F, C, D)
    wanted = min((one, two), key=order.index)
    assert job_status(steps(one, two)).state is wanted


@pytest.mark.parametrize(
    ("states", "dependencies", "wanted"),
    [
        ((H, P), {2: (1,)}, H),
        ((H, P, P), {2: (1,), 3: (2,)}, H),
        ((H, P, P), {2: (1,)}, P),
        ((D, P), {2: (1,)}, P),
        ((P, P), {2: (1,)}, P),
        ((D, D), {2: (1,)}, D),
        ((), {}, D),
    ],
)
def test_what_waits_behind_a_person_does_not_go_on_by_itself(states, dependencies, wanted):
    assert job_status(steps(*states, dependencies=dependencies)).state is wanted


def test_a_canceled_job_is_canceled_whatever_failed_before():
    cancel = Stop(number=1, kind=StopKind.CANCEL)
    assert job_status(steps(F, C), stop=cancel).state is C
    assert job_status(steps(R, C), stop=cancel).state is R
    assert job_status(steps(D, D), stop=cancel).state is D


def test_a_failed_job_names_its_steps():
    assert job_status(steps(D, F, F)).reason == "steps Step2, Step3 failed"
    assert job_status(steps(D, F)).reason == "step Step2 failed"


def test_a_chain_of_many_steps_is_no_recursion():
    many = 5_000
    chain = {index: (index - 1,) for index in range(2, many + 1)}
    assert job_status(steps(H, *[P] * (many - 1), dependencies=chain)).state is H


def test_order_of_dependencies():
    assert in_order({1: (3,), 2: (), 3: (2,)}) == (2, 3, 1)
    assert in_order({1: (2,), 2: (1,), 3: ()}) == (3,)


def test_the_page_is_up_to_date():
    page = Path(__file__).parents[3] / "docs" / "states.md"
    assert page.read_text(encoding="utf-8") == render_states(), (
        "write it anew: python -m perdure.policy.diagrams > docs/states.md"
    )
