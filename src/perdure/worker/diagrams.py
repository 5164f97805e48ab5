"""docs/attempt-states.md, drawn from the table by which an attempt is supervised.

A test compares the page with what this writes, so the page cannot say something else than the code.
"""

import re
from typing import get_args

from perdure.worker.machine import TRANSITIONS, Event, State


def render_attempt_states() -> str:
    """The whole page."""
    lines = [
        "# The life of an attempt",
        "",
        "Drawn from the table in `perdure.worker.machine`; write it anew with",
        "`python -m perdure.worker.diagrams > docs/attempt-states.md`. What becomes of tasks is in",
        "states.md.",
        "",
        "What is not listed for a state cannot happen there, and is refused.",
    ]
    for state in State:
        lines += ["", f"## {state.name}", "", "| what happens | what is done |", "| --- | --- |"]
        for event in get_args(Event):
            transition = TRANSITIONS.get((state, event))
            if transition is not None:
                lines.append(f"| {_words(event.__name__)} | {_first_line(transition)} |")
    return "\n".join([*lines, ""])


def _words(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name).lower()


def _first_line(transition: object) -> str:
    return (transition.__doc__ or "").strip().split("\n", 1)[0]


if __name__ == "__main__":
    print(render_attempt_states(), end="")  # noqa: T201 - this is how the page is written
