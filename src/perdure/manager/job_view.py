"""A job as its store tells it, read on from where it was read last.

What a turn decides from (`snapshot`), and what people are told, are both made from this. It only
reads; one object belongs to one thread.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from perdure.clock import Clock
from perdure.engines.base import Engine
from perdure.journal.heartbeat import Stillness, read_counter
from perdure.journal.journal_format import JournalRecord, Kind
from perdure.manager.selection import selected_steps, selected_tasks
from perdure.manager.step_view import StepView
from perdure.policy.resources import (
    CPUS,
    GPUS,
    MEMORY_MIB,
    AmountRequirement,
    AttributeRequirement,
    Grant,
    Host,
    Requirements,
)
from perdure.policy.snapshot import JobSnapshot, LaunchInTurn, LaunchState, StepInTurn
from perdure.policy.states import State
from perdure.policy.stops import Stops
from perdure.store import layout
from perdure.store.drivers.driver import Driver
from perdure.store.layout import LaunchId, StepKey, TaskKey
from perdure.store.records.job_document import JobDocument
from perdure.store.records.job_log import UNKNOWN_STEP, JobLogState, LaunchIntent
from perdure.store.records.log import Entry
from perdure.template.outline import JobOutline
from perdure.template.requirements import HostRequirements
from perdure.worker.host import is_gone
from perdure.worker.job_records import JobRecords
from perdure.worker.rules import rules_of
from perdure.worker.ticker import fold_wishes, scope_of


class ViewParts(Struct, frozen=True, kw_only=True):
    """What a view is made from.

    Attributes:
        engine: asked about launches that never said that they started; None: a reader only.
        host: what the launches share; None where nobody bounds it.
    """

    driver: Driver
    document: JobDocument
    job: JobOutline
    clock: Clock
    pause: Callable[[int], None]
    engine: Engine | None = None
    host: Host | None = None


class JobView:
    """The view; `refresh` reads on."""

    def __init__(self, parts: ViewParts) -> None:
        self._with = parts
        self._chosen_at = 0
        self._document = parts.document
        self.job = parts.job
        self.records = JobRecords(
            parts.driver, parts.document.job, clock=parts.clock, pause=parts.pause
        )
        interval = parts.document.options.heartbeat_seconds
        self._stillness = Stillness(parts.clock, interval)
        chosen = selected_steps(parts.document.selection, parts.job)
        self.steps: dict[StepKey, StepView] = {
            StepKey(step.index): StepView(
                step=step,
                rules=rules_of(step, parts.document.options),
                records=self.records,
                limit=chosen[step.index],
                only=selected_tasks(parts.document.selection, step),
            )
            for step in parts.job.steps
            if step.index in chosen
        }
        self._gone: set[LaunchId] = set()
        self._wishes_heard = 0
        #: Where a list is put here, what is read of tasks is added to it: for telling people.
        self.heard: list[JournalRecord] | None = None

    @property
    def document(self) -> JobDocument:
        """The job as submitted, with the engine that a person chose since.

        As far as the job's log was read.
        """
        self._document = document_now(self._document, self.records.state)
        return self._document

    def start_by(self, engine: Engine, host: Host | None) -> None:
        """From here on workers are started by this engine: that of `document`, as it is now.

        Args:
            engine: that starts them, and is asked about them.
            host: what they share; None where nobody bounds it.
        """
        self._with = replace(self._with, engine=engine, host=host)
        self._chosen_at = self.records.state.chosen_at

    @property
    def is_moved(self) -> bool:
        """Whether a person chose another engine, or other options of it, since `start_by`."""
        return self.records.state.chosen_at != self._chosen_at

    @property
    def stops(self) -> Stops:
        """Stops and resumes by the job's log as far as it was read."""
        return fold_wishes(self.records.state.wishes)

    def refresh(self) -> None:
        """Read everything on."""
        self.records.refresh()
        at_work = self._steps_at_work()
        for step in at_work:
            self.records.shares(step)
        for launch in self.records.state.launches:
            self._read_journal(launch)
        # Who has ended since its step's shares were read may have taken one in between.
        for step in at_work - self._steps_at_work():
            self.records.shares(step)
        self._hear_resumes()
        for view in self.steps.values():
            view.sweep(self.has_ended)
            view.read_watched(self.has_ended)

    def _hear_resumes(self) -> None:
        """A person's resume may have put branches, which end back-offs, into lineages' logs."""
        wishes = self.records.state.wishes
        for wish in wishes[self._wishes_heard :]:
            if wish.kind == "resume":
                for view in self.steps.values():
                    view.note_resume(scope_of(wish))
        self._wishes_heard = len(wishes)

    def _steps_at_work(self) -> set[StepKey]:
        """Steps with a launch that is not known to have ended: only launches take shares."""
        launches = self.records.state.launches.values()
        steps = {intent.step for intent in launches if intent.launch not in self._gone}
        if UNKNOWN_STEP in steps:
            return set(self.steps)
        return steps & self.steps.keys()

    def _read_journal(self, launch: LaunchId) -> None:
        """Fold what a launch's journal says anew into its step."""
        if launch in self._gone:
            return
        for record in self.records.news_of(launch):
            self._fold(launch, record)
        if self.has_ended(launch):
            self._gone.add(launch)
            for view in self.steps.values():
                for watched in view.watched.values():
                    watched.is_stale = watched.is_stale or watched.is_running

    def _fold(self, launch: LaunchId, record: JournalRecord) -> None:
        if "step" not in record.fields or "task" not in record.fields:
            return
        view = self.steps.get(StepKey(record.fields["step"]))
        if view is None:
            return
        if self.heard is not None:
            self.heard.append(record)
        task = TaskKey(record.fields["task"])
        match record.kind:
            case Kind.BEGUN:
                view.note_begun(task, launch, record.fields)
            case Kind.OUTCOME:
                account = self.records.attempt(launch, view.key, task, record.fields["attempt"])
                view.note_outcome(task, record.fields, account)
            case _:
                view.note_change(task)

    def held_by(self, intent: LaunchIntent) -> tuple[TaskKey, ...]:
        """Tasks that are to go on, and that wait for this launch, or that it held last."""
        view = self.steps[intent.step]
        named = [ref.task for ref in intent.tasks]
        waiting = [task for task in named if not self._has_claimed(view, task, intent)]
        last = view.last_held_by(intent.launch, self.stops)
        return tuple(dict.fromkeys((*last, *waiting)))

    def has_ended(self, launch: LaunchId) -> bool:
        """Whether a launch released all that it held, or is fenced."""
        fenced = launch in self.records.state.fences
        return fenced or self.records.known_account(launch).is_closed

    def has_begun(self, launch: LaunchId) -> bool:
        """Whether a launch said that it started."""
        account = self.records.known_account(launch)
        return launch in self.records.state.started or account.opened is not None

    def launch_state(self, intent: LaunchIntent) -> LaunchState:
        """What is known about a launch."""
        launch, state = intent.launch, self.records.state
        if self.has_ended(launch):
            return LaunchState.ENDED
        if launch in state.seals:
            return LaunchState.DEAD
        opened = self.records.known_account(launch).opened or state.started.get(launch)
        if opened is None and not intent.is_recovered:
            return self._unstarted(intent)
        if opened is not None and is_gone(opened):
            return self._dead(intent)
        counter = read_counter(self._with.driver, layout.heartbeat(self.document.job, launch))
        return self._dead(intent) if self._stillness.observe(launch, counter) else LaunchState.LIVE

    def _dead(self, intent: LaunchIntent) -> LaunchState:
        """A launch that shows no life, unless its engine says that it may live all the same."""
        engine = self._with.engine
        ids = self.records.state.launched.get(intent.token)
        if engine is not None and ids is not None and engine.may_live(ids):
            return LaunchState.SILENT
        return LaunchState.DEAD

    def _unstarted(self, intent: LaunchIntent) -> LaunchState:
        """A launch that never said that it started: the engine may know.

        One that was made for another engine never will (`Claimant.reason_to_leave`).
        """
        if self.records.state.is_outdated(intent.launch):
            return LaunchState.DEAD
        engine = self._with.engine
        ids = self.records.state.launched.get(intent.token)
        if ids is None:
            found = engine.find(intent.token) if engine is not None else None
            return LaunchState.QUEUED if found is not None else LaunchState.INTENDED
        if engine is not None and not engine.is_there(ids):
            return LaunchState.DEAD
        return LaunchState.QUEUED

    def lost_workers(self) -> tuple[LaunchId, ...]:
        """Launches that look alive by their heartbeat, and that the engine does not have any more.

        They are dead, or their host is out of the engine's reach: their heartbeat will tell.
        """
        engine, launched = self._with.engine, self.records.state.launched
        return tuple(
            intent.launch
            for intent in self.records.state.launches.values()
            if engine is not None
            and (ids := launched.get(intent.token)) is not None
            and self.launch_state(intent) is LaunchState.LIVE
            and not engine.is_there(ids)
        )

    def snapshot(self) -> JobSnapshot:
        """What a turn decides from."""
        stops = self.stops
        now = self._with.clock.now().timestamp()
        return JobSnapshot(
            steps=tuple(self._step_in_turn(view, stops, now) for view in self.steps.values()),
            launches=tuple(
                self._launch_in_turn(intent) for intent in self.records.state.launches.values()
            ),
            stops=stops,
            workers=self.document.options.workers,
            host=self._with.host,
            settled=self.settled(None),
        )

    def _step_in_turn(self, view: StepView, stops: Stops, now: float) -> StepInTurn:
        return StepInTurn(
            index=view.key,
            name=view.step.name,
            dependencies=tuple(d for d in view.step.dependencies if StepKey(d) in self.steps),
            counts=view.counts(stops),
            requirements=requirements(view.step.requirements),
            unshared=view.unshared(),
            pending=view.pending(stops, now),
            settled=self.settled(view.key),
        )

    def _launch_in_turn(self, intent: LaunchIntent) -> LaunchInTurn:
        state = self.launch_state(intent)
        view = self.steps.get(intent.step)
        waiting: tuple[str, ...] = ()
        if view is not None and state is not LaunchState.ENDED:
            waiting = tuple(
                ref.task for ref in intent.tasks if not self._has_claimed(view, ref.task, intent)
            )
        return LaunchInTurn(
            launch=intent.launch,
            token=intent.token,
            step=intent.step,
            state=state,
            waiting=waiting,
            takes_shares=intent.shares,
            grant=grant_of(intent.resources),
        )

    def _has_claimed(self, view: StepView, task: TaskKey, intent: LaunchIntent) -> bool:
        watched = view.watched.get(task)
        if watched is None or watched.view is None:
            return False
        return any(claim.launch == intent.launch for claim in watched.view.lineage.claims)

    def settled(self, step: StepKey | None) -> State | None:
        """The recorded end of a step or the job, while no later resume covers it."""
        entry = self.records.state.settled.get(step)
        if entry is None or self._is_resumed_after(entry, step):
            return None
        return State(entry.header["state"])

    def _is_resumed_after(self, entry: Entry, step: StepKey | None) -> bool:
        """Whether a person resumed (part of) what the record settled."""
        if State(entry.header["state"]) is State.SUCCEEDED:
            return False
        return any(
            wish.kind == "resume"
            and wish.number > entry.number
            and (step is None or wish.scope.get("step") in (None, step))
            for wish in self.records.state.wishes
        )


def document_now(document: JobDocument, state: JobLogState) -> JobDocument:
    """The job with the engine and its options that the job's log chooses."""
    choice, options = state.engine, document.options
    if choice is None:
        return document
    chosen = replace(options, engine=choice.engine, slurm=choice.slurm, lsf=choice.lsf)
    if chosen == options:
        return document
    options = chosen
    return replace(document, options=options)


def requirements(written: HostRequirements) -> Requirements:
    """A step's host requirements as policy takes them."""
    return Requirements(
        amounts=tuple(
            AmountRequirement(name=a.name, min=a.minimum or 0.0, max=a.maximum)
            for a in written.amounts
        ),
        attributes=tuple(
            AttributeRequirement(name=a.name, any_of=a.any_of, all_of=a.all_of)
            for a in written.attributes
        ),
    )


def grant_of(resources: Mapping[str, Any]) -> Grant | None:
    """What a launch was given, by its intent; None: nothing was counted."""
    if "amounts" not in resources:
        return None
    gpus = resources.get("gpus")
    return Grant(
        amounts=tuple((str(name), float(n)) for name, n in resources.get("amounts", ())),
        gpus=tuple(gpus) if gpus is not None else None,
    )


def this_hosts_capacity(proc: Path = Path("/proc")) -> Host:
    """What this host has: CPUs that this process may use, memory (bounded by cgroups), GPUs."""
    gpus = tuple(range(len(list((proc / "driver/nvidia/gpus").glob("*")))))
    return Host(
        amounts={
            CPUS: float(len(os.sched_getaffinity(0))),
            MEMORY_MIB: float(_memory_mib(proc)),
            GPUS: float(len(gpus)),
        },
        attributes={
            "attr.worker.os.family": ("linux",),
            "attr.worker.cpu.arch": (os.uname().machine.replace("aarch64", "arm64"),),
        },
        gpus=gpus,
    )


def _memory_mib(proc: Path) -> int:
    for line in (proc / "meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) // 1024
    return 0
