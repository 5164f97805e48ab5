"""docs/states.md, drawn from the tables that the code decides by.

A test compares the page with what this writes, so the page cannot say something else than the code.
"""

from perdure.policy.outcome import (
    RULES,
    TABLE,
    UNDELIVERED,
    AttemptFacts,
    AttemptState,
    By,
    DeliveryEnd,
    Exit,
    Notice,
    Outcome,
    SaveAfterNotice,
    Undelivered,
    judge,
)
from perdure.policy.states import TRANSITIONS, State, TaskEvent


def render_states() -> str:
    """The whole page."""
    return "\n".join([*_head(), *_tasks(), *_attempts(), ""])


def _head() -> list[str]:
    return [
        "# States",
        "",
        "Drawn from the tables in `perdure.policy`; write it anew with",
        "`python -m perdure.policy.diagrams > docs/states.md`. The life of one attempt is in",
        "attempt-states.md.",
        "",
    ]


def _tasks() -> list[str]:
    """The machine of tasks, as a diagram and as a table of every pair."""
    lines = ["## Tasks", "", "```mermaid", "stateDiagram-v2", f"    [*] --> {State.PENDING.value}"]
    lines += [
        f"    {before.value} --> {after.value}: {event.value}"
        for (before, event), after in TRANSITIONS.items()
    ]
    lines += ["```", "", f"| | {' | '.join(state.value for state in State)} |"]
    lines += [f"| --- |{' --- |' * len(State)}"]
    for event in TaskEvent:
        cells = [TRANSITIONS.get((state, event)) for state in State]
        shown = " | ".join("-" if cell is None else cell.value for cell in cells)
        lines.append(f"| {event.value} | {shown} |")
    return [*lines, "", "What shows - is refused.", ""]


def _attempts() -> list[str]:
    """The rules of an attempt's end, and the table that is the last of them."""
    lines = ["## How an attempt ends", "", "The first that applies decides:", ""]
    lines += [f"{number}. {rule.when}" for number, rule in enumerate(RULES, start=1)]
    lines += ["", "The table:", ""]
    lines += [
        "| asked to stop | exited 0 | a save after the notice is durable | outcome | reason |",
        "| --- | --- | --- | --- | --- |",
    ]
    for asked, well, saved in TABLE:
        outcome = _example(asked=asked, well=well, saved=saved)
        row = (_yes(asked), _yes(well), _yes(saved), outcome.state.value, outcome.reason)
        lines.append(f"| {' | '.join(row)} |")
    lines += [
        "",
        "With `--deliver`, what would have SUCCEEDED and whose files were not delivered:",
        "",
        "| why they were not | outcome | reason |",
        "| --- | --- | --- |",
    ]
    for end in UNDELIVERED:
        outcome = _undelivered(end)
        lines.append(f"| {end.value} | {outcome.state.value} | {outcome.reason} |")
    states = ", ".join(state.value for state in AttemptState)
    return [*lines, "", f"The states of attempts that ended: {states}."]


def _example(*, asked: bool, well: bool, saved: bool) -> Outcome:
    """What the table says of a plain attempt with a checkpoint 3."""
    notice = Notice(by=By.HOST, signal_caught=True, signal_name="SIGUSR1") if asked else None
    return judge(
        AttemptFacts(
            exit=Exit(code=0 if well else 1),
            notice=notice,
            save_after_notice=SaveAfterNotice(seconds=1.5, is_durable=True) if saved else None,
            point=3,
            unsaved_seconds=90.0,
        )
    )


def _undelivered(end: DeliveryEnd) -> Outcome:
    """What becomes of a plain attempt with a checkpoint 3 whose files were not delivered."""
    reason = {
        DeliveryEnd.FAILED: "its files could not be delivered to /results: …",
        DeliveryEnd.STOPPED: "stopped while its files were being delivered to /results",
    }.get(end, "")
    undelivered = Undelivered(end=end, reason=reason, by=By.HOST)
    return judge(AttemptFacts(exit=Exit(code=0), undelivered=undelivered, point=3))


def _yes(value: bool) -> str:  # noqa: FBT001 - a cell
    return "yes" if value else "no"


if __name__ == "__main__":
    print(render_states(), end="")  # noqa: T201 - this is how the page is written
