"""``--memory-growth FACTOR:MOST``: read, and refused where nothing says from which memory on.

Source: docs/decisions/153.
"""

from perdure.errors import UsageError
from perdure.policy.memory_growth import MemoryGrowth
from perdure.store.records.job_document import Options
from perdure.template.outline import JobOutline

_LARGEST_FACTOR = 16.0
_HINT = "Write it like 2:64G: twice as much after each such end, at most 64 GiB."


def parse_growth(text: str | None, *, engine: str) -> MemoryGrowth | None:
    """The option's value.

    Raises:
        UsageError: it cannot be read, or the engine does not give out memory.
    """
    from perdure.cli.job_options import size_bytes

    if text is None:
        return None
    if engine != "slurm":
        raise UsageError(
            "--memory-growth is for --engine slurm: workers of this host have what it has",
            hint="Add --engine slurm, or leave it out.",
        )
    factor, colon, most = text.partition(":")
    try:
        times = float(factor)
    except ValueError:
        times = 0.0
    if not colon or not 1.0 < times <= _LARGEST_FACTOR:
        raise UsageError(
            f"--memory-growth {text!r} is no FACTOR:MOST with a factor above 1, at most 16",
            hint=_HINT,
        )
    most_mib = size_bytes(most, of="--memory-growth") >> 20
    if most_mib < 1:
        raise UsageError(f"--memory-growth {text!r} allows less than a MiB", hint=_HINT)
    return MemoryGrowth(factor=times, most_mib=most_mib)


def check_growth(options: Options, job: JobOutline) -> None:
    """Refuse a growth from nobody knows where.

    Raises:
        UsageError: a step asks for no memory, and neither do sbatch's options.
    """
    if options.memory_growth is None:
        return
    from perdure.engines.slurm.slurm_format import memory_asked
    from perdure.manager.job_view import requirements

    for step in job.steps:
        if memory_asked(requirements(step.requirements), options.slurm) is None:
            raise UsageError(
                f"--memory-growth: nothing says how much memory step {step.name!r} has at first",
                hint='Say it in its hostRequirements, or for all steps: --slurm "--mem=4G".',
            )
