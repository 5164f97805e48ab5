"""The steps of this job of Slurm: what an attempt on several nodes consists of.

`srun` passes USR1 and USR2 on to its tasks, but ends the step at once when it gets SIGTERM, without
a word to them; so signals go to the step itself. A step whose srun was killed together with the
process that watches over it lives on, on every node.

Source: scontrol(1), scancel(1); docs/engines.md has what was measured.
"""

import os
import signal
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from perdure.engines.slurm.commands import slurm
from perdure.engines.slurm.slurm_format import parse_fields
from perdure.engines.slurm.steps_format import (
    Step,
    differing,
    lost_node,
    parse_places,
    parse_steps,
)
from perdure.errors import EngineError, EngineRefused, EngineUnavailable
from perdure.worker.steps import LAUNCHER

_LOOK_SECONDS = 0.2
_LONGEST_LOOK_SECONDS = 5.0


class JobSteps:
    """The `Steps` of a job of Slurm.

    Args:
        job: SLURM_JOB_ID of this process.
        nodes: how many it has.
    """

    def __init__(self, job: str, nodes: int) -> None:
        self._job = job
        self._nodes = nodes
        self._host = os.uname().nodename

    def of(self, launchers: Collection[int]) -> Sequence[str]:
        """The steps that these processes of this host started."""
        if not launchers:
            return ()
        with suppress(EngineError):
            return [one.step for one in self._mine() if one.pid in launchers]
        return ()

    def signal(self, step: str, number: signal.Signals) -> None:
        """Send a signal to every task of a step."""
        with suppress(EngineError):
            slurm(["scancel", f"--signal={number.name.removeprefix('SIG')}", step])

    def end_orphans(self) -> int:
        """Kill the steps whose srun on this host is gone; blocks until they are over."""
        ended: set[str] = set()
        pause = _LOOK_SECONDS
        while True:
            try:
                orphans = [one.step for one in self._mine() if not _is_launcher(one.pid)]
            except EngineRefused:
                return len(ended)  # Slurm knows no step of this job
            except EngineError:
                orphans = []  # who does not answer has not said that they are over
            else:
                if not orphans:
                    return len(ended)
            for step in orphans:
                self.signal(step, signal.SIGKILL)
                ended.add(step)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_LOOK_SECONDS)

    def lost(self) -> str:
        """Whether one of several nodes was lost: srun exits with 0 where only other ranks ended.

        Slurm notices a dead node after minutes, so that the nodes are asked, too: by a step.
        """
        while self._nodes > 1:
            try:
                fields = parse_fields(slurm(["scontrol", "-o", "show", "job", self._job]))
                if lost := lost_node(fields, self._nodes):
                    return lost
                slurm([*_on_all(self._nodes), "true"])
            except EngineUnavailable:
                time.sleep(_LONGEST_LOOK_SECONDS)
            except EngineError as error:
                return f"one of its {self._nodes} nodes does not answer ({error.message})"
            else:
                return ""
        return ""

    def _mine(self) -> list[Step]:
        """The steps of this job that were started from this host.

        Raises:
            EngineError: Slurm did not say.
        """
        said = slurm(["scontrol", "-o", "show", "step", self._job])
        return [one for one in parse_steps(said) if one.is_of(self._host)]


#: Prints the node, the path's number and its inode, for each path.
_LOOK = (
    "number=0; for path; do"
    ' echo "$SLURMD_NODENAME $number $(stat -L -c %i -- "$path" 2>/dev/null)";'
    " number=$((number + 1)); done"
)


def unshared(paths: Sequence[Path], *, nodes: int, here: str) -> dict[Path, str]:
    """Which of these paths is not the same file or folder on every node, with a node that differs.

    Blocks: for a step on all nodes of this job.

    Args:
        paths: as this node sees them.
        nodes: how many this job has.
        here: this node's name (SLURMD_NODENAME).

    Raises:
        EngineError: it could not be tried.
    """
    said = slurm([*_on_all(nodes), "/bin/sh", "-c", _LOOK, "sh", *map(str, paths)])
    found = differing(parse_places(said, len(paths)), here)
    return {paths[number]: node for number, node in found.items()}


def _on_all(nodes: int) -> list[str]:
    """How a command begins that runs once on each node of this job, beside its other steps."""
    step = ["srun", "--overlap", "--quiet", f"--nodes={nodes}", f"--ntasks={nodes}"]
    return [*step, "--ntasks-per-node=1", "--cpus-per-task=1", "--mem=0"]


def _is_launcher(pid: int) -> bool:
    """Whether the process lives, and is an srun."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == LAUNCHER
    return False
