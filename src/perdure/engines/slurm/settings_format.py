"""Slurm's settings and partitions, as its commands print them, and what they mean for us. Pure.

What is not printed, or printed otherwise than expected, is None: no version of Slurm is refused for
it, and nothing is said about it.

Source: slurm.conf(5), scontrol(1); docs/engines.md has what was measured with Slurm 22.05.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from perdure.engines.slurm.slurm_format import parse_fields

#: Without an answer for so long a node is down, by Slurm's default; longer is worth a word.
_LONG_TIMEOUT_SECONDS = 600
#: A job that Slurm forgets sooner may be over and gone between two of our questions.
_SHORT_AGE_SECONDS = 60
#: What the grace of a preemption must at least leave for a save.
_SHORT_GRACE_SECONDS = 10
_SETTING = re.compile(r"^([A-Za-z][\w\[\]]*)\s*= ?(.*)$")
_NO_VALUE = frozenset({"", "(null)", "N/A", "NONE", "none"})


class Settings(Struct, frozen=True, kw_only=True):
    """Those of a cluster's settings that matter to work that is to survive.

    Attributes:
        requeues: whether a job may be put back into the queue, unless it says otherwise.
        kill_wait_seconds: from SIGTERM to SIGKILL.
        max_array_size: one more than an array's largest index.
        preempt_type, preempt_mode: how more important jobs make room; None: they do not.
        slurmd_timeout_seconds: after which a silent node is down; 0: never.
        min_job_age_seconds: for how long a job that is over is remembered; 0: for ever.
        requeue_exit: exit codes by which a job is put back, as they are written; "" for none.
    """

    version: str = ""
    cluster: str = ""
    requeues: bool | None = None
    kill_wait_seconds: int | None = None
    max_array_size: int | None = None
    preempt_type: str | None = None
    preempt_mode: str | None = None
    slurmd_timeout_seconds: int | None = None
    min_job_age_seconds: int | None = None
    requeue_exit: str = ""


class Partition(Struct, frozen=True, kw_only=True):
    """A partition.

    Attributes:
        state: UP, DOWN, DRAIN or INACTIVE.
        default_time, max_time: limits as Slurm writes them: ``[days-]hours:minutes:seconds``,
            UNLIMITED, or "" where there is none.
        preempt_mode: what happens to its jobs for more important ones.
        grace_seconds: from the first word of a preemption to its end.
        nodes: how many it has.
        node_names: they, as Slurm writes lists.
        submits_from: from which nodes jobs may be submitted to it: ALL, or names.
    """

    name: str
    is_default: bool = False
    state: str = ""
    default_time: str = ""
    max_time: str = ""
    preempt_mode: str = ""
    priority: int | None = None
    grace_seconds: int | None = None
    nodes: int | None = None
    node_names: str = ""
    submits_from: str = ""

    @property
    def jobs_may_submit(self) -> bool | None:
        """Whether its own jobs may submit jobs to it; None where a list of nodes decides.

        By what Slurm's settings say: a node without Slurm's commands, or a site's own submit
        filter, is found out by `perdure doctor --engine slurm` only.
        """
        if self.submits_from in ("", "ALL") or self.submits_from == self.node_names:
            return True if self.submits_from else None
        return None


def parse_settings(text: str) -> Settings:
    """What ``scontrol show config`` prints; lines that are none are passed over."""
    found = dict(_settings(text))
    return Settings(
        version=found.get("SLURM_VERSION", ""),
        cluster=found.get("ClusterName", ""),
        requeues=_yes(found.get("JobRequeue")),
        kill_wait_seconds=_number(found.get("KillWait")),
        max_array_size=_number(found.get("MaxArraySize")),
        preempt_type=_preempt(found.get("PreemptType"), "preempt/none"),
        preempt_mode=_preempt(found.get("PreemptMode"), "OFF"),
        slurmd_timeout_seconds=_number(found.get("SlurmdTimeout")),
        min_job_age_seconds=_number(found.get("MinJobAge")),
        requeue_exit=_text(found.get("RequeueExit")),
    )


def _settings(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        match = _SETTING.match(line)
        if match is not None:
            yield match[1], match[2].strip()


def parse_partitions(text: str) -> tuple[Partition, ...]:
    """The lines of ``scontrol -o show partition``; what is no such line is passed over."""
    found = [parse_fields(line) for line in text.splitlines()]
    return tuple(_partition(fields) for fields in found if fields.get("PartitionName"))


def _partition(fields: Mapping[str, str]) -> Partition:
    return Partition(
        name=fields["PartitionName"],
        is_default=fields.get("Default") == "YES",
        state=_text(fields.get("State")),
        default_time=_text(fields.get("DefaultTime")),
        max_time=_text(fields.get("MaxTime")),
        preempt_mode=_text(fields.get("PreemptMode")),
        priority=_number(fields.get("PriorityTier")),
        grace_seconds=_number(fields.get("GraceTime")),
        nodes=_number(fields.get("TotalNodes")),
        node_names=_text(fields.get("Nodes")),
        submits_from=_text(fields.get("AllocNodes")),
    )


def _text(value: str | None) -> str:
    return "" if value is None or value in _NO_VALUE else value


def _number(value: str | None) -> int | None:
    """``5 sec`` or ``1001`` as a number; None for UNLIMITED and the like."""
    match = re.match(r"(\d+)\b", value or "")
    return int(match[1]) if match is not None else None


def _yes(value: str | None) -> bool | None:
    number = _number(value)
    return None if number is None else number != 0


def _preempt(value: str | None, nothing: str) -> str | None:
    text = _text(value)
    return text if text and text != nothing else None


def warnings(
    settings: Settings, partitions: Sequence[Partition], save_seconds: float | None
) -> tuple[str, ...]:
    """What a person who runs long work there should know, a sentence each.

    Args:
        settings: the cluster's.
        partitions: its partitions.
        save_seconds: the longest that a save of the jobs at hand took; None: none is known.
    """
    return (
        *_about_the_end(settings, save_seconds),
        *_about_memory(settings),
        *(told for one in partitions for told in _about_partition(one, settings, save_seconds)),
    )


def _about_the_end(settings: Settings, save_seconds: float | None) -> Iterator[str]:
    """What a job has when it is ended, and whether it comes again."""
    if settings.requeues is False:
        yield (
            "JobRequeue is 0: only jobs that ask for it (--requeue, as perdure's workers do) are"
            " put back into the queue; a script of your own needs #SBATCH --requeue"
        )
    wait = settings.kill_wait_seconds
    if wait is not None and save_seconds is not None and save_seconds > wait:
        yield (
            f"KillWait is {wait} s, and a save took up to {save_seconds:.1f} s: what is ended"
            " without an earlier notice may be killed while it saves"
        )
    timeout = settings.slurmd_timeout_seconds
    if timeout == 0:
        yield "SlurmdTimeout is 0: Slurm never takes a silent node for lost; its jobs stay there"
    elif timeout is not None and timeout > _LONG_TIMEOUT_SECONDS:
        yield f"SlurmdTimeout is {timeout} s: so long a lost node's jobs are not put back"


def _about_memory(settings: Settings) -> Iterator[str]:
    """What Slurm forgets."""
    age = settings.min_job_age_seconds
    if age is not None and 0 < age < _SHORT_AGE_SECONDS:
        yield (
            f"MinJobAge is {age} s: Slurm soon forgets how a job ended, and what is cancelled"
            " before it begins is then held as what Slurm does not know"
        )


def _about_partition(
    partition: Partition, settings: Settings, save_seconds: float | None
) -> Iterator[str]:
    name = f"partition {partition.name}"
    if partition.state and partition.state != "UP":
        yield f"{name} is {partition.state}: jobs wait there"
    if partition.submits_from and not partition.jobs_may_submit:
        yield (
            f"{name} takes jobs only from {partition.submits_from}: where its nodes are not among"
            " them, somebody must give `perdure settle JOB` when an array is over"
        )
    if settings.preempt_type is not None:
        yield from _about_preemption(name, partition, save_seconds)


def _about_preemption(name: str, partition: Partition, save_seconds: float | None) -> Iterator[str]:
    modes, grace = set(partition.preempt_mode.split(",")), partition.grace_seconds or 0
    if "CANCEL" in modes:
        yield f"{name}: PreemptMode is CANCEL: what is preempted there is not put back by Slurm"
    if not modes & {"CANCEL", "REQUEUE"}:
        return
    needed = max(_SHORT_GRACE_SECONDS, save_seconds or 0.0)
    if grace < needed:
        yield f"{name}: GraceTime is {grace} s: a preempted task may have no time to save"
    elif grace:
        yield (
            f"{name}: the grace of {grace} s is told to a job's steps, not to its batch script;"
            " perdure's workers keep a step that hears it, `perdure run` in a script does not"
        )
