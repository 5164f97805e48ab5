"""What a Slurm cluster is like, asked of its controller. Blocks: two commands.

Source: scontrol(1); docs/engines.md.
"""

import shutil

from msgspec import Struct

from perdure.engines.slurm.commands import slurm
from perdure.engines.slurm.settings_format import (
    Partition,
    Settings,
    parse_partitions,
    parse_settings,
)

#: Without these nothing can be submitted from here.
NEEDED = ("sbatch", "squeue", "scontrol", "scancel")


class Survey(Struct, frozen=True, kw_only=True):
    """A cluster's settings and partitions."""

    settings: Settings
    partitions: tuple[Partition, ...]


def missing_commands() -> tuple[str, ...]:
    """Those of Slurm's commands that are not on PATH."""
    return tuple(name for name in NEEDED if shutil.which(name) is None)


def survey() -> Survey:
    """What the cluster says of itself.

    Raises:
        EngineUnavailable: its controller does not answer.
        EngineRefused: it says no.
    """
    return Survey(
        settings=parse_settings(slurm(["scontrol", "show", "config"])),
        partitions=parse_partitions(slurm(["scontrol", "-o", "show", "partition"])),
    )
