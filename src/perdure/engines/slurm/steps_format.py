"""What Slurm prints of a job's steps. Pure.

Source: scontrol(1) "show step"; measured with Slurm 22.05: a step of `srun` names the host and the
process of that srun, the batch script's own step `(null):0`.
"""

import re
from collections.abc import Mapping

from msgspec import Struct

_STEP = re.compile(r"\bStepId=(?P<step>\S+)")
_STATE = re.compile(r"\bState=(?P<state>\S+)")
_LAUNCHER = re.compile(r"\bSrunHost:Pid=(?P<host>\S+):(?P<pid>[0-9]+)")


class Step(Struct, frozen=True, kw_only=True):
    """One step.

    Attributes:
        step: by which commands name it: JOB.NUMBER.
        state: as Slurm calls it.
        host, pid: the process that started it, and where.
    """

    step: str
    state: str
    host: str
    pid: int

    def is_of(self, host: str) -> bool:
        """Whether its launcher runs on this host; one of the names may have a domain."""
        return self.host.partition(".")[0] == host.partition(".")[0]


def parse_steps(text: str) -> tuple[Step, ...]:
    """The steps in ``scontrol -o show step JOB``; the batch script's own is passed over."""
    found = []
    for line in text.splitlines():
        step, state, launcher = (one.search(line) for one in (_STEP, _STATE, _LAUNCHER))
        if step and launcher and int(launcher["pid"]):
            found.append(
                Step(
                    step=step["step"],
                    state=state["state"] if state else "",
                    host=launcher["host"],
                    pid=int(launcher["pid"]),
                )
            )
    return tuple(found)


def parse_places(text: str, count: int) -> dict[str, list[str]]:
    """By node, what it finds at each of ``count`` paths: lines of node, number of the path, inode.

    What a node did not say, or has not, is "".
    """
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        node, number, inode = [*line.split(), "", ""][:3]
        if number.isdigit() and int(number) < count:
            found.setdefault(node, [""] * count)[int(number)] = inode
    return found


def differing(places: dict[str, list[str]], here: str) -> dict[int, str]:
    """By number of a path, a node that does not find there what this node does."""
    mine = places.get(here, [])
    return {
        number: node
        for node, theirs in sorted(places.items(), reverse=True)
        for number, inode in enumerate(mine)
        if not inode or theirs[number] != inode
    }


def lost_node(fields: Mapping[str, str], nodes: int) -> str:
    """Whether a job that runs has lost one of its nodes, in a sentence; "" where it has not.

    Args:
        fields: of ``scontrol -o show job``.
        nodes: how many it was given.
    """
    left = fields.get("NumNodes", "").partition("-")[0]
    if not left.isdigit() or int(left) >= nodes:
        return ""
    return f"{nodes - int(left)} of its {nodes} nodes was lost, and what ran there"
