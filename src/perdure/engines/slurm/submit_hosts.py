"""Whether jobs may submit jobs: what Slurm's settings say of it, asked at submit.

A partition may name the hosts that it takes jobs from (AllocNodes). A site that refuses by other
means, a submit filter say, shows only when it refuses.

Source: slurm.conf(5) AllocNodes; docs/decisions/151.
"""

from collections.abc import Sequence
from contextlib import suppress

from perdure.engines.slurm.commands import slurm
from perdure.engines.slurm.slurm_format import partitions_named, restricted_partitions
from perdure.errors import EngineError


def restriction(options: Sequence[str]) -> str | None:
    """In a sentence's words, from which hosts alone jobs are taken; None: from all, or unknown.

    Args:
        options: of sbatch, the user's.
    """
    with suppress(EngineError):
        said = slurm(["scontrol", "-o", "show", "partition"])
        found = restricted_partitions(said, partitions_named(options))
        return "; ".join(f"partition {name} takes jobs only from {hosts}" for name, hosts in found)
    return None
