"""One small job of Slurm that is looked after until it is gone: for `perdure doctor`.

It is never put back, has a minute, and a deadline: where whoever submitted it is killed, it goes by
itself. What became of it is asked of Slurm, which remembers it for a while.

Source: sbatch(1) "--deadline", squeue(1), scontrol(1).
"""

import getpass
import math
from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from perdure.engines.slurm.commands import slurm
from perdure.engines.slurm.slurm_format import parse_fields, parse_submission
from perdure.errors import EngineError, EngineRefused

#: Beyond the time for which it is waited.
_DEADLINE_MORE_SECONDS = 120
_OVER = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "BOOT_FAIL", "DEADLINE")


class ProbeState(Struct, frozen=True, kw_only=True):
    """What Slurm says of it.

    Attributes:
        state: as Slurm writes it; "" where Slurm does not know it any more.
        reason: why it waits, as Slurm writes it.
        exit_code: ``STATUS:SIGNAL``.
    """

    state: str
    reason: str = ""
    exit_code: str = ""

    @property
    def is_over(self) -> bool:
        """Whether it will not run (any more)."""
        return self.state == "" or self.state in _OVER


class ProbeJob:
    """The job; `cancel` ends it wherever it is, also where sbatch's answer was lost.

    Args:
        name: of the job, and of no other.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.job = ""

    def submit(
        self, script: str, output: str, options: Sequence[str], *, wait_seconds: float
    ) -> None:
        """Submit it. Blocks for one command.

        Args:
            script: the batch script.
            output: the file for what it prints, on the node.
            options: of sbatch, the user's; a time limit of a minute comes last.
            wait_seconds: so long it is waited for.

        Raises:
            EngineUnavailable: Slurm does not answer.
            EngineRefused: it does not take the job.
        """
        deadline = math.ceil(wait_seconds) + _DEADLINE_MORE_SECONDS
        command = [
            "sbatch",
            "--parsable",
            f"--output={output}",
            "--no-requeue",
            f"--deadline=now+{deadline}",
            *options,
            f"--job-name={self._name}",
            "--time=1",
        ]
        printed = slurm(command, text=script)
        try:
            self.job = parse_submission(printed)
        except ValueError as error:
            raise EngineRefused(
                str(error), hint="See that `sbatch` is Slurm's own, and not a wrapper."
            ) from error

    def state(self) -> ProbeState:
        """What Slurm says of it now.

        Raises:
            EngineUnavailable: Slurm does not answer.
        """
        try:
            fields = parse_fields(slurm(["scontrol", "-o", "show", "job", self.job]))
        except EngineRefused:
            return ProbeState(state="")  # it has forgotten it
        return ProbeState(
            state=fields.get("JobState", ""),
            reason=fields.get("Reason", ""),
            exit_code=fields.get("ExitCode", ""),
        )

    def cancel(self) -> None:
        """End it; one that is over stays so."""
        with suppress(EngineError):
            slurm(["scancel", f"--name={self._name}", f"--user={getpass.getuser()}"])
