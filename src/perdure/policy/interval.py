"""How often to save: the advice given to a task.

Young and Daly: the interval P that loses least is the square root of twice the mean time between
interruptions times what one save costs the task. It is never shorter than a save's way to the
store, because only one capture is in flight.

Source: hal-02514107 (first order); expected loss = C/P + P/(2 mu) + R/mu.
"""

from math import sqrt

from msgspec import Struct


class SaveCosts(Struct, frozen=True, kw_only=True):
    """Measured, in seconds.

    Attributes:
        blocked_seconds: how long one save keeps the task from working (not the drain behind it).
        drain_seconds: from the announcement until it is durable.
        restore_seconds: from the claim until the task works again.
    """

    blocked_seconds: float
    drain_seconds: float = 0.0
    restore_seconds: float = 0.0


class IntervalAdvice(Struct, frozen=True, kw_only=True):
    """How often to save, and which part of the time is then lost."""

    interval_seconds: float
    expected_loss: float


def advise_interval(
    costs: SaveCosts, *, mean_seconds_between_interruptions: float
) -> IntervalAdvice:
    """The interval that loses least.

    Raises:
        ValueError: the mean time between interruptions is not positive.
    """
    mean = mean_seconds_between_interruptions
    if not mean > 0:
        msg = f"the mean time between interruptions must be positive, not {mean}"
        raise ValueError(msg)
    best = sqrt(2 * mean * costs.blocked_seconds)
    interval = max(best, costs.drain_seconds, costs.blocked_seconds, 1.0)
    loss = costs.blocked_seconds / interval + interval / (2 * mean) + costs.restore_seconds / mean
    return IntervalAdvice(interval_seconds=interval, expected_loss=min(loss, 1.0))
