"""The names of everything in a store, as functions; docs/store-format.md "Keys" is their table.

Keys are made of ids, never of names that people chose: a name goes in through its hash. Numbers
have a fixed width, so that listing sorts them. A prefix has no slash at its end.

Source: docs/store-format.md.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import NewType

from blake3 import blake3

from perdure.store.drivers.driver import check_key

JobId = NewType("JobId", str)
LaunchId = NewType("LaunchId", str)
StepKey = NewType("StepKey", int)
TaskKey = NewType("TaskKey", str)
PackId = NewType("PackId", str)

FORMAT_KEY = "format"
JOBS = "jobs"
LINEAGES = "lineages"
NAMES = "keys"

_NUMBER_DIGITS = 10
_STEP_DIGITS = 4
_NAME_HASH_DIGITS = 32
_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ULID = re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}")
_TASK_KEY = re.compile(r"[0-9a-f]{16}")
_PACK_ID = re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}-[0-9]{1,10}-[0-9]{1,10}")


def is_ulid(text: str) -> bool:
    """Whether ``text`` can be a job's or a launch's id."""
    return _ULID.fullmatch(text) is not None


def is_task_key(text: str) -> bool:
    """Whether ``text`` can be a task's key."""
    return _TASK_KEY.fullmatch(text) is not None


def is_pack_id(text: str) -> bool:
    """Whether ``text`` can be a pack's id."""
    return _PACK_ID.fullmatch(text) is not None


def pack_id(launch: LaunchId, attempt: int, number: int) -> PackId:
    """The id of the ``number``-th pack of an attempt: unique to the launch, never content alone."""
    return PackId(f"{launch}-{attempt}-{number}")


def pack_launch(pack: PackId) -> LaunchId:
    """The launch that wrote ``pack``."""
    return LaunchId(pack.partition("-")[0])


def began_at(launch: LaunchId) -> datetime:
    """When the id was made, by the clock of its writer."""
    value = 0
    for letter in launch[:10]:
        value = value * 32 + _CROCKFORD.index(letter)
    return _EPOCH + timedelta(milliseconds=value)


def record_key(log: str, number: int) -> str:
    """The key of record ``number`` (from 1) of the log at the prefix ``log``."""
    return f"{log}/{_number(number)}"


def record_number(key: str) -> int:
    """The number of the record at ``key``.

    Raises:
        ValueError: the last part of ``key`` is no number of ten digits.
    """
    last = key.rpartition("/")[2]
    if len(last) != _NUMBER_DIGITS or not (last.isascii() and last.isdigit()):
        msg = f"{key!r} does not end in a number of {_NUMBER_DIGITS} digits"
        raise ValueError(msg)
    return int(last)


def name_log(name: str) -> str:
    """The log that says which job has the ``--key`` ``name`` now."""
    return f"{NAMES}/{blake3(name.encode()).hexdigest()[:_NAME_HASH_DIGITS]}/log"


def job_prefix(job: JobId) -> str:
    """Under it lies all of a job but its lineages."""
    return check_key(f"{JOBS}/{job}")


def job_record(job: JobId) -> str:
    """The job as submitted; a job exists while this does."""
    return f"{job_prefix(job)}/job"


def removal(job: JobId) -> str:
    """There while the job is being removed: what is left of it is nobody's."""
    return f"{job_prefix(job)}/removed"


def job_log(job: JobId) -> str:
    """The log of wishes and intents."""
    return f"{job_prefix(job)}/log"


def manager(job: JobId) -> str:
    """Who makes turns now: courtesy only."""
    return f"{job_prefix(job)}/manager"


def shares_prefix(job: JobId) -> str:
    """The shares of all steps."""
    return f"{job_prefix(job)}/shares"


def shares(job: JobId, step: StepKey) -> str:
    """The shares of a step; they count from 1 as the records of a log do."""
    return f"{shares_prefix(job)}/{_step(step)}"


def share(job: JobId, step: StepKey, number: int) -> str:
    """The ``number``-th share (from 1) of a step."""
    return record_key(shares(job, step), number)


def launches(job: JobId) -> str:
    """All that the launches of a job wrote for themselves."""
    return f"{job_prefix(job)}/launches"


def launch_prefix(job: JobId, launch: LaunchId) -> str:
    """What one launch wrote for itself."""
    return check_key(f"{launches(job)}/{launch}")


def journal(job: JobId, launch: LaunchId) -> str:
    """The launch's journal, where the store can append."""
    return f"{launch_prefix(job, launch)}/journal"


def heartbeat(job: JobId, launch: LaunchId) -> str:
    """The launch's proof of life."""
    return f"{launch_prefix(job, launch)}/heartbeat"


def ends(job: JobId, launch: LaunchId) -> str:
    """The ends of the logs of the launch's attempts."""
    return f"{launch_prefix(job, launch)}/ends"


def declared(job: JobId, launch: LaunchId) -> str:
    """The outside files and folders that the launch's tasks declared."""
    return f"{launch_prefix(job, launch)}/declared"


def lineages_prefix(job: JobId) -> str:
    """All lineages of a job."""
    return check_key(f"{LINEAGES}/{job}")


def lineage_prefix(job: JobId, step: StepKey, task: TaskKey) -> str:
    """One lineage: its log and its packs."""
    return check_key(f"{lineages_prefix(job)}/{_step(step)}/{task}")


def lineage_log(job: JobId, step: StepKey, task: TaskKey) -> str:
    """The log of claims, saves, prunes, branches and pins."""
    return f"{lineage_prefix(job, step, task)}/log"


def step_of(key: str) -> StepKey:
    """The step that a record of a share or of a lineage belongs to."""
    area, _, *below = key.split("/")
    return StepKey(int(below[0] if area == LINEAGES else below[1]))


def packs(job: JobId, step: StepKey, task: TaskKey) -> str:
    """The blocks of one lineage."""
    return f"{lineage_prefix(job, step, task)}/packs"


def pack_key(packs_prefix: str, pack: PackId) -> str:
    """The key of ``pack`` under the lineage's `packs`."""
    return check_key(f"{packs_prefix}/{pack}")


def _number(number: int) -> str:
    if not 0 < number < 10**_NUMBER_DIGITS:
        msg = f"numbers in a store count from 1 and have at most ten digits, not {number}"
        raise ValueError(msg)
    return f"{number:0{_NUMBER_DIGITS}d}"


def _step(step: StepKey) -> str:
    if not 0 < step < 10**_STEP_DIGITS:
        msg = f"a step's key is its index from 1, below {10**_STEP_DIGITS}, not {step}"
        raise ValueError(msg)
    return f"{step:0{_STEP_DIGITS}d}"
