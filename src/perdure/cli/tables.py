"""What people are shown: tables, bars, sizes and moments; plain where nobody looks at a terminal.

Names and texts that come from tasks are shown without control characters: they could move the
cursor or change what stands above.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from perdure.clock import from_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

#: Off a terminal no line is ever folded.
_PLAIN_WIDTH = 4000
_BAR_WIDTH = 24
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_STYLES = {
    "SUCCEEDED": "green",
    "RUNNING": "cyan",
    "PENDING": "default",
    "SUSPENDED": "yellow",
    "FAILED": "red",
    "CANCELED": "magenta",
    "LOST": "red",
}


def console(*, stderr: bool = False) -> "Console":
    """Where to show things; NO_COLOR is obeyed."""
    from rich.console import Console

    found = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not found.is_terminal:
        found.width = _PLAIN_WIDTH
    return found


def plain(text: str) -> str:
    """``text`` without control characters, in one line."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\n", " ").replace("\t", " "))


def show_table(
    where: "Console",
    columns: Sequence[str],
    rows: Iterable[Sequence["RenderableType"]],
    *,
    right: Iterable[str] = (),
) -> None:
    """Show a table.

    Args:
        where: the console.
        columns: their heads.
        rows: their cells.
        right: the columns that are aligned to the right.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    to_right = set(right)
    for column in columns:
        is_last = column == columns[-1]
        table.add_column(
            column,
            justify="right" if column in to_right else "left",
            overflow="fold",
            no_wrap=not is_last,
        )
    for row in rows:
        table.add_row(*row)
    where.print(table)


def styled_state(state: str, *, held: bool = False) -> "RenderableType":
    """A state in its colour."""
    from rich.text import Text

    shown = f"{state} (held)" if held else state
    return Text(shown, style=_STYLES.get(state, "default"))


def bar(where: "Console", done: float, total: float) -> "RenderableType":
    """How far something is: a bar on a terminal, else a percentage."""
    share = min(1.0, max(0.0, done / total)) if total > 0 else 0.0
    if not where.is_terminal:
        return f"{share:.0%}"
    from rich.progress_bar import ProgressBar

    return ProgressBar(total=1.0, completed=share, width=_BAR_WIDTH)


def duration(seconds: int) -> str:
    """A length of time as options take it, in its largest whole unit."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def moment(text: str | None) -> str:
    """A moment for people: UTC, to the second; "" for none."""
    if not text:
        return ""
    try:
        return from_text(text).strftime("%Y-%m-%d %H:%M:%SZ")
    except ValueError:
        return plain(text)


def print_structured(value: dict[str, Any], output: str) -> None:
    """As JSON or YAML."""
    if output == "yaml":
        import yaml

        print(yaml.safe_dump(value, sort_keys=False), end="")
    else:
        print(json.dumps(value))
