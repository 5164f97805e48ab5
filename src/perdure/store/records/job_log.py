"""What a job's log says: launches, who was sealed and fenced, what people wished, what is settled.

A fold that is fed as the log is read on. Pure: what follows from it is decided in `policy`.

Source: docs/store-format.md, "Job log".
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from perdure.store.layout import LaunchId, StepKey, TaskKey
from perdure.store.records.log import Entry

#: The step of a launch whose intent was damaged and that left nothing that names it.
UNKNOWN_STEP = StepKey(0)
#: The reason of a seal.
OUT_OF_MEMORY = "memory"


class TaskRef(Struct, frozen=True, kw_only=True):
    """A lineage of a step, and what it runs.

    Attributes:
        index: of the task in the step's order; None for chunks formed as the job runs.
        values: parameter values by name, where there is no index.
        share: number of the share that took its first attempt, as the intent's author read it: the
            worker reads on until it sees that one too. None: none did, or it is not known.
    """

    task: TaskKey
    index: int | None = None
    values: Mapping[str, str] | None = None
    share: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As it stands in records."""
        described: dict[str, Any] = {"task": self.task}
        if self.index is not None:
            described["index"] = self.index
        if self.values is not None:
            described["values"] = dict(self.values)
        if self.share is not None:
            described["share"] = self.share
        return described

    @staticmethod
    def from_json(described: Mapping[str, Any]) -> "TaskRef":
        """The opposite of `to_json`."""
        return TaskRef(
            task=TaskKey(described["task"]),
            index=described.get("index"),
            values=described.get("values"),
            share=described.get("share"),
        )


class LaunchIntent(Struct, frozen=True, kw_only=True):
    """A worker that was to be started.

    Attributes:
        number: of the record.
        tasks: lineages that it is to take, in order.
        shares: whether it takes shares of the step after those.
        is_recovered: the record was damaged: what is known is what the launch itself left.
    """

    number: int
    launch: LaunchId
    token: str
    step: StepKey
    tasks: tuple[TaskRef, ...]
    shares: bool
    resources: Mapping[str, Any]
    is_recovered: bool = False


class Wish(Struct, frozen=True, kw_only=True):
    """A suspend, cancel or resume, at its number.

    Attributes:
        on_conflict: what a person said about outside files that others wrote: overwrite or keep.
        reason: why, where nobody gave a command for it.
    """

    number: int
    kind: str
    scope: Mapping[str, Any]
    by: str = ""
    lifts: int = 0
    is_now: bool = False
    on_conflict: str | None = None
    reason: str = ""


class Asked(Struct, frozen=True, kw_only=True):
    """What people asked about saves, at its number.

    Attributes:
        what: ``save`` (now), ``disable`` or ``enable`` (of this and of the saves of an interval).
    """

    number: int
    what: str
    scope: Mapping[str, Any]


class EngineChoice(Struct, frozen=True, kw_only=True):
    """What starts workers since a person chose anew.

    Attributes:
        engine, slurm, lsf: as `perdure.store.records.job_document.Options` has them.
        at: when, for people.
    """

    number: int
    engine: str
    slurm: tuple[str, ...] = ()
    lsf: tuple[str, ...] = ()
    at: str = ""


class JobLogState(Struct):
    """The fold of a job's log.

    Attributes:
        launches: by launch id, in the order of the log.
        launched: the engine's ids, by token.
        started: the last ``started`` record's fields, by launch.
        seals, fences: launches taken to be dead; and how much of their journals counts.
        out_of_memory: launches of which the engine said that memory ran out.
        still_at: the counter at which a sealed launch was judged to stand still.
        wishes: what people and hosts asked for, in order.
        asked: what people asked about saves, in order.
        settled: by step index, the last ``settled`` record; the whole job's under None.
        engine: what starts workers, where a person chose anew; None: as the job record says.
        damaged: numbers of records that were damaged and set aside; any may have been an intent.
    """

    launches: dict[LaunchId, LaunchIntent] = field(default_factory=dict)
    launched: dict[str, Any] = field(default_factory=dict)
    started: dict[LaunchId, Mapping[str, Any]] = field(default_factory=dict)
    seals: dict[LaunchId, int] = field(default_factory=dict)
    fences: dict[LaunchId, int] = field(default_factory=dict)
    out_of_memory: set[LaunchId] = field(default_factory=set)
    still_at: dict[LaunchId, Any] = field(default_factory=dict)
    wishes: list[Wish] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    settled: dict[StepKey | None, Entry] = field(default_factory=dict)
    engine: EngineChoice | None = None
    damaged: list[int] = field(default_factory=list)
    last: int = 0

    def recover_launch(self, launch: LaunchId, step: StepKey, token: str = "") -> None:
        """A launch whose intent was damaged, as far as it is known; nothing where it is there.

        Without it nobody would read its journal, see that it ended, or go on with what it held.
        It names no tasks: a worker of it that comes now does nothing.
        """
        if launch in self.launches or not self.damaged:
            return
        self.launches[launch] = LaunchIntent(
            number=self.damaged[0],
            launch=launch,
            token=token,
            step=step,
            tasks=(),
            shares=False,
            resources={},
            is_recovered=True,
        )

    def read(self, entries: Iterable[Entry]) -> None:
        """Fold further entries; unknown kinds are passed over."""
        for entry in entries:
            self._fold(entry)
            self.last = entry.number

    @property
    def chosen_at(self) -> int:
        """The number of the record that chose the engine; 0: it is the job record's."""
        return self.engine.number if self.engine is not None else 0

    def is_outdated(self, launch: LaunchId) -> bool:
        """Whether the launch was made for another engine, or for other options of it."""
        intent = self.launches.get(launch)
        return intent is not None and intent.number < self.chosen_at

    @property
    def on_conflict(self) -> str | None:
        """What a person said last about outside files in the way, or None."""
        said = [wish.on_conflict for wish in self.wishes if wish.on_conflict is not None]
        return said[-1] if said else None

    @property
    def is_asking_disabled(self) -> bool:
        """Whether programs are not to be asked to save: what was said last holds."""
        said = [one.what for one in self.asked if one.what in ("disable", "enable")]
        return bool(said) and said[-1] == "disable"

    def _fold(self, entry: Entry) -> None:
        fields = entry.header
        match entry.kind:
            case "launch":
                intent = _launch(entry)
                self.launches.setdefault(intent.launch, intent)
            case "launched":
                self.launched[str(fields["token"])] = fields.get("ids")
            case "started":
                self.started[LaunchId(fields["launch"])] = fields
            case "seal":
                self.seals.setdefault(LaunchId(fields["launch"]), entry.number)
                self.still_at.setdefault(LaunchId(fields["launch"]), fields.get("counter"))
                if fields.get("reason") == OUT_OF_MEMORY:
                    self.out_of_memory.add(LaunchId(fields["launch"]))
            case "fence":
                self.fences.setdefault(LaunchId(fields["launch"]), int(fields["offset"]))
            case "suspend" | "cancel" | "resume":
                self.wishes.append(_wish(entry))
            case "ask":
                self.asked.append(
                    Asked(
                        number=entry.number,
                        what=str(fields.get("what", "")),
                        scope=fields.get("scope", {}),
                    )
                )
            case "engine":
                self.engine = _choice(entry)
            case "settled":
                self.settled[fields.get("step")] = entry
            case "damaged":
                self.damaged.append(entry.number)
            case _:
                pass


def _launch(entry: Entry) -> LaunchIntent:
    fields = entry.header
    return LaunchIntent(
        number=entry.number,
        launch=LaunchId(fields["launch"]),
        token=str(fields["token"]),
        step=StepKey(fields["step"]),
        tasks=tuple(TaskRef.from_json(ref) for ref in fields.get("tasks", ())),
        shares=bool(fields.get("shares", False)),
        resources=fields.get("resources", {}),
    )


def _choice(entry: Entry) -> EngineChoice:
    options = entry.header.get("options", {})
    return EngineChoice(
        number=entry.number,
        engine=str(options.get("engine", "local")),
        slurm=tuple(str(word) for word in options.get("slurm", ())),
        lsf=tuple(str(word) for word in options.get("lsf", ())),
        at=str(entry.header.get("at", "")),
    )


def _wish(entry: Entry) -> Wish:
    fields = entry.header
    return Wish(
        number=entry.number,
        kind=entry.kind,
        scope=fields.get("scope", {}),
        by=str(fields.get("by", "")),
        lifts=int(fields.get("lifts", 0)),
        is_now=bool(fields.get("now", False)),
        on_conflict=fields.get("on_conflict"),
        reason=str(fields.get("reason", "")),
    )
