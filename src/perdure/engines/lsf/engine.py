"""Workers as elements of LSF's job arrays.

Theory of operation. As on Slurm: the launches of one step that are started together are one array,
whose script reads the elements file, which says which launch each element is. A job that waits for
the array to have ended makes the next turn. bjobs is asked once for all that is ours, and what it
said holds for some seconds.

What is different: LSF does not tell a job why it is ended, only others afterwards. So the run that
is ended leaves the intent of the next one (`perdure.manager.next_runs`); whoever finds that LSF
will not run the element again asks `LsfEngine.why_stopped`. And a host that LSF cannot reach may
be at work all the same: nothing that it holds is started elsewhere before LSF has given it up
(`LsfEngine.may_live`).

Source: bsub(1), bjobs(1); docs/engines.md, docs/decisions/154.
"""

import getpass
import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from perdure.engines.allocation import LEAD_PART, LEAD_SECONDS
from perdure.engines.answers import Answers
from perdure.engines.base import LaunchRequest
from perdure.engines.causes import TOLD_LATER
from perdure.engines.elements import NAME, tokens_of, worker_command, write_elements
from perdure.engines.lsf.commands import NOTHING_FOUND, lsf
from perdure.engines.lsf.lsf_format import (
    JOB_FIELDS,
    REQUEUE_EXIT,
    Job,
    Verdict,
    array_script,
    begin_text,
    parse_jobs,
    parse_submission,
    place_options,
    resource_options,
    warning_options,
)
from perdure.engines.tokens import Token, index_list, parse_token
from perdure.errors import EngineError, EngineRefused, EngineUnavailable

#: So long a worker that shows no life is waited for that LSF still calls running: it learns of the
#: end of a job's processes from its daemon on the host, and tells why only then.
_TOLD_SECONDS = 120.0
_TOKEN_BYTES = 12


class LsfEngine:
    """Starts workers on a cluster.

    Args:
        options: of bsub, the user's.
        follow: started behind each array, once all of it is over: a command that makes a turn.
        own_job: the element that this process is, whose state says nothing of its earlier runs.
    """

    ends_with_host = False

    def __init__(
        self, options: Sequence[str] = (), follow: Sequence[str] = (), own_job: str | None = None
    ) -> None:
        self._options = tuple(options)
        self._follow = tuple(follow)
        self._own_job = own_job
        self._jobs = Answers(_jobs)
        self._silent_since: dict[str, float] = {}

    def new_tokens(self, count: int) -> Sequence[str]:
        """Those of the elements of one array; LSF counts from 1."""
        array = secrets.token_hex(_TOKEN_BYTES)
        return [str(Token(array=array, index=index)) for index in range(1, count + 1)]

    def start(self, requests: Sequence[LaunchRequest]) -> Sequence[Mapping[str, Any]]:
        """Submit one array, and behind it what follows it.

        Raises:
            EngineUnavailable: LSF does not answer.
            EngineRefused: it does not take the array.
        """
        first = requests[0]
        tokens = tokens_of(requests)
        name, indexes = tokens[0].array, [token.index for token in tokens]
        elements = write_elements(requests, tokens)
        command = [
            "bsub",
            *("-J", f"{NAME}{name}[{index_list(indexes)}]"),
            *("-o", f"{first.logs}/{name}_%I.out"),
            "-r",
            *("-Q", str(REQUEUE_EXIT)),
            *warning_options(self._options, LEAD_SECONDS, LEAD_PART),
            *resource_options(first.requirements, first.avoid_hosts),
            *self._options,
        ]
        job = _submitted(lsf(command, text=array_script(worker_command(first), str(elements))))
        self._jobs.forget()
        with suppress(EngineError):  # who gives a command about the job makes the turn, too
            self._submit_turn(["-w", f"ended({job})"], first.logs)
        return [ids_of(f"{job}[{index}]") for index in indexes]

    def follow_later(self, seconds: float, logs: Path) -> bool:
        """By a job that begins then, or up to a minute later.

        Raises:
            EngineUnavailable, EngineRefused: nobody will make it.
        """
        begin = datetime.now().astimezone() + timedelta(seconds=seconds)
        self._submit_turn(["-b", begin_text(begin)], logs)
        return True

    def _submit_turn(self, when: Sequence[str], logs: Path) -> None:
        if not self._follow:
            return
        command = [
            *("bsub", "-J", f"{NAME}settle", *when, "-o", f"{logs}/settle.out", "-r", "-n", "1"),
            *place_options(self._options),
            shlex.join(self._follow),
        ]
        lsf(command)

    def find(self, token: str) -> Mapping[str, Any] | None:
        """The element that carries the token, if LSF has it and has not ended it."""
        wanted = parse_token(token)
        if wanted is None:
            return None
        name, end = f"{NAME}{wanted.array}", f"[{wanted.index}]"
        for job in self._jobs.all().values():
            is_it = job.name.partition("[")[0] == name and job.job.endswith(end)
            if is_it and not job.is_over:
                return ids_of(job.job)
        return None

    def is_there(self, ids: Mapping[str, Any]) -> bool:
        """Whether LSF has the element, waiting or running; yes, where it never answered."""
        job = self._found(ids)
        if job is None:
            return not self._jobs.is_there
        return not job.is_over

    def may_live(self, ids: Mapping[str, Any]) -> bool:
        """Yes while its host is out of reach, or it is stopped; for two minutes while it runs.

        A job that LSF has put back waits in the queue: its former run is over.
        """
        name = str(ids.get("job"))
        if name == self._own_job:
            return False
        job = self._found(ids)
        if job is None or job.is_over or job.state == "PEND":
            return False
        if job.is_out_of_reach or job.is_stopped:
            return True
        since = self._silent_since.setdefault(name, time.monotonic())
        return time.monotonic() - since < _TOLD_SECONDS

    def why_stopped(self, ids: Mapping[str, Any], *, has_begun: bool) -> str | None:
        """What a person ended stays stopped; so does what was told to end, and nobody knows why.

        Raises:
            EngineUnavailable: LSF has not answered yet: nobody knows anything.
        """
        name, job = ids.get("job"), self._found(ids)
        self._refuse_silence()
        if job is None:
            return None if has_begun else f"LSF does not know job {name} any more: it never began"
        if not job.is_over:
            return None
        if job.verdict is Verdict.STOP:
            return f"LSF's job {name} was ended: {job.reason}"
        if ids.get(TOLD_LATER) and not has_begun and job.verdict is Verdict.COUNT:
            why = job.reason or f"state {job.state}, exit code {job.exit_code or 0}"
            return f"LSF's job {name} was told to end, and LSF does not say by whom ({why})"
        return None

    def ran_out_of_memory(self, ids: Mapping[str, Any]) -> bool:
        """Whether LSF ended the element for its memory (TERM_MEMLIMIT)."""
        job = self._found(ids)
        return job is not None and job.is_over and "TERM_MEMLIMIT" in job.reason

    def interrupt(self, ids: Mapping[str, Any], *, by_person: bool) -> None:
        """Nothing: LSF signals all processes of a job, the task's own, too.

        A worker sees what stands in the job's log within two seconds.
        """

    def withdraw(self, ids: Mapping[str, Any]) -> None:
        """End the element while it is pending.

        Raises:
            EngineUnavailable: LSF does not answer.
            EngineRefused: it says no.
        """
        self._jobs.forget()
        job = self._found(ids)
        self._refuse_silence()
        if job is not None and job.state == "PEND":
            lsf(["bkill", str(ids.get("job"))])

    def wait(self, seconds: float) -> bool:
        """Sleep; LSF tells nobody when a job has ended."""
        time.sleep(seconds)
        return False

    def _found(self, ids: Mapping[str, Any]) -> Job | None:
        """What LSF says of an element."""
        return self._jobs.of(str(ids.get("job")))

    def _refuse_silence(self) -> None:
        if not self._jobs.is_there:
            raise EngineUnavailable(
                "LSF does not answer", hint="Give the command again when it does."
            )


def _jobs() -> Mapping[str, Job]:
    """All of perdure's that this user has in LSF, by its name."""
    command = ["bjobs", "-a", "-u", getpass.getuser(), "-J", f"{NAME}*"]
    return {job.job: job for job in _shown([*command, "-json", "-o", JOB_FIELDS])}


def ids_of(job: str) -> dict[str, str]:
    """By which this engine knows an element."""
    return {"engine": "lsf", "job": job}


def _shown(command: Sequence[str]) -> tuple[Job, ...]:
    """What bjobs shows; it ends as if it had failed where there is nothing."""
    try:
        return parse_jobs(lsf(command))
    except EngineRefused as error:
        if any(words in error.message.lower() for words in NOTHING_FOUND):
            return ()
        raise


def _submitted(printed: str) -> str:
    try:
        return parse_submission(printed)
    except ValueError as error:
        raise EngineRefused(
            str(error), hint="See that `bsub` is LSF's own, and not a wrapper that prints less."
        ) from error
