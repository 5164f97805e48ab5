"""Why a job or a task is as it is, in plain sentences, with the command lines that change it. Pure.

Every end has a reason; what a person must choose is shown with the lines that choose.

Source: design 3 (rules 7 and 8).
"""

import shlex
from collections.abc import Iterable, Iterator

from msgspec import Struct

from perdure.manager.facts import AttemptFacts, CheckpointFacts, JobFacts, TaskFacts
from perdure.manager.job_status import JobStatus, StepStatus
from perdure.policy.outcome import AttemptState, Cause
from perdure.policy.states import State
from perdure.template.ranges import range_text

#: So many tasks are explained in an answer about a whole job.
EXPLAINED_TASKS = 20
_SHOWN_CHOICES = 5
_FAILED = AttemptState.FAILED.value
#: How attempts end that are worth a word also while their task is tried again.
_GONE_WRONG = (_FAILED, AttemptState.LOST.value, AttemptState.NOT_STARTED.value)
_QUIET = (State.SUCCEEDED.value, State.RUNNING.value)


class Explanation(Struct, frozen=True, kw_only=True):
    """Something that is as it is, and why.

    Attributes:
        about: the job, a step, or a task, as people call it.
        state: its state.
        sentences: in order.
        commands: lines that change it.
    """

    about: str
    state: str
    sentences: tuple[str, ...]
    commands: tuple[str, ...] = ()


def explain_job(found: JobStatus) -> Iterator[Explanation]:
    """The job, its steps that did not simply succeed, and the tasks that explain them."""
    yield Explanation(
        about=f"Job {found.document.job} ({found.document.name})",
        state=found.status.state.value,
        sentences=tuple(_job_sentences(found)),
        commands=tuple(_job_commands(found)),
    )
    for step in found.steps:
        sentences = tuple(_step_sentences(step, found))
        if sentences:
            state = step.status.state.value
            yield Explanation(about=f"Step {step.facts.name}", state=state, sentences=sentences)
    tasks = _explained(found.facts)
    for task in tasks[:EXPLAINED_TASKS]:
        yield explain_task(found, task)
    more = max(0, len(tasks) - EXPLAINED_TASKS) + found.facts.tasks_left_out
    if more:
        yield Explanation(
            about=f"{more} more tasks", state="", sentences=("ask for one by its name or key",)
        )


def _explained(facts: JobFacts) -> list[TaskFacts]:
    """The tasks about which there is something to explain: last those that are tried again now."""
    troubled = {one.key for one in facts.attempts if one.outcome in _GONE_WRONG}
    waiting = [one for one in facts.tasks if one.state not in _QUIET]
    running = [one for one in facts.tasks if one.state == State.RUNNING.value]
    return [*waiting, *(one for one in running if one.key in troubled)]


def _job_sentences(found: JobStatus) -> Iterator[str]:
    facts, status = found.facts, found.status
    done = sum(step.facts.counts.succeeded for step in found.steps)
    total = sum(step.facts.counts.total for step in found.steps)
    yield f"{done} of {total} tasks succeeded"
    if facts.stop is not None:
        who = {"user": "a person", "engine": "the engine", "host": "the host"}[facts.stop.by]
        yield f"{who} asked to {facts.stop.kind} all of it (record {facts.stop.number})"
    if status.reason:
        yield status.reason
    if facts.engine.changed_at is not None:
        options = f" with {shlex.join(facts.engine.options)}" if facts.engine.options else ""
        yield (
            f"since {facts.engine.changed_at} its workers are started by the engine"
            f" {facts.engine.name}{options}: a person chose that"
        )
    yield from (f"it was stopped because {reason}" for reason in facts.stop_reasons)
    for launch in found.now.launches.values():
        if launch.state == "gone":
            yield "a worker is gone without a word; the next command ends what is left of it"
    yield from found.warnings


def _job_commands(found: JobStatus) -> Iterator[str]:
    job = found.document.job
    match found.status.state:
        case State.SUSPENDED if not found.status.is_held:
            yield f"perdure resume {job}"
        case State.PENDING | State.RUNNING if not (found.has_manager or found.is_followed):
            yield f"perdure resume {job}"
        case State.FAILED:
            yield f"perdure resume {job}"
        case State.CANCELED:
            yield f"perdure resume {job} --as new"
        case _:
            return


def _step_sentences(step: StepStatus, found: JobStatus) -> Iterator[str]:
    if step.status.reason and step.status.state is not State.SUCCEEDED:
        yield step.status.reason
    if step.status.state is State.PENDING:
        names = {one.facts.index: one for one in found.steps}
        waits = [
            names[index].facts.name
            for index in step.facts.dependencies
            if names[index].status.state is not State.SUCCEEDED
        ]
        if waits:
            yield f"it waits for step {', '.join(waits)}"


def explain_task(found: JobStatus, task: TaskFacts) -> Explanation:
    """One task: all its attempts, and what comes next."""
    attempts = [one for one in found.facts.attempts if one.key == task.key]
    return Explanation(
        about=f"Task {task.task} ({task.key})",
        state=f"{task.state} (held)" if task.held else task.state,
        sentences=(
            *_all_sentences(attempts),
            *_next_sentences(task, attempts),
        ),
        commands=tuple(_choices(found, task, attempts)),
    )


def choosing_commands(found: JobStatus) -> tuple[str, ...]:
    """The lines by which a person goes on with a job that is held: of the first held task."""
    held = next((task for task in found.facts.tasks if task.held), None)
    if held is None:
        return ()
    attempts = [one for one in found.facts.attempts if one.key == held.key]
    return tuple(_choices(found, held, attempts))


def explain_counted(
    label: str, key: str, state: str, attempts: Iterable[AttemptFacts]
) -> Explanation:
    """A task about which only its attempts are known."""
    sentences = tuple(_all_sentences(attempts))
    return Explanation(
        about=f"Task {label} ({key})",
        state=state,
        sentences=sentences or ("no attempt of it has begun",),
    )


def _all_sentences(attempts: Iterable[AttemptFacts]) -> Iterator[str]:
    """All attempts, in order."""
    has_kept = False
    for attempt in attempts:
        yield from _attempt_sentences(attempt, has_kept=has_kept)
        has_kept = has_kept or bool(attempt.kept)


def _attempt_sentences(attempt: AttemptFacts, *, has_kept: bool) -> Iterator[str]:
    """One attempt, and beneath it what was noted; ``has_kept``: it had only to do what remained."""
    where = f" on {attempt.host}" if attempt.host else ""
    start = (
        f"from checkpoint {attempt.resumed_from}"
        if attempt.resumed_from is not None
        else ("at what remained" if has_kept else "from the beginning")
    )
    head = f"attempt {attempt.number}{where}, {start}"
    if attempt.outcome is None:
        says = f": {attempt.reason}" if attempt.reason else " is under way"
        yield f"{head}{says}"
    else:
        by = f", asked by the {attempt.by}" if attempt.by else ""
        yield f"{head}: {attempt.outcome}{by}: {attempt.reason}"
    if attempt.resume_status is not None:
        yield f"  the program says about the checkpoint: {attempt.resume_status}"
    if words := _words(attempt):
        yield f"  it {'says' if attempt.outcome is None else 'said last'}: {words}"
    if attempt.kept:
        yield f"  complete and never run again: {range_text(attempt.kept)}"
    yield from _save_sentences(attempt)
    for note in attempt.notes:
        yield f"  {note['what']}: {note['text']}"


def _words(attempt: AttemptFacts) -> str:
    """What the task says of how far it is, or said last; "" where it said nothing."""
    progress = None if attempt.progress is None else f"{attempt.progress:.0f} %"
    return ", ".join(word for word in (progress, attempt.status) if word)


def _save_sentences(attempt: AttemptFacts) -> Iterator[str]:
    saves = attempt.saves
    numbers = ", ".join(str(one.sequence) for one in attempt.checkpoints)
    if numbers:
        yield f"  committed checkpoints: {numbers}"
    troubles = [
        f"{saves[name]} {text}"
        for name, text in (
            ("skipped", "passed over for newer ones"),
            ("torn", "torn (a file changed while it was being taken)"),
        )
        if saves.get(name)
    ]
    if troubles:
        yield f"  of {saves.get('announced', 0)} saves {' and '.join(troubles)}"


def _next_sentences(task: TaskFacts, attempts: list[AttemptFacts]) -> Iterator[str]:
    if task.reason:
        yield task.reason
    if task.state == State.PENDING.value:
        wait = f", {task.wait_seconds:.0f} s after the last one ended" if task.wait_seconds else ""
        yield f"the next attempt starts from {_start(task, attempts)}{wait}"
    elif task.state == State.SUSPENDED.value and not task.held:
        yield f"when it is resumed it starts from {_start(task, attempts)}"
    yield from task.notes


def _start(task: TaskFacts, attempts: list[AttemptFacts]) -> str:
    """From where it goes on, and why from there, where that is plain."""
    there = [c for one in attempts for c in one.checkpoints if not (c.void or c.pruned)]
    if task.base is None:
        return "the beginning" if there else "the beginning: it has no checkpoint to go on from"
    newest = max((one.sequence for one in there), default=None)
    return f"checkpoint {task.base}" + (", its newest" if task.base == newest else "")


def _choices(found: JobStatus, task: TaskFacts, attempts: list[AttemptFacts]) -> Iterator[str]:
    """The lines by which a person chooses, for a task that is held, failed, or is tried again.

    One that is tried again from its newest checkpoint, or that is under way again, needs no choice,
    only a look at what it printed; one that waits may be tried at once.
    """
    is_chosen_by_a_person = task.held or task.state == State.FAILED.value
    is_tried_again = task.state in (State.PENDING.value, State.RUNNING.value)
    ends = [one.outcome for one in attempts if one.outcome is not None]
    if not is_chosen_by_a_person and not (is_tried_again and ends[-1:] == [_FAILED]):
        return
    job = found.document.job
    yield f"perdure logs {job} {shlex.quote(task.key)}  # what it printed"
    if task.state == State.RUNNING.value:
        return
    if is_chosen_by_a_person and attempts and attempts[-1].cause == Cause.CONFLICT.value:
        yield f"perdure resume {job} --overwrite  # what is there is renamed"
        yield f"perdure resume {job} --keep  # what is there stays, not as it was saved"
    elif is_chosen_by_a_person and attempts and attempts[-1].cause == Cause.DELIVERY.value:
        yield f"perdure resume {job}  # once that is mended"
        yield from _take_out(job, task, attempts)
    elif is_chosen_by_a_person or task.wait_seconds or task.choices:
        yield f"perdure resume {job}  # at once, {_from(task)}; what failed before counts no more"
    if not is_chosen_by_a_person and not task.choices:
        return
    line = f"perdure resume {job} --task {shlex.quote(task.key)}"
    known = {one.sequence: one for attempt in attempts for one in attempt.checkpoints}
    for sequence in task.choices[:_SHOWN_CHOICES]:
        yield f"{line} --from {sequence}{_described(known.get(sequence))}"
    yield f"{line} --from start"


def _take_out(job: str, task: TaskFacts, attempts: list[AttemptFacts]) -> Iterator[str]:
    """How a person gets at the files of finished work that could not be delivered."""
    kept = [
        one.sequence
        for attempt in attempts
        for one in attempt.checkpoints
        if one.support and not one.save and not (one.void or one.pruned)
    ]
    if kept:
        name = shlex.quote(f"{job}/{task.key}@{max(kept)}")
        yield f"perdure checkpoint restore {name} --to DIR  # takes its files elsewhere"


def _from(task: TaskFacts) -> str:
    """From where a person's resume goes on."""
    if task.state == State.PENDING.value:
        return "from its newest good checkpoint" if task.base is not None else "from the beginning"
    return "from the beginning" if task.base is None else f"from checkpoint {task.base}"


def _described(checkpoint: CheckpointFacts | None) -> str:
    """What helps to choose, as a comment of a shell."""
    if checkpoint is None:
        return ""
    marks = " of a side branch" if checkpoint.void else ""
    return f"  # attempt {checkpoint.attempt}, {checkpoint.committed_at}{marks}"


def state_of_counted(facts: JobFacts, key: str) -> str:
    """The state of a task that is only counted, by its attempts."""
    mine = [one for one in facts.attempts if one.key == key]
    if not mine:
        return State.PENDING.value
    last = mine[-1]
    return last.outcome if last.outcome is not None else State.RUNNING.value
