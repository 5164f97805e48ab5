"""The fold of a lineage's log: every rule of owner, point and void."""

from perdure.store.layout import LaunchId
from perdure.store.records.lineage import SHARE, fold_lineage, share_claim
from perdure.store.records.log import Entry

SHARED = share_claim(LaunchId("s"), "2026-01-01T00:00:00.000Z")


def fold(*records, share=SHARED):
    return fold_lineage(
        [Entry(number=n, header=dict(record)) for n, record in enumerate(records, 1)], share=share
    )


def claim(launch, base=None, attempt=2, **more):
    return {"kind": "claim", "launch": launch, "attempt": attempt, "base": base, **more}


def save(claim=0, **more):
    return {"kind": "save", "claim": claim, "content": "c", **more}


def branch(base):
    return {"kind": "branch", "base": base, "by": "user"}


def voids(lineage):
    return [one.number for one in lineage.saves if one.is_void]


def test_nobody_owns_what_was_never_taken():
    lineage = fold(share=None)
    assert (lineage.owner, lineage.point, lineage.claims, lineage.last) == (None, None, (), 0)
    assert lineage.save(1) is None


def test_a_share_is_the_first_claim():
    lineage = fold(save())
    assert lineage.owner is SHARED
    assert SHARED.number == SHARE
    assert (lineage.point, lineage.claims) == (1, (SHARED,))


def test_saves_say_whose_the_share_was_that_is_lost():
    """Another took the task since: it was begun before, and has checkpoints."""
    lineage = fold(save(launch="l", at="2025"), save(launch="l"))
    lost = share_claim(LaunchId("l"), "2025")
    assert (lineage.owner, lineage.claims, lineage.point) == (lost, (lost,), 2)
    claimed = fold(save(launch="l", at="2025"), claim("m", base=1))
    assert [one.launch for one in claimed.claims] == ["l", "m"]
    assert claimed.owner.launch == "m"


def test_the_last_claim_owns_and_goes_on_from_its_base():
    lineage = fold(save(), save(), claim("m", base=1, values={"F": "1"}, split=[{"F": "2"}]))
    assert lineage.owner.launch == "m"
    assert lineage.point == 1
    assert voids(lineage) == [2]
    assert lineage.claims[-1].values == {"F": "1"}
    assert lineage.claims[-1].split == ({"F": "2"},)


def test_a_save_of_a_former_owner_adds_nothing():
    lineage = fold(save(), claim("m", base=1), save(claim=0), save(claim=2))
    assert lineage.point == 4
    assert voids(lineage) == [3]
    assert lineage.save(3).parent is None
    assert lineage.save(4).parent == 1


def test_after_a_branch_nobody_owns():
    lineage = fold(save(), save(), branch(1), save())
    assert lineage.owner is None
    assert lineage.point == 1
    assert voids(lineage) == [2, 4]
    assert [(b.number, b.base) for b in lineage.branches] == [(3, 1)]


def test_a_branch_to_the_beginning():
    lineage = fold(save(), branch(None))
    assert (lineage.owner, lineage.point, voids(lineage)) == (None, None, [1])


def test_a_branch_onto_a_void_save_brings_its_line_back():
    lineage = fold(
        save(), save(), claim("m", base=None), save(claim=3), branch(2), claim("n", base=2)
    )
    assert lineage.point == 2
    assert voids(lineage) == [4]


def test_ancestry_follows_what_was_saved_on_top_of_what():
    lineage = fold(save(), save(), branch(1), claim("m", base=1), save(claim=4), save(claim=4))
    assert lineage.ancestry(6) == (6, 5, 1)
    assert lineage.ancestry(2) == (2, 1)
    assert lineage.ancestry(None) == ()
    assert lineage.ancestry(3) == ()


def test_prunes_and_pins():
    lineage = fold(
        save(),
        save(),
        {"kind": "prune", "claim": 0, "saves": [1], "packs": ["p"]},
        {"kind": "pin", "save": 2},
        {"kind": "pin", "save": 1},
        {"kind": "unpin", "save": 1},
        {"kind": "unpin", "save": 7},
    )
    assert [(s.number, s.is_pruned, s.is_pinned) for s in lineage.saves] == [
        (1, True, False),
        (2, False, True),
    ]
    assert lineage.pruned_packs == {"p"}
    assert lineage.point == 2


def test_kinds_of_later_versions_are_passed_over():
    lineage = fold({"kind": "sometime"}, save())
    assert (lineage.point, lineage.last) == (2, 2)


def test_a_claim_for_housekeeping_owns_and_is_no_attempt():
    lineage = fold(
        save(),
        save(),
        claim("h", base=2, attempt=0, housekeeping=True),
        save(claim=0),
        {"kind": "prune", "claim": 3, "saves": [1], "packs": ["p"], "at": "then"},
        {"kind": "prune", "claim": 3, "saves": [], "packs": ["p", "q"], "at": "later"},
    )
    assert (lineage.owner.number, lineage.owner.is_housekeeping) == (3, True)
    assert lineage.claims == (SHARED,)
    assert (lineage.point, voids(lineage)) == (2, [4])
    assert lineage.pruned_at == {"p": "then", "q": "later"}
