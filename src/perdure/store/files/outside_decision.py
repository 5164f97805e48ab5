"""May a resume write to a file outside of the session folder? Pure.

perdure puts back only what this lineage wrote. A file is written where nothing is there, or where
what is there is the lineage's own: a content that it recorded, or one that was written while one
of its attempts ran. Anything else is a conflict, which a person decides. Whatever is replaced is
renamed beside itself first, so that a wrong decision loses nothing.

A file that begins with the saved content and was longer when an attempt's last process had gone
is cut back: a log, a trajectory. One that grew afterwards was continued by somebody else: it is
replaced like the others, and its longer content stays beside it.

Source: design, "Files outside the session folder", rules 3 and 4; docs/decisions/048.
"""

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct


class Choice(Enum):
    """What a person said about conflicts."""

    #: nothing: a conflict stops the resume
    ASK = "ask"
    #: put the saved file there; what is there is renamed
    OVERWRITE = "overwrite"
    #: leave what is there
    KEEP = "keep"


class Action(Enum):
    """What is done with an outside file."""

    #: nothing is there: write it
    CREATE = "create"
    #: it is equal already
    LEAVE = "leave"
    #: it goes on behind the saved content: cut it there
    CUT_BACK = "cut back"
    #: rename what is there, and write it
    REPLACE = "replace"
    #: a person wants what is there
    KEEP = "keep"
    #: nobody may decide but a person
    CONFLICT = "conflict"


class Content(Struct, frozen=True, kw_only=True):
    """A file's content: its size and its digest."""

    size: int
    digest: bytes


class Window(Struct, frozen=True, kw_only=True):
    """When an attempt of the lineage ran: from its claim until its last process was gone.

    Attributes:
        is_end_known: somebody saw it end; else it may have ended long before.
    """

    began_at_ns: int
    ended_at_ns: int
    is_end_known: bool = True


class Present(Struct, frozen=True, kw_only=True):
    """What is there now.

    Attributes:
        is_file: whether it is a regular file; a folder or a link is nobody's to replace.
        content: of a file; None where it was not read because its size tells enough.
        begins_with_saved: whether it is longer than the saved content and begins with it.
        changed_at_ns: its ctime.
    """

    is_file: bool
    content: Content | None
    begins_with_saved: bool
    changed_at_ns: int


def outside_decision(
    saved: Content,
    present: Present | None,
    *,
    recorded: frozenset[Content],
    windows: Iterable[Window],
    choice: Choice,
) -> Action:
    """What a resume does with one outside file.

    Args:
        saved: what the checkpoint holds.
        present: what is there; None for nothing.
        recorded: every content that this lineage recorded for the path.
        windows: when the lineage's attempts ran.
        choice: what a person said about conflicts.
    """
    if present is None:
        return Action.CREATE
    if present.is_file and present.content == saved:
        return Action.LEAVE
    within = [w for w in windows if w.began_at_ns <= present.changed_at_ns <= w.ended_at_ns]
    if present.is_file and within:
        surely = any(window.is_end_known for window in within)
        # Of an attempt whose end nobody saw a later hand may have written: nothing is cut off.
        return Action.CUT_BACK if present.begins_with_saved and surely else Action.REPLACE
    if present.is_file and (present.content in recorded or present.begins_with_saved):
        return Action.REPLACE
    return by_choice(choice)


def by_choice(choice: Choice) -> Action:
    """What is done with what others wrote."""
    match choice:
        case Choice.ASK:
            return Action.CONFLICT
        case Choice.OVERWRITE:
            return Action.REPLACE
        case Choice.KEEP:
            return Action.KEEP
