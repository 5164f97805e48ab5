import pytest

from perdure.store.files.ownership import Owner, Ownership

KNOWN = Ownership(
    first_claim_at_ns=100,
    attempt_began_at_ns=200,
    recorded=frozenset({"/out/ours"}),
    is_declared_elsewhere=lambda path: path == "/out/theirs",
)


@pytest.mark.parametrize(
    ("path", "changed_at", "is_named", "owner"),
    [
        ("/out/x", 99, True, Owner.INPUT),
        ("/out/x", 100, True, Owner.TASK),
        ("/out/x", 150, True, Owner.TASK),
        ("/out/x", 250, True, Owner.TASK),
        ("/out/theirs", 250, True, Owner.TASK),
        ("/out/x", 99, False, Owner.OTHER),
        ("/out/x", 199, False, Owner.OTHER),
        ("/out/x", 200, False, Owner.TASK),
        ("/out/theirs", 250, False, Owner.OTHER),
        ("/out/ours", 50, True, Owner.TASK),
        ("/out/ours", 150, False, Owner.TASK),
        ("/out/ours", 250, False, Owner.TASK),
    ],
)
def test_whose_a_file_is(path, changed_at, is_named, owner):
    assert KNOWN.judge(path, changed_at, is_named=is_named) is owner
