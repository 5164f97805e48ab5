"""What all parts of one launch share: made once by the worker's entry, passed by constructor."""

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from perdure.clock import Clock
from perdure.journal.writer import JournalWriter
from perdure.store.delivery.delivery_places import Opener
from perdure.store.drivers.driver import Driver
from perdure.store.layout import JobId, LaunchId
from perdure.store.packs.sealing import PLAIN, Sealing
from perdure.store.packs.tiers import LocalTier
from perdure.store.records.job_document import JobDocument
from perdure.template import Job, Step
from perdure.worker.led_sessions import LedSession
from perdure.worker.memory import OomCounter
from perdure.worker.messages_file import FolderWatch
from perdure.worker.output import OutputLog
from perdure.worker.steps import NO_STEPS, Steps
from perdure.worker.stops import StopBoard


class LaunchContext(Struct, frozen=True, kw_only=True):
    """One launch.

    Attributes:
        step: the step whose tasks this launch runs.
        token: that everything of this launch carries; actions have their own, made from it.
        environment: of every process, before what the session and the attempt add.
        session_root: where session folders are made.
        led: what leads the actions, for whoever ends what this launch leaves.
        path_mapping: the library's rules.
        sealing: how the job's blocks are encrypted.
        tier: where packs are written first; None: to the store.
        tier_trouble: why there is no such place though one was named, for people; "".
        deliver: makes what finished tasks' files are delivered to; None: they are not.
        steps: what of an action runs on other hosts.
        refusal: why no task may be started in this place, or "".
        unshared: folders that other hosts of this launch do not see as this one does, with what
            people should know of each.
        told: what is told once a launch.
        oom, watch: the cgroup's counter of kills; the watch of messages files.
    """

    document: JobDocument
    job: Job
    step: Step
    driver: Driver
    clock: Clock
    launch: LaunchId
    token: str
    journal: JournalWriter
    log: OutputLog
    board: StopBoard
    environment: Mapping[str, str]
    session_root: Path
    led: LedSession
    path_mapping: Sequence[Any] = ()
    sealing: Sealing = PLAIN
    tier: LocalTier | None = None
    tier_trouble: str = ""
    deliver: Opener | None = None
    steps: Steps = NO_STEPS
    refusal: str = ""
    unshared: Mapping[Path, str] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    oom: OomCounter = field(default_factory=OomCounter)
    watch: FolderWatch = field(default_factory=FolderWatch)
    _tokens: "count[int]" = field(default_factory=lambda: count(1))

    @property
    def job_id(self) -> JobId:
        """The job's id."""
        return self.document.job

    def action_token(self) -> str:
        """A token for one action."""
        return f"{self.token}.{next(self._tokens)}"
