"""What Slurm's commands take and print. Pure.

Source: sbatch(1), squeue(1), scontrol(1); docs/engines.md has what was measured with Slurm 22.05.
"""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from perdure.engines import tokens
from perdure.engines.causes import Cause
from perdure.errors import EngineRefused
from perdure.policy.memory_growth import MemoryWish, grown_mib
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
#: Variables that say which cluster is meant; the others of Slurm's are those of one job.
_OF_THE_CLUSTER = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS"})


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
    def is_out_of_memory(self) -> bool:
        """Whether it was ended because its memory was used up."""
        return self.state == "OUT_OF_MEMORY"

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


def parse_settings(text: str) -> dict[str, str]:
    """The lines ``Name = value`` of ``scontrol show config``."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def command_environment(variables: Mapping[str, str], *, without: str) -> dict[str, str]:
    """What Slurm's commands are given of this process's variables, and hand on to a new job.

    Those of the job that this process may run in are left out: a job that inherits them takes
    itself for that one.

    Args:
        variables: this process's.
        without: a further one to leave out.
    """
    return {
        name: text
        for name, text in variables.items()
        if name in _OF_THE_CLUSTER
        or not (name.startswith(("SLURM_", "SLURMD_")) or name == without)
    }


#: Reasons of jobs whose batch process was killed, or exited by itself.
_OF_A_BATCH_PROCESS = frozenset({"JobLaunchFailure", "NonZeroExitCode"})
_SECONDS = re.compile(r"([0-9]+) sec")


def kill_wait_seconds(settings: Mapping[str, str]) -> float:
    """So long after its SIGTERM a job's processes are killed; 0 where Slurm does not say it."""
    match = _SECONDS.fullmatch(settings.get("KillWait", ""))
    return float(match[1]) if match else 0.0


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
    if fields.get("Reason") in _OF_A_BATCH_PROCESS:
        return Cause.DIED
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


#: sbatch's units of memory, in KiB; without one MiB are meant.
_MEMORY_KIB = {"K": 1, "": 1 << 10, "M": 1 << 10, "G": 1 << 20, "T": 1 << 30}
_MEMORY = re.compile(r"([0-9]+)([KMGT]?)B?", re.IGNORECASE)


def memory_asked(requirements: Requirements, options: Sequence[str]) -> tuple[str, float] | None:
    """The option by which memory is asked for, and how much, in MiB; None: it is not asked for.

    The user's options win over the step's requirements, as they do with sbatch.
    """
    found = None
    if least := requirements.least(MEMORY_MIB):
        found = ("--mem", least)
    words = iter(options)
    for word in words:
        name, equals, value = word.partition("=")
        if name in ("--mem", "--mem-per-cpu"):
            match = _MEMORY.fullmatch(value if equals else next(words, ""))
            mib = int(match[1]) * _MEMORY_KIB[match[2].upper()] / 1024 if match else 0.0
            found = (name, mib) if mib else None
    return found


def memory_options(
    requirements: Requirements, options: Sequence[str], wish: MemoryWish | None
) -> list[str]:
    """The option for more memory than that; it has to stand behind the user's own."""
    asked = memory_asked(requirements, options)
    if wish is None or asked is None:
        return []
    name, first_mib = asked
    return [f"{name}={grown_mib(first_mib, wish)}M"]


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


def partitions_named(options: Sequence[str]) -> tuple[str, ...]:
    """The partitions that sbatch's options name; none: the default one."""
    said = [one for one in place_options(options) if one.startswith("--partition=")]
    return tuple(said[-1].partition("=")[2].split(",")) if said else ()


def restricted_partitions(text: str, named: Sequence[str]) -> list[tuple[str, str]]:
    """Partitions that take jobs from some hosts only, with these hosts.

    Args:
        text: of ``scontrol -o show partition``.
        named: which ones matter; none: the default one.
    """
    found = []
    for line in text.splitlines():
        fields = parse_fields(line)
        name, hosts = fields.get("PartitionName", ""), fields.get("AllocNodes", "ALL")
        matters = name in named if named else fields.get("Default") == "YES"
        if matters and hosts != "ALL":
            found.append((name, hosts))
    return found


#: Options of sbatch that are perdure's own: how an array is made, found again and answered for.
_OWN_SHORT = {"-a": "--array", "-J": "--job-name", "-W": "--wait"}
_OWN_LONG = ("--array", "--job-name", "--parsable", "--test-only", "--wait", "--wrap")
#: sbatch takes the first letters of a long option, too.
_SHORTEST_OPTION = len("--ar")


def refused_option(options: Sequence[str]) -> str | None:
    """The first of sbatch's options that a person cannot give, as it was written; None: all may."""
    for word in options:
        name = word.partition("=")[0]
        is_short = word[:2] in _OWN_SHORT and not word.startswith("--")
        is_long = len(name) >= _SHORTEST_OPTION and any(own.startswith(name) for own in _OWN_LONG)
        if is_short or is_long:
            return word
    return None


def begin_options(seconds: float) -> list[str]:
    """The option of sbatch for a job that begins so much later; seconds are rounded up."""
    return [f"--begin=now+{math.ceil(seconds)}"] if seconds > 0 else []


def array_sizes(count: int, limit: int) -> list[int]:
    """How many elements each array has where none has more than ``limit``."""
    whole, rest = divmod(count, limit)
    return [limit] * whole + ([rest] if rest else [])


def array_script(worker: Sequence[str], elements: str) -> str:
    """The batch script of an array of workers.

    Args:
        worker: the command that starts one; its launch and token are added.
        elements: the elements file.
    """
    counting = [
        'restarts="$((restarts + ${SLURM_RESTART_COUNT:-0}))"',
    ]
    return tokens.array_script(worker, elements, index="SLURM_ARRAY_TASK_ID", counting=counting)
