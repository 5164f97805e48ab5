"""A clock that goes on only when a test says so."""

from datetime import UTC, datetime


class HandClock:
    """Its monotonic time is ``seconds``; its date never changes."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)
