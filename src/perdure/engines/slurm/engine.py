"""Workers as elements of Slurm's job arrays.

Theory of operation. The launches of one step that are started together are one array. Its script
reads the array's *elements file*, which says which launch each element is, and becomes its worker;
the file lies beside the logs, in the home, which every node must see. An array has a token, which
is its job's name; an element's token is made from it, and carried by everything that the element
runs. So whoever finds an intent without ids asks for the name, and finds the element.

Slurm is asked once for everything that this user has in it, and what it said holds for some
seconds: a turn asks once, whatever the number of jobs. Where it does not answer, what it said last
holds on: jobs run without a controller. What it has forgotten is gone; whether the work was done
is never asked of Slurm, but of perdure's own records.

Source: sbatch(1), squeue(1); docs/engines.md.
"""

import getpass
import math
import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from perdure.engines.base import LaunchRequest
from perdure.engines.elements import NAME, tokens_of, worker_command, write_elements
from perdure.engines.slurm.commands import slurm
from perdure.engines.slurm.slurm_format import (
    QUEUE_FORMAT,
    Queued,
    array_script,
    parse_queue,
    parse_submission,
    place_options,
    resource_options,
)
from perdure.engines.tokens import Token, index_list, parse_token
from perdure.errors import EngineError, EngineRefused, EngineUnavailable

#: What Slurm said holds for so long.
FRESH_SECONDS = 2.0
#: Of an array's token; the elements' have more behind it.
_TOKEN_BYTES = 12
#: In the ids of a run that comes again.
PUT_BACK = "put_back"


class SlurmEngine:
    """Starts workers on a cluster.

    Args:
        options: of sbatch, the user's.
        follow: started behind each array, once all of it is over: a command that makes a turn.
    """

    ends_with_host = False

    def __init__(self, options: Sequence[str] = (), follow: Sequence[str] = ()) -> None:
        self._options = tuple(options)
        self._follow = tuple(follow)
        self._queue: dict[str, Queued] = {}
        self._asked_at: float | None = None

    def new_tokens(self, count: int) -> Sequence[str]:
        """Those of the elements of one array."""
        array = secrets.token_hex(_TOKEN_BYTES)
        return [str(Token(array=array, index=index)) for index in range(count)]

    def start(self, requests: Sequence[LaunchRequest]) -> Sequence[Mapping[str, Any]]:
        """Submit one array, and behind it what follows it.

        Raises:
            EngineUnavailable: Slurm does not answer.
            EngineRefused: it does not take the array.
        """
        first = requests[0]
        tokens = tokens_of(requests)
        name, indexes = tokens[0].array, [token.index for token in tokens]
        elements = write_elements(requests, tokens)
        command = [
            "sbatch",
            "--parsable",
            f"--array={index_list(indexes)}",
            f"--job-name={NAME}{name}",
            f"--output={first.logs}/{name}_%a.out",
            "--open-mode=append",
            "--requeue",
            *resource_options(first.requirements, first.avoid_hosts),
            *self._options,
        ]
        job = _job_of(slurm(command, text=array_script(worker_command(first), str(elements))))
        self._asked_at = None
        self._submit_follower(job, first.logs)
        return [_ids(job, index) for index in indexes]

    def follow_later(self, seconds: float, logs: Path) -> bool:
        """By a job that begins then.

        Raises:
            EngineUnavailable, EngineRefused: nobody will make it.
        """
        self._submit_turn([f"--begin=now+{math.ceil(seconds)}"], logs)
        return True

    def _submit_follower(self, job: str, logs: Path) -> None:
        """What makes a turn when the whole array is over, however it ended."""
        with suppress(EngineError):  # who gives a command about the job makes the turn, too
            self._submit_turn([f"--dependency=afterany:{job}", "--kill-on-invalid-dep=yes"], logs)

    def _submit_turn(self, when: Sequence[str], logs: Path) -> None:
        if not self._follow:
            return
        command = [
            "sbatch",
            "--parsable",
            *when,
            f"--job-name={NAME}settle",
            f"--output={logs}/settle.out",
            "--open-mode=append",
            "--requeue",
            "--cpus-per-task=1",
            *place_options(self._options),
            "--wrap",
            shlex.join(self._follow),
        ]
        slurm(command)

    def find(self, token: str) -> Mapping[str, Any] | None:
        """The element that carries the token, if Slurm has it and has not ended it."""
        wanted = parse_token(token)
        self._ask()
        for queued in self._queue.values():
            job, _underscore, element = queued.job.partition("_")
            if (
                wanted is not None
                and queued.name == f"{NAME}{wanted.array}"
                and element == str(wanted.index)
                and not queued.is_over
            ):
                return _ids(job, wanted.index)
        return None

    def is_there(self, ids: Mapping[str, Any]) -> bool:
        """Whether Slurm has the element, waiting or running; yes, where it never answered."""
        self._ask()
        queued = self._found(ids)
        if queued is None:
            return self._asked_at is None
        if queued.waits_for_its_time and ids.get(PUT_BACK):
            self._let_begin(queued)
        return not queued.is_over

    def may_live(self, ids: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Slurm shows jobs as running whose processes are dead: the heartbeat decides."""
        return False

    def why_stopped(self, ids: Mapping[str, Any], *, has_begun: bool) -> str | None:
        """What was cancelled stays stopped, and so does what Slurm does not know any more.

        A worker that had begun has said itself what it could.
        """
        if has_begun:
            return None
        self._ask()
        queued = self._found(ids)
        if queued is None:
            return f"Slurm does not know job {ids.get('job')} any more, and it never began"
        return f"Slurm's job {ids.get('job')} was cancelled" if queued.is_cancelled else None

    def _found(self, ids: Mapping[str, Any]) -> Queued | None:
        """What Slurm says of an element; an array that ended unbegun is shown as one job."""
        job = str(ids.get("job"))
        return self._queue.get(job) or self._queue.get(job.partition("_")[0])

    def _let_begin(self, queued: Queued) -> None:
        """What was put back would wait for two minutes; its owner may say that it need not.

        What waits for the first time does so because its owner said ``--begin``.
        """
        with suppress(EngineError):
            slurm(["scontrol", "update", f"JobId={queued.job}", "StartTime=now"])

    def interrupt(self, ids: Mapping[str, Any], *, by_person: bool) -> None:
        """SIGINT for a person's wish, SIGTERM for the host's, to the worker; best effort."""
        number = "INT" if by_person else "TERM"
        with suppress(EngineError):
            slurm(["scancel", f"--signal={number}", "--batch", str(ids["job"])])

    def withdraw(self, ids: Mapping[str, Any]) -> None:
        """Cancel the element while it is pending.

        Raises:
            EngineUnavailable: Slurm does not answer.
            EngineRefused: it says no.
        """
        self._asked_at = None
        self._ask()
        queued = self._found(ids)
        if self._asked_at is None or (queued is not None and queued.is_pending):
            slurm(["scancel", "--state=PENDING", str(ids.get("job"))])

    def check(self) -> None:
        """See whether Slurm would take a job with these options; nothing is submitted.

        Raises:
            EngineUnavailable: it does not answer.
            EngineRefused: it would not.
        """
        slurm(["sbatch", "--test-only", *self._options, "--wrap", "true"])

    def wait(self, seconds: float) -> bool:
        """Sleep; Slurm tells nobody when a job has ended."""
        time.sleep(seconds)
        return False

    def _ask(self) -> None:
        """See that what Slurm said is fresh."""
        now = time.monotonic()
        if self._asked_at is not None and now - self._asked_at < FRESH_SECONDS:
            return
        command = ["squeue", "-h", "-r", "-t", "all", "-u", getpass.getuser(), "-o", QUEUE_FORMAT]
        try:
            found = parse_queue(slurm(command))
        except EngineUnavailable:
            return
        self._queue = {queued.job: queued for queued in found}
        self._asked_at = now


def _job_of(printed: str) -> str:
    try:
        return parse_submission(printed)
    except ValueError as error:
        raise EngineRefused(
            str(error), hint="See that `sbatch` is Slurm's own, and not a wrapper that prints more."
        ) from error


def _ids(job: str, index: int) -> dict[str, Any]:
    return {"engine": "slurm", "job": f"{job}_{index}"}
