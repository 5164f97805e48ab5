"""What `run` and `resume` say on standard error while a job goes on."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from perdure.journal.journal_format import JournalRecord, Kind
from perdure.manager.facts import ROOM, SPACE
from perdure.manager.job_view import JobView
from perdure.manager.labels import task_label
from perdure.manager.managing import Orders
from perdure.manager.step_view import StepView
from perdure.policy.outcome import AttemptState
from perdure.policy.resuming import ResumeDecision, Start
from perdure.store.layout import StepKey, TaskKey

#: What journals note that a person wants to know at once.
_TOLD = frozenset({"message", "save", ROOM, "restore", "undelivered"})
#: How attempts end that a person wants to know of at once.
_GONE_WRONG = frozenset(
    one.value for one in (AttemptState.FAILED, AttemptState.LOST, AttemptState.NOT_STARTED)
)
#: So many tasks that wait are named.
_TOLD_TASKS = 5
_SUSPENDING = (
    "the tasks are asked to save and stop; Ctrl-C again stops them at once, at their last save",
    "the tasks are stopped at once",
)


class News:
    """Tells what was not told yet; what happened before it was made is not told."""

    def __init__(self, view: JobView, orders: Orders, told: Callable[[str], None]) -> None:
        self._view = view
        self._orders = orders
        self._told = told
        self._suspends = 0
        self._heard: list[JournalRecord] = []
        self._told_of: str | None = None

    def listen(self) -> None:
        """Hear what is read from now on."""
        self._view.heard = self._heard

    def tell_waiting(self, now: float) -> None:
        """Say which tasks wait for their next try from before; ``now`` is the wall clock's."""
        waiting = [
            (step, task)
            for step in self._view.steps.values()
            for task in step.pending(self._view.stops, now)
            if task.wait_seconds > 0
        ]
        for step, task in waiting[:_TOLD_TASKS]:
            key = TaskKey(task.task)
            ended = _how_it_ended(step, key)
            self._told(f"{_label(step, key)} is tried again {_in(task.wait_seconds)}{ended}")
        if len(waiting) > _TOLD_TASKS:
            self._told(f"and {len(waiting) - _TOLD_TASKS} more tasks are tried again later")

    def tell(self) -> None:
        """Say what is new."""
        while self._suspends < min(self._orders.suspends_passed_on, len(_SUSPENDING)):
            self._told(_SUSPENDING[self._suspends])
            self._suspends += 1
        for record in self._heard:
            for sentence in self._sentences(record):
                self._told(sentence)
        self._heard.clear()

    def _sentences(self, record: JournalRecord) -> Iterator[str]:
        fields = record.fields
        step, task = self._view.steps[StepKey(fields["step"])], TaskKey(fields["task"])
        label = _label(step, task)
        if record.kind is Kind.NOTED and fields["what"] in _TOLD:
            yield f"{label}: {fields['text']}"
        if record.kind is Kind.NOTED and fields["what"] == SPACE:
            who = f"{fields['task']} {fields['attempt']}"
            if self._told_of is None or self._told_of == who:
                self._told_of = who
                yield f"{label}: {fields['text']}"
        if record.kind is Kind.OUTCOME and _is_told(step, task, fields):
            number, reason = fields["attempt"], fields["reason"]
            yield f"{label}: attempt {number} {_state(fields)}: {reason}{_next(step, task)}"


def _label(step: StepView, task: TaskKey) -> str:
    watched = step.watched.get(task)
    return task_label(step.step.name, step.texts(watched.ref)) if watched else step.step.name


def _is_told(step: StepView, task: TaskKey, fields: Mapping[str, Any]) -> bool:
    """Whether an end is news: it went wrong, or the next attempt has to wait for it."""
    if fields["state"] != AttemptState.SUSPENDED.value or fields.get("by") == "user":
        return fields["state"] in _GONE_WRONG
    answer = _answer(step, task)
    return isinstance(answer, Start) and answer.wait_seconds > 0


def _how_it_ended(step: StepView, task: TaskKey) -> str:
    """The end that the next attempt waits for, in brackets."""
    view = step.watched[task].view
    past = view.past if view is not None else ()
    ended = [one for one in past if one.account.outcome is not None]
    if not ended:
        return ""
    outcome = ended[-1].account.outcome or {}
    return f" (attempt {ended[-1].claim.attempt} {_state(outcome)}: {outcome.get('reason', '')})"


def _state(outcome: Mapping[str, Any]) -> str:
    return str(outcome["state"]).replace("_", " ")


def _answer(step: StepView, task: TaskKey) -> ResumeDecision | None:
    watched = step.watched.get(task)
    return watched.decision.answer if watched is not None and watched.decision else None


def _in(seconds: float) -> str:
    """When."""
    return f"in {math.ceil(seconds)} s" if seconds > 0 else "at once"


def _next(step: StepView, task: TaskKey) -> str:
    """When it is tried again."""
    answer = _answer(step, task)
    if not isinstance(answer, Start):
        return "; it is not tried again by itself"
    return f"; it is tried again {_in(answer.wait_seconds)}"
