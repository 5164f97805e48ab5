"""More memory after an end for want of it, and never without being allowed to."""

import pytest

from perdure.policy.counting import History, PastAttempt
from perdure.policy.memory_growth import (
    MemoryGrowth,
    MemoryWish,
    grown_mib,
    memory_ends,
    memory_wish,
)
from perdure.policy.outcome import AttemptState, Cause

GROWTH = MemoryGrowth(factor=2.0, most_mib=10_000)


def attempt(number, state, cause=None, launch="l1"):
    return PastAttempt(number=number, state=state, cause=cause, launch=launch)


def test_only_proven_ends_for_want_of_memory_count():
    history = History(
        attempts=(
            attempt(1, AttemptState.FAILED, Cause.MEMORY),
            attempt(2, AttemptState.FAILED, Cause.KILLED_FROM_OUTSIDE),
            attempt(3, AttemptState.SUSPENDED),
            attempt(4, AttemptState.LOST, launch="killed"),
            attempt(5, AttemptState.LOST, launch="lost"),
            attempt(6, AttemptState.SUSPENDED, launch="killed"),
        ),
        forgiven=6,
    )
    assert memory_ends(history, {"killed"}) == 2
    assert memory_ends(history, set()) == 1


def test_nothing_grows_without_the_option_or_without_such_an_end():
    assert memory_wish(3, None) is None
    assert memory_wish(0, GROWTH) is None


@pytest.mark.parametrize(("ends", "mib"), [(1, 3_000), (2, 6_000), (3, 10_000), (1000, 10_000)])
def test_it_grows_by_the_factor_up_to_the_limit(ends, mib):
    wish = memory_wish(ends, GROWTH)
    assert wish is not None
    assert grown_mib(1_500.0, wish) == mib


def test_the_limit_makes_nothing_smaller():
    assert grown_mib(20_000.5, MemoryWish(times=2.0, most_mib=10_000)) == 20_001
