"""Turns: what is sealed, relaunched, settled, launched, and when the manager may leave."""

from itertools import product

import pytest

from perdure.policy.launching import Impossible, Launch, share_size
from perdure.policy.outcome import By
from perdure.policy.resources import CPUS, GPUS, AmountRequirement, Host, Requirements
from perdure.policy.snapshot import (
    JobSnapshot,
    LaunchInTurn,
    LaunchState,
    PendingLineage,
    StepInTurn,
)
from perdure.policy.states import Counts, State
from perdure.policy.stops import Scope, Stop, StopKind, Stops
from perdure.policy.turn import Relaunch, Rest, Seal, Settle, Wait, plan_turn

SUSPEND = Stop(number=1, kind=StopKind.SUSPEND)
HOST_STOP = Stop(number=1, kind=StopKind.SUSPEND, by=By.HOST)


def step(index=1, unshared=10, **more):
    counts = more.pop("counts", Counts(pending=unshared + len(more.get("pending", ()))))
    return StepInTurn(index=index, name=f"S{index}", unshared=unshared, counts=counts, **more)


def done(index, **more):
    return step(index, unshared=0, counts=Counts(succeeded=2), **more)


def failed(index, **more):
    return step(index, unshared=0, counts=Counts(succeeded=1, failed=1), **more)


def launch(name="l1", state=LaunchState.LIVE, **more):
    return LaunchInTurn(**{"launch": name, "token": f"t-{name}", "step": 1, "state": state, **more})


def plan(*steps, **more):
    return plan_turn(JobSnapshot(steps=steps, **more))


def of(kind, actions):
    return [action for action in actions if isinstance(action, kind)]


def test_a_fresh_job_fills_its_workers_and_waits():
    assert plan(step(), workers=2) == (Launch(step=1), Launch(step=1), Wait())


def test_no_more_launches_than_tasks():
    assert len(of(Launch, plan(step(unshared=3), workers=8))) == 3


def test_free_workers_only():
    actions = plan(step(), workers=3, launches=(launch(), launch("l2", LaunchState.SILENT)))
    assert len(of(Launch, actions)) == 1
    ended = (launch(state=LaunchState.ENDED), launch("l2", LaunchState.DEAD))
    assert len(of(Launch, plan(step(), workers=3, launches=ended))) == 3


@pytest.mark.parametrize(
    ("state", "launches"),
    [
        (LaunchState.INTENDED, 0),
        (LaunchState.QUEUED, 0),
        (LaunchState.LIVE, 1),
        (LaunchState.SILENT, 1),
        (LaunchState.DEAD, 1),
        (LaunchState.ENDED, 1),
    ],
)
def test_the_last_task_does_not_wait_behind_a_busy_worker(state, launches):
    actions = plan(step(unshared=1), workers=5, launches=(launch(state=state),))
    assert len(of(Launch, actions)) == launches


@pytest.mark.parametrize("state", LaunchState)
def test_what_is_done_about_each_launch(state):
    actions = plan(step(unshared=0, counts=Counts(running=1)), launches=(launch(state=state),))
    assert of(Seal, actions) == ([Seal(launch="l1")] if state is LaunchState.DEAD else [])
    relaunched = [Relaunch(launch="l1", token="t-l1")] if state is LaunchState.INTENDED else []
    assert of(Relaunch, actions) == relaunched
    assert isinstance(actions[-1], Rest if state is LaunchState.ENDED else Wait)


def test_an_intent_of_a_stopped_or_finished_step_is_sealed_not_relaunched():
    intended = launch(state=LaunchState.INTENDED)
    stopped = plan(step(), launches=(intended,), stops=Stops([SUSPEND]))
    assert of(Seal, stopped) == [Seal(launch="l1")]
    assert of(Relaunch, stopped) == []
    finished = plan(done(1), step(2), launches=(intended,))
    assert of(Seal, finished) == [Seal(launch="l1")]


def test_steps_take_turns_so_that_none_keeps_the_others_waiting():
    actions = plan(step(1, unshared=10**6), step(2), step(3), workers=4)
    assert [action.step for action in of(Launch, actions)] == [1, 1, 2, 3]


def test_dependents_wait():
    actions = plan(step(1), step(2, dependencies=(1,)), workers=50)
    assert {action.step for action in of(Launch, actions)} == {1}
    after = plan(done(1), step(2, dependencies=(1,)), workers=50)
    assert {action.step for action in of(Launch, after)} == {2}


def test_a_failed_step_cancels_its_dependents_and_other_branches_go_on():
    actions = plan(
        failed(1),
        step(2, dependencies=(1,)),
        step(3, dependencies=(2,)),
        step(4),
        workers=2,
    )
    assert of(Settle, actions) == [
        Settle(
            step=1,
            state=State.FAILED,
            outcomes=Counts(succeeded=1, failed=1),
            reason="1 task failed",
        ),
        Settle(
            step=2,
            state=State.CANCELED,
            outcomes=Counts(canceled=10),
            reason="step S1 did not succeed: FAILED",
        ),
        Settle(
            step=3,
            state=State.CANCELED,
            outcomes=Counts(canceled=10),
            reason="step S2 did not succeed: CANCELED",
        ),
    ]
    assert [action.step for action in of(Launch, actions)] == [4, 4]


def test_one_bad_task_does_not_end_the_others_of_its_step():
    actions = plan(step(unshared=5, counts=Counts(pending=5, failed=1)), workers=1)
    assert of(Settle, actions) == []
    assert len(of(Launch, actions)) == 1


def test_what_is_settled_is_settled_once():
    settled = failed(1, settled=State.FAILED)
    assert of(Settle, plan(settled, step(2))) == []


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        ((done(1), done(2)), State.SUCCEEDED),
        ((done(1), failed(2)), State.FAILED),
        ((done(1, settled=State.SUCCEEDED), failed(2, settled=State.FAILED)), State.FAILED),
    ],
)
def test_the_job_is_settled_when_all_of_its_steps_are(steps, state):
    actions = plan(*steps)
    settle = of(Settle, actions)[-1]
    assert (settle.step, settle.state) == (None, state)
    assert settle.outcomes.total == 4
    assert actions[-1].status.state is state


def test_a_settled_job_rests():
    assert plan(step(), settled=State.FAILED)[0].status.state is State.FAILED


def test_a_canceled_job_is_settled_canceled():
    cancel = Stop(number=1, kind=StopKind.CANCEL)
    canceled = step(unshared=0, counts=Counts(succeeded=1, canceled=9))
    settle = of(Settle, plan(canceled, stops=Stops([cancel])))[-1]
    assert (settle.step, settle.state) == (None, State.CANCELED)


@pytest.mark.parametrize(
    ("stop", "state"), [(SUSPEND, State.SUSPENDED), (HOST_STOP, State.PENDING)]
)
def test_a_stopped_job_starts_nothing_and_lets_its_manager_leave(stop, state):
    actions = plan(step(), stops=Stops([stop]))
    assert of(Launch, actions) == []
    assert actions[-1].status.state is state
    busy = plan(step(), stops=Stops([stop]), launches=(launch(),))
    assert busy[-1] == Wait()


def test_a_held_task_lets_the_others_go_on_and_then_rests_held():
    held = Counts(succeeded=1, suspended=1, held=1)
    going = plan(step(unshared=1, counts=Counts(pending=1, suspended=1, held=1)))
    assert len(of(Launch, going)) == 1
    resting = plan(step(unshared=0, counts=held), step(2, dependencies=(1,)))
    assert resting[-1].status.state is State.SUSPENDED
    assert resting[-1].status.is_held


class TestLineages:
    def test_due_ones_are_dealt_evenly(self):
        pending = tuple(PendingLineage(task=name) for name in "abcde")
        actions = plan(step(unshared=0, pending=pending), workers=2)
        assert of(Launch, actions) == [
            Launch(step=1, tasks=("a", "c", "e"), takes_shares=False),
            Launch(step=1, tasks=("b", "d"), takes_shares=False),
        ]

    def test_they_come_before_shares(self):
        pending = (PendingLineage(task="a"),)
        actions = plan(step(unshared=9, pending=pending), workers=2)
        assert of(Launch, actions) == [Launch(step=1, tasks=("a",)), Launch(step=1)]

    def test_back_off_is_waited_for(self):
        pending = (
            PendingLineage(task="a", wait_seconds=7),
            PendingLineage(task="b", wait_seconds=3),
        )
        assert plan(step(unshared=0, pending=pending)) == (Wait(seconds=3),)

    def test_those_that_a_launch_was_given_are_not_started_twice(self):
        pending = (PendingLineage(task="a"),)
        given = launch(state=LaunchState.QUEUED, waiting=("a",), takes_shares=False)
        actions = plan(step(unshared=0, pending=pending), workers=9, launches=(given,))
        assert actions == (Wait(),)
        lost = launch(state=LaunchState.ENDED, waiting=("a",), takes_shares=False)
        assert len(of(Launch, plan(step(unshared=0, pending=pending), launches=(lost,)))) == 1

    def test_a_stopped_task_is_not_started(self):
        pending = (PendingLineage(task="a"), PendingLineage(task="b"))
        stops = Stops([Stop(number=1, kind=StopKind.SUSPEND, scope=Scope(1, "a"))])
        actions = plan(step(unshared=0, pending=pending), workers=9, stops=stops)
        assert [action.tasks for action in of(Launch, actions)] == [("b",)]

    def test_another_host_is_asked_for(self):
        pending = (
            PendingLineage(task="a", avoid_host="h1"),
            PendingLineage(task="b"),
            PendingLineage(task="c", avoid_host="h0"),
        )
        (action,) = of(Launch, plan(step(unshared=0, pending=pending)))
        assert action.avoid_hosts == ("h0", "h1")


class TestHost:
    HOST = Host(amounts={CPUS: 4.0, GPUS: 2.0}, gpus=(0, 1))

    def needs(self, name, least):
        return Requirements(amounts=(AmountRequirement(name=name, min=least),))

    def test_a_host_bounds_what_runs_side_by_side(self):
        actions = plan(step(requirements=self.needs(CPUS, 2)), workers=9, host=self.HOST)
        assert len(of(Launch, actions)) == 2

    def test_gpus_are_not_given_twice(self):
        need = self.needs(GPUS, 1)
        first = of(Launch, plan(step(requirements=need), workers=1, host=self.HOST))[0]
        running = launch(grant=first.grant)
        actions = plan(step(requirements=need), workers=9, host=self.HOST, launches=(running,))
        assert [action.grant.gpus for action in of(Launch, actions)] == [(1,)]

    def test_what_does_not_fit_now_keeps_nobody_waiting(self):
        grant = of(Launch, plan(step(requirements=self.needs(CPUS, 2)), workers=1, host=self.HOST))[
            0
        ].grant
        actions = plan(
            step(1, requirements=self.needs(CPUS, 4)),
            step(2, unshared=1, requirements=self.needs(CPUS, 1)),
            workers=9,
            host=self.HOST,
            launches=(launch(grant=grant),),
        )
        assert [action.step for action in of(Launch, actions)] == [2]
        assert of(Impossible, actions) == []

    def test_what_never_fits_is_told(self):
        actions = plan(step(requirements=self.needs(CPUS, 5)), host=self.HOST)
        (told,) = of(Impossible, actions)
        assert told.reasons == ("5 CPUs are required, the host has 4",)
        assert isinstance(actions[-1], Rest)


@pytest.mark.parametrize(
    ("remaining", "workers", "size"),
    [
        (1, 1, 1),
        (0, 1, 1),
        (100, 1, 50),
        (100, 10, 5),
        (3, 10, 1),
        (10**6, 4, 2048),
        (100, 0, 50),
    ],
)
def test_shares_get_smaller_the_fewer_remain(remaining, workers, size):
    assert share_size(remaining, workers) == size


@pytest.mark.parametrize(
    ("one", "two", "state"), list(product((done, failed, step), (done, failed, step), LaunchState))
)
def test_a_plan_always_says_when_to_look_again(one, two, state):
    actions = plan(one(1), two(2, dependencies=(1,)), launches=(launch(state=state),), workers=2)
    assert isinstance(actions[-1], Wait | Rest)
    assert not any(isinstance(action, Wait | Rest) for action in actions[:-1])
