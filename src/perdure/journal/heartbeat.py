"""Proof of life: a counter that a living launch moves, and the judgement that it stands still.

Only movement counts, judged on the observer's own monotonic clock; no wall clocks are compared.
The object has a fixed size, so that it can be rewritten in place where no space is left. What is
running stands beside the counter, for people.

Source: docs/journal-format.md, "A worker takes a lineage" (2).
"""

import json
from collections.abc import Mapping
from typing import Any

from perdure.clock import Clock
from perdure.journal.medium import Medium

#: How often a living launch moves its counter.
DEFAULT_INTERVAL_SECONDS = 10.0
#: A counter that stood still for so many intervals belongs to a launch that is taken to be dead.
STILL_INTERVALS = 3
#: The object's size: in one disk sector a rewrite is whole or not at all.
SIZE_BYTES = 512


class Heartbeat:
    """Writes one launch's counter."""

    def __init__(self, medium: Medium, key: str) -> None:
        self._medium = medium
        self._key = key
        self.counter = 0

    def beat(self, about: Mapping[str, Any]) -> None:
        """Move the counter; ``about`` is shown to people and dropped where it is too long.

        Raises:
            HomeError, OutOfSpace: the store is out of reach or full.
        """
        self.counter += 1
        text = json.dumps({"counter": self.counter, **about}, separators=(",", ":"))
        if len(text.encode("utf-8")) >= SIZE_BYTES:
            text = json.dumps({"counter": self.counter})
        data = text.encode("utf-8").ljust(SIZE_BYTES - 1) + b"\n"
        self._medium.put(self._key, data, in_place=True)


def read_heartbeat(medium: Medium, key: str) -> Mapping[str, Any] | None:
    """What a launch last said, or None where it said nothing that can be read."""
    (data,) = medium.get_many([key])
    if data is None:
        return None
    try:
        heartbeat = json.loads(data)
    except ValueError:
        return None
    return heartbeat if isinstance(heartbeat, dict) else None


def read_counter(medium: Medium, key: str) -> object:
    """What a launch's counter says now; None where it says nothing that can be read."""
    heartbeat = read_heartbeat(medium, key)
    return heartbeat.get("counter") if heartbeat else None


class Stillness:
    """Judges, for one observer, which launches' counters stand still.

    Args:
        clock: the observer's own; only its ``monotonic`` is used.
        interval_seconds: the launches' heartbeat interval.
    """

    def __init__(self, clock: Clock, interval_seconds: float = DEFAULT_INTERVAL_SECONDS) -> None:
        self._clock = clock
        self._still_seconds = STILL_INTERVALS * interval_seconds
        self._seen: dict[str, tuple[object, float]] = {}
        self._moved: set[str] = set()

    def observe(self, launch: str, counter: object) -> bool:
        """Note what the counter says now; whether it has stood still for long enough."""
        now = self._clock.monotonic()
        seen = self._seen.get(launch)
        if seen is None or seen[0] != counter:
            self._seen[launch] = (counter, now)
            if seen is not None:
                self._moved.add(launch)
            return False
        return now - seen[1] >= self._still_seconds

    def seconds_left(self, launch: str) -> float:
        """How long until the launch would count as still, if it does not move."""
        seen = self._seen.get(launch)
        if seen is None:
            return self._still_seconds
        return max(0.0, self._still_seconds - (self._clock.monotonic() - seen[1]))

    def counter(self, launch: str) -> object:
        """The counter last seen of that launch, or None."""
        seen = self._seen.get(launch)
        return None if seen is None else seen[0]

    def has_moved(self, launch: str) -> bool:
        """Whether this observer ever saw the launch's counter move."""
        return launch in self._moved
