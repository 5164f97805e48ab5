"""The LSF job that a worker runs in: when it ends, and how it comes again.

Asked by the worker itself, about its own job. LSF shows the reason of an end only once the job is
over, so a job that is being ended cannot tell a `bkill` from a `brequeue`.

Source: bjobs(1), brequeue(1); docs/engines.md.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from typing import Self

from perdure.engines.allocation import wait_to_be_ended
from perdure.engines.causes import Cause
from perdure.engines.lsf.commands import lsf
from perdure.engines.lsf.engine import ids_of
from perdure.engines.lsf.lsf_format import JOB_FIELDS, REQUEUE_EXIT, Job, job_id, parse_jobs
from perdure.errors import EngineError, EngineUnavailable

#: LSF ends a job with SIGINT, SIGTERM and SIGKILL, 10 s apart (JOB_TERMINATE_INTERVAL); a job that
#: it was asked to put back it may leave alone for as long as its master is busy.
_END_SECONDS = 120.0


class LsfAllocation:
    """The job of LSF, or the element of an array, that this process runs in."""

    def __init__(self, job: str) -> None:
        self.job = job
        self.exit_code = 0

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self | None:
        """By what LSF puts into a job's environment; None where this is no job of LSF's."""
        job = environment.get("LSB_JOBID")
        return None if not job else cls(job_id(job, environment.get("LSB_JOBINDEX", "")))

    def ids(self) -> dict[str, str]:
        """By which the engine knows it."""
        return ids_of(self.job)

    def ends_at(self) -> datetime | None:
        """By its run limit and how long it ran; None without a limit, or an answer."""
        found = self._shown()
        left = None if found is None else found.seconds_left
        return None if left is None else datetime.now(UTC) + timedelta(seconds=left)

    def cause(self) -> Cause:
        """It is told later."""
        return Cause.TOLD_LATER

    def last_words(self) -> str:
        """What bjobs shows of it now; "" where nobody answers."""
        with suppress(EngineError):
            return lsf(["bjobs", "-l", self.job]).strip()
        return ""

    def requeue(self) -> None:
        """Put it back into LSF's queue: by brequeue, or by its exit code where nobody answers.

        Raises:
            EngineRefused: it may not be put back.
        """
        try:
            lsf(["brequeue", self.job])
        except EngineUnavailable:
            self.exit_code = REQUEUE_EXIT

    def killed_at(self) -> datetime | None:
        """At its end, or some seconds later: how many a site has LSF wait it does not say."""
        return self.ends_at()

    def wait_for_the_end(
        self, *, until_killed: bool, is_replaced: Callable[[], bool] = lambda: False
    ) -> None:
        """Do nothing until LSF ends this process, unless its exit code is to put it back."""
        if not self.exit_code:
            wait_to_be_ended(_END_SECONDS, until_killed=until_killed, is_replaced=is_replaced)

    def first_word(self, told: Callable[[], None]) -> AbstractContextManager[object]:  # noqa: ARG002
        """All processes of a job are told at once."""
        return nullcontext()

    def _shown(self) -> Job | None:
        with suppress(EngineError, ValueError):
            return next(iter(parse_jobs(lsf(["bjobs", "-json", "-o", JOB_FIELDS, self.job]))), None)
        return None
