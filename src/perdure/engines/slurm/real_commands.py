"""Slurm's own commands, behind the shims of the same names that perdure may have put before them.

perdure asks Slurm by names on PATH, too: without this it would ask itself.

Source: docs/old-slurm.md, "Shims".
"""

import os
from pathlib import Path

from perdure.errors import EngineRefused

#: The second line of each shim begins with it.
SHIM_MARK = "# perdure's shim"
_HEAD_BYTES = 256


def real_command(name: str) -> str:
    """The path of the command that PATH would find if there were no shims; a path as it is.

    A command that is nowhere is returned as it is: whoever starts it hears so.

    Raises:
        EngineRefused: only a shim is there.
    """
    if os.sep in name:
        return name
    found = [Path(folder) / name for folder in os.get_exec_path()]
    there = [path for path in found if os.access(path, os.X_OK) and path.is_file()]
    real = next((path for path in there if not is_shim(path)), None)
    if real is None and there:
        raise EngineRefused(
            f"behind perdure's shim {there[0]} there is no other {name} on PATH",
            hint="Put the folder of Slurm's own commands on PATH, behind the shims.",
        )
    return name if real is None else str(real.absolute())


def is_shim(path: Path) -> bool:
    """Whether a file is one of our shims; one that cannot be read is none."""
    try:
        with path.open("rb") as file:
            return SHIM_MARK.encode("ascii") in file.read(_HEAD_BYTES)
    except OSError:
        return False
