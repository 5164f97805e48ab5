"""How long a task gets between the first signal and SIGKILL.

The template's period, or what a deadline leaves: the time until it, minus what capture and upload
will take, minus a margin. Where nothing was learned yet, the capture is estimated from the bytes
declared and a probed bandwidth: at least one second, never more than half of the time left. If it
cannot fit, the notice is cut, not the commit.

Source: design of perdure, "Suspend, exactly".
"""

from datetime import timedelta

from msgspec import Struct

#: For the exit, the journal and the engine's own clock.
MARGIN = timedelta(seconds=5)
_SHORTEST_ESTIMATE = timedelta(seconds=1)
_ZERO = timedelta()


class Capturing(Struct, frozen=True, kw_only=True):
    """What is known about capture and upload.

    Attributes:
        learned: how long they took before; None without history.
        declared_bytes: of the dataset declared so far.
        bandwidth_bytes_per_second: probed; None where it was not.
    """

    learned: timedelta | None = None
    declared_bytes: int = 0
    bandwidth_bytes_per_second: float | None = None


NOTHING_KNOWN = Capturing()


class NoticePlan(Struct, frozen=True, kw_only=True):
    """What the task is told.

    Attributes:
        period: until SIGKILL.
        is_shortened: it is shorter than the template's.
        fits: capture and margin fit into the time left.
        reason: one sentence for people, or "".
    """

    period: timedelta
    is_shortened: bool = False
    fits: bool = True
    reason: str = ""


def plan_notice(
    template: timedelta, *, time_left: timedelta | None = None, capturing: Capturing = NOTHING_KNOWN
) -> NoticePlan:
    """The notice period.

    Args:
        template: the period of the template.
        time_left: until the deadline, on a monotonic clock; None when there is none.
        capturing: what is known about capture and upload.
    """
    if time_left is None:
        return NoticePlan(period=template)
    needed = _capture_time(capturing, time_left) + MARGIN
    available = time_left - needed
    period = max(_ZERO, min(template, available))
    if period == template:
        return NoticePlan(period=template)
    left, kept = _seconds(time_left), _seconds(needed)
    return NoticePlan(
        period=period,
        is_shortened=True,
        fits=available >= _ZERO,
        reason=(
            f"the notice period is {_seconds(period)} instead of {_seconds(template)}: {left} are"
            f" left, {kept} of them are kept for the commit"
        ),
    )


def _capture_time(capturing: Capturing, time_left: timedelta) -> timedelta:
    """How long capture and upload will take."""
    if capturing.learned is not None:
        return capturing.learned
    estimate = _SHORTEST_ESTIMATE
    if capturing.bandwidth_bytes_per_second:
        seconds = capturing.declared_bytes / capturing.bandwidth_bytes_per_second
        # a year is more than any deadline, and timedelta overflows far beyond
        estimate = max(estimate, timedelta(seconds=min(seconds, 3.2e7)))
    return max(_ZERO, min(estimate, time_left / 2))


def _seconds(period: timedelta) -> str:
    """For people."""
    return f"{period.total_seconds():.0f} s"
