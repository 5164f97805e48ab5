"""A lineage's life, and the power failing after every operation of it.

The life (`support.lineage_life`) is lived once in a real folder and recorded; then every state that
the disk may be in (`support.power_failure`) is laid out in a folder and opened like any store. What
must hold of each: it opens, it goes on from the last acknowledged checkpoint or a newer one, every
byte of all of its checkpoints is right, and the journals have every line that was called durable.
In some states the lineage is taken on, saved and restored, too.

Source: design 3 (rule 1); docs/store-format.md "Drivers" on when "created" is said.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from blake3 import blake3

from perdure.errors import PerdureError
from support.failing_calls import Opened, opened
from support.lineage_life import Found, Life, Sizes, examined, restored
from support.power_failure import Operation, State, states
from support.recorded_disk import Recorder, laid_out
from support.system_calls import watched

_STORE = "store"
#: The second one takes over what the first one left.
ATTEMPTS = 2
#: In so many states one is lived on in.
_LIVED_ON = 40
#: Enough for every kind of step; the bytes only have to be more than some sectors.
SIZES = Sizes(settled=300, changing=66_000, growing=9_000)


@dataclass
class Tried:
    """What was tried: all states, those that differ, and those that were lived on in."""

    operations: int = 0
    states: int = 0
    distinct: int = 0
    lived_on: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """For a report."""
        return (
            f"{self.states} states ({self.distinct} distinct) after {self.operations} operations,"
            f" {self.lived_on} lived on in, {len(self.wrong)} wrong"
        )


def recorded_life(
    folder: Path, *, opened: Opened = opened, sizes: Sizes = SIZES
) -> list[Operation]:
    """The history of a life in the empty ``folder``."""
    disk, session = folder / "disk", folder / "session"
    disk.mkdir(parents=True)
    session.mkdir()
    recorder = Recorder(disk)
    with watched(recorder, disk):
        for attempt in range(1, ATTEMPTS + 1):
            Life(
                disk / _STORE,
                session,
                attempt,
                sizes=sizes,
                said=lambda what, number, attempt=attempt: recorder.said(  # type: ignore[misc]
                    f"{what} {attempt}" if what == "line" else what, number
                ),
                opened=opened,
            ).live()
    recorder.expect_complete()
    return recorder.history


def powered_off(
    history: Sequence[Operation],
    folder: Path,
    *,
    each: int,
    seed: int,
    prefixes: Sequence[int] | None = None,
    sizes: Sizes = SIZES,
    most_wrong: int = 5,
) -> Tried:
    """Look at ``each`` states after every prefix of the history, or after those ``prefixes``."""
    tried = Tried(operations=len(history))
    judged: dict[bytes, Found | str] = {}
    for length, state in states(history, each=each, seed=seed, prefixes=prefixes):
        tried.states += 1
        identity = _identity(state)
        found = judged.get(identity)
        if found is None:
            laid_out(state, folder / "disk")
            found = judged[identity] = _looked_at(folder / "disk" / _STORE, sizes)
            tried.distinct += 1
            if isinstance(found, Found) and random.Random(f"{seed} {tried.distinct}").random() < (
                1 / _LIVED_ON
            ):
                _live_on(folder, found, sizes)
                tried.lived_on += 1
        wrong = _wrong(found, state)
        if wrong:
            tried.wrong.append(f"after operation {length} ({history[length - 1]!r:.200}): {wrong}")
            if len(tried.wrong) >= most_wrong:
                break
    return tried


def _identity(state: State) -> bytes:
    hasher = blake3()
    for folder in state.folders:
        hasher.update(b"folder %s\0" % folder.encode())
    for name, data in state.files.items():
        hasher.update(b"file %s %d\0" % (name.encode(), len(data)))
        hasher.update(data)
    return hasher.digest()


def _looked_at(store: Path, sizes: Sizes) -> Found | str:
    """What is there, or what is wrong with it."""
    try:
        opened(store).close()
        return examined(store, sizes, attempts=ATTEMPTS)
    except (AssertionError, PerdureError, OSError) as error:
        return repr(error)


def _wrong(found: Found | str, state: State) -> str:
    if isinstance(found, str):
        return found
    saved = state.said.get("save", 0)
    if found.version < saved:
        return f"version {saved} was acknowledged, and {found.version} is there"
    for attempt, there in found.lines.items():
        lines = state.said.get(f"line {attempt}", 0)
        if there < lines:
            return f"line {lines} of a journal was durable, and {there} are there"
    return ""


def _live_on(folder: Path, found: Found, sizes: Sizes) -> None:
    """What a worker does next with such a store: restore, take the lineage, save."""
    fresh = folder / f"fresh-{random.Random(found.version).getrandbits(16)}"
    store = folder / "disk" / _STORE
    if found.number:
        fresh.mkdir(exist_ok=True)
        restored(store, found.number, fresh, sizes)
    session = folder / "session-after"
    session.mkdir(exist_ok=True)
    Life(store, session, ATTEMPTS + 1, sizes=sizes).live()
    assert examined(store, sizes).version == 10 * (ATTEMPTS + 1) + 3
