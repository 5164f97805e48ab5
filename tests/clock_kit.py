"""A clock that goes on only when a test says so."""

from datetime import UTC, datetime


class HandClock:
    """Its monotonic time is ``seconds``; its date never changes."""

    def __init__(self):
        self.seconds = 0.0

    def monotonic(self):
        return self.seconds

    def now(self):
        return datetime(2026, 1, 1, tzinfo=UTC)
