"""Taking the old options out of a line of srun or sbatch; the rest is theirs, untouched. Pure.

The rules are getopt's: options end at the first word that is none, or behind ``--``; a long option
may be shortened as long as one alone is meant; its value stands behind ``=`` or is the next word.
What today's command understands is today's: ``--ch`` is ``--chdir``.

Source: getopt_long(3); srun(1), sbatch(1) of Slurm 19.05 and 22.05.
"""

import shlex
from collections.abc import Mapping, Sequence
from itertools import takewhile

from msgspec import Struct

from perdure.cli.old_slurm.old_text import OldTextError
from perdure.cli.old_slurm.tables_format import VALUE, Options
from perdure.cli.old_slurm.times_format import parse_minutes

CHECKPOINT, CHECKPOINT_DIR, RESTART_DIR = "checkpoint", "checkpoint-dir", "restart-dir"
_MINE: Mapping[str, tuple[str, ...]] = {
    "srun": (CHECKPOINT, CHECKPOINT_DIR, RESTART_DIR),
    "sbatch": (CHECKPOINT, CHECKPOINT_DIR),
}
_VARIABLES = {
    "SLURM_CHECKPOINT": CHECKPOINT,
    "SLURM_CHECKPOINT_DIR": CHECKPOINT_DIR,
    "SLURM_RESTART_DIR": RESTART_DIR,
}
_DIRECTIVE = "#SBATCH"
#: Of these the rest of the word is the value, if there is one.
_OPTIONAL_SHORT = "IK"


class OldOptions(Struct, frozen=True, kw_only=True):
    """The old options as they were given; None for those that were not.

    Attributes:
        checkpoint: the interval as text.
        checkpoint_dir: where images are written.
        restart_dir: where they are read.
    """

    checkpoint: str | None = None
    checkpoint_dir: str | None = None
    restart_dir: str | None = None

    @property
    def is_given(self) -> bool:
        """Whether there is one at all."""
        return self != OldOptions()

    def over(self, other: "OldOptions") -> "OldOptions":
        """These, and where they are silent the other ones."""
        return OldOptions(
            checkpoint=_first(self.checkpoint, other.checkpoint),
            checkpoint_dir=_first(self.checkpoint_dir, other.checkpoint_dir),
            restart_dir=_first(self.restart_dir, other.restart_dir),
        )

    def minutes(self, command: str) -> int:
        """The interval; 0 where no periodic checkpoints are asked for.

        Raises:
            OldTextError: it is no time.
        """
        if self.checkpoint is None:
            return 0
        found = parse_minutes(self.checkpoint)
        if found is None:
            raise OldTextError(
                f"{command}: error: Invalid --checkpoint specification: {self.checkpoint!r}"
                " (minutes, minutes:seconds, hours:minutes:seconds, days-hours,"
                " days-hours:minutes or days-hours:minutes:seconds)"
            )
        return found


class Line(Struct, frozen=True, kw_only=True):
    """A line without the old options.

    Attributes:
        own: the command's own options, as they were given.
        old: what was taken out.
        program: the program or script, and its arguments.
        values: the names and letters of the own options that were given, with their values.
    """

    own: tuple[str, ...]
    old: OldOptions
    program: tuple[str, ...]
    values: Mapping[str, str]


def split_line(words: Sequence[str], options: Options) -> Line:
    """Take the old options out of a line.

    Args:
        words: behind the command's name.
        options: the command's own.

    Raises:
        OldTextError: an old option has no value, or its name is ambiguous.
    """
    own: list[str] = []
    old: dict[str, str] = {}
    values: dict[str, str] = {}
    left = list(words)
    while left and left[0].startswith("-") and left[0] != "-":
        word = left.pop(0)
        if word == "--":
            return _line([*own, "--"], old, left, values)
        if not word.startswith("--"):
            own += [word, *_take_short(word, left, options, values)]
            continue
        name, equals, value = word[2:].partition("=")
        mine = _mine(name, options)
        if mine is not None:
            old[mine] = value if equals else _needed(mine, left, options)
            continue
        full = _resolved(name, tuple(options.long)) or name
        own.append(word)
        if not equals and options.long.get(full) == VALUE and left:
            value = left.pop(0)
            own.append(value)
        values[full] = value
    return _line(own, old, left, values)


def from_variables(environment: Mapping[str, str], command: str) -> OldOptions:
    """The old options that the environment gives to srun or sbatch; an empty variable is none."""
    found = {
        name.replace("-", "_"): environment[variable]
        for variable, name in _VARIABLES.items()
        if name in _MINE[command] and environment.get(variable)
    }
    return OldOptions(**found)


class BatchScript(Struct, frozen=True, kw_only=True):
    """A batch script without the old options.

    Attributes:
        text: of the script; lines that had an old option have it no more.
        directives: its ``#SBATCH`` lines, without old options.
        old: what was taken out.
    """

    text: str
    directives: tuple[str, ...]
    old: OldOptions


def split_script(text: str, options: Options) -> BatchScript:
    """Take the old options out of the ``#SBATCH`` lines, which end at the first command.

    Raises:
        OldTextError: as `split_line`.
    """
    lines = text.splitlines(keepends=True)
    head = len(list(takewhile(lambda line: not line.strip() or line.startswith("#"), lines)))
    old = OldOptions()
    kept: list[str] = []
    directives: list[str] = []
    for line in lines[:head]:
        shown = line
        if line.startswith(_DIRECTIVE):
            found = _split_directive(line, options)
            if found is not None and found.old.is_given:
                old = found.old.over(old)
                shown = f"{_DIRECTIVE} {shlex.join(found.own)}\n" if found.own else "#\n"
            if not shown.startswith("#\n"):
                directives.append(shown.rstrip("\n"))
        kept.append(shown)
    return BatchScript(text="".join([*kept, *lines[head:]]), directives=tuple(directives), old=old)


def _split_directive(line: str, options: Options) -> Line | None:
    """A ``#SBATCH`` line's options; None where sbatch itself is to say what is wrong."""
    try:
        words = shlex.split(line.removeprefix(_DIRECTIVE), comments=True)
    except ValueError:
        return None
    return split_line(words, options)


def _line(
    own: Sequence[str], old: Mapping[str, str], program: Sequence[str], values: Mapping[str, str]
) -> Line:
    given = {name.replace("-", "_"): value for name, value in old.items()}
    return Line(own=tuple(own), old=OldOptions(**given), program=tuple(program), values=values)


def _mine(name: str, options: Options) -> str | None:
    """Which old option it is; None where it is the command's own business."""
    mine = _MINE[options.command]
    if name in mine:
        return name
    if not name or any(long.startswith(name) for long in options.long):
        return None
    meant = [one for one in mine if one.startswith(name)]
    if len(meant) > 1:
        possible = " ".join(f"'--{one}'" for one in meant)
        raise _usage(options, f"option '--{name}' is ambiguous; possibilities: {possible}")
    return meant[0] if meant else None


def _resolved(name: str, long: Sequence[str]) -> str | None:
    """The one long option that a name or its beginning means."""
    if name in long:
        return name
    meant = [one for one in long if one.startswith(name)]
    return meant[0] if len(meant) == 1 else None


def _needed(name: str, left: list[str], options: Options) -> str:
    if not left:
        raise _usage(options, f"option '--{name}' requires an argument")
    return left.pop(0)


def _take_short(
    word: str, left: list[str], options: Options, values: dict[str, str]
) -> Sequence[str]:
    """Note a bundle of short options; the next word, where the last one takes it."""
    for at, letter in enumerate(word[1:], start=1):
        rest = word[at + 1 :]
        values[letter] = rest
        if letter in options.short:
            if rest or not left:
                return ()
            values[letter] = left.pop(0)
            return (values[letter],)
        if letter in _OPTIONAL_SHORT:
            return ()
    return ()


def _usage(options: Options, text: str) -> OldTextError:
    command = options.command
    return OldTextError(f'{command}: {text}\nTry "{command} --help" for more information')


def _first(one: str | None, other: str | None) -> str | None:
    return other if one is None else one
