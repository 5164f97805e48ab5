"""The configuration file's text as values; what is wrong in it, with its line. Pure.

Source: docs/configuration.md.
"""

import re
import shlex
import tomllib
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

#: What may stand in it: section, then key.
KNOWN: Mapping[str, frozenset[str]] = {
    "defaults": frozenset({"engine", "workers"}),
    "slurm": frozenset({"options"}),
}
ENGINES = ("local", "slurm")
_LINE = re.compile(r"\(at line (\d+), column \d+\)|\(at end of document\)")


class Config(Struct, frozen=True, kw_only=True):
    """What the file says; None where it says nothing.

    Attributes:
        engine, workers: what `run` and `submit` take where the command line does not say.
        slurm: options of sbatch that stand before those of the command line.
    """

    engine: str | None = None
    workers: int | None = None
    slurm: tuple[str, ...] = ()


class BadConfig(Exception):
    """Something in the file is wrong.

    Attributes:
        line: from 1; None where it is the whole of it.
    """

    def __init__(self, reason: str, line: int | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def parse_config(text: str) -> Config:
    """The values.

    Raises:
        BadConfig: the first thing that is wrong.
    """
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _no_toml(str(error), text) from error
    for section, values in found.items():
        _check_section(text, section, values)
    defaults, slurm = found.get("defaults", {}), found.get("slurm", {})
    return Config(
        engine=_engine(text, defaults.get("engine")),
        workers=_workers(text, defaults.get("workers")),
        slurm=_options(text, slurm.get("options", ())),
    )


def _no_toml(said: str, text: str) -> BadConfig:
    """The parser's own words, with the line that they end in."""
    match = _LINE.search(said)
    line = int(match[1]) if match is not None and match[1] else len(text.splitlines())
    reason = _LINE.sub("", said).strip()
    return BadConfig(f"it is no TOML: {reason[:1].lower()}{reason[1:]}", max(1, line))


def _check_section(text: str, section: str, values: object) -> None:
    known = KNOWN.get(section)
    if known is None or not isinstance(values, dict):
        sections = ", ".join(f"[{name}]" for name in KNOWN)
        raise BadConfig(f"{section!r} is not known; there are {sections}", line_of(text, section))
    for key in values:
        if key not in known:
            there = ", ".join(sorted(known))
            raise BadConfig(
                f"{key!r} is not known in [{section}]; there is {there}",
                line_of(text, section, key),
            )


def _engine(text: str, value: Any) -> str | None:
    if value is None or value in ENGINES:
        return None if value is None else str(value)
    line = line_of(text, "defaults", "engine")
    raise BadConfig(f"engine is one of {', '.join(ENGINES)}, not {value!r}", line)


def _workers(text: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    line = line_of(text, "defaults", "workers")
    raise BadConfig(f"workers is a number from 1 on, not {value!r}", line)


def _options(text: str, value: Any) -> tuple[str, ...]:
    """Words in a list, or one text as a shell reads it."""
    line = line_of(text, "slurm", "options")
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise BadConfig(f"options {value!r} cannot be read: {error}", line) from error
    if isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
        return tuple(value)
    raise BadConfig(f"options is a list of texts, or one text, not {value!r}", line)


def line_of(text: str, section: str, key: str | None = None) -> int | None:
    """Where a section, or a key of it, stands; None where it is not found by its plain form."""
    header = re.compile(rf"\s*\[\s*{_name(section)}\s*\]")
    inside = re.compile(rf"\s*{_name(key or '')}\s*=")
    outside = re.compile(rf"\s*{_name(section)}\s*{_after(key)}")
    is_inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("["):
            is_inside = header.match(line) is not None
            if is_inside and key is None:
                return number
        elif is_inside:
            if key is not None and inside.match(line):
                return number
        elif outside.match(line):
            return number
    return None


def _name(name: str) -> str:
    """A name as it may be written."""
    return rf"[\"']?{re.escape(name)}[\"']?"


def _after(key: str | None) -> str:
    """What follows a section's name where it has no header: ``section.key =``, ``section = {``."""
    if key is None:
        return "[.=]"
    return rf"(\.\s*{_name(key)}\s*=|=\s*\{{.*{_name(key)}\s*=)"
