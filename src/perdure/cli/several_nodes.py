"""A worker whose job of Slurm has several nodes: what its tasks may use, and where they run.

Its attempts start steps on all of them. The session folder has to be the same folder everywhere,
and so has every folder whose files are saved: what is not is refused, with a node that differs.

Source: design 8 (several nodes are one attempt).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from perdure.errors import EngineError
from perdure.worker.steps import NO_STEPS, Steps


class Nodes(Struct, frozen=True, kw_only=True):
    """What a launch should know of the other nodes.

    Attributes:
        steps: for `LaunchContext`.
        refusal: why no task may be started, or "".
        unshared: folders that are not the same on all nodes, with a sentence on each.
    """

    steps: Steps = NO_STEPS
    refusal: str = ""
    unshared: Mapping[Path, str] = field(default_factory=dict)


def node_count(environment: Mapping[str, str]) -> int:
    """How many nodes this process's job of Slurm has; 1 where it is in none."""
    text = environment.get("SLURM_JOB_NUM_NODES", "")
    return int(text) if "SLURM_JOB_ID" in environment and text.isdigit() else 1


def look_at(environment: Mapping[str, str], sessions: Path, outside: Sequence[Path]) -> Nodes:
    """What is known of the nodes of this process's job; blocks for a step where there are several.

    Args:
        environment: of the worker.
        sessions: the folder of its session folders; it exists.
        outside: further folders whose files may be saved.
    """
    if "SLURM_JOB_ID" not in environment:
        return Nodes()
    from perdure.engines.slurm.steps import JobSteps, unshared

    count = node_count(environment)
    steps = JobSteps(environment["SLURM_JOB_ID"], count)
    if count == 1:
        return Nodes(steps=steps)
    there = [path for path in outside if path.exists()]
    try:
        differing = unshared(
            [sessions, *there], nodes=count, here=environment.get("SLURMD_NODENAME", "")
        )
    except EngineError as error:
        return Nodes(steps=steps, refusal=f"no step can be started on all nodes: {error.message}")
    if (node := differing.get(sessions)) is not None:
        refusal = (
            f"node {node} does not share the session folder {sessions}: name one on a file system"
            " that all nodes have (--sessions-dir)"
        )
        return Nodes(steps=steps, refusal=refusal)
    return Nodes(
        steps=steps,
        unshared={
            path: f"node {node} does not share {path}: files below it are refused"
            for path, node in differing.items()
        },
    )
