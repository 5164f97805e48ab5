"""What one launch works at, and what of it is saved: for somebody who waits for saves."""

from msgspec import Struct

from perdure.journal.account import AttemptKey
from perdure.store.layout import LaunchId, StepKey, TaskKey
from perdure.worker.job_records import JobRecords, LineageId


class AtWork(Struct, frozen=True, kw_only=True):
    """A task that a launch has begun.

    Attributes:
        save: number of its last checkpoint; 0: it has none.
        state: the outcome of its last attempt in this launch; "" while that runs.
    """

    step: StepKey
    task: TaskKey
    save: int
    state: str

    @property
    def is_over(self) -> bool:
        """Whether the attempt has ended."""
        return bool(self.state)


def at_work(records: JobRecords, launch: LaunchId) -> tuple[AtWork, ...]:
    """What the launch has begun, by its journal and the lineages' logs, read anew.

    Raises:
        HomeError: the store is out of reach.
    """
    records.refresh()
    records.read_account(launch)
    attempts = records.known_account(launch).attempts
    last: dict[tuple[int, str], AttemptKey] = {(key.step, key.task): key for key in attempts}
    found = []
    for key in last.values():
        outcome = attempts[key].outcome
        step, task = StepKey(key.step), TaskKey(key.task)
        save = records.last_save(LineageId(step=step, task=task))
        state = "" if outcome is None else str(outcome.get("state", "ended"))
        found.append(AtWork(step=step, task=task, save=save, state=state))
    return tuple(found)
