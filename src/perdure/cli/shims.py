"""``perdure shims``: srun, sbatch and scontrol as small scripts that call perdure.

With their folder first on PATH an old script runs as it is. They find the real commands behind
themselves on PATH (`perdure.engines.slurm.real_commands`).
"""

import shlex
import sys
from pathlib import Path

import click

from perdure.engines.slurm.real_commands import SHIM_MARK, is_shim

COMMANDS = ("srun", "sbatch", "scontrol")


@click.group()
def shims() -> None:
    """Put srun, sbatch and scontrol into a folder, for scripts with the old checkpoint options."""


_FOLDER = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))


@shims.command()
@_FOLDER
def install(folder: Path) -> int:
    """Write the three commands into DIR, which every node must see; nothing else is replaced."""
    install_shims(folder.absolute())
    click.echo(f'put it first on PATH:  export PATH={shlex.quote(str(folder.absolute()))}:"$PATH"')
    return 0


@shims.command()
@_FOLDER
def remove(folder: Path) -> int:
    """Remove them from DIR; what is not ours stays."""
    from perdure.errors import HomeError

    ours = [path for name in COMMANDS if is_shim(path := folder / name)]
    try:
        for path in ours:
            path.unlink()
    except OSError as error:
        raise HomeError(f"{error.filename} cannot be removed: {error.strerror}") from error
    click.echo(f"removed: {', '.join(path.name for path in ours) or 'nothing was there'}")
    return 0


def install_shims(folder: Path) -> None:
    """Write the shims; those that are there already are written anew.

    Args:
        folder: where; an absolute path. It is made.

    Raises:
        UsageError: another file of such a name is there.
        HomeError: the folder cannot be written to.
    """
    from perdure.errors import HomeError, UsageError

    foreign = [path for name in COMMANDS if (path := folder / name).exists() and not is_shim(path)]
    if foreign:
        raise UsageError(
            f"{foreign[0]} is there already, and is no shim of perdure's",
            hint="Name a folder of your own for them.",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in COMMANDS:
            _write(folder / name)
    except OSError as error:
        raise HomeError(f"{folder} cannot be written to: {error.strerror}") from error


def _write(path: Path) -> None:
    python = shlex.quote(sys.executable)
    lines = [
        "#!/bin/sh",
        f"{SHIM_MARK}: perdure shims remove DIR takes it away",
        f'exec {python} -P -m perdure {path.name} "$@"',
    ]
    beside = path.with_name(f".{path.name}.perdure-partial")
    beside.write_text("\n".join(lines) + "\n", encoding="utf-8")
    beside.chmod(0o755)
    beside.replace(path)
