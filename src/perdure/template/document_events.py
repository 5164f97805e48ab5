"""What the two document readers tell the builder: a document as a row of events.

YAML and JSON differ in their texts only. Both readers give these events, one at a time, so that
`document` counts nodes, checks keys and builds values in one place, and stops early.
"""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A value that holds no others; ``is_merge`` marks YAML's ``<<`` key."""

    value: str | int | float | bool | None
    line: int
    anchor: str | None = None
    is_merge: bool = False


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A mapping or list begins."""

    is_mapping: bool
    line: int
    anchor: str | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """The innermost mapping or list ends."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """YAML's ``*name``: the node with that anchor, once more."""

    anchor: str
    line: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A value that a template cannot hold; the reader goes on, so that all are told.

    Where ``is_value`` is false, the value itself still comes.
    """

    line: int
    message: str
    advice: str
    anchor: str | None = None
    is_value: bool = True


Event = Scalar | Opened | Closed | Alias | Refused


class DocumentSyntaxError(ValueError):
    """The text is not YAML (or JSON) from here on; nothing behind it can be read."""

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
