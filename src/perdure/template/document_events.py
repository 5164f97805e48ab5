"""What the two document readers tell the builder: a document as a row of events.

YAML and JSON differ in their texts only. Both readers give these events, one at a time, so that
`document` counts nodes, checks keys and builds values in one place, and stops early.
"""

from typing import final

from msgspec import Struct


@final
class Scalar(Struct, frozen=True, kw_only=True):
    """A value that holds no others; ``is_merge`` marks YAML's ``<<`` key."""

    value: str | int | float | bool | None
    line: int
    anchor: str | None = None
    is_merge: bool = False


@final
class Opened(Struct, frozen=True, kw_only=True):
    """A mapping or list begins."""

    is_mapping: bool
    line: int
    anchor: str | None = None


@final
class Closed(Struct, frozen=True, kw_only=True):
    """The innermost mapping or list ends."""


@final
class Alias(Struct, frozen=True, kw_only=True):
    """YAML's ``*name``: the node with that anchor, once more."""

    anchor: str
    line: int


@final
class Refused(Struct, frozen=True, kw_only=True):
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
