"""More memory for the attempt behind one that ran out of it, where the submitter allows that.

Counted over the whole lineage: neither progress nor a person's resume makes a task need less. What
the kernel or the engine proved counts; a SIGKILL from outside, which may have been that, does not.

Source: docs/decisions/153.
"""

import math
from collections.abc import Collection

from msgspec import Struct

from perdure.policy.counting import History
from perdure.policy.outcome import AttemptState, Cause


class MemoryGrowth(Struct, frozen=True, kw_only=True):
    """How memory grows.

    Attributes:
        factor: so many times as much after each end for want of memory; more than 1.
        most_mib: never more than this, in MiB.
    """

    factor: float
    most_mib: int


class MemoryWish(Struct, frozen=True, kw_only=True):
    """What one launch asks for: so many times what its step asks for, at most so much."""

    times: float
    most_mib: int


def memory_ends(history: History, killed: Collection[str]) -> int:
    """How many of a lineage's attempts ended because memory ran out.

    Args:
        history: of the lineage.
        killed: launches of which the engine says that they were ended for it.
    """
    return sum(
        attempt.cause is Cause.MEMORY
        or (attempt.state is AttemptState.LOST and attempt.launch in killed)
        for attempt in history.attempts
    )


def memory_wish(ends: int, growth: MemoryGrowth | None) -> MemoryWish | None:
    """What the next attempt asks for; None: what its step asks for."""
    if growth is None or ends == 0:
        return None
    return MemoryWish(times=growth.factor ** min(ends, 64), most_mib=growth.most_mib)


def grown_mib(first_mib: float, wish: MemoryWish) -> int:
    """The memory in MiB; what was asked for at first is never made less, whatever the limit."""
    first = math.ceil(first_mib)
    return max(first, min(math.ceil(first_mib * wish.times), wish.most_mib))
