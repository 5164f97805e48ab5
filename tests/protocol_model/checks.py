"""What must always hold (design 3), looked at as notes are made and where nobody can go on.

At every end a last worker comes, alone and without faults: it must be able to go on, or there must
be a reason why not; and what it sees is what counts.
"""

from typing import Any

from msgspec.structs import replace

from perdure.policy.stops import Scope
from perdure.store import layout
from perdure.store.drivers.driver import KeyMissing, PutUncertain
from perdure.store.drivers.memory import MemoryDriver, Objects
from perdure.store.layout import LaunchId
from perdure.store.records.lineage import Lineage
from perdure.store.records.log import Log
from perdure.worker.claiming import LineageView
from perdure.worker.job_records import JobRecords
from perdure.worker.ticker import fold_wishes
from protocol_model.actors import (
    JOB,
    LINEAGE,
    LOG,
    PACKS,
    REF,
    STEP,
    Parts,
    Plan,
    StillClock,
    Worker,
)
from protocol_model.replay import MISSING, UNCERTAIN, Ask, World, run
from protocol_model.search import Scenario, State, ViolationError, is_quiet

LAST = "last"


class Direct(World):
    """Answers at once from a store of its own."""

    def __init__(self, name: str, state: State, scenario: Scenario) -> None:
        super().__init__(name)
        self._state = state
        self._scenario = scenario
        self.objects = Objects()
        self.objects.held = dict(state.held)
        self._driver = MemoryDriver(self.objects)
        self.notes: list[tuple[Any, ...]] = []

    def answer(self, ask: Ask) -> Any:
        match ask.call:
            case "judge":
                other = self._scenario.index(str(ask.args[0]))
                return other is None or other in self._state.crashed
            case "tick":
                return False
            case "until_quiet":
                if not is_quiet(self._state, *map(str, ask.args), self._scenario):
                    raise ViolationError(f"the last worker waits for {ask.args[0]}")
                return None
            case "note":
                self.notes.append(ask.args)
                return None
        try:
            return getattr(self._driver, ask.call)(*ask.args)
        except KeyMissing:
            return MISSING
        except PutUncertain:
            return UNCERTAIN


def check_note(name: str, note: tuple[Any, ...], state: State, scenario: Scenario) -> None:
    """What must hold at the moment of a note."""
    match note:
        case ("begun", number, base, _kept):
            _check_alone(name, number, state, scenario)
            _check_base(base, state)
        case ("ran", number, _value):
            _check_no_successor(name, number, state)
        case ("lost", _number):
            _check_was_still(name, state)
        case ("started", number):
            _check_not_stopped(name, number, state)
        case _:
            pass


def _check_alone(name: str, number: int, state: State, scenario: Scenario) -> None:
    """Every earlier holder has released, has crashed, or stood still when it was judged."""
    for other, what, *rest in state.noted:
        if what != "begun" or other == name or rest[0] >= number:
            continue
        index = scenario.index(other)
        if index in state.crashed or ("judged", other) in state.noted:
            continue
        if not any(one == other and kind == "ended" for one, kind, *_ in state.noted):
            raise ViolationError(f"{name} begins while {other}, which is healthy, still runs")


def _check_no_successor(name: str, number: int, state: State) -> None:
    """Nobody runs a value once another one has begun after it, unless it is still frozen."""
    for other, what, *rest in state.noted:
        if what == "begun" and other != name and rest[0] > number:
            raise ViolationError(f"{name} runs on although {other} has begun after it")


def _check_was_still(name: str, state: State) -> None:
    """Nobody loses a task that they are at work on by a claim, unless they were judged still."""
    records = [data for key, data in state.held.items() if key.startswith(LOG)]
    if any(b'"kind":"branch"' in data for data in records):
        return  # a person's, from before the share was taken
    if ("judged", name) not in state.noted:
        raise ViolationError(f"{name}, which is healthy, has lost its task")


def _check_base(base: int | None, state: State) -> None:
    """The data of the base is there."""
    if base is None:
        return
    driver = MemoryDriver(_objects(state))
    record = Log(driver, LOG, clock=StillClock(), pause=lambda _n: None).fetch(base)
    needed = {record.header.get("pack"), *record.header.get("rests", ())}
    prunes = any(key.startswith(PACKS) for key in state.held)
    is_whole = all(f"{PACKS}/{pack}" in state.held for pack in needed)
    if record.kind != "save" or (prunes and not is_whole):
        raise ViolationError(f"the base {base} was destroyed")


def _check_not_stopped(name: str, number: int, state: State) -> None:
    """No stop that stands before ``started`` was still in force there."""
    records = _records(state)
    wishes = [wish for wish in records.state.wishes if wish.number < number]
    if fold_wishes(wishes).stopped(Scope()) is not None:
        raise ViolationError(f"{name} starts although the job was stopped before")


def _objects(state: State) -> Objects:
    objects = Objects()
    objects.held = dict(state.held)
    return objects


def _records(state: State) -> JobRecords:
    records = JobRecords(
        MemoryDriver(_objects(state)), JOB, clock=StillClock(), pause=lambda _n: None
    )
    records.refresh()
    return records


def check_end(state: State, scenario: Scenario, parts: Parts) -> None:
    """Nobody can go on: let the last worker come, then look at everything."""
    for index, place in enumerate(state.places):
        if place is not None and place.ask is not None and place.ask.call != "until":
            raise ViolationError(f"{scenario.actors[index].name} waits for ever: {place.ask}")
    is_shared = layout.share(JOB, STEP, 1) in state.held
    ref = REF if is_shared else replace(REF, share=None)
    last = Worker(plan=Plan(ref=ref), parts=parts)
    world = Direct(LAST, state, scenario)
    assert run(last, world) is None
    for note in world.notes:
        if note[0] == "begun":
            _check_base(note[2], state)
    _check_last(world, state)
    records = parts.records(
        MemoryDriver(world.objects), JOB, clock=StillClock(), pause=lambda _n: None
    )
    records.refresh()
    records.shares(STEP)
    log = parts.log(MemoryDriver(world.objects), LOG, clock=StillClock(), pause=lambda _n: None)
    log.read()
    lineage = records.fold(log, share=records.share_of(STEP, ref))
    past = records.past_claims(LINEAGE, lineage.claims)
    view = LineageView(lineage=lineage, past=past)
    noted = state.noted | {(LAST, *note) for note in world.notes}
    if not scenario.falls_back:
        _check_acknowledged(noted, lineage)
    _check_kept(noted, view)


def _check_last(world: Direct, state: State) -> None:
    """The last worker could go on, or the job is stopped, settled, done or somebody's."""
    for note in world.notes:
        if note[0] == "ended":
            return
        if note[0] == "busy":
            raise ViolationError(f"nobody can pass {note[1]}, which does nothing")
        if note[0] == "left":
            reasons = ("stopped", "settled", "complete", "has ended", "attempt")
            if any(word in str(note[1]) for word in reasons):
                return
            raise ViolationError(f"the last worker left: {note[1]}")
    raise ViolationError(f"the last worker came to nothing: {world.notes}")


def _check_acknowledged(noted: frozenset[tuple[Any, ...]], lineage: Lineage) -> None:
    """Every acknowledged save is there, led to the point, or was left aside by a person."""
    way = set(lineage.ancestry(lineage.point))
    branched = max((branch.number for branch in lineage.branches), default=-1)
    for name, what, *rest in noted:
        if what != "acknowledged":
            continue
        number = int(rest[0])
        save = lineage.save(number)
        if save is None or save.header.get("launch", name) != name:
            raise ViolationError(f"the save {number} that {name} acknowledged is not in the log")
        if number not in way and number > branched:
            raise ViolationError(f"the save {number} that {name} acknowledged is lost")


def _check_kept(noted: frozenset[tuple[Any, ...]], view: LineageView) -> None:
    """What was kept before its launch was sealed counts; nothing that counts is run again."""
    counted = {(p.claim.launch, value): p for p in view.past for value in p.account.kept}
    for what, name, *rest in noted:
        if what == "kept":
            for value in rest[0]:
                if (LaunchId(name), value) not in counted:
                    raise ViolationError(f"{value}, kept by {name} before any seal, does not count")
    for name, what, *rest in noted:
        if what != "ran":
            continue
        number, value = rest
        base = next((p.claim.base for p in view.past if p.claim.number == number), None)
        held_by = {None, *view.lineage.ancestry(base)}
        for (launch, kept), past in counted.items():
            is_before = past.claim.number < number and kept == value and launch != name
            if is_before and past.account.kept[kept] in held_by:
                raise ViolationError(f"{name} runs {value} again, which {launch} kept")
    for name, what, *rest in noted:
        if what == "begun":
            _check_files(name, rest, view)


def _check_files(name: str, rest: list[Any], view: LineageView) -> None:
    """What an attempt does not run again has its files in the base."""
    number, base, kept = rest
    held_by = {None, *view.lineage.ancestry(base)}
    for past in view.past:
        for value, support in past.account.kept.items():
            if past.claim.number < number and value in kept and support not in held_by:
                raise ViolationError(f"the files of {value} are lost: {name} began from {base}")
