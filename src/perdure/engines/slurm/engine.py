"""Workers as elements of Slurm's job arrays.

Theory of operation. The launches of one step that are started together are one array, or several
where they are more than Slurm's MaxArraySize. Its script reads the array's *elements file*, which
says which launch each element is, and becomes its worker; the file lies beside the logs, in the
home, which every node must see. An array has a token, which is its job's name; an element's token
is made from it, and carried by everything that the element runs. So whoever finds an intent without
ids asks for the name, and finds the element.

Slurm is asked once for everything that this user has in it, and what it said holds for some
seconds: a turn asks once, whatever the number of jobs. Where it does not answer, what it said last
holds on: jobs run without a controller. What it has forgotten is gone; whether the work was done
is never asked of Slurm, but of perdure's own records.

Source: sbatch(1), squeue(1); docs/engines.md.
"""

import getpass
import secrets
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from perdure.engines.answers import Answers
from perdure.engines.base import LaunchRequest
from perdure.engines.elements import (
    NAME,
    token_of,
    tokens_of,
    worker_command,
    write_elements,
)
from perdure.engines.slurm.commands import patiently, slurm
from perdure.engines.slurm.slurm_format import (
    QUEUE_FORMAT,
    Queued,
    array_script,
    array_sizes,
    begin_options,
    memory_options,
    parse_fields,
    parse_queue,
    parse_settings,
    parse_submission,
    place_options,
    resource_options,
)
from perdure.engines.tokens import Token, index_list, parse_token
from perdure.errors import EngineError, EngineRefused

#: MaxArraySize where Slurm does not say it.
_USUAL_ARRAY_SIZE = 1001
#: Of an array's token; the elements' have more behind it.
_TOKEN_BYTES = 12


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
        self._queue = Answers(_queue)
        self._array_limit: int | None = None
        self._delayed: set[str] = set()

    def new_tokens(self, count: int) -> Sequence[str]:
        """Those of the elements of one array, or of several where Slurm takes none so large.

        Raises:
            EngineUnavailable: Slurm does not answer.
            EngineRefused: it takes no arrays at all.
        """
        limit = self._largest_array() if count > 1 else 1
        arrays = [(secrets.token_hex(_TOKEN_BYTES), size) for size in array_sizes(count, limit)]
        return [
            str(Token(array=array, index=index)) for array, size in arrays for index in range(size)
        ]

    def _largest_array(self) -> int:
        """How many elements an array may have; asked once."""
        if self._array_limit is None:
            said = parse_settings(slurm(["scontrol", "show", "config"])).get("MaxArraySize", "")
            self._array_limit = int(said) if said.isdigit() else _USUAL_ARRAY_SIZE
        if self._array_limit < 1:
            raise EngineRefused(
                "Slurm takes no job arrays here: MaxArraySize is 0",
                hint="Ask whoever runs the cluster for a MaxArraySize of 2 or more.",
            )
        return self._array_limit

    def start(self, requests: Sequence[LaunchRequest]) -> Sequence[Mapping[str, Any]]:
        """Submit the array, or the arrays, and behind all of them what follows.

        Blocks up to five minutes where the controller goes away in between.

        Raises:
            EngineUnavailable: Slurm does not answer.
            EngineRefused: it does not take an array; those before it are followed nevertheless.
        """
        arrays: dict[str, list[LaunchRequest]] = {}
        for request in requests:
            arrays.setdefault(token_of(request).array, []).append(request)
        jobs: list[str] = []
        ids: list[Mapping[str, Any]] = []
        try:
            for array in arrays.values():
                jobs.append(self._submit_array(array))
                ids += [_ids(jobs[-1], token_of(request).index) for request in array]
        finally:
            if jobs:
                self._submit_follower(jobs, requests[0].logs)
        return ids

    def _submit_array(self, requests: Sequence[LaunchRequest]) -> str:
        """Its job."""
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
            *begin_options(first.delay_seconds),
            *self._options,
            *memory_options(first.requirements, self._options, first.memory),
        ]
        job = _job_of(slurm(command, text=array_script(worker_command(first), str(elements))))
        self._queue.forget()
        return job

    def follow_later(self, seconds: float, logs: Path) -> bool:
        """By a job that begins then.

        Raises:
            EngineUnavailable, EngineRefused: nobody will make it.
        """
        self._submit_turn(begin_options(seconds), logs)
        return True

    def _submit_follower(self, jobs: Sequence[str], logs: Path) -> None:
        """What makes a turn when all of the arrays are over, however they ended."""
        behind = ":".join(["afterany", *jobs])
        with suppress(EngineError):  # who gives a command about the job makes the turn, too
            self._submit_turn([f"--dependency={behind}", "--kill-on-invalid-dep=yes"], logs)

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
        patiently(command)

    def find(self, token: str) -> Mapping[str, Any] | None:
        """The element that carries the token, if Slurm has it and has not ended it."""
        wanted = parse_token(token)
        for queued in self._queue.all().values():
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
        queued = self._found(ids)
        if queued is None:
            return not self._queue.is_there
        if queued.waits_for_its_time:
            self._let_begin(queued)
        return not queued.is_over

    def may_live(self, ids: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Slurm shows jobs as running whose processes are dead: the heartbeat decides."""
        return False

    def why_stopped(self, ids: Mapping[str, Any], *, has_begun: bool) -> str | None:
        """What was cancelled stays stopped; so does what never began and Slurm does not know."""
        queued = self._found(ids)
        if queued is None and has_begun:
            return None
        if queued is None:
            return f"Slurm does not know job {ids.get('job')} any more, and it never began"
        return f"Slurm's job {ids.get('job')} was cancelled" if queued.is_cancelled else None

    def ran_out_of_memory(self, ids: Mapping[str, Any]) -> bool:
        """Whether its last state was OUT_OF_MEMORY; Slurm forgets some minutes after the end."""
        queued = self._found(ids)
        return queued is not None and queued.is_out_of_memory

    def _found(self, ids: Mapping[str, Any]) -> Queued | None:
        """What Slurm says of an element; an array that ended unbegun is shown as one job."""
        return self._queue.of(str(ids.get("job")))

    def _let_begin(self, queued: Queued) -> None:
        """A requeued element would wait for two minutes; its owner may say that it need not.

        One that was submitted to begin later waits for its time.
        """
        if queued.job in self._delayed:
            return
        with suppress(EngineError):
            said = parse_fields(slurm(["scontrol", "-o", "show", "job", queued.job]))
            if said.get("Restarts") == "0":
                self._delayed.add(queued.job)
                return
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
        self._queue.forget()
        queued = self._found(ids)
        if not self._queue.is_there or (queued is not None and queued.is_pending):
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


def _queue() -> Mapping[str, Queued]:
    """All that this user has in Slurm, by its name."""
    command = ["squeue", "-h", "-r", "-t", "all", "-u", getpass.getuser(), "-o", QUEUE_FORMAT]
    return {queued.job: queued for queued in parse_queue(slurm(command))}


def _job_of(printed: str) -> str:
    try:
        return parse_submission(printed)
    except ValueError as error:
        raise EngineRefused(
            str(error), hint="See that `sbatch` is Slurm's own, and not a wrapper that prints more."
        ) from error


def _ids(job: str, index: int) -> dict[str, Any]:
    return {"engine": "slurm", "job": f"{job}_{index}"}
