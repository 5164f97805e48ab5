"""A claim whose record is damaged, as far as its saves tell."""

from perdure.store.records.lineage import fold_lineage
from perdure.store.records.log import Entry

LAUNCH = "01jdxyz0000000000000000001"


def entries(*headers):
    return [Entry(number=number, header=header) for number, header in enumerate(headers, start=1)]


def claim(attempt, base=None):
    return {"kind": "claim", "attempt": attempt, "launch": LAUNCH, "base": base}


def save(number, attempt=1):
    return {"kind": "save", "claim": number, "attempt": attempt, "launch": LAUNCH}


DAMAGED = {"kind": "damaged", "size": 1}


def test_its_saves_are_gone_on_from():
    lineage = fold_lineage(entries(claim(1), save(1), DAMAGED, save(3, 2), save(3, 2)), share=None)
    assert lineage.point == 5
    assert lineage.owner is not None
    assert (lineage.owner.number, lineage.owner.attempt) == (3, 2)
    assert [one.is_void for one in lineage.saves] == [True, False, False]


def test_what_they_were_made_on_is_unknown():
    lineage = fold_lineage(entries(claim(1), save(1), DAMAGED, save(3, 2)), share=None)
    assert lineage.ancestry(lineage.point) == (4,)
    assert lineage.claims[-1].base is None


def test_a_later_claim_stays_the_owner():
    lineage = fold_lineage(entries(DAMAGED, claim(2), save(1), save(2, 2)), share=None)
    assert lineage.owner is not None
    assert lineage.owner.number == 2
    assert lineage.point == 4


def test_a_damaged_save_changes_nothing():
    lineage = fold_lineage(entries(claim(1), save(1), DAMAGED, save(1)), share=None)
    assert lineage.point == 4
    assert lineage.ancestry(4) == (4, 2)
