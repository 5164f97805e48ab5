"""The scenarios that are searched: who acts, and what is in the store before."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from msgspec import structs

from perdure.journal.journal_format import Kind, encode_line
from perdure.policy.states import Counts
from perdure.policy.turn import (
    JobSnapshot,
    Launch,
    LaunchInTurn,
    LaunchState,
    Relaunch,
    StepInTurn,
    plan_turn,
)
from perdure.store import layout
from perdure.store.layout import LaunchId
from perdure.store.records.record_format import encode_record
from perdure.worker.claiming import LineageView
from perdure.worker.deciding import Decision, StepRules, decide
from perdure.worker.job_records import JobRecords
from protocol_model import checks
from protocol_model.actors import (
    AT,
    JOB,
    LOG,
    PACKS,
    STEP,
    TASK,
    Housekeeper,
    HouseParts,
    Parts,
    Person,
    Plan,
    Settler,
    StillClock,
    Worker,
)
from protocol_model.replay import Actor, Program, World
from protocol_model.search import Budget, Scenario, State, ViolationError

_SHARED = layout.share(JOB, STEP, 1)


def scenario(
    programs: Mapping[str, Program],
    budget: Budget,
    parts: Parts,
    held: dict[str, bytes] | None = None,
    *,
    falls_back: bool = False,
) -> Scenario:
    """These programs, from an empty store or from what is ``held``."""
    result = Scenario(
        actors=[Actor(name, program) for name, program in programs.items()],
        budget=budget,
        on_note=lambda name, note, state: checks.check_note(name, note, state, result),
        at_end=lambda state, scenario: checks.check_end(state, scenario, parts),
        held=held or {},
        falls_back=falls_back,
    )
    return result


def takeover(budget: Budget, parts: Parts | None = None, plan: Plan | None = None) -> Scenario:
    """A share's owner, and a worker that comes to take the lineage over."""
    made, task = parts or Parts(), plan or Plan()
    return scenario(
        {
            "l": Worker(replace(task, takes_share=True), made),
            "m": Worker(replace(task, after=_SHARED), made),
        },
        budget,
        made,
    )


def race(
    budget: Budget, parts: Parts | None = None, plan: Plan | None = None, workers: int = 2
) -> Scenario:
    """Workers that come at once to take over what a dead share owner left."""
    made = parts or Parts()
    names = "mno"[:workers]
    programs = {name: Worker(plan or Plan(), made) for name in names}
    return scenario(programs, budget, made, dead_owner())


def succession(budget: Budget, parts: Parts | None = None) -> Scenario:
    """A share's owner, and two workers that come to take the lineage over."""
    made = parts or Parts()
    claim = Worker(Plan(after=_SHARED), made)
    return scenario(
        {"l": Worker(Plan(takes_share=True), made), "m": claim, "n": claim}, budget, made
    )


def stopping(budget: Budget, parts: Parts | None = None) -> Scenario:
    """A worker starts while a person suspends the job."""
    made = parts or Parts()
    return scenario(
        {"m": Worker(Plan(looks=True), made), "p": Person()}, budget, made, dead_owner()
    )


def branching(budget: Budget, parts: Parts | None = None) -> Scenario:
    """A person suspends a running task, goes on from the beginning, and resumes."""
    made = parts or Parts()
    owner = Plan(takes_share=True, looks=True, saves=frozenset({1}))
    return scenario(
        {"l": Worker(owner, made), "p": Person(resumes=True, branches=True)}, budget, made
    )


def branched(budget: Budget, parts: Parts | None = None) -> Scenario:
    """A person has branched to the beginning; a worker goes on from there."""
    made = parts or Parts()
    held = dead_owner() | {
        f"{LOG}/0000000001": _record({"kind": "save", "claim": 0, "save": 1, "content": "c"}, "l3"),
        f"{LOG}/0000000002": _record({"kind": "branch", "base": None, "by": "user"}, "p1"),
    }
    return scenario({"m": Worker(Plan(saves=frozenset({1})), made)}, budget, made, held)


def pruning(
    budget: Budget, parts: Parts | None = None, values: tuple[int, ...] = (1, 2, 3)
) -> Scenario:
    """An owner that saves and prunes, and a worker that falls back to its oldest checkpoint."""
    made = parts or Parts()
    task = Plan(values=values, saves=frozenset({1, 2}), prunes=True, keeps=False)
    return scenario(
        {
            "l": Worker(replace(task, takes_share=True), made),
            "m": Worker(replace(task, after=_SHARED, decide=from_the_oldest(values)), made),
        },
        budget,
        made,
        falls_back=True,
    )


def preempted(budget: Budget, parts: Parts | None = None) -> Scenario:
    """An owner that saves and prunes, and two more of the kind that take the lineage over."""
    made = parts or Parts()
    values = (1, 2, 3)
    task = Plan(values=values, saves=frozenset(values), prunes=True, keeps=False)
    come = replace(task, after=_SHARED)
    return scenario(
        {
            "l": Worker(replace(task, takes_share=True), made),
            "m": Worker(come, made),
            "n": Worker(replace(come, decide=from_the_oldest(values)), made),
        },
        budget,
        made,
        falls_back=True,
    )


def housekeeping(
    budget: Budget,
    parts: Parts | None = None,
    house: HouseParts | None = None,
    *,
    comes: bool = False,
) -> Scenario:
    """An owner that saves and prunes nothing, and somebody who prunes; a worker that comes."""
    made = parts or Parts()
    task = Plan(values=(1, 2, 3), saves=frozenset({1, 2, 3}), packs=True, keeps=False)
    programs: dict[str, Program] = {
        "l": Worker(replace(task, takes_share=True), made),
        "h": Housekeeper(house or HouseParts(), after=f"{LOG}/0000000002"),
    }
    if comes:
        programs["m"] = Worker(replace(task, after=f"{LOG}/0000000002"), made)
    return scenario(programs, budget, made)


def tidying(
    budget: Budget,
    parts: Parts | None = None,
    house: HouseParts | None = None,
    *,
    houses: str = "h",
) -> Scenario:
    """Some who prune what a dead owner left, and a worker that falls back to its oldest."""
    made = parts or Parts()
    held = dead_owner()
    for key in [key for key in held if key.endswith("/journal")]:
        released = {"step": STEP, "task": TASK, "attempt": 1}
        held[key] += encode_line(Kind.RELEASED, released)
    for number in (1, 2):
        pack = f"l-1-{number}"
        save = {"kind": "save", "claim": 0, "save": 1, "pack": pack, "rests": [], "content": pack}
        held[f"{LOG}/000000000{number}"] = _record(save, f"l{number + 2}")
        held[f"{PACKS}/{pack}"] = b"pack"
    task = Plan(values=(1,), saves=frozenset(), keeps=False, decide=from_the_oldest((1,)))
    return scenario(
        {
            **{name: Housekeeper(house or HouseParts()) for name in houses},
            "m": Worker(task, made),
        },
        budget,
        made,
        held,
        falls_back=True,
    )


def settling(budget: Budget, parts: Parts | None = None) -> Scenario:
    """A share's owner ends, a turn settles the job, and a worker comes late."""
    made = parts or Parts()
    return scenario(
        {
            "l": Worker(Plan(values=(1,), takes_share=True), made),
            "s": Settler(),
            "m": Worker(Plan(values=(1,), after=_SHARED), made),
        },
        budget,
        made,
    )


def from_the_oldest(values: tuple[int, ...]) -> Callable[[LineageView], Decision]:
    """As policy decides once attempts from the newer checkpoints made no progress."""

    def choose(view: LineageView) -> Decision:
        whole = [save.number for save in view.lineage.saves if not save.is_pruned]
        oldest = structs.replace(view.lineage, point=min(whole, default=None))
        return decide(structs.replace(view, lineage=oldest), StepRules(is_resumable=True), values)

    return choose


def dead_owner() -> dict[str, bytes]:
    """A share's owner that kept nothing and died long ago."""
    begun = {"step": STEP, "task": TASK, "attempt": 1, "host": "l", "action": "onRun", "at": AT}
    started = {"kind": "started", "launch": "l", "token": "t"}
    return {
        f"{layout.job_log(JOB)}/0000000001": _record(started, "l1"),
        _SHARED: _record({"kind": "share", "launch": "l", "tasks": [[0, 0]]}, "l2"),
        layout.journal(JOB, LaunchId("l")): encode_line(Kind.BEGUN, begun),
    }


def _record(header: dict[str, object], identity: str) -> bytes:
    return encode_record({**header, "id": identity, "at": AT})


@dataclass
class Repeater:
    """Somebody who puts the same wish as another one, and does something once it is theirs."""

    def __call__(self, world: World) -> None:
        records = JobRecords(world, JOB, clock=StillClock(), pause=lambda _tries: None)
        if records.append({"kind": "resume", "scope": {}, "lifts": 0}):
            world.ask("note", "did", records.log.last)


def twins(budget: Budget) -> Scenario:
    """Two people resume at once: one of them does, the other is told."""

    def check(state: State, _scenario: Scenario) -> None:
        numbers = [note[2] for note in state.noted if note[1] == "did"]
        if len(numbers) != len(set(numbers)):
            raise ViolationError("two people think that the one record is theirs")

    return Scenario(
        actors=[Actor(name, Repeater()) for name in ("p", "q")],
        budget=budget,
        on_note=lambda _name, _note, _state: None,
        at_end=check,
    )


@dataclass
class Turns:
    """A turn's maker with an engine that starts what it is told to, by token.

    Attributes:
        unstarted: how an intent without the engine's ids is seen.
    """

    unstarted: LaunchState = LaunchState.INTENDED

    def __call__(self, world: World) -> None:
        records = JobRecords(world, JOB, clock=StillClock(), pause=lambda _tries: None)
        for _ in range(4):
            records.refresh()
            for action in plan_turn(self._snapshot(records)):
                if isinstance(action, Relaunch):
                    if world.head(f"engine/{action.token}") is None:
                        world.put(f"engine/{action.token}", b"running")
                    records.append({"kind": "launched", "token": action.token, "ids": {}})
                    break
                if isinstance(action, Launch):
                    self._launch(world, records)
                    break

    def _launch(self, world: World, records: JobRecords) -> None:
        token = f"token-{world.name}"
        intent = {"kind": "launch", "launch": world.name, "token": token, "step": 1}
        if records.append({**intent, "shares": True, "tasks": []}):
            world.put(f"engine/{token}", b"running")
            records.append({"kind": "launched", "token": token, "ids": {}})

    def _snapshot(self, records: JobRecords) -> JobSnapshot:
        state = records.state
        return JobSnapshot(
            steps=(StepInTurn(index=1, name="Work", counts=Counts(pending=1), unshared=1),),
            launches=tuple(
                LaunchInTurn(
                    launch=intent.launch,
                    token=intent.token,
                    step=1,
                    state=LaunchState.QUEUED if intent.token in state.launched else self.unstarted,
                )
                for intent in state.launches.values()
            ),
        )


def launching(budget: Budget, turns: Turns | None = None) -> Scenario:
    """Two makers of turns, of which one may die between an intent and the engine's ids."""

    def check(state: State, _scenario: Scenario) -> None:
        running = [key for key in state.held if key.startswith("engine/")]
        if len(running) > 1:
            raise ViolationError(f"launched twice, under two tokens: {running}")
        if not running and not state.crashed:
            raise ViolationError("nothing was launched")

    return Scenario(
        actors=[Actor(name, turns or Turns()) for name in ("a", "b")],
        budget=budget,
        on_note=lambda _name, _note, _state: None,
        at_end=check,
    )
