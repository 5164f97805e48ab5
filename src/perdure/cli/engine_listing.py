"""``perdure engines``: where workers can run, what of it matters, and what to beware of."""

import json
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct, field, to_builtins

from perdure.cli.places import Places, json_option, places, where_options

if TYPE_CHECKING:
    from rich.console import Console

    from perdure.engines.slurm.survey import Survey

#: So many of the newest jobs are looked at for how long their saves took.
_LEARNED_FROM = 20
#: Settings of Slurm in the order in which they are shown: field, Slurm's name, what it means.
_SETTINGS = (
    ("requeues", "JobRequeue", "what is lost or preempted is put back by itself"),
    ("kill_wait_seconds", "KillWait", "seconds from SIGTERM to SIGKILL"),
    ("preempt_type", "PreemptType", "how more important jobs are chosen"),
    ("preempt_mode", "PreemptMode", "what happens to jobs that make room"),
    ("slurmd_timeout_seconds", "SlurmdTimeout", "seconds until a silent node is down"),
    ("min_job_age_seconds", "MinJobAge", "seconds for which a job that is over is known"),
    ("max_array_size", "MaxArraySize", "one more than an array's largest index"),
    ("requeue_exit", "RequeueExit", "exit codes by which a job is put back"),
)


class EngineShown(Struct, frozen=True, kw_only=True):
    """An engine, as the command shows it; the object of ``--json``.

    Attributes:
        reason: why it cannot be used from here, or "".
        settings, partitions: of a cluster; of this host what its workers share.
        save_seconds: the longest save of the store's newest jobs; None: none is known.
    """

    name: str
    available: bool
    version: str = ""
    reason: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    partitions: list[dict[str, Any]] = field(default_factory=list)
    save_seconds: float | None = None
    warnings: list[str] = field(default_factory=list)


@click.command()
@json_option
@where_options
def engines(**given: Any) -> int:
    """Show where workers can run: this host and, with its commands on PATH, Slurm.

    Of a cluster: its version, its partitions, the settings that matter to work that is to survive,
    and warnings. Ends 0, whatever is there.
    """
    found = [_local(), _slurm(places(given["home"], given["store"]))]
    if given["as_json"]:
        print(json.dumps({"engines": [to_builtins(one) for one in found]}))
    else:
        _show(found)
    return 0


def _local() -> EngineShown:
    import perdure
    from perdure.manager.job_view import this_hosts_capacity
    from perdure.policy.resources import CPUS, GPUS, MEMORY_MIB

    amounts = this_hosts_capacity().amounts
    settings = {
        "cpus": int(amounts[CPUS]),
        "memory_mib": int(amounts[MEMORY_MIB]),
        "gpus": int(amounts[GPUS]),
    }
    return EngineShown(name="local", available=True, version=perdure.__version__, settings=settings)


def _slurm(where: Places) -> EngineShown:
    from perdure.engines.slurm.survey import missing_commands, survey
    from perdure.errors import EngineError

    if missing := missing_commands():
        reason = f"{', '.join(missing)} not on PATH: give the command on a login node of a cluster"
        return EngineShown(name="slurm", available=False, reason=reason)
    try:
        return _described(survey(), longest_save(where))
    except EngineError as error:
        return EngineShown(name="slurm", available=False, reason=error.message)


def _described(found: "Survey", save_seconds: float | None) -> EngineShown:
    from perdure.engines.slurm.settings_format import warnings

    settings = to_builtins(found.settings)
    version = settings.pop("version")
    partitions = [
        {**to_builtins(one), "jobs_may_submit": one.jobs_may_submit} for one in found.partitions
    ]
    return EngineShown(
        name="slurm",
        available=True,
        version=version,
        settings=settings,
        partitions=partitions,
        save_seconds=save_seconds,
        warnings=list(warnings(found.settings, found.partitions, save_seconds)),
    )


def longest_save(where: Places) -> float | None:
    """How long saves of the store's newest jobs took at most; None where none is known.

    Only looks; a store that is not there, or a job that cannot be read, says nothing.
    """
    from perdure.cli.looking import look_into
    from perdure.errors import PerdureError
    from perdure.manager.stored_jobs import job_ids, stored_job

    took: list[float] = []
    try:
        looked = look_into(where)
        jobs = job_ids(looked.store.driver)[-_LEARNED_FROM:]
    except PerdureError:
        return None
    for job in jobs:
        try:
            document = stored_job(looked.store.driver, job)
            attempts = looked.facts(document).attempts if document is not None else ()
        except PerdureError:
            continue
        took += [one.save_seconds for one in attempts if one.save_seconds is not None]
    return max(took, default=None)


def _show(found: list[EngineShown]) -> None:
    from perdure.cli.tables import console, plain

    out = console()
    for number, one in enumerate(found):
        if number:
            out.print()
        if not one.available:
            out.print(f"{one.name}: {plain(one.reason)}")
        elif one.name == "local":
            out.print(f"local: {_host(one.settings)}")
        else:
            _show_cluster(out, one)
        for warning in one.warnings:
            out.print(f"! {plain(warning)}", style="red")


def _host(settings: dict[str, Any]) -> str:
    from perdure.sizes import size_text

    memory = size_text(settings["memory_mib"] << 20)
    return f"this host: {settings['cpus']} CPUs, {memory} of memory, {settings['gpus']} GPUs"


def _show_cluster(out: "Console", one: EngineShown) -> None:
    from perdure.cli.tables import plain, show_table

    out.print(f"slurm: {plain(one.version)}, cluster {plain(one.settings['cluster'])}")
    rows = [(name, plain(_said(one.settings[key])), meaning) for key, name, meaning in _SETTINGS]
    show_table(out, ("SETTING", "IS", "WHAT IT IS"), rows)
    out.print()
    show_table(
        out,
        ("PARTITION", "STATE", "NODES", "TIME", "AT MOST", "PREEMPTED", "GRACE", "JOBS SUBMIT"),
        [_partition_row(partition) for partition in one.partitions],
        right=("NODES",),
    )
    if one.save_seconds is not None:
        out.print(f"Saves of the newest jobs here took up to {one.save_seconds:.1f} s.")


def _partition_row(partition: dict[str, Any]) -> tuple[str, ...]:
    from perdure.cli.tables import plain

    star = "*" if partition["is_default"] else ""
    grace = partition["grace_seconds"]
    shown = (
        f"{partition['name']}{star}",
        partition["state"],
        _said(partition["nodes"]),
        _said(partition["default_time"]),
        _said(partition["max_time"]),
        _said(partition["preempt_mode"]),
        "none" if not grace else f"{grace} s",
        {True: "yes", False: "no", None: f"from {partition['submits_from'] or '?'}"}[
            partition["jobs_may_submit"]
        ],
    )
    return tuple(plain(text) for text in shown)


def _said(value: object) -> str:
    """A value as people read it."""
    match value:
        case None | "":
            return "none"
        case bool():
            return "yes" if value else "no"
        case _:
            return str(value)
