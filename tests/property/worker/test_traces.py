"""Why each rule of the protocol is there: taken out, the model finds the trace that it forbids.

Each test searches one scenario twice: with the real code, complete and without a violation; and
with a small mutation of it, where a violation must be found. The list is that of the rules in
docs/journal-format.md, and two that the model found (docs/decisions/060, 061).
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import structs

from perdure.errors import StoreUnavailable
from perdure.journal.account import AttemptKey, LaunchAccount
from perdure.journal.journal_format import JournalRecord
from perdure.policy.snapshot import LaunchState
from perdure.store import layout
from perdure.store.drivers.driver import PutUncertain
from perdure.store.layout import LaunchId
from perdure.store.records import log as log_module
from perdure.store.records.job_log import JobLogState
from perdure.store.records.lineage import fold_lineage, share_claim
from perdure.store.records.log import Entry, Log, Refused
from perdure.store.records.record_format import encode_record
from perdure.worker.claiming import Busy, Claimant, Housekeeping, Left, LineageView, seal
from perdure.worker.deciding import Decision, StepRules, decide, kept_values
from perdure.worker.job_records import JobRecords
from protocol_model import scenarios
from protocol_model.actors import (
    AT,
    LINEAGE,
    LOG,
    PACKS,
    REF,
    STEP,
    HouseParts,
    Parts,
    Plan,
    Worker,
)
from protocol_model.replay import Ids
from protocol_model.search import Budget, Scenario, search

#: No search here comes near it; a mutation that makes a scenario endless must not hang the suite.
LIMIT = 400_000


@pytest.fixture(autouse=True)
def _known_ids(monkeypatch):
    monkeypatch.setattr(log_module, "secrets", Ids)


def holds(made: Scenario) -> None:
    found = search(made, limit=LIMIT)
    assert found.is_complete
    assert not found.violation, "\n".join(found.trace)


def breaks(made: Scenario, *words: str) -> None:
    found = search(made, limit=LIMIT)
    assert found.violation, f"the rule is not needed: {found}"
    assert all(word in found.violation for word in words), "\n".join(found.trace)


KEEPS = Plan(values=(1,), saves=frozenset())
SAVES = Plan(values=(2,))


def test_a_claim_waits_for_the_end_of_the_former_owner():
    class Hasty(Claimant):
        def end(self, lineage_id, claim):
            return None

    holds(scenarios.takeover(Budget(), plan=KEEPS))
    breaks(scenarios.takeover(Budget(), Parts(claimant=Hasty), KEEPS), "healthy")


def test_journals_are_fenced():
    class Unfenced(JobRecords):
        def read_account(self, launch: LaunchId) -> list[JournalRecord]:
            account = self._accounts.setdefault(launch, LaunchAccount())
            return account.read_on(self.driver, layout.journal(self.job, launch))

    holds(scenarios.takeover(Budget(freeze=1), plan=KEEPS))
    breaks(
        scenarios.takeover(Budget(freeze=1), Parts(records=Unfenced), KEEPS), "runs 1 again", "kept"
    )


def test_the_fence_is_read_after_the_seal():
    class Early(Claimant):
        def end(self, lineage_id, claim):
            records, launch = self._records, claim.launch
            key = AttemptKey(lineage_id.step, lineage_id.task, claim.attempt)
            if launch in records.state.fences or records.account(launch).has_released(key):
                return None
            if not self.is_still(launch):
                return Busy(launch=launch, seconds=0.0, is_alive=True)
            account = LaunchAccount()
            account.read_on(records.driver, layout.journal(records.job, launch))
            seal(records, launch, by="m")
            while launch not in records.state.fences:
                records.append({"kind": "fence", "launch": launch, "offset": account.length})
            return None

    holds(scenarios.takeover(Budget(freeze=1), plan=KEEPS))
    breaks(scenarios.takeover(Budget(freeze=1), Parts(claimant=Early), KEEPS), "does not count")


def test_the_next_number_is_not_found_by_listing():
    class Listing(Log):
        def append(self, header, payload=b""):
            keys = list(self._driver.list(self._prefix))
            number = len(keys) + 1
            described = {**header, "id": log_module.secrets.token_hex(16), "at": AT}
            if not self._put(number, encode_record(described, payload)):
                return Refused(by=Entry(number=number, header={"kind": "pin"}))
            self.entries.append(Entry(number=number, header=described))
            return self.entries[-1]

    holds(scenarios.takeover(Budget(freeze=1), plan=SAVES))
    breaks(scenarios.takeover(Budget(freeze=1), Parts(log=Listing), SAVES), "acknowledged is lost")


def test_a_claim_whose_reply_was_lost_is_not_given_up():
    class Giving(Log):
        def _put(self, number, data):
            try:
                return self._driver.put_if_absent(self.key(number), data)
            except PutUncertain:
                raise StoreUnavailable("no answer") from None

    class Records(JobRecords):
        def lineage_log(self, lineage):
            log = super().lineage_log(lineage)
            return Giving(log._driver, log._prefix, clock=log._clock, pause=log._pause)

    holds(scenarios.race(Budget(lose=1), plan=KEEPS, workers=1))
    breaks(
        scenarios.race(Budget(lose=1), Parts(records=Records), KEEPS, workers=1), "nobody can pass"
    )


def prune_by(remove: Callable[[Worker, int, str], None], *, record: bool):
    """Prunes as the real rule does, but for what happens to the victims' records."""

    def prune(worker: Worker, log: Log, claim: int) -> None:
        share = share_claim(worker.launch, AT) if claim == 0 else None
        lineage = fold_lineage(log.entries, share=share)
        gone = [s for s in lineage.saves if s.number != lineage.point and not s.is_pruned]
        if not gone:
            return
        numbers = [save.number for save in gone]
        if record and isinstance(
            log.append({"kind": "prune", "claim": claim, "saves": numbers}), Refused
        ):
            return
        for save in gone:
            remove(worker, save.number, str(save.header["pack"]))

    return prune


def test_log_records_are_never_pruned():
    def delete(worker: Worker, number: int, pack: str) -> None:
        worker.world.delete(f"{PACKS}/{pack}")
        worker.world.delete(f"{LOG}/{number:010d}")

    made = scenarios.pruning(Budget(crash=1))
    holds(made)
    mutated = scenarios.pruning(Budget(crash=1), Parts(prune=prune_by(delete, record=True)))
    mutated.falls_back = False
    breaks(mutated, "acknowledged")


def test_a_tombstone_is_not_put_over_the_record():
    def bury(worker: Worker, number: int, pack: str) -> None:
        worker.world.put(f"{LOG}/{number:010d}", encode_record({"kind": "gone", "id": "x"}))
        worker.world.delete(f"{PACKS}/{pack}")

    holds(scenarios.pruning(Budget(freeze=1), values=(1, 2)))
    parts = Parts(prune=prune_by(bury, record=False))
    breaks(scenarios.pruning(Budget(freeze=1), parts, (1, 2)), "destroyed")


def test_a_branch_is_obeyed_once():
    def standing(worker: Worker, view: LineageView) -> Decision:
        base = view.lineage.branches[-1].base if view.lineage.branches else view.lineage.point
        obeyed = structs.replace(view, lineage=structs.replace(view.lineage, point=base))
        return decide(obeyed, StepRules(is_resumable=True), worker.plan.values)

    holds(scenarios.branched(Budget(crash=1)))
    breaks(scenarios.branched(Budget(crash=1), Parts(choose=standing)), "acknowledged is lost")


def test_started_is_appended_against_the_stops():
    class Looking(Claimant):
        def start(self, fields):
            self._records.refresh()
            reason = self.reason_to_leave()
            if reason is not None:
                return Left(reason=reason)
            record = {"kind": "started", "launch": self._me.launch, "token": self._me.token}
            while not self._records.append(record):
                pass
            return None

    holds(scenarios.stopping(Budget(stale=1)))
    breaks(scenarios.stopping(Budget(stale=1), Parts(claimant=Looking)), "stopped before")


def test_an_intent_names_the_share_that_took_the_task():
    unnamed = structs.replace(REF, share=None)
    holds(scenarios.takeover(Budget(stale=1), plan=KEEPS))
    breaks(scenarios.takeover(Budget(stale=1), plan=replace(KEEPS, ref=unnamed)), "healthy")


def test_a_launch_that_was_frozen_proves_that_it_is_not_sealed():
    def look(log: Log, state: JobLogState, launch: LaunchId) -> bool:
        state.read(log.read())
        return launch not in state.seals

    holds(scenarios.takeover(Budget(freeze=1, stale=1), plan=KEEPS))
    breaks(scenarios.takeover(Budget(freeze=1, stale=1), Parts(wakes=look), KEEPS), "runs on")


def test_a_record_is_known_again_by_its_random_id(monkeypatch):
    class Alike:
        @staticmethod
        def token_hex(_size: int = 16) -> str:
            return "the same"

    holds(scenarios.twins(Budget(lose=1)))
    monkeypatch.setattr(log_module, "secrets", Alike)
    breaks(scenarios.twins(Budget()), "the one record")


def test_an_intent_without_ids_is_carried_out_under_its_token():
    holds(scenarios.launching(Budget(crash=1)))
    lost = scenarios.Turns(unstarted=LaunchState.ENDED)
    breaks(scenarios.launching(Budget(crash=1), lost), "under two tokens")


def test_values_kept_beyond_the_base_are_given_back():
    def keeping(worker: Worker, view: LineageView) -> Decision:
        if worker.launch != "m":
            return decide(view, StepRules(is_resumable=True), worker.plan.values)
        whole = [save.number for save in view.lineage.saves if not save.is_pruned]
        oldest = structs.replace(
            view, lineage=structs.replace(view.lineage, point=min(whole, default=None))
        )
        decision = decide(oldest, StepRules(is_resumable=True), worker.plan.values)
        return structs.replace(decision, kept=frozenset(kept_values(view.past)))

    task = Plan(values=(1, 2, 3), saves=frozenset({1, 2}))

    def made(parts: Parts, choose=None) -> Scenario:
        result = scenarios.takeover(Budget(crash=1), parts, replace(task, decide=choose))
        result.falls_back = True
        return result

    holds(made(Parts(), scenarios.from_the_oldest(task.values)))
    breaks(made(Parts(choose=keeping)), "files of 2 are lost")


def unclaimed(claimant, is_wanted):
    """As `Claimant.keep_house`, but nobody's right to add saves ends."""
    records = claimant._records
    log = records.lineage_log(LINEAGE)
    records.refresh()
    records.shares(STEP)
    view = claimant._view_when_ended(LINEAGE, REF, log)
    if isinstance(view, Busy) or not is_wanted(view.lineage, log) or view.lineage.owner is None:
        return None
    return Housekeeping(log=log, claim=view.lineage.owner.number)


def test_housekeeping_ends_the_right_to_add_saves():
    holds(scenarios.housekeeping(Budget(freeze=1)))
    house = HouseParts(keep=unclaimed)
    breaks(scenarios.housekeeping(Budget(freeze=1), house=house), "was destroyed")


def test_housekeeping_waits_for_the_end_of_the_owner():
    class Hasty(Claimant):
        def end(self, lineage_id, claim):
            return None

    holds(scenarios.housekeeping(Budget()))
    house = HouseParts(claimant=Hasty)
    breaks(scenarios.housekeeping(Budget(), house=house), "healthy", "lost its task")


def house_with(worse: type[Log]) -> HouseParts:
    """A housekeeper with a worse log."""

    class Records(JobRecords):
        def lineage_log(self, lineage):
            log = super().lineage_log(lineage)
            return worse(log._driver, log._prefix, clock=log._clock, pause=log._pause)

    def keep(claimant, is_wanted):
        claimant._records.__class__ = Records
        return claimant.keep_house(REF, STEP, is_wanted)

    return HouseParts(keep=keep)


def test_housekeeping_leaves_the_point_where_it_is():
    class Nowhere(Log):
        def append(self, header, payload=b""):
            return super().append(
                {**header, "base": None} if "housekeeping" in header else header, payload
            )

    holds(scenarios.housekeeping(Budget()))
    breaks(scenarios.housekeeping(Budget(), house=house_with(Nowhere)), "acknowledged is lost")


def test_a_prune_is_refused_by_the_claim_that_came_before_it():
    class Walking(Log):
        def append(self, header, payload=b""):
            result = super().append(header, payload)
            while header["kind"] == "prune" and isinstance(result, Refused):
                result = super().append(header, payload)
            return result

    holds(scenarios.tidying(Budget()))
    breaks(scenarios.tidying(Budget(), house=house_with(Walking)), "destroyed")
