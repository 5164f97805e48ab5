"""What `run` and `resume` say on standard error while a job goes on."""

from collections.abc import Callable, Iterator

from perdure.journal.journal_format import JournalRecord, Kind
from perdure.manager.facts import ROOM, SPACE
from perdure.manager.job_view import JobView
from perdure.manager.labels import task_label
from perdure.manager.managing import Orders
from perdure.manager.step_view import StepView
from perdure.policy.outcome import AttemptState
from perdure.policy.resuming import Start
from perdure.store.layout import StepKey, TaskKey

#: What journals note that a person wants to know at once.
_TOLD = frozenset({"message", "save", ROOM, "restore", "undelivered"})
#: How attempts end that a person wants to know of at once.
_GONE_WRONG = frozenset(
    one.value for one in (AttemptState.FAILED, AttemptState.LOST, AttemptState.NOT_STARTED)
)
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

    def tell(self) -> None:
        """Say what is new."""
        while self._suspends < min(self._orders.suspend, len(_SUSPENDING)):
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
        if record.kind is Kind.OUTCOME and fields["state"] in _GONE_WRONG:
            number, reason = fields["attempt"], fields["reason"]
            state = fields["state"].replace("_", " ")
            yield f"{label}: attempt {number} {state}: {reason}{_next(step, task)}"


def _label(step: StepView, task: TaskKey) -> str:
    watched = step.watched.get(task)
    return task_label(step.step.name, step.texts(watched.ref)) if watched else step.step.name


def _next(step: StepView, task: TaskKey) -> str:
    """When it is tried again."""
    watched = step.watched.get(task)
    answer = watched.decision.answer if watched is not None and watched.decision else None
    if not isinstance(answer, Start):
        return "; it is not tried again by itself"
    return f"; it is tried again in {answer.wait_seconds:.0f} s"
