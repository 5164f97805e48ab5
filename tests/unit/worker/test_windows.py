"""When attempts ran: what was written outside in that time may be theirs."""

from perdure.clock import from_text
from perdure.journal.account import AttemptAccount
from perdure.store.layout import LaunchId
from perdure.store.records.lineage import Claim, fold_lineage
from perdure.worker.claiming import LineageView
from perdure.worker.job_records import PastClaim
from perdure.worker.windows import windows

LAUNCH = LaunchId("01jdxyz0000000000000000001")


def past(begun: str | None, outcome: str | None) -> PastClaim:
    account = AttemptAccount()
    account.begun = {"at": begun} if begun else None
    account.outcome = {"at": outcome} if outcome else None
    claim = Claim(number=1, attempt=1, launch=LAUNCH)
    return PastClaim(claim=claim, account=account, is_ended=True)


def of(*all_past: PastClaim, sealed: str = ""):
    view = LineageView(lineage=fold_lineage((), share=None), past=all_past)
    return [
        (window.began_at_ns, window.ended_at_ns) for window in windows(view, lambda _launch: sealed)
    ]


def ns(text: str) -> int:
    return round(from_text(text).timestamp() * 1000) * 1_000_000


FIRST, LAST, SEAL = "2026-01-01T10:00:00.001Z", "2026-01-01T10:05:00.999Z", "2026-01-01T11:00:00Z"


def test_until_the_outcome_with_its_whole_millisecond():
    assert of(past(FIRST, LAST)) == [(ns(FIRST), ns(LAST) + 1_000_000)]


def test_until_the_seal_where_nobody_saw_the_end():
    assert of(past(FIRST, None), sealed=SEAL) == [(ns(FIRST), ns(SEAL) + 1_000_000)]


def test_never_for_ever():
    """Without an end nothing written later is taken for the task's."""
    assert of(past(FIRST, None)) == [(ns(FIRST), ns(FIRST))]


def test_a_claim_whose_attempt_never_began_has_no_window():
    assert of(past(None, None), sealed=SEAL) == []
