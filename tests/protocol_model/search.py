"""Every order of calls and faults, against the memory driver.

A state is what is in the store, puts that may land yet, each actor's place, who has crashed, and
what was noticed on the way (`Noted`). Calls that no other actor can influence or see (reading a
record that is there: records never change; noticing) are not given up the turn for: they commute
with everything.

Faults, each with a budget for the whole run: ``crash`` (before any write: what it wrote before
stands), ``freeze`` (an actor that runs is judged to stand still, and goes on later), ``lose`` (a
put takes effect, or not, or later, and the reply is lost), ``stale`` (a record that is there is
not shown).
"""

import gc
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from perdure.store.drivers.driver import KeyMissing, PutUncertain
from perdure.store.drivers.memory import LandLater, LoseReply, MemoryDriver, Objects, ServeStale
from protocol_model.replay import MISSING, UNCERTAIN, Actor, Ask, Place

_RECORD = re.compile(r"/\d{10}$")
_WRITES = frozenset({"put_if_absent", "put", "append", "delete"})


class ViolationError(Exception):
    """Something that must always hold did not."""


@dataclass(frozen=True)
class Budget:
    """How many faults of each kind may happen in one run."""

    crash: int = 0
    freeze: int = 0
    lose: int = 0
    stale: int = 0

    def without(self, fault: str) -> "Budget":
        return replace(self, **{fault: getattr(self, fault) - 1})


@dataclass(frozen=True)
class State:
    """A state of the world; a place is None where its actor has crashed or ended."""

    held: dict[str, bytes]
    late: tuple[tuple[str, bytes], ...]  # of keys that are not there
    places: tuple[Place | None, ...]
    crashed: frozenset[int]
    noted: frozenset[tuple[Any, ...]]
    budget: Budget
    trace: "Trace | None" = None

    def key(self) -> int:
        return hash(
            (
                frozenset(self.held.items()),
                self.late,
                tuple(map(id, self.places)),
                self.crashed,
                self.noted,
                self.budget,
            )
        )


@dataclass(frozen=True)
class Trace:
    """How a state was reached, as a list linked backwards."""

    step: str
    before: "Trace | None"

    def lines(self) -> list[str]:
        found: list[str] = []
        trace: Trace | None = self
        while trace is not None:
            found.append(trace.step)
            trace = trace.before
        return found[::-1]


#: Called with the actor's name, the note, and the state in which it is noted; may raise.
Check = Callable[[str, tuple[Any, ...], State], None]


@dataclass
class Scenario:
    """Who acts, what may go wrong, and what must hold.

    Attributes:
        names: of the actors, as launches: index in ``actors``.
        on_note: looks at each note as it is made.
        at_end: looks at each state in which nobody can go on.
        held: what is in the store at the beginning.
        falls_back: workers may begin from older checkpoints: newer ones are then passed over.
    """

    actors: list[Actor]
    budget: Budget
    on_note: Check
    at_end: Callable[[State, "Scenario"], None]
    held: dict[str, bytes] = field(default_factory=dict)
    falls_back: bool = False

    def index(self, name: str) -> int | None:
        return next((i for i, actor in enumerate(self.actors) if actor.name == name), None)


@dataclass
class Found:
    """What a search has seen."""

    states: int = 0
    steps: int = 0
    ends: int = 0
    is_complete: bool = True
    violation: str = ""
    trace: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        reach = "complete" if self.is_complete else "cut"
        return f"{self.states} states, {self.steps} steps, {self.ends} ends, {reach}"


def search(scenario: Scenario, *, limit: int | None = None, seed: int | None = None) -> Found:
    """Look at every state that can be reached, or at ``limit`` of them, until one is wrong.

    Without a ``seed`` breadth first: the first violation has a shortest trace. With one, mostly
    depth first, each step and every tenth state drawn by it: a search that is cut reaches many ends
    in many places.
    """
    gc.disable()  # nothing here is garbage before the end
    try:
        return _search(scenario, limit, None if seed is None else Random(seed))
    finally:
        gc.enable()


def _search(scenario: Scenario, limit: int | None, order: Random | None) -> Found:
    found = Found()
    start = State(
        held=dict(scenario.held),
        late=(),
        places=tuple(actor.start for actor in scenario.actors),
        crashed=frozenset(),
        noted=frozenset(),
        budget=scenario.budget,
    )
    seen = {start.key()}
    queue = deque([start])
    while queue:
        state = queue.popleft() if order is None else _drawn(queue, order)
        found.states += 1
        try:
            moved = False
            steps = list(_steps(state, scenario))
            if order is not None:
                order.shuffle(steps)
            for fault, after in steps:
                found.steps += 1
                found.faults[fault] += 1
                moved = moved or fault == ""
                key = after.key()
                if key not in seen:
                    seen.add(key)
                    queue.append(after)
            if not moved:
                found.ends += 1
                scenario.at_end(state, scenario)
        except ViolationError as violation:
            found.violation = str(violation)
            found.trace = [*(state.trace.lines() if state.trace else ()), str(violation)]
            return found
        if limit is not None and len(seen) >= limit:
            found.is_complete = not queue
            return found
    return found


def _drawn(queue: deque[State], order: Random) -> State:
    """The newest state, or now and then any."""
    if order.randrange(10) == 0:
        queue.rotate(order.randrange(len(queue)))
    return queue.pop()


def _steps(state: State, scenario: Scenario) -> Iterator[tuple[str, State]]:
    """Everything that can happen next, each with the fault that it is ("" for none)."""
    for index, place in enumerate(state.places):
        if place is None or place.ask is None:
            continue
        yield from _calls(state, index, place.ask, scenario)
        if state.budget.crash and place.ask.call in _WRITES:
            yield (
                "crash",
                replace(
                    state,
                    places=(*state.places[:index], None, *state.places[index + 1 :]),
                    crashed=state.crashed | {index},
                    budget=state.budget.without("crash"),
                    trace=Trace(f"{scenario.actors[index].name} crashes", state.trace),
                ),
            )
    for late in state.late:
        yield "land", _landed(state, late)


def _landed(state: State, late: tuple[str, bytes]) -> State:
    key, data = late
    rest = [put for put in state.late if put[0] != key]
    return replace(
        state,
        held={**state.held, key: data},
        late=tuple(rest),
        trace=Trace(f"a late put of {key} lands", state.trace),
    )


def _calls(state: State, index: int, ask: Ask, scenario: Scenario) -> Iterator[tuple[str, State]]:
    match ask.call:
        case "judge":
            yield from _judged(state, index, ask, scenario)
        case "until_quiet":
            if is_quiet(state, str(ask.args[0]), str(ask.args[1]), scenario):
                yield "", _answered(state, index, None, scenario)
        case "until":
            if ask.args[0] in state.held:
                yield "", _answered(state, index, None, scenario)
        case "tick":
            noted = state.noted - {("gap", scenario.actors[index].name)}
            gap = noted != state.noted
            yield "", _answered(replace(state, noted=noted), index, gap, scenario)
        case _:
            answer, after = _call(state, ask)
            yield "", _answered(_kept(after, state, index, ask, scenario), index, answer, scenario)
            yield from _faults(state, index, ask, scenario)


def _judged(state: State, index: int, ask: Ask, scenario: Scenario) -> Iterator[tuple[str, State]]:
    """Whether a launch stands still: a crashed one does; one that runs, where it was frozen."""
    name = str(ask.args[0])
    other = scenario.index(name)
    if other is None or other in state.crashed:
        noted = state.noted | {("judged", name)}
        yield "", _answered(replace(state, noted=noted), index, True, scenario)
        return
    yield "", _answered(state, index, False, scenario)
    if state.budget.freeze:
        frozen = replace(
            state,
            noted=state.noted | {("judged", name), ("gap", name)},
            budget=state.budget.without("freeze"),
        )
        yield "freeze", _answered(frozen, index, True, scenario)


def is_quiet(state: State, name: str, journal: str, scenario: Scenario) -> bool:
    other = scenario.index(name)
    if other is None or other in state.crashed:
        return True
    return b'"released"' in state.held.get(journal, b"")


def _faults(state: State, index: int, ask: Ask, scenario: Scenario) -> Iterator[tuple[str, State]]:
    if ask.call == "put_if_absent" and state.budget.lose:
        less = replace(state, budget=state.budget.without("lose"))
        for fault in (LoseReply(applied=True), LoseReply(applied=False), LandLater()):
            answer, after = _call(less, ask, fault)
            yield "lose", _answered(after, index, answer, scenario, f" [{fault!r}]")
    if state.budget.stale and ask.call == "get" and _is_there(state, ask):
        less = replace(state, budget=state.budget.without("stale"))
        answer, after = _call(less, ask, ServeStale({}))
        yield "stale", _answered(after, index, answer, scenario, " [stale]")


def _call(state: State, ask: Ask, fault: Exception | None = None) -> tuple[Any, State]:
    """Do a call on the memory driver."""
    objects = Objects()
    objects.held = dict(state.held) if ask.call in _WRITES else state.held
    objects.late = list(state.late)

    def before(_call: object, _key: str) -> None:
        if fault is not None:
            raise fault

    driver = MemoryDriver(objects, before=before)
    try:
        answer = getattr(driver, ask.call)(*ask.args)
    except KeyMissing:
        answer = MISSING
    except PutUncertain:
        answer = UNCERTAIN
    if ask.call == "list":
        answer = tuple(answer)
    if ask.call not in _WRITES:
        return answer, state
    late = tuple(put for put in objects.late if put[0] not in objects.held)  # the others are inert
    return answer, replace(state, held=objects.held, late=late)


def _kept(after: State, state: State, index: int, ask: Ask, scenario: Scenario) -> State:
    """Note what was kept by a launch that nobody had sealed: it must count for ever."""
    if ask.call != "append" or b'"k":"kept"' not in ask.args[1]:
        return after
    name = scenario.actors[index].name
    if any(b'"kind":"seal","launch":"%s"' % name.encode() in data for data in state.held.values()):
        return after
    values = re.search(rb'"values":\[([0-9,]*)\]', ask.args[1])
    assert values is not None
    kept = tuple(int(value) for value in values[1].split(b",") if value)
    return replace(after, noted=after.noted | {("kept", name, kept)})


def _answered(state: State, index: int, answer: Any, scenario: Scenario, how: str = "") -> State:
    """The state after an actor got an answer, and did all that commutes with everything."""
    actor, place = scenario.actors[index], state.places[index]
    trace = Trace(f"{actor.name}: {place.ask}{how} -> {_short(answer)}", state.trace)
    place = place.after(answer)
    before = state.places[index].ask
    while place.ask is not None and _local(state, place.ask, actor.name, before):
        if place.ask.call == "note":
            note = place.ask.args
            noting = replace(state, trace=trace)
            scenario.on_note(actor.name, note, noting)
            state = replace(state, noted=state.noted | {(actor.name, *note)})
            trace = Trace(f"{actor.name}: notes {note}", trace)
            place = place.after(None)
        else:
            before = place.ask
            place = place.after(_call(state, place.ask)[0])
    over = None if place.ask is None else place
    places = (*state.places[:index], over, *state.places[index + 1 :])
    return replace(state, places=places, trace=trace)


def _local(state: State, ask: Ask, name: str, before: Ask) -> bool:
    """Whether nobody can change the answer, and nobody can see the call.

    What is read right after its size was asked for would be the same if the size was asked for
    later: the two are one step.
    """
    if ask.call == "note" or (before.call == "head" and ask.args[0] == before.args[0]):
        return True
    if ask.call == "get" and _is_there(state, ask):
        return not state.budget.stale
    return ask.call in ("get", "head") and f"/{name}/" in str(ask.args[0])


def _is_there(state: State, ask: Ask) -> bool:
    key = str(ask.args[0])
    return _RECORD.search(key) is not None and key in state.held


def _short(answer: Any) -> str:
    text = repr(answer)
    return text if len(text) < 60 else text[:57] + "..."
