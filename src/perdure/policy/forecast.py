"""What a job's checkpoints will need, and when there will be no room: told after its first save.

Retention bounds what one task keeps, so that its need is its number of kept checkpoints times what
one stores; what tasks have kept stays when they have ended, until the job is removed. So a job
needs that for each of its tasks. How fast it comes to that is seen by how long the first save took
to come. Pure; sizes in bytes.

Source: design 6, "Files policy"; docs/decisions/108.
"""

from datetime import UTC, datetime, timedelta

from msgspec import Struct

from perdure.sizes import size_text

#: A save of so many bytes is worth a hint at the other policies.
LARGE_BYTES = 20 << 30
#: Less of the free room than this is not worth a word.
_QUIET_SHARE = 0.1
#: Units in which people think of what is ahead, each up to twice the next one.
_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


class FirstSave(Struct, frozen=True, kw_only=True):
    """What is known when a job's first checkpoint is committed.

    Attributes:
        size_bytes: of the files that it describes.
        stored_bytes: what was stored for it.
        after: how long the attempt had run when it was announced.
        kept: how many checkpoints a task keeps.
        tasks: of the job.
        side_by_side: how many of them run at once.
        free_bytes: that may still be used, by free room and quota; None where nobody can tell.
        is_adopted: its files stay where they are; nothing is stored for them.
    """

    size_bytes: int
    stored_bytes: int
    after: timedelta
    kept: int
    tasks: int
    side_by_side: int
    free_bytes: int | None
    is_adopted: bool = False


class Forecast(Struct, frozen=True, kw_only=True):
    """What is to come.

    Attributes:
        per_task_bytes, job_bytes: what kept checkpoints will need at most.
        fits: whether there is room for it; None where nobody can tell.
        full_at: when there is none left, if it does not fit; ``full_in``: how far ahead that is.
    """

    per_task_bytes: int
    job_bytes: int
    fits: bool | None
    full_at: datetime | None
    full_in: timedelta = timedelta()


def forecast(first: FirstSave, now: datetime) -> Forecast:
    """What will be needed, if all saves are like the first and all tasks like this one."""
    per_task = first.kept * first.stored_bytes
    job = per_task * first.tasks
    if first.free_bytes is None:
        return Forecast(per_task_bytes=per_task, job_bytes=job, fits=None, full_at=None)
    # The first one is there already.
    fits = job - first.stored_bytes <= first.free_bytes
    if fits:
        return Forecast(per_task_bytes=per_task, job_bytes=job, fits=True, full_at=None)
    saves = first.free_bytes / (first.stored_bytes * max(first.side_by_side, 1))
    ahead = saves * max(first.after, timedelta(seconds=1))
    return Forecast(
        per_task_bytes=per_task, job_bytes=job, fits=False, full_at=now + ahead, full_in=ahead
    )


def when(moment: datetime, ahead: timedelta) -> str:
    """``at 04:10Z, in 3 hours``; of a later day ``on Tuesday at 04:10Z, in 2 days``."""
    utc = moment.astimezone(UTC)
    is_today = utc.date() == (utc - ahead).date()
    seconds = ahead.total_seconds()
    unit, length = next((one for one in _UNITS if seconds >= 2 * one[1]), _UNITS[-1])
    number = round(seconds / length)
    clock = utc.strftime("at %H:%MZ" if is_today else "on %A at %H:%MZ")
    return f"{clock}, in {number} {unit}{'' if number == 1 else 's'}"


def sentences(first: FirstSave, found: Forecast) -> list[str]:
    """What to tell a person; nothing where there is plenty of room."""
    if first.is_adopted or not first.stored_bytes:
        return []
    said: list[str] = []
    free = first.free_bytes
    is_much = free is None or found.job_bytes > _QUIET_SHARE * free
    tasks = ""
    if first.tasks > 1:
        tasks = f" and {size_text(found.job_bytes)} for all {first.tasks} tasks"
    room = "" if free is None else f"; {size_text(free)} are free"
    if is_much and (free is not None or first.stored_bytes >= LARGE_BYTES):
        said.append(
            f"the first checkpoint has {size_text(first.size_bytes)}; {first.kept} kept ones need"
            f" up to {size_text(found.per_task_bytes)} a task{tasks}{room}"
        )
    if found.full_at is not None:
        moment = when(found.full_at, found.full_in)
        said.append(
            f"the store will be full {moment}: free some room, keep fewer (--keep-last), or, if"
            " the program writes each checkpoint under a new name, use --files adopt"
        )
    elif first.size_bytes >= LARGE_BYTES:
        said.append(
            "if the program writes each checkpoint under a new name, --files adopt keeps it without"
            " a second copy"
        )
    return said
