"""Processes of an action that run on other hosts: the steps of a scheduler's job that it started.

An action on several nodes is a launcher here (`srun`, or `mpirun` through it) and ranks elsewhere,
which no signal of this host reaches and no look at /proc finds. Whoever knows the scheduler says
which steps an action has, passes signals on to them, and ends those whose launcher is gone.

Source: design 8 (several nodes are one attempt).
"""

import signal
from collections.abc import Collection, Sequence
from typing import Protocol

#: The program on this host that starts a step and lives as long as it.
LAUNCHER = "srun"


class Steps(Protocol):
    """What a scheduler does for the steps of the job that this process runs in."""

    def of(self, launchers: Collection[int]) -> Sequence[str]:
        """The steps that these processes of this host started; none where that cannot be asked.

        Blocks: for one question to the scheduler; none where there are no launchers.
        """
        ...

    def signal(self, step: str, number: signal.Signals) -> None:
        """Send a signal to every task of a step; one that is over is none."""
        ...

    def end_orphans(self) -> int:
        """Kill the steps of this job whose launcher on this host is gone; how many those were.

        Blocks until the scheduler says that they are over, however long that takes: nothing may be
        started while a rank of what was killed may still be at work.
        """
        ...

    def lost(self) -> str:
        """Which host of several was lost, with its ranks, in a sentence; "" where none was.

        A launcher may say that all went well. Blocks: for one question to the scheduler; while it
        does not answer it is asked again. None where there is one host.
        """
        ...


class NoSteps:
    """Where no scheduler is: every process is on this host."""

    def of(self, launchers: Collection[int]) -> Sequence[str]:
        """None."""
        del launchers
        return ()

    def signal(self, step: str, number: signal.Signals) -> None:
        """Never called: there is no step."""
        raise NotImplementedError

    def end_orphans(self) -> int:
        """None."""
        return 0

    def lost(self) -> str:
        """Never: this process runs on the only host."""
        return ""


NO_STEPS = NoSteps()
