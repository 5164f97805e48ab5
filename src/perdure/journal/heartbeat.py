"""Proof of life: a counter that a living launch moves, and the judgement that it stands still.

Only movement counts, judged on the observer's own monotonic clock; no wall clocks are compared.
The object has a fixed size, so that it can be rewritten in place where no space is left. What is
running stands beside the counter, for people.

Source: docs/journal-format.md, "A worker takes a lineage" (2).
"""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from perdure.clock import Clock
from perdure.journal.medium import Medium

#: How often a living launch moves its counter.
DEFAULT_INTERVAL_SECONDS = 10.0
#: A counter that stood still for so many intervals belongs to a launch that is taken to be dead.
STILL_INTERVALS = 3
_LEAST_LOOK_SECONDS = 2.0
#: The object's size: in one disk sector a rewrite is whole or not at all.
SIZE_BYTES = 512
#: So much of a sentence is shown beside the counter.
SENTENCE_LIMIT = 120
#: What is left out first where it does not fit.
_WORDS = frozenset({"status", "trouble"})


class Heartbeat:
    """Writes one launch's counter."""

    def __init__(self, medium: Medium, key: str) -> None:
        self._medium = medium
        self._key = key
        self.counter = 0

    def beat(self, about: Mapping[str, Any]) -> None:
        """Move the counter; ``about`` is shown to people, without its words where it is too long.

        Raises:
            HomeError, OutOfSpace: the store is out of reach or full.
        """
        self.counter += 1
        bare = {name: value for name, value in about.items() if name not in _WORDS}
        texts = (
            json.dumps({"counter": self.counter, **words}, separators=(",", ":"))
            for words in (about, bare, {})
        )
        text = next(text for text in texts if len(text) < SIZE_BYTES)
        self._medium.put(
            self._key, text.encode("ascii").ljust(SIZE_BYTES - 1) + b"\n", in_place=True
        )


def shortened(sentence: str) -> str:
    """A sentence that fits: what happened stands at its beginning, and why at its end."""
    if len(sentence) <= SENTENCE_LIMIT:
        return sentence
    half = SENTENCE_LIMIT // 2 - 3
    return f"{sentence[:half]} ... {sentence[-half:]}"


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

    Only time in which the observer looked is counted: between two looks at most an interval (or two
    seconds, where that is more). Where the store was out of reach for both, the one that comes back
    first must not take the other's last word for a death.

    Args:
        clock: the observer's own; only its ``monotonic`` is used.
        interval_seconds: the launches' heartbeat interval.
    """

    def __init__(self, clock: Clock, interval_seconds: float = DEFAULT_INTERVAL_SECONDS) -> None:
        self._clock = clock
        self._still_seconds = STILL_INTERVALS * interval_seconds
        self._most_a_look = max(interval_seconds, _LEAST_LOOK_SECONDS)
        self._seen: dict[str, _Seen] = {}
        self._moved: set[str] = set()

    def observe(self, launch: str, counter: object) -> bool:
        """Note what the counter says now; whether it has stood still for long enough."""
        now = self._clock.monotonic()
        seen = self._seen.get(launch)
        if seen is None or seen.counter != counter:
            self._seen[launch] = _Seen(counter, looked_at=now)
            if seen is not None:
                self._moved.add(launch)
            return False
        seen.still_seconds += min(now - seen.looked_at, self._most_a_look)
        seen.looked_at = now
        return seen.still_seconds >= self._still_seconds

    def seconds_left(self, launch: str) -> float:
        """How long until the launch would count as still, if it does not move and is looked at."""
        seen = self._seen.get(launch)
        if seen is None:
            return self._still_seconds
        return max(0.0, self._still_seconds - seen.still_seconds)

    def counter(self, launch: str) -> object:
        """The counter last seen of that launch, or None."""
        seen = self._seen.get(launch)
        return None if seen is None else seen.counter

    def has_moved(self, launch: str) -> bool:
        """Whether this observer ever saw the launch's counter move."""
        return launch in self._moved


class _Seen(Struct):
    """A counter as it was last seen, and for how long it has stood so."""

    counter: object
    looked_at: float
    still_seconds: float = 0.0
