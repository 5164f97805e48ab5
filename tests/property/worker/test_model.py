"""The protocol, searched: the real logs, claims, journals and decisions under every fault.

The small searches are complete: every order of calls, every place for each fault. The large ones
are cut at a bound, early here and late in `make soak`, and say so: there they go wide, and deep in
an order drawn by a seed. Each prints what it has seen.
"""

import pytest

from perdure.store.records import log as log_module
from protocol_model import scenarios
from protocol_model.actors import Plan
from protocol_model.replay import Ids
from protocol_model.search import Budget, Scenario, search

#: Of states, for the searches that are too large to be complete: in `make soak`, and always.
SOAK_LIMIT = 200_000
QUICK_LIMIT = 5_000
ALL = Budget(crash=1, freeze=1, lose=1)

SMALL = {
    "takeover, one save, all faults": lambda: scenarios.takeover(ALL, plan=Plan(values=(2,))),
    "takeover, one kept value, all faults": lambda: scenarios.takeover(
        ALL, plan=Plan(values=(1,), saves=frozenset())
    ),
    "takeover, two values, frozen": lambda: scenarios.takeover(Budget(freeze=1)),
    "takeover, stale reads": lambda: scenarios.takeover(
        Budget(crash=1, freeze=1, stale=1), plan=Plan(values=(2,))
    ),
    "a start against a stop, stale": lambda: scenarios.stopping(Budget(stale=1)),
    "a branch, crash": lambda: scenarios.branching(Budget(crash=1)),
    "after a branch, two crashes": lambda: scenarios.branched(Budget(crash=1, lose=1)),
    "prunes and an older base, crash": lambda: scenarios.pruning(Budget(crash=1)),
    "housekeeping, frozen": lambda: scenarios.housekeeping(Budget(freeze=1)),
    "housekeeping, crash": lambda: scenarios.housekeeping(Budget(crash=1)),
    "tidying beside a fall-back": lambda: scenarios.tidying(Budget()),
    "two makers of turns, all faults": lambda: scenarios.launching(Budget(crash=1, lose=1)),
    "two resumes, lost reply": lambda: scenarios.twins(Budget(lose=1)),
}
LARGE = {
    "takeover, two values, all faults": lambda: scenarios.takeover(ALL),
    "race, no fault": lambda: scenarios.race(Budget(), plan=Plan(values=(2,))),
    "race, lost reply": lambda: scenarios.race(Budget(lose=1), plan=Plan(values=(2,))),
    "race, all faults": lambda: scenarios.race(ALL, plan=Plan(values=(2,))),
    "three race, crash": lambda: scenarios.race(Budget(crash=1), plan=Plan(values=(2,)), workers=3),
    "succession of three, all faults": lambda: scenarios.succession(ALL),
    "a branch, all faults": lambda: scenarios.branching(ALL),
    "prunes and an older base, all faults": lambda: scenarios.pruning(ALL),
    "preempted twice and pruned, all faults": lambda: scenarios.preempted(ALL),
    "preempted twice and pruned, crash": lambda: scenarios.preempted(Budget(crash=1)),
    "housekeeping, all faults": lambda: scenarios.housekeeping(ALL),
    "housekeeping and a worker that comes, all faults": lambda: scenarios.housekeeping(
        ALL, comes=True
    ),
    "two that tidy beside a fall-back, all faults": lambda: scenarios.tidying(ALL, houses="hi"),
    "tidying beside a fall-back, lost reply": lambda: scenarios.tidying(Budget(lose=1)),
    "tidying, stale": lambda: scenarios.tidying(Budget(crash=1, stale=1)),
    "a settling turn, all faults": lambda: scenarios.settling(ALL),
}


@pytest.fixture(autouse=True)
def _known_ids(monkeypatch):
    monkeypatch.setattr(log_module, "secrets", Ids)


def look(name: str, made: Scenario, limit: int | None, seed: int | None = None) -> bool:
    found = search(made, limit=limit, seed=seed)
    print(f"\n{name}: {found}; {made.budget}; seed {seed}; faults {dict(found.faults)}")
    assert not found.violation, "\n".join(found.trace)
    assert found.ends > 0 or not found.is_complete
    return found.is_complete


@pytest.mark.parametrize("name", SMALL)
def test_complete(name: str):
    assert look(name, SMALL[name](), None)


@pytest.mark.parametrize("name", LARGE)
def test_the_beginning_of(name: str):
    look(name, LARGE[name](), QUICK_LIMIT, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("name", LARGE)
def test_cut_and_counted(name: str, seed: int | None):
    look(name, LARGE[name](), SOAK_LIMIT, seed)
