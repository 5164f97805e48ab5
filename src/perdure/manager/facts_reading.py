"""From a job's view to the facts that commands show, with the positions up to which they hold.

Attempts of tasks that simply succeeded are listed in jobs of up to `EVERY_ATTEMPT_TASKS` tasks (or
where all are asked for); of bigger jobs only what is under way, or went otherwise, so that the
facts of a job of 100,000 tasks stay small.
"""

from collections.abc import Iterator

from msgspec import Struct, field

from perdure.manager.attempt_facts import Named, attempt_facts
from perdure.manager.facts import (
    SPACE,
    AttemptFacts,
    EngineFacts,
    JobFacts,
    LaunchFacts,
    StepFacts,
    StopFacts,
    TaskFacts,
)
from perdure.manager.job_view import JobView
from perdure.manager.labels import task_label
from perdure.manager.positions import Positions, journal_mark, lineage_name
from perdure.manager.step_view import StepView, Watched
from perdure.policy.outcome import By
from perdure.policy.resuming import Failed, Held, ResumeDecision, Start
from perdure.policy.states import Counts, State, Status, waiting_status
from perdure.policy.stops import JOB, Scope, Stops
from perdure.store.layout import LaunchId, StepKey, TaskKey
from perdure.store.records.lineage import Claim, Lineage
from perdure.worker.job_records import LineageId
from perdure.worker.ticker import scope_of

#: Jobs of up to so many tasks list every attempt.
EVERY_ATTEMPT_TASKS = 1_000
#: Of bigger ones at most so many tasks are listed, those first that a person has to look at.
LISTED_TASKS = 1_000


def read_facts(view: JobView, *, every_attempt: bool = False) -> tuple[JobFacts, Positions]:
    """Read the job on, and say what there is to say about it.

    Args:
        view: the job's.
        every_attempt: list all attempts, however many there are.
    """
    view.records.refresh()
    # Marks before reading: see `perdure.manager.positions`.
    marks = {
        launch: journal_mark(view.records.driver, view.document.job, launch)
        for launch in view.records.state.launches
    }
    view.refresh()
    return _Reading(view, every_attempt=every_attempt).facts(marks)


class _Listed(Struct):
    """What is collected."""

    tasks: list[TaskFacts] = field(default_factory=list)
    tasks_left_out: int = 0
    attempts: list[AttemptFacts] = field(default_factory=list)
    attempts_left_out: int = 0
    lineages: dict[str, int] = field(default_factory=dict)


class _Reading:
    """One reading of a view that was refreshed."""

    def __init__(self, view: JobView, *, every_attempt: bool) -> None:
        self._view = view
        self._stops: Stops = view.stops
        total = sum(step.total() for step in view.steps.values())
        self._is_whole = every_attempt or total <= EVERY_ATTEMPT_TASKS
        self._listed = _Listed()

    def facts(self, marks: dict[LaunchId, int]) -> tuple[JobFacts, Positions]:
        view = self._view
        for step in view.steps.values():
            self._list_watched(step)
        self._list_counted()
        listed = self._listed
        entry = view.records.state.settled.get(None)
        settled = view.settled(None)
        facts = JobFacts(
            steps=tuple(self._step(step) for step in view.steps.values()),
            tasks=tuple(listed.tasks),
            tasks_left_out=listed.tasks_left_out,
            attempts=tuple(sorted(listed.attempts, key=_order)),
            attempts_left_out=listed.attempts_left_out,
            launches=tuple(self._launches()),
            engine=self._engine(),
            stop=self._stop(),
            stop_reasons=self._stop_reasons(),
            settled=settled.value if settled is not None else None,
            settled_at=str(entry.header.get("at", "")) if settled and entry else None,
            reason=str(entry.header.get("reason", "")) if settled and entry else "",
            damage=tuple(self._damage()),
        )
        return facts, self._positions(marks)

    def _engine(self) -> EngineFacts:
        options, choice = self._view.document.options, self._view.records.state.engine
        return EngineFacts(
            name=options.engine,
            options=options.engine_options,
            changed_at=choice.at if choice is not None else None,
        )

    def _positions(self, marks: dict[LaunchId, int]) -> Positions:
        records = self._view.records
        return Positions(
            log=records.log.last,
            journals={launch: marks.get(launch, 0) for launch in records.state.launches},
            shares={str(key): len(records.shares_read(key)) for key in self._view.steps},
            lineages=self._listed.lineages,
        )

    def _step(self, step: StepView) -> StepFacts:
        settled = self._view.settled(step.key)
        counts, reason = step.counts(self._stops), ""
        if settled is not None:
            record = self._view.records.state.settled[step.key].header
            counts = Counts(**record.get("outcomes", {}))
            reason = str(record.get("reason", ""))
        return StepFacts(
            index=step.key,
            name=step.step.name,
            dependencies=tuple(d for d in step.step.dependencies if d in self._view.steps),
            resumable=step.step.is_resumable,
            counts=counts,
            settled=settled.value if settled is not None else None,
            reason=reason,
            waiting=waiting_status(self._stops.stopped(Scope(step.key))).state.value,
        )

    def _list_watched(self, step: StepView) -> None:
        """Lineages that something has to be decided about, those first that a person looks at."""
        listed = self._listed
        watched = sorted(step.watched.values(), key=lambda one: self._urgency(step, one))
        for number, one in enumerate(watched):
            listed.lineages[lineage_name(step.key, one.ref.task)] = one.log.last
            found = self._attempts_of(step, one)
            if self._is_whole or number < LISTED_TASKS:
                listed.tasks.append(self._task(step, one))
                listed.attempts.extend(found)
            else:
                listed.tasks_left_out += 1
                listed.attempts_left_out += len(found)

    def _urgency(self, step: StepView, watched: Watched) -> int:
        status = step.status(watched, self._stops)
        if status.is_held:
            return 0
        order = (State.FAILED, State.RUNNING, State.PENDING, State.SUSPENDED)
        return 1 + order.index(status.state) if status.state in order else 1 + len(order)

    def _attempts_of(self, step: StepView, watched: Watched) -> list[AttemptFacts]:
        assert watched.view is not None
        found = [
            attempt_facts(
                self._named(step, watched.ref.task, step.texts(watched.ref)),
                past.claim,
                past.account,
                watched.view.lineage,
                is_ended=past.is_ended or self._view.has_ended(past.claim.launch),
            )
            for past in watched.view.past
        ]
        return [attempt for attempt in found if attempt is not None]

    def _task(self, step: StepView, watched: Watched) -> TaskFacts:
        assert watched.decision is not None
        status = step.status(watched, self._stops)
        named = self._named(step, watched.ref.task, step.texts(watched.ref))
        answer = watched.decision.answer
        # What waits for a person starts by a resume, which forgets what was tried in vain.
        by_itself = status.state in (State.PENDING, State.RUNNING)
        start = answer if isinstance(answer, Start) and by_itself else None
        return TaskFacts(
            step=named.step,
            task=named.task,
            key=named.key,
            state=status.state.value,
            held=status.is_held,
            reason=status.reason,
            base=step.next_base(watched, self._stops),
            wait_seconds=start.wait_seconds if start is not None else 0.0,
            choices=_choices(answer, status),
            unusable=isinstance(answer, Held) and answer.is_unusable,
            notes=start.notes if start is not None else (),
        )

    def _list_counted(self) -> None:
        """Attempts of tasks that are only counted: those that succeeded, and those under way."""
        records = self._view.records
        for launch in records.state.launches:
            for key, account in records.known_account(launch).attempts.items():
                step = self._view.steps.get(StepKey(key.step))
                task = TaskKey(key.task)
                if step is None or task in step.watched:
                    continue
                is_running = task in step.running
                warns = any(note.get("what") == SPACE for note in account.notes)
                if not (self._is_whole or is_running or warns):
                    self._listed.attempts_left_out += 1
                    continue
                begun = account.begun or {}
                claim = Claim(number=0, attempt=key.attempt, launch=launch)
                has_saves = bool((account.outcome or {}).get("saves"))
                lineage = self._lineage(step, task) if is_running or has_saves else None
                attempt = attempt_facts(
                    self._named(step, task, dict(begun.get("values") or {})),
                    claim,
                    account,
                    lineage,
                    is_ended=account.outcome is not None or self._view.has_ended(launch),
                )
                if attempt is not None:
                    self._listed.attempts.append(attempt)

    def _lineage(self, step: StepView, task: TaskKey) -> Lineage:
        """The lineage of a first attempt that its share claims."""
        records = self._view.records
        log = records.lineage_log(LineageId(step=step.key, task=task))
        log.read()
        self._listed.lineages[lineage_name(step.key, task)] = log.last
        share = next(iter(records.shares_read(step.key)), None)
        return records.fold(log, share=share)

    def _launches(self) -> Iterator[LaunchFacts]:
        """Launches that have not ended."""
        view, state = self._view, self._view.records.state
        for launch, intent in state.launches.items():
            if view.has_ended(launch):
                continue
            said = view.records.known_account(launch).opened or state.started.get(launch)
            ids = state.launched.get(intent.token)
            yield LaunchFacts(
                launch=launch,
                step=intent.step,
                process=dict(said) if said is not None else ids,
                started=said is not None,
                sealed=launch in state.seals,
                running=tuple(self._running_in(launch)),
            )

    def _running_in(self, launch: LaunchId) -> Iterator[tuple[int, str]]:
        for step in self._view.steps.values():
            for task, where in step.running.items():
                if where == launch:
                    yield step.key, task
            for task, watched in step.watched.items():
                claims = watched.view.lineage.claims if watched.view is not None else ()
                if watched.is_running and claims and claims[-1].launch == launch:
                    yield step.key, task

    def _stop_reasons(self) -> tuple[str, ...]:
        """Why something is stopped that no command stopped, each reason once."""
        reasons = [
            wish.reason
            for wish in self._view.records.state.wishes
            if wish.reason
            and wish.by == By.USER.value
            and self._stops.stopped(scope_of(wish)) is not None
        ]
        return tuple(dict.fromkeys(reasons))

    def _stop(self) -> StopFacts | None:
        stop = self._stops.stopped(JOB)
        if stop is None:
            return None
        return StopFacts(number=stop.number, kind=stop.kind.value, by=stop.by.value)

    def _damage(self) -> Iterator[str]:
        records = self._view.records
        for launch in records.state.launches:
            offset = records.known_account(launch).damaged_at
            if offset is not None:
                yield (
                    f"the journal of launch {launch} is damaged from byte {offset} on: what stands"
                    " behind it does not count"
                )

    def _named(self, step: StepView, task: TaskKey, texts: dict[str, str]) -> Named:
        name = step.step.name
        return Named(step=name, task=task_label(name, texts), key=task)


def _choices(answer: ResumeDecision, status: Status) -> tuple[int, ...]:
    """What a person may choose from."""
    match answer:
        case Held() | Failed() if status.state in (State.SUSPENDED, State.FAILED):
            return answer.choices
        case Start() if status.state is State.PENDING:
            return answer.choices
        case _:
            return ()


def _order(attempt: AttemptFacts) -> tuple[bool, str, str, int]:
    """By when they began; those that did not, last."""
    return (attempt.started_at is None, attempt.started_at or "", attempt.task, attempt.number)
