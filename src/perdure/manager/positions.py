"""How far each log and journal of a job was read, and whether any has grown since.

A log of records has grown if there is an object at the number after the last one read: one look.
Positions are taken *before* what they stand for is read, so that facts are never older than they
claim; at worst they are made once more than needed.

Source: docs/store-format.md: records are never changed, journals only grow.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from perdure.journal.medium import mark
from perdure.store import layout
from perdure.store.drivers.driver import Driver
from perdure.store.layout import JobId, LaunchId, StepKey, TaskKey


class Positions(Struct, frozen=True, kw_only=True):
    """Read positions.

    Attributes:
        log: number of the job log's last record.
        journals: mark of each launch's journal (see `perdure.journal.medium.mark`).
        shares: number of the last share by step.
        lineages: number of the last record by ``STEP/TASK``.
    """

    log: int
    journals: Mapping[str, int] = field(default_factory=dict)
    shares: Mapping[str, int] = field(default_factory=dict)
    lineages: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As it is cached."""
        return {
            "log": self.log,
            "journals": dict(self.journals),
            "shares": dict(self.shares),
            "lineages": dict(self.lineages),
        }


def positions_from_json(found: Mapping[str, Any]) -> Positions:
    """The opposite of `Positions.to_json`."""
    return Positions(
        log=int(found["log"]),
        journals=dict(found["journals"]),
        shares=dict(found["shares"]),
        lineages=dict(found["lineages"]),
    )


def lineage_name(step: StepKey, task: TaskKey) -> str:
    """How positions name a lineage."""
    return f"{step}/{task}"


def is_current(driver: Driver, job: JobId, known: Positions) -> bool:
    """Whether nothing was added since, as far as the store shows."""
    if _has_more(driver, layout.job_log(job), known.log):
        return False
    for launch, read in known.journals.items():
        if journal_mark(driver, job, LaunchId(launch), read) != read:
            return False
    for step, number in known.shares.items():
        if _has_more(driver, layout.shares(job, StepKey(int(step))), number):
            return False
    for name, number in known.lineages.items():
        step, _slash, task = name.partition("/")
        log = layout.lineage_log(job, StepKey(int(step)), TaskKey(task))
        if _has_more(driver, log, number):
            return False
    return True


def journal_mark(driver: Driver, job: JobId, launch: LaunchId, known: int = 0) -> int:
    """A number that is greater after each growth of a launch's journal; 0 for none."""
    return mark(driver, layout.journal(job, launch), known)


def _has_more(driver: Driver, log: str, last: int) -> bool:
    return driver.head(layout.record_key(log, last + 1)) is not None
