"""Time, as a value that is passed in, so that tests decide what time it is.

``monotonic`` decides (deadlines, still intervals); ``now`` is written down for people and never
decides anything: hosts disagree about it, and it jumps.
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the rest of perdure asks about time."""

    def monotonic(self) -> float:
        """Seconds that never run backwards; comparable within one process only."""
        ...

    def now(self) -> datetime:
        """The wall clock in UTC, for people to read."""
        ...


class SystemClock:
    """The clock of this host."""

    def monotonic(self) -> float:
        """Seconds that never run backwards; comparable within one process only."""
        return time.monotonic()

    def now(self) -> datetime:
        """The wall clock in UTC, for people to read."""
        return datetime.now(UTC)


MILLISECOND_NS = 1_000_000
#: Waits between tries double up to this.
LONGEST_PAUSE_SECONDS = 5.0


def pause(tries: int) -> None:
    """Wait before the next try of what a store did not answer, longer after each of ``tries``."""
    time.sleep(min(LONGEST_PAUSE_SECONDS, 0.05 * 2.0 ** min(tries, 16)))


def to_text(moment: datetime) -> str:
    """``moment`` as RFC 3339 in UTC with milliseconds: ``2026-11-29T17:40:12.345Z``."""
    utc = moment.astimezone(UTC)
    return utc.strftime("%Y-%m-%dT%H:%M:%S.") + f"{utc.microsecond // 1000:03d}Z"


def from_text(text: str) -> datetime:
    """The moment that `to_text` wrote (any RFC 3339 text with an offset).

    Raises:
        ValueError: ``text`` is no such moment, or has no offset.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        msg = f"{text!r} has no offset from UTC"
        raise ValueError(msg)
    return moment.astimezone(UTC)


def to_ns(text: str) -> int:
    """The moment that `to_text` wrote, in nanoseconds since the epoch, whole milliseconds.

    Raises:
        ValueError: as `from_text`.
    """
    return int(from_text(text).timestamp() * 1000) * MILLISECOND_NS
