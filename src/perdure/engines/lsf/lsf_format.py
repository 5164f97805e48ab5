"""What LSF's commands take and print, by its documentation. Pure.

Nothing here has met a real LSF: the texts are those of IBM's reference for 10.1, and of programs of
other people that read them. So what is read is read leniently: ids with and without an array's
index, times as seconds and as hours, unknown states and reasons.

Rounding: LSF counts limits and warnings in minutes; a warning's are rounded up (`warning_options`),
and so is a moment to begin at (`begin_text`).

Source: bsub(1), bjobs(1), bkill(1), bacct(1) "termination reasons" of IBM Spectrum LSF 10.1.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from msgspec import Struct

from perdure.engines import tokens
from perdure.errors import EngineRefused
from perdure.policy.resources import CPUS, GPUS, MEMORY_MIB, SCRATCH_MIB, Requirements

#: What `parse_jobs` reads, for ``bjobs -json -o``.
JOB_FIELDS = "jobid jobindex stat exit_code exit_reason job_name run_time runtimelimit"
#: A worker that leaves with this is put back into the queue (``bsub -Q``).
REQUEUE_EXIT = 75
#: Ignored by programs that do not know it: LSF sends a warning to all processes of a job.
WARNING = "URG"
_OS = "attr.worker.os.family"
#: States of a job that LSF still knows and will not run again.
_OVER = frozenset({"DONE", "EXIT", "POST_DONE", "POST_ERR"})
#: The host is out of reach, or the job's end was not seen.
_OUT_OF_REACH = frozenset({"UNKWN", "ZOMBI"})
#: Its processes are stopped, and may be let go on.
_STOPPED = frozenset({"PSUSP", "USUSP", "SSUSP"})


class Verdict(Enum):
    """What a termination reason means for a task."""

    #: The job lost its place: the task goes on.
    GO_ON = "go on"
    #: A person ended it: the task is held.
    STOP = "stop"
    #: It may be of the task's own making: its attempts decide.
    COUNT = "count"


_GO_ON = frozenset(
    {
        "TERM_CHKPNT",
        "TERM_DEADLINE",
        "TERM_LOAD",
        "TERM_PREEMPT",
        "TERM_RC_RECLAIM",
        "TERM_REQUEUE_ADMIN",
        "TERM_REQUEUE_OWNER",
        "TERM_RERUN",
        "TERM_RUNLIMIT",
        "TERM_WINDOW",
        "TERM_ZOMBIE",
    }
)
_STOP = frozenset(
    {
        "TERM_ADMIN",
        "TERM_BUCKET_KILL",
        "TERM_FORCE_ADMIN",
        "TERM_FORCE_OWNER",
        "TERM_OWNER",
    }
)


def verdict_of(exit_reason: str) -> Verdict:
    """What bjobs' ``exit_reason`` means: ``TERM_OWNER: job killed by owner``, or "" for none."""
    match = re.search(r"\bTERM_[A-Z_]+", exit_reason)
    name = match[0] if match else ""
    if name in _STOP:
        return Verdict.STOP
    return Verdict.GO_ON if name in _GO_ON else Verdict.COUNT


class Job(Struct, frozen=True, kw_only=True):
    """One job, or one element of an array, as bjobs shows it.

    Attributes:
        job: ``123``, or ``123[5]``.
        name: of the job; of an array with the element's index behind it.
        limit_minutes: of its run; None: there is none.
    """

    job: str
    state: str
    reason: str = ""
    name: str = ""
    exit_code: str = ""
    run_seconds: float = 0.0
    limit_minutes: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether LSF will not run it, or run it again."""
        return self.state in _OVER

    @property
    def is_out_of_reach(self) -> bool:
        """Whether LSF cannot say if its processes live."""
        return self.state in _OUT_OF_REACH

    @property
    def is_stopped(self) -> bool:
        """Whether it waits for somebody to let it go on."""
        return self.state in _STOPPED

    @property
    def verdict(self) -> Verdict:
        """What its end means."""
        return verdict_of(self.reason)

    @property
    def seconds_left(self) -> float | None:
        """Until its run limit; None: there is none."""
        return None if self.limit_minutes is None else self.limit_minutes * 60 - self.run_seconds


def parse_jobs(text: str) -> tuple[Job, ...]:
    """What ``bjobs -json -o`` with `JOB_FIELDS` printed; records of unknown jobs are left out.

    Raises:
        ValueError: it is no such document.
    """
    found = json.loads(text[text.find("{") :] if "{" in text else text)
    records = found.get("RECORDS") if isinstance(found, Mapping) else None
    if not isinstance(records, list):
        msg = "bjobs printed no RECORDS"
        raise ValueError(msg)  # noqa: TRY004 - as for text that is no JSON
    return tuple(_job(one) for one in records if isinstance(one, Mapping) and "STAT" in one)


def _job(record: Mapping[str, Any]) -> Job:
    def text(name: str) -> str:
        return str(record.get(name) or "").strip()

    return Job(
        job=job_id(text("JOBID"), text("JOBINDEX") or _index_in(text("JOB_NAME"))),
        state=text("STAT"),
        reason=text("EXIT_REASON"),
        name=text("JOB_NAME"),
        exit_code=text("EXIT_CODE"),
        run_seconds=_seconds(text("RUN_TIME")),
        limit_minutes=_minutes(text("RUNTIMELIMIT")),
    )


def job_id(job: str, index: str) -> str:
    """``123[5]`` for an element of an array, whose index is not 0; else ``123``."""
    number = job.partition("[")[0]
    if number != job or index in ("", "0"):
        return job
    return f"{number}[{index}]"


def _index_in(name: str) -> str:
    match = re.search(r"\[(\d+)\]$", name)
    return match[1] if match else ""


def _seconds(text: str) -> float:
    """``57208 second(s)``, or ``15:53:28`` where a site asks for hours (``-hms``)."""
    if match := re.fullmatch(r"(\d+):(\d\d):(\d\d)", text):
        return int(match[1]) * 3600.0 + int(match[2]) * 60 + int(match[3])
    match = re.match(r"\d+(?:\.\d+)?", text)
    return float(match[0]) if match else 0.0


def _minutes(text: str) -> float | None:
    """``10.0``, ``10.0/hostA``, ``10.0 min``, or ``00:10:00``; None for no limit."""
    if re.fullmatch(r"\d+:\d\d:\d\d", text):
        return _seconds(text) / 60
    match = re.match(r"\d+(?:\.\d+)?", text)
    return float(match[0]) if match else None


def parse_submission(text: str) -> str:
    """The job's id in what bsub printed, ``Job <123> is submitted to queue <normal>``.

    Raises:
        ValueError: there is none.
    """
    match = re.search(r"Job <(\d+)> is submitted", text)
    if match is None:
        msg = f"bsub printed {text.strip()!r} where a job id was expected"
        raise ValueError(msg)
    return match[1]


def resource_options(requirements: Requirements, avoid_hosts: Sequence[str] = ()) -> list[str]:
    """The options of bsub that a step's ``hostRequirements`` mean.

    Custom amounts are resources that LSF counts, custom attributes boolean ones.

    Raises:
        EngineRefused: LSF's hosts cannot be asked for it.
    """
    usage = {}
    if memory := requirements.least(MEMORY_MIB):
        usage["mem"] = f"{math.ceil(memory)}MB"
    if scratch := requirements.least(SCRATCH_MIB):
        usage["tmp"] = f"{math.ceil(scratch)}MB"
    for amount in requirements.amounts:
        if not amount.name.startswith("amount.worker.") and amount.min > 0:
            usage[amount.name.removeprefix("amount.")] = f"{math.ceil(amount.min)}"
    parts = [f"rusage[{','.join(f'{name}={much}' for name, much in usage.items())}]"]
    chosen = [*_attributes(requirements), *(f"hname!='{host}'" for host in avoid_hosts)]
    wanted = [f"select[{' && '.join(chosen)}]"] if chosen else []
    wanted += [*(parts if usage else []), "span[hosts=1]"]
    options = ["-n", str(max(1, math.ceil(requirements.least(CPUS)))), "-R", " ".join(wanted)]
    if gpus := requirements.least(GPUS):
        options += ["-gpu", f"num={math.ceil(gpus)}"]
    return options


def _attributes(requirements: Requirements) -> Iterator[str]:
    """What is selected for the attributes."""
    for attribute in requirements.attributes:
        values = (*attribute.any_of, *attribute.all_of)
        if attribute.name == _OS:
            if "linux" not in values:
                raise EngineRefused(
                    f"a step asks for the operating system {' or '.join(values)}:"
                    " perdure's workers on LSF run on linux",
                    hint="Run that step elsewhere, or take the requirement away.",
                )
            continue
        yield from attribute.all_of
        if attribute.any_of:
            joined = " || ".join(attribute.any_of)
            yield f"({joined})" if len(attribute.any_of) > 1 else joined


#: Options that say where and for whom a job runs, not how large it is; each has a value.
_PLACES = frozenset({"-q", "-P", "-app", "-G", "-sla", "-U", "-clusters"})


def place_options(options: Sequence[str]) -> list[str]:
    """Those of bsub's options that say where and for whom a job runs."""
    found: list[str] = []
    words = iter(options)
    for word in words:
        if word in _PLACES:
            found += [word, next(words, "")]
    return found


def warning_options(options: Sequence[str], lead_seconds: float, lead_part: float) -> list[str]:
    """A warning before the run limit in the user's options; none where they have none, or one.

    Its minutes are the time that a task gets to save, rounded up; a limit that is not longer than
    that gets no warning.

    Args:
        options: of bsub, the user's.
        lead_seconds: what a task gets to save.
        lead_part: of a short limit no more than this part.
    """
    if "-wa" in options or "-wt" in options or "-W" not in options[:-1]:
        return []
    hours, _colon, minutes = options[options.index("-W") + 1].partition("/")[0].rpartition(":")
    if not minutes.isdigit() or not (hours or "0").isdigit():
        return []
    limit = int(hours or 0) * 60 + int(minutes)
    warned = math.ceil(min(lead_seconds / 60, limit * lead_part))
    return ["-wa", WARNING, "-wt", str(warned)] if 0 < warned < limit else []


def begin_text(moment: datetime) -> str:
    """A moment for ``-b``: ``2026:11:30:14:05``, rounded up to a minute; in its own time zone."""
    whole = moment.replace(second=0, microsecond=0)
    return (whole + timedelta(minutes=whole < moment)).strftime("%Y:%m:%d:%H:%M")


def array_script(worker: Sequence[str], elements: str) -> str:
    """The script of an array of workers.

    LSF does not tell a job how often it was put back: each run adds a line to a file beside the
    elements file, and counts them.

    Args:
        worker: the command that starts one; its launch and token are added.
        elements: the elements file.
    """
    counting = [
        'echo "$LSB_JOBID" >>"$elements.$index" || exit 1',
        'restarts="$((restarts + $(wc -l <"$elements.$index") - 1))"',
    ]
    return tokens.array_script(worker, elements, index="LSB_JOBINDEX", counting=counting)
