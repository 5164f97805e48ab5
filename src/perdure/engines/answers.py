"""What a batch system says of all of this user's jobs: asked once for all, and fresh for a while.

A turn asks once, whatever the number of jobs. Where nobody answers, what was said last holds on,
and nobody is asked for each job anew. A job that is younger than the answer is no job that was
forgotten: it is asked for once more, since somebody else may have submitted it meanwhile. Numbers
of jobs grow.
"""

import re
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from perdure.errors import EngineUnavailable

_Job = TypeVar("_Job")
#: What was said holds for so long.
FRESH_SECONDS = 2.0
_NUMBER = re.compile("[0-9]+")


class Answers(Generic[_Job]):
    """The jobs by their names: of an element of an array, or of a job as a whole.

    Args:
        ask: what the batch system says now; blocks. Raises EngineUnavailable where nobody answers,
            and ValueError where what was said cannot be read, which is the same.
    """

    def __init__(self, ask: Callable[[], Mapping[str, _Job]]) -> None:
        self._ask = ask
        self._jobs: Mapping[str, _Job] = {}
        self._answered_at: float | None = None
        self._tried_at: float | None = None
        self._absent: set[int] = set()

    @property
    def is_there(self) -> bool:
        """Whether there is an answer since the last `forget`."""
        return self._answered_at is not None

    def forget(self) -> None:
        """What was said holds no more: something was submitted, say."""
        self._answered_at = self._tried_at = None

    def all(self) -> Mapping[str, _Job]:
        """Every job, as said at most `FRESH_SECONDS` ago where somebody answers."""
        if self._tried_at is None or time.monotonic() - self._tried_at >= FRESH_SECONDS:
            self._try()
        return self._jobs

    def of(self, name: str) -> _Job | None:
        """What is said of a job; of the array, where its element is not told apart."""
        jobs = self.all()
        number = _number(name)
        if name not in jobs and str(number) not in jobs and self._may_be_new(number):
            self._absent.add(number)
            self._try()
        return self._jobs.get(name) or self._jobs.get(str(number))

    def _try(self) -> None:
        try:
            self._jobs = self._ask()
        except (EngineUnavailable, ValueError):
            self._tried_at = time.monotonic()
        else:
            self._answered_at = self._tried_at = time.monotonic()

    def _may_be_new(self, number: int) -> bool:
        is_answered = self._answered_at is not None and self._answered_at == self._tried_at
        youngest = max(map(_number, self._jobs), default=0)
        return is_answered and number not in self._absent and number > youngest


def _number(name: str) -> int:
    """The number with which a name begins: ``12_3``, ``12[3]``, ``12``."""
    match = _NUMBER.match(name)
    return int(match[0]) if match else 0
