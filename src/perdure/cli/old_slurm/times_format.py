"""The six ways to write a time, in minutes. Pure.

Source: srun(1) of Slurm 19.05, "--checkpoint"; seconds are rounded up, as for `--time`.
"""

import re

#: No periodic checkpoints: what ``--time`` calls no limit.
_NEVER = frozenset({"-1", "INFINITE", "UNLIMITED"})
_TIME = re.compile(
    r"(?:(?P<days>[0-9]{1,9})-(?P<dh>[0-9]{1,9})(?::(?P<dm>[0-9]{1,9})(?::(?P<ds>[0-9]{1,9}))?)?"
    r"|(?P<h>[0-9]{1,9}):(?P<hm>[0-9]{1,9}):(?P<hs>[0-9]{1,9})"
    r"|(?P<m>[0-9]{1,9})(?::(?P<s>[0-9]{1,9}))?)"
)
#: Of each group, how many seconds one is.
_SECONDS = {
    "days": 86_400,
    "dh": 3_600,
    "dm": 60,
    "ds": 1,
    "h": 3_600,
    "hm": 60,
    "hs": 1,
    "m": 60,
    "s": 1,
}


def parse_minutes(text: str) -> int | None:
    """The interval in minutes, seconds rounded up; 0 for no periodic checkpoints.

    None where the text is no time: ``minutes``, ``minutes:seconds``, ``hours:minutes:seconds``,
    ``days-hours``, ``days-hours:minutes`` or ``days-hours:minutes:seconds``.
    """
    if text.upper() in _NEVER:
        return 0
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    parts = {name: int(value) for name, value in found.groupdict().items() if value is not None}
    return -(-sum(_SECONDS[name] * value for name, value in parts.items()) // 60)
