"""The status of a job: the facts of its store, and what can be seen of its processes now.

A launch whose process is gone runs nothing, whatever the journals last said: its tasks count as
waiting. Of processes on other hosts nothing can be seen at one look; they are taken to run.

`JobStatus.to_json` is the object of `perdure status JOB --json`, an interface that is only ever
added to: docs/cli.md.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from perdure.clock import from_text
from perdure.journal.heartbeat import read_heartbeat
from perdure.manager.facts import (
    ROOM,
    SPACE,
    AttemptFacts,
    JobFacts,
    LaunchFacts,
    StepFacts,
    TaskFacts,
)
from perdure.manager.presence import read_manager
from perdure.policy.outcome import By
from perdure.policy.states import State, Status, StepInJob, job_status, step_status
from perdure.policy.stops import Stop, StopKind
from perdure.sizes import size_text
from perdure.store import layout
from perdure.store.drivers.driver import Driver
from perdure.store.layout import JobId, LaunchId
from perdure.store.records.job_document import JobDocument
from perdure.worker.host import is_gone, is_of_here

#: A resumable task that runs for so long without a checkpoint is worth a word: twice the interval
#: at which programs are told to save.
WARN_AFTER_SECONDS = 1800.0
_NOBODY = "nobody works on it now"
_UNMANAGED = "what its workers are at goes on, but what fails is not tried again"
_GONE = "its worker is gone; what it did since its last checkpoint will be done again"
#: What is shown of a manager; the rest of its record is for other managers.
_SHOWN_OF_MANAGER = ("host", "pid", "pid_started", "boot")


class LaunchNow(Struct, frozen=True, kw_only=True):
    """What can be seen of a launch now.

    Attributes:
        state: ``live``, ``gone``, ``queued`` or ``intended``.
        heartbeat: what it last said.
    """

    state: str
    heartbeat: Mapping[str, Any]


class Now(Struct, frozen=True, kw_only=True):
    """What can be seen of a job's processes now.

    Attributes:
        manager: who makes its turns, with ``state``; None: nobody.
        at: when this was seen, for people.
        trouble: why the store does not take the manager's records, or "".
    """

    manager: Mapping[str, Any] | None
    launches: Mapping[str, LaunchNow]
    at: datetime
    trouble: str = ""


def look(driver: Driver, job: JobId, facts: JobFacts, at: datetime) -> Now:
    """See what lives; reads a few small objects, and processes of this host."""
    launches = {one.launch: _launch_now(driver, job, one) for one in facts.launches}
    described = read_manager(driver, job) or {}
    manager = _manager_now(described)
    is_told = manager is not None and manager["state"] != "gone"
    trouble = str(described.get("trouble", "")) if is_told else ""
    return Now(manager=manager, launches=launches, at=at, trouble=trouble)


def status_now(driver: Driver, document: JobDocument, facts: JobFacts, at: datetime) -> "JobStatus":
    """The status by the facts and by what lives now."""
    return status_of(document, facts, look(driver, document.job, facts, at))


def _launch_now(driver: Driver, job: JobId, launch: LaunchFacts) -> LaunchNow:
    heartbeat = read_heartbeat(driver, layout.heartbeat(job, LaunchId(launch.launch))) or {}
    if launch.sealed:
        return LaunchNow(state="gone", heartbeat=heartbeat)
    if launch.process is None:
        return LaunchNow(state="intended", heartbeat=heartbeat)
    if "pid" in launch.process and is_gone(launch.process):
        return LaunchNow(state="gone", heartbeat=heartbeat)
    return LaunchNow(state="live" if launch.started else "queued", heartbeat=heartbeat)


def _manager_now(described: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Who makes the job's turns: ``alive`` or ``gone`` on this host, ``unknown`` elsewhere."""
    if described.get("gone") or "pid" not in described:
        return None
    state = "unknown"
    if is_gone(described):
        state = "gone"
    elif is_of_here(described):
        state = "alive"
    shown = {name: described.get(name) for name in _SHOWN_OF_MANAGER}
    return {**shown, "state": state}


class StepStatus(Struct, frozen=True, kw_only=True):
    """A step's state and its tasks by state."""

    facts: StepFacts
    status: Status


class JobStatus(Struct, frozen=True, kw_only=True):
    """A job's status.

    Attributes:
        facts: of the store, with what is seen now laid over them.
        is_unusable: it is held, and no checkpoint can be used.
        is_worked_on: a launch or a manager is at work, as far as can be seen.
    """

    document: JobDocument
    facts: JobFacts
    now: Now
    status: Status
    steps: tuple[StepStatus, ...]
    warnings: tuple[str, ...]

    @property
    def is_unusable(self) -> bool:
        """Whether it is held and no checkpoint can be used."""
        return self.status.is_held and any(task.unusable for task in self.facts.tasks)

    @property
    def is_worked_on(self) -> bool:
        """Whether somebody is at work on it, as far as can be seen."""
        return self.has_manager or any(one.state != "gone" for one in self.now.launches.values())

    @property
    def has_manager(self) -> bool:
        """Whether somebody makes its turns, as far as can be seen."""
        return self.now.manager is not None and self.now.manager["state"] != "gone"

    @property
    def is_followed(self) -> bool:
        """Whether its workers are a cluster's, and are there: a job behind them makes the turn."""
        is_there = any(one.state != "gone" for one in self.now.launches.values())
        return self.document.options.engine != "local" and is_there

    @property
    def goes_on(self) -> bool:
        """Whether turns are to be made: it has not ended, and waits for nobody."""
        return self.status.state in (State.PENDING, State.RUNNING)

    def to_json(self) -> dict[str, Any]:
        """The object of ``status JOB --json``."""
        return {
            "job": self.document.job,
            "key": self.document.key,
            "name": self.document.name,
            "state": self.status.state.value,
            "held": self.status.is_held,
            "reason": self.status.reason,
            "submitted_at": self.document.submitted_at,
            "settled_at": self.facts.settled_at,
            "manager": dict(self.now.manager) if self.now.manager is not None else None,
            "engine": to_builtins(self.facts.engine),
            "retention": self.document.options.retention(),
            "steps": [_step_json(step) for step in self.steps],
            "tasks": to_builtins(self.facts.tasks),
            "tasks_left_out": self.facts.tasks_left_out,
            "attempts": to_builtins(self.facts.attempts),
            "attempts_left_out": self.facts.attempts_left_out,
            "warnings": list(self.warnings),
        }


def _step_json(step: StepStatus) -> dict[str, Any]:
    counts = step.facts.counts
    return {
        "name": step.facts.name,
        "index": step.facts.index,
        "state": step.status.state.value,
        "held": step.status.is_held,
        "reason": step.status.reason,
        "resumable": step.facts.resumable,
        "tasks": {"total": counts.total, **to_builtins(counts)},
    }


def status_of(document: JobDocument, facts: JobFacts, now: Now) -> JobStatus:
    """The status that follows. Pure."""
    seen = _laid_over(facts, now)
    steps = tuple(StepStatus(facts=step, status=_step_status(step)) for step in seen.steps)
    status = _job_status(seen, steps)
    found = JobStatus(
        document=document,
        facts=seen,
        now=now,
        status=status,
        steps=steps,
        warnings=tuple(_warnings(seen, now)),
    )
    return replace(found, status=replace(status, reason=_reason(found)))


def _laid_over(facts: JobFacts, now: Now) -> JobFacts:
    """The facts with what is seen of launches now."""
    gone = {name for name, one in now.launches.items() if one.state == "gone"}
    lost: dict[int, int] = {}
    lost_tasks: set[str] = set()
    for launch in facts.launches:
        if launch.launch in gone:
            for step, task in launch.running:
                lost[step] = lost.get(step, 0) + 1
                lost_tasks.add(task)
    waiting = {step.name: step.waiting for step in facts.steps}
    return replace(
        facts,
        steps=tuple(_without_lost(step, lost.get(step.index, 0)) for step in facts.steps),
        tasks=tuple(
            replace(task, state=waiting[task.step], reason=_GONE)
            if task.key in lost_tasks and task.state == State.RUNNING.value
            else task
            for task in facts.tasks
        ),
        attempts=tuple(_attempt_now(attempt, now, gone) for attempt in facts.attempts),
    )


def _without_lost(step: StepFacts, lost: int) -> StepFacts:
    """Tasks of gone workers wait; they do not run."""
    lost = min(lost, step.counts.running)
    if not lost or step.settled is not None:
        return step
    name = State(step.waiting).value.lower()
    counts = replace(step.counts, running=step.counts.running - lost)
    return replace(step, counts=replace(counts, **{name: getattr(counts, name) + lost}))


def _attempt_now(attempt: AttemptFacts, now: Now, gone: set[str]) -> AttemptFacts:
    if attempt.outcome is not None:
        return attempt
    if attempt.launch in gone:
        attempt = replace(attempt, reason=_GONE)
    launch = now.launches.get(attempt.launch)
    heartbeat = launch.heartbeat if launch is not None else {}
    if heartbeat.get("task") != attempt.key:
        return attempt
    progress = heartbeat.get("progress")
    return replace(
        attempt,
        progress=float(progress) if isinstance(progress, int | float) else None,
        status=str(heartbeat.get("status") or "") or None,
    )


def _step_status(step: StepFacts) -> Status:
    if step.settled is not None:
        return Status(state=State(step.settled), reason=step.reason)
    status = step_status(step.counts)
    if status.state is State.PENDING and step.waiting == State.SUSPENDED.value:
        return replace(status, state=State.SUSPENDED, reason="a person suspended it")
    return status


def _job_status(facts: JobFacts, steps: tuple[StepStatus, ...]) -> Status:
    if facts.settled is not None:
        return Status(state=State(facts.settled), reason=facts.reason)
    stop = facts.stop
    return job_status(
        (
            StepInJob(
                index=step.facts.index,
                name=step.facts.name,
                status=step.status,
                dependencies=step.facts.dependencies,
            )
            for step in steps
        ),
        stop=None
        if stop is None
        else Stop(number=stop.number, kind=StopKind(stop.kind), by=By(stop.by)),
    )


def _reason(found: JobStatus) -> str:
    """Why the job is as it is, in one sentence, with what to do next; "" where that is plain."""
    status, job = found.status, found.document.job
    match status.state:
        case State.SUSPENDED if status.is_held:
            held = next((task for task in found.facts.tasks if task.held), None)
            about = f"{held.task} waits for a choice: {held.reason}" if held else "it is held"
            return f"{about}; see: perdure why {job}"
        case State.SUSPENDED:
            return f"a person suspended it; it goes on with: perdure resume {job}"
        case State.PENDING | State.RUNNING if not found.is_worked_on:
            return f"{_NOBODY}; it goes on with: perdure resume {job}"
        case State.PENDING | State.RUNNING if not found.has_manager and found.is_followed:
            return "it goes on by itself on the cluster"
        case State.PENDING | State.RUNNING if not found.has_manager:
            who = "nobody manages it" if found.now.manager is None else "its manager is gone"
            return f"{who}: {_UNMANAGED}; manage it with: perdure resume {job}"
        case _:
            return status.reason


def _warnings(facts: JobFacts, now: Now) -> list[str]:
    found = [*facts.damage, *_about_room(facts)]
    if now.trouble:
        found.append(f"the store does not take the job's records: {now.trouble}")
    names = {attempt.key: attempt.task for attempt in facts.attempts if attempt.outcome is None}
    for launch in now.launches.values():
        heartbeat = launch.heartbeat
        if launch.state == "gone":
            continue
        if heartbeat.get("trouble"):
            found.append(f"the store does not take a worker's records: {heartbeat['trouble']}")
        local = heartbeat.get("local_save")
        if isinstance(local, int):
            task = names.get(str(heartbeat.get("task")), "the running task")
            left = heartbeat.get("local_left")
            left = left if isinstance(left, int) else 0
            about = f"; {size_text(left)} are yet to be copied" if left else ""
            found.append(f"{task}: save {local} is local, not durable yet{about}")
        torn = heartbeat.get("torn")
        if isinstance(torn, int) and torn > 0:
            task = names.get(str(heartbeat.get("task")), "the running task")
            found.append(f"{task}: {_saves(torn)} torn: a file changed while it was being taken")
    resumable = {step.name for step in facts.steps if step.resumable}
    for attempt in facts.attempts:
        warning = _unsaved(attempt, now.at) if attempt.step in resumable else None
        if warning is not None:
            found.append(warning)
    return found


def _about_room(facts: JobFacts) -> Iterator[str]:
    """What is told about room while the job goes on, with when that was: the newest counts."""
    if facts.settled is not None:
        return
    telling = [one for one in facts.attempts if any(n["what"] == SPACE for n in one.notes)]
    for attempt in telling[-1:]:
        for note in attempt.notes:
            if note["what"] == SPACE:
                yield _dated(attempt, note)
    for attempt in facts.attempts:
        notes = [note for note in attempt.notes if note["what"] == ROOM]
        if notes and attempt.outcome is None:
            yield _dated(attempt, notes[-1])


def _dated(attempt: AttemptFacts, note: Mapping[str, str]) -> str:
    said = f" (said at {note['at']})" if note.get("at") else ""
    return f"{attempt.task}: {note['text']}{said}"


def _saves(number: int) -> str:
    return "1 save was" if number == 1 else f"{number} saves were"


def _unsaved(attempt: AttemptFacts, at: datetime) -> str | None:
    """A task that runs for long without a checkpoint."""
    if attempt.outcome is not None or attempt.started_at is None or attempt.reason:
        return None
    since = max(attempt.last_checkpoint_at or "", attempt.started_at)
    try:
        seconds = (at - from_text(since)).total_seconds()
    except ValueError:
        return None
    if seconds < WARN_AFTER_SECONDS:
        return None
    return f"{attempt.task}: no checkpoint since {since} ({seconds / 60:.0f} min)"


def task_of(facts: JobFacts, key: str) -> TaskFacts | None:
    """What is said about a lineage beside its attempts."""
    return next((task for task in facts.tasks if task.key == key), None)
