"""Whether a program offers a checkpoint that perdure can see.

Seen are the messages of docs/checkpoint-extension.md: a program that prints them has their words in
its file, or in a file that it is given. Whoever knows better says so with a variable.

Images of whole processes (DMTCP, CRIU) are not taken.
"""

import mmap
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from perdure.cli.old_slurm.old_text import OldTextError

#: Says that the program saves by messages when it gets this signal, whatever its files look like.
SIGNAL_VARIABLE = "PERDURE_SAVE_SIGNAL"
_WORDS = (b"openjd_checkpoint", b"perdure")
#: Of files that are larger nothing is known: no program and no script is.
_LONGEST_BYTES = 1 << 30
_MOST_FILES = 100


def check_offers(command: str, program: Sequence[str], environment: Mapping[str, str]) -> None:
    """Refuse a program that would run without a single checkpoint.

    Args:
        command: srun or sbatch, for the text.
        program: with its arguments.
        environment: has PATH, and perhaps ``PERDURE_SAVE_SIGNAL``.

    Raises:
        OldTextError: it offers none.
    """
    if environment.get(SIGNAL_VARIABLE):
        return
    path = shutil.which(program[0], path=environment.get("PATH"))
    candidates = [Path(word) for word in ((path or program[0]), *program[1:_MOST_FILES])]
    if any(_mentions(one) for one in candidates):
        return
    raise OldTextError(
        f"{command}: error: --checkpoint: {program[0]} offers no checkpoint that perdure can take:"
        " neither it nor a file among its arguments has the words openjd_checkpoint or perdure."
        f" Let it print its saves (docs/command.md), or set {SIGNAL_VARIABLE}=USR2 if it does when"
        " it gets that signal. Images of whole processes (DMTCP, CRIU) are not taken."
    )


def _mentions(path: Path) -> bool:
    try:
        if not path.is_file() or not 0 < path.stat().st_size <= _LONGEST_BYTES:
            return False
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return any(data.find(word) >= 0 for word in _WORDS)
    except OSError:
        return False
