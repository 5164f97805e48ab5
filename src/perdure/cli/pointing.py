"""Commands that are printed for people to copy: they mean the home and store of this command."""

import re
import shlex

_COMMAND = re.compile(
    r"\bperdure (?:resume|why|status|suspend|logs|verify|repair|rm|du|prune|checkpoints"
    r"|checkpoint \w+)\b"
)
#: The options that this process was given.
_given: list[str] = []


def remember(**options: str | None) -> None:
    """What this command was given for its home and store."""
    _given.clear()
    for name, value in options.items():
        if value is not None:
            _given.extend((f"--{name}", value))


def pointed(text: str) -> str:
    """``text`` whose commands name the home and the store where this command was given them."""
    if not _given:
        return text
    return _COMMAND.sub(lambda found: f"{found.group()} {shlex.join(_given)}", text)
