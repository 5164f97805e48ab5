"""Any job, played turn by turn against a small model of workers, ends as it should."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from perdure.policy.launching import Launch, share_size
from perdure.policy.resources import CPUS, AmountRequirement, Host, Requirements
from perdure.policy.snapshot import (
    JobSnapshot,
    LaunchInTurn,
    LaunchState,
    PendingLineage,
    StepInTurn,
)
from perdure.policy.states import Counts, State
from perdure.policy.turn import Relaunch, Rest, Seal, Settle, Wait, plan_turn


@st.composite
def jobs(draw):
    """Steps: how many tasks, how many of them fail in the end, what they depend on."""
    number = draw(st.integers(1, 5))
    return [
        {
            "tasks": (tasks := draw(st.integers(1, 6))),
            "bad": draw(st.integers(0, 1)) and draw(st.integers(0, tasks)),
            "dependencies": tuple(draw(st.sets(st.integers(1, index - 1)))) if index > 1 else (),
            "cpus": draw(st.integers(1, 3)),
        }
        for index in range(1, number + 1)
    ]


class Model:
    """Workers do one task each between two turns; some die and leave it to be taken again."""

    def __init__(self, job, data, workers):
        self.data = data
        self.workers = workers
        self.job = dict(enumerate(job, 1))
        self.unshared = {index: step["tasks"] for index, step in self.job.items()}
        self.pending = {index: [] for index in self.job}
        self.succeeded = dict.fromkeys(self.job, 0)
        self.failed = dict.fromkeys(self.job, 0)
        self.canceled = dict.fromkeys(self.job, 0)
        self.settled = {}
        self.launches = []
        self.names = 0

    def snapshot(self):
        steps = tuple(self.step(index) for index in self.job)
        return JobSnapshot(
            steps=steps,
            launches=tuple(self.launches),
            workers=self.workers,
            host=Host(amounts={CPUS: 4.0}),
            settled=self.settled.get(None),
        )

    def step(self, index):
        running = sum(
            launch.step == index and launch.state is LaunchState.DEAD for launch in self.launches
        )
        waiting = self.unshared[index] + len(self.pending[index])
        return StepInTurn(
            index=index,
            name=f"S{index}",
            dependencies=self.job[index]["dependencies"],
            counts=Counts(
                pending=waiting - self.canceled[index],
                running=running,
                succeeded=self.succeeded[index],
                failed=self.failed[index],
                canceled=self.canceled[index],
            ),
            requirements=Requirements(
                amounts=(AmountRequirement(name=CPUS, min=self.job[index]["cpus"]),)
            ),
            unshared=0 if self.canceled[index] else self.unshared[index],
            pending=tuple(PendingLineage(task=task) for task in self.pending[index]),
            settled=self.settled.get(index),
        )

    def carry_out(self, action):
        match action:
            case Launch():
                self.names += 1
                self.launches.append(
                    LaunchInTurn(
                        launch=f"l{self.names}",
                        token=f"t{self.names}",
                        step=action.step,
                        state=self.data.draw(
                            st.sampled_from([LaunchState.QUEUED, LaunchState.INTENDED])
                        ),
                        waiting=action.tasks,
                        takes_shares=action.takes_shares,
                        grant=action.grant,
                    )
                )
            case Relaunch():
                self.set_state(action.launch, LaunchState.QUEUED)
            case Seal():
                dead = next(x for x in self.launches if x.launch == action.launch)
                self.pending[dead.step].append(f"again-{dead.launch}")
                self.set_state(action.launch, LaunchState.ENDED)
            case Settle(step=step, state=state):
                assert step not in self.settled
                self.settled[step] = state
                if step is not None and state is State.CANCELED:
                    self.canceled[step] = self.unshared[step] + len(self.pending[step])
            case Wait() | Rest():
                pass

    def set_state(self, name, state):
        self.launches = [
            replace(launch, state=state) if launch.launch == name else launch
            for launch in self.launches
        ]

    def work(self):
        """Each queued launch takes one thing, and ends or dies."""
        for launch in tuple(self.launches):
            if launch.state is not LaunchState.QUEUED:
                continue
            index = launch.step
            assert all(
                self.settled.get(before) is State.SUCCEEDED
                or self.succeeded[before] == self.job[before]["tasks"]
                for before in self.job[index]["dependencies"]
            )
            if launch.waiting:
                for task in launch.waiting:
                    self.pending[index].remove(task)
                    self.end_task(index)
            elif self.unshared[index]:
                self.unshared[index] -= 1
                if self.names < 30 and self.data.draw(st.booleans(), label="dies"):
                    self.set_state(launch.launch, LaunchState.DEAD)
                    continue
                self.end_task(index)
            self.set_state(launch.launch, LaunchState.ENDED)

    def end_task(self, index):
        if self.failed[index] < self.job[index]["bad"]:
            self.failed[index] += 1
        else:
            self.succeeded[index] += 1


@given(jobs(), st.data(), st.integers(1, 4))
def test_every_job_ends_in_the_right_state(job, data, workers):
    model = Model(job, data, workers)
    for _ in range(200):
        snapshot = model.snapshot()
        actions = plan_turn(snapshot)
        under_way = sum(launch.is_under_way for launch in snapshot.launches)
        new = sum(isinstance(action, Launch) for action in actions)
        assert under_way + new <= max(workers, under_way)
        for action in actions:
            model.carry_out(action)
        if None in model.settled:
            break
        assert isinstance(actions[-1], Wait)
        model.work()
    expected = {}
    for index, step in model.job.items():
        doomed = any(expected[before] is not State.SUCCEEDED for before in step["dependencies"])
        bad = State.FAILED if step["bad"] else State.SUCCEEDED
        expected[index] = State.CANCELED if doomed else bad
        assert model.settled[index] is expected[index]
    is_good = all(state is State.SUCCEEDED for state in expected.values())
    assert model.settled[None] is (State.SUCCEEDED if is_good else State.FAILED)
    assert plan_turn(model.snapshot())[-1].status.state is model.settled[None]


@given(st.integers(1, 10**6), st.integers(1, 64))
def test_shares_use_up_all_tasks_without_many_records(tasks, workers):
    shares, remaining = 0, tasks
    while remaining:
        size = share_size(remaining, workers)
        assert 1 <= size <= remaining
        remaining -= size
        shares += 1
    assert shares <= tasks // 2048 + 2 * workers * 14 + 2
