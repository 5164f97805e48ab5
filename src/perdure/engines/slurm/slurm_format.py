"""What Slurm's commands take and print. Pure.

Source: sbatch(1), squeue(1), scontrol(1); docs/engines.md has what was measured with Slurm 22.05.
"""

import math
import re
import shlex
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from perdure.engines.causes import Cause
from perdure.errors import EngineRefused
from perdure.policy.resources import CPUS, GPUS, MEMORY_MIB, SCRATCH_MIB, Requirements

#: What `parse_queue` reads: the element, its state, the reason, the job's name.
QUEUE_FORMAT = "%i|%T|%r|%j"
#: Jobs that Slurm still knows and will not run again.
_OVER = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    }
)
_FIELD = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z0-9_/:]*)=(\S*)")
_ARCH = "attr.worker.cpu.arch"
_OS = "attr.worker.os.family"


class Queued(Struct, frozen=True, kw_only=True):
    """One job, or one element of an array, as squeue shows it."""

    job: str
    state: str
    reason: str
    name: str

    @property
    def is_over(self) -> bool:
        """Whether Slurm will not run it, or run it again."""
        return self.state in _OVER

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody cancelled it."""
        return self.state == "CANCELLED"

    @property
    def is_pending(self) -> bool:
        """Whether it waits, for the first time or again."""
        return self.state == "PENDING"

    @property
    def waits_for_its_time(self) -> bool:
        """Whether it was requeued and may begin only some minutes later."""
        return self.state == "PENDING" and self.reason == "BeginTime"


def parse_queue(text: str) -> tuple[Queued, ...]:
    """The lines of ``squeue -h -r -o`` with `QUEUE_FORMAT`; what is no such line is passed over."""
    found = []
    for line in text.splitlines():
        parts = line.strip().split("|", 3)
        if len(parts) == 4:
            job, state, reason, name = parts
            found.append(Queued(job=job, state=state, reason=reason, name=name))
    return tuple(found)


def parse_submission(text: str) -> str:
    """The job's id in what ``sbatch --parsable`` printed: ``ID`` or ``ID;CLUSTER``.

    Raises:
        ValueError: there is none.
    """
    job = text.strip().splitlines()[-1].partition(";")[0] if text.strip() else ""
    if not job.isdigit():
        msg = f"sbatch printed {text.strip()!r} where a job id was expected"
        raise ValueError(msg)
    return job


def parse_fields(text: str) -> dict[str, str]:
    """The fields of ``scontrol -o show job``; a value with a blank is cut there."""
    return dict(_FIELD.findall(text))


def cause_of_end(fields: dict[str, str], restarts: int, now: datetime) -> Cause:
    """Why a job that runs was sent SIGTERM, by what Slurm says of it just then.

    Args:
        fields: `parse_fields` of the job; empty where Slurm did not answer.
        restarts: how often it had been put back when this run of it began.
        now: local time, as Slurm's own times are.
    """
    if not fields:
        return Cause.UNKNOWN
    if int(fields.get("Restarts") or 0) > restarts:
        return Cause.REQUEUED
    if fields.get("PreemptTime", "None") not in ("None", "Unknown", ""):
        return Cause.PREEMPTED
    if fields.get("Reason") == "TimeLimit" or fields.get("JobState") == "TIMEOUT":
        return Cause.TIME_LIMIT
    ran, limit = _seconds(fields.get("RunTime", "")), _seconds(fields.get("TimeLimit", ""))
    if ran is not None and limit is not None and ran >= limit:
        return Cause.TIME_LIMIT
    end = fields.get("EndTime", "")
    is_over = fields.get("JobState") in ("CANCELLED", "COMPLETING")
    if is_over and _is_moment(end) and datetime.fromisoformat(end) <= now:
        return Cause.CANCELLED
    return Cause.UNKNOWN


def _is_moment(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _seconds(text: str) -> int | None:
    """``[days-]hours:minutes:seconds`` as seconds; None for UNLIMITED and the like."""
    days, dash, rest = text.rpartition("-")
    parts = rest.split(":")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        return None
    if dash and not days.isdigit():
        return None
    hours, minutes, seconds = map(int, parts)
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def resource_options(requirements: Requirements, avoid_hosts: Sequence[str] = ()) -> list[str]:
    """The options of sbatch that a step's ``hostRequirements`` mean.

    Custom amounts are licenses, custom attributes are features of nodes.

    Raises:
        EngineRefused: Slurm's nodes cannot be asked for it.
    """
    options = [f"--cpus-per-task={max(1, math.ceil(requirements.least(CPUS)))}"]
    if memory := requirements.least(MEMORY_MIB):
        options.append(f"--mem={math.ceil(memory)}M")
    if gpus := requirements.least(GPUS):
        options.append(f"--gpus={math.ceil(gpus)}")
    if scratch := requirements.least(SCRATCH_MIB):
        options.append(f"--tmp={math.ceil(scratch)}M")
    licenses = [
        f"{amount.name.removeprefix('amount.')}:{math.ceil(amount.min)}"
        for amount in requirements.amounts
        if not amount.name.startswith("amount.worker.") and amount.min > 0
    ]
    if licenses:
        options.append(f"--licenses={','.join(licenses)}")
    if features := _features(requirements):
        options.append(f"--constraint={features}")
    if avoid_hosts:
        options.append(f"--exclude={','.join(avoid_hosts)}")
    return options


def _features(requirements: Requirements) -> str:
    """The constraint that the attributes mean; "" for none."""
    parts: list[str] = []
    for attribute in requirements.attributes:
        values = (*attribute.any_of, *attribute.all_of)
        if attribute.name == _OS:
            if "linux" not in values:
                raise EngineRefused(
                    f"a step asks for the operating system {' or '.join(values)}:"
                    " perdure's workers on Slurm run on linux",
                    hint="Run that step elsewhere, or take the requirement away.",
                )
            continue
        parts += list(attribute.all_of)
        if attribute.any_of:
            joined = "|".join(attribute.any_of)
            parts.append(f"[{joined}]" if len(attribute.any_of) > 1 else joined)
    return "&".join(parts)


#: Options that say where and for whom a job runs, not how large it is.
_PLACE = {
    "-p": "--partition",
    "-A": "--account",
    "-q": "--qos",
    "-M": "--clusters",
}
_PLACES = frozenset({*_PLACE.values(), "--reservation", "--wckey"})


def place_options(options: Sequence[str]) -> list[str]:
    """Those of sbatch's options that say where and for whom a job runs."""
    found: list[str] = []
    words = iter(options)
    for word in words:
        name, equals, value = word.partition("=")
        if name in _PLACES:
            found.append(f"{name}={value if equals else next(words, '')}")
        elif word[:2] in _PLACE and not word.startswith("--"):
            found.append(f"{_PLACE[word[:2]]}={word[2:] or next(words, '')}")
    return found


def array_script(worker: Sequence[str], elements: str) -> str:
    """The batch script of an array of workers.

    Args:
        worker: the command that starts one; its launch and token are added.
        elements: the elements file.
    """
    return "\n".join(
        [
            "#!/bin/sh",
            f"elements={shlex.quote(elements)}",
            "while read -r index launch token restarts; do",
            '  [ "$index" = "$SLURM_ARRAY_TASK_ID" ] && break',
            'done <"$elements" || exit 1',
            'restarts="$((restarts + ${SLURM_RESTART_COUNT:-0}))"',
            '[ "$restarts" = 0 ] || token="$token-r$restarts"',
            'export PERDURE_TOKEN="$token"',
            f"exec {shlex.join(worker)} \\",
            '  --launch "$launch" --token "$token" --restarts "$restarts"',
            "",
        ]
    )
