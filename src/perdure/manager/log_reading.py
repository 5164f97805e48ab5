"""What tasks printed: all attempts in order, from the home's logs or the ends in the store.

A launch writes one log; its journal says from which byte to which an attempt's output stands. A
byte that is not there any more (the home is gone, the middle of a long log was dropped) is counted
and said, never passed over in silence.
"""

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from msgspec import Struct, field

from perdure.manager.job_view import JobView
from perdure.manager.labels import task_label
from perdure.store import layout
from perdure.store.layout import LaunchId
from perdure.worker.ends import read_ends
from perdure.worker.output import read_log

#: So much of a log is read at once.
PIECE_BYTES = 1 << 20


class LoggedAttempt(Struct, frozen=True, kw_only=True):
    """An attempt and where its output stands.

    Attributes:
        start, end: in its launch's log; ``end`` is None while it goes on, and for the last one of
            a launch where what follows (leaving environments) is shown too.
        is_over: whether it has ended.
        title: what stands above its output.
    """

    step: int
    task: str
    number: int
    launch: LaunchId
    start: int
    end: int | None
    is_over: bool
    started_at: str
    title: str


class Output(Struct, frozen=True, kw_only=True):
    """A piece of output, or what is missing of it.

    Attributes:
        data: as it was printed.
        lost: in words, instead of data; "" for none.
    """

    data: bytes = b""
    lost: str = ""


class Wanted(Struct, frozen=True, kw_only=True):
    """Which attempts; None: all."""

    lineage: tuple[int, str] | None = None
    number: int | None = None

    @property
    def is_everything(self) -> bool:
        """Whether the whole job is meant: then what stands between attempts is shown too."""
        return self.lineage is None and self.number is None

    def covers(self, step: int, task: str, number: int) -> bool:
        """Whether that attempt is meant."""
        return self.lineage in (None, (step, task)) and self.number in (None, number)


def logged_attempts(view: JobView, wanted: Wanted) -> list[LoggedAttempt]:
    """The attempts of a view that was refreshed, in the order in which they began."""
    found: list[LoggedAttempt] = []
    for launch in view.records.state.launches:
        account = view.records.known_account(launch)
        begun = sorted(
            int(a.begun["log"]) for a in account.attempts.values() if a.begun is not None
        )
        following = dict(pairwise(begun))
        for key, attempt in account.attempts.items():
            if attempt.begun is None or not wanted.covers(*key):
                continue
            start = int(attempt.begun["log"])
            end: int | None = following.get(start)
            if attempt.outcome is not None and not wanted.is_everything:
                end = int(attempt.outcome["log"][1])
            found.append(
                LoggedAttempt(
                    step=key.step,
                    task=key.task,
                    number=key.attempt,
                    launch=launch,
                    start=start,
                    end=end,
                    is_over=attempt.outcome is not None or view.has_ended(launch),
                    started_at=str(attempt.begun.get("at", "")),
                    title=_title(view, key.step, dict(attempt.begun), key.attempt),
                )
            )
    return sorted(found, key=lambda one: (one.started_at, one.launch, one.start))


def _title(view: JobView, step: int, begun: dict[str, object], number: int) -> str:
    values = begun.get("values")
    texts = {str(k): str(v) for k, v in values.items()} if isinstance(values, dict) else {}
    label = task_label(view.job.step(step).name, texts)
    base = begun.get("base")
    is_resume = begun.get("action") == "onCheckpointResume"
    start = f"from checkpoint {base}" if is_resume else "from the beginning"
    return f"{label} attempt {number} {start}, on {begun.get('host', '?')} {begun.get('at', '')}"


class LogReader(Struct):
    """Reads outputs of one job.

    Attributes:
        folder: of the job's logs in the home.
        position: by launch and start of an attempt, how far it was read, for following.
    """

    view: JobView
    folder: Path
    position: dict[tuple[LaunchId, int], int] = field(default_factory=dict)
    _ends: dict[LaunchId, dict[tuple[int, str, int], bytes]] = field(default_factory=dict)

    def has_log(self, attempt: LoggedAttempt) -> bool:
        """Whether the log of the attempt's launch is in the home, and may be read."""
        return os.access(self._path(attempt), os.R_OK)

    def output(self, attempt: LoggedAttempt) -> Iterator[Output]:
        """All of an attempt's output, as far as it is there."""
        if not self.has_log(attempt):
            yield from self._from_store(attempt)
            return
        yield from self.piecewise(attempt, attempt.start, attempt.end)

    def piecewise(self, attempt: LoggedAttempt, start: int, end: int | None) -> Iterator[Output]:
        """What stands from ``start`` to ``end`` (None: as far as it goes)."""
        path = self._path(attempt)
        last = end if end is not None else _length(path)
        lost = 0
        while start < last:
            upto = min(last, start + PIECE_BYTES)
            data = read_log(path, start, upto)
            lost += upto - start - len(data)
            if data and lost:
                yield Output(lost=f"{lost} bytes of the log are gone here")
                lost = 0
            if data:
                yield Output(data=data)
            start = upto
        if lost:
            yield Output(lost=f"{lost} bytes of the log are gone here")

    def follow(self, attempt: LoggedAttempt) -> Iterator[Output]:
        """What is new since it was read last; of a log that is gone, once, what is left."""
        key = (attempt.launch, attempt.start)
        if not self.has_log(attempt):
            if attempt.is_over and key not in self.position:
                self.position[key] = attempt.start
                yield from self._from_store(attempt)
            return
        start = self.position.get(key, attempt.start)
        last = attempt.end if attempt.end is not None else _length(self._path(attempt))
        if start < last:
            self.position[key] = last
            yield from self.piecewise(attempt, start, last)

    def _from_store(self, attempt: LoggedAttempt) -> Iterator[Output]:
        """The end of its output as the store keeps it; and that the rest is gone."""
        key = (attempt.step, attempt.task, attempt.number)
        end = self._ends_of(attempt.launch).get(key, b"")
        size = None if attempt.end is None else attempt.end - attempt.start
        if size == 0:
            return
        if not end:
            yield Output(lost="its log is not in this home, and the store keeps no end of it")
            return
        missing = None if size is None else size - len(end)
        if missing is None or missing > 0:
            yield Output(lost="its log is not in this home; the store keeps the end of it:")
        yield Output(data=end)

    def _ends_of(self, launch: LaunchId) -> dict[tuple[int, str, int], bytes]:
        if launch not in self._ends:
            key = layout.ends(self.view.document.job, launch)
            self._ends[launch] = {
                (end.step, end.task, end.attempt): end.text
                for end in read_ends(self.view.records.driver, key)
            }
        return self._ends[launch]

    def _path(self, attempt: LoggedAttempt) -> Path:
        return self.folder / f"{attempt.launch}.log"


def _length(path: Path) -> int:
    """How many bytes were ever in a launch's log: where its last part ends."""
    lengths = [path.stat().st_size] if path.exists() else [0]
    for part in path.parent.glob(f"{path.name}.*"):
        offset = part.name.removeprefix(f"{path.name}.")
        if offset.isdigit():
            lengths.append(int(offset) + part.stat().st_size)
    return max(lengths)
