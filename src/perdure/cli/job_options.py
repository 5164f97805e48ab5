"""The options that `run` and `submit` share, and the job that they describe.

`openjd run`'s own options have openjd's meaning here.
"""

import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from signal import Signals
from typing import Any, TypeVar

import click
from msgspec.structs import asdict

from perdure.cli.allocations import element_of
from perdure.cli.config import default_engine, default_workers, user_config
from perdure.cli.given_command import read_command, words
from perdure.cli.places import Places
from perdure.errors import TemplateError, UsageError
from perdure.policy.counting import DEFAULT_LIMITS, Limits
from perdure.store.records.job_document import (
    JobDocument,
    Options,
    Selection,
    Text,
    split_variables,
)

_Command = TypeVar("_Command", bound=Callable[..., Any])
_MOMENTS = ("save", "resume", "suspended", "held", "failed", "succeeded")
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
#: The largest template that is read; the document reader refuses more than 16 MiB.
_TEMPLATE_LIMIT_BYTES = 17 << 20

PARAMETERS = click.option(
    "-p",
    "--parameter",
    "--job-param",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE|file://F|JSON",
    help="A job parameter's value; may be given again.",
)

_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.argument(
        "template",
        metavar="[TEMPLATE | -- COMMAND [ARG]...]",
        required=False,
        type=click.Path(path_type=Path),
    ),
    PARAMETERS,
    click.option(
        "--env",
        "--environment",
        "environments",
        multiple=True,
        type=click.Path(path_type=Path),
        help="An environment template to enter around the job; may be given again.",
    ),
    click.option(
        "--path-mapping-rules", metavar="file://F|JSON", help="A pathmapping-1.0 document."
    ),
    click.option("--step", metavar="NAME", help="Run only this step."),
    click.option(
        "-tp",
        "--task-param",
        "task_parameters",
        multiple=True,
        metavar="NAME=VALUE",
        help="Run the one task of --step with these values.",
    ),
    click.option("--tasks", metavar="file://F|JSON", help="Run these tasks of --step."),
    click.option(
        "--maximum-tasks", type=click.IntRange(min=1), help="At most so many tasks of --step."
    ),
    click.option(
        "--run-dependencies/--no-run-dependencies",
        default=False,
        help="Whether the steps that --step depends on are run before.",
    ),
    click.option("--extensions", metavar="A,B", help="Extensions that templates may declare."),
    click.option("--preserve", is_flag=True, help="Keep session folders."),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        default=default_workers,
        show_default="1",
        help="How many workers run side by side.",
    ),
    click.option(
        "--engine",
        type=click.Choice(["local", "slurm", "lsf"]),
        default=default_engine,
        show_default="local",
        help="What starts the workers: this host, Slurm or LSF.",
    ),
    click.option(
        "--slurm",
        multiple=True,
        metavar='"OPTIONS"',
        help='sbatch\'s own options for the workers, such as "-p long -t 8:00:00".',
    ),
    click.option(
        "--lsf",
        multiple=True,
        metavar='"OPTIONS"',
        help='bsub\'s own options for the workers, such as "-q long -W 8:00".',
    ),
    click.option(
        "--restart-args",
        metavar='"… {file} …"',
        help="What is added to COMMAND where it goes on: {file}, {state} are the checkpoint's.",
    ),
    click.option(
        "--restart-cmd",
        metavar='"… {file} …"',
        help="The line that is given there instead of COMMAND.",
    ),
    click.option(
        "--save-every",
        metavar="AGE",
        help="Ask a program that can be asked to save, so long after its last save: 30m, 2h.",
    ),
    click.option(
        "--save-signal",
        metavar="SIGNAL",
        default="SIGUSR2",
        show_default=True,
        help="What asks a program that catches it to save and go on.",
    ),
    click.option(
        "--key-env",
        "key_variables",
        multiple=True,
        metavar="NAME",
        help="A line with another value of this variable is another job; may be given again.",
    ),
    click.option(
        "--memory-growth",
        metavar="FACTOR:MOST",
        help="On Slurm: so many times more memory after each end for want of it, at most MOST.",
    ),
    click.option("--key", metavar="NAME", help="Go on with the job of this name, wherever it was."),
    click.option("--name", metavar="TEXT", help="What the job is called."),
    click.option(
        "--files",
        type=click.Choice(["managed", "shared", "adopt"]),
        default="managed",
        show_default=True,
        help="What is done with a task's files.",
    ),
    click.option(
        "--deliver",
        metavar="DIR|URL",
        help="Deliver a finished task's declared files there before it counts as SUCCEEDED.",
    ),
    click.option(
        "--allow-root",
        "allow_roots",
        multiple=True,
        metavar="DIR",
        help="A further folder whose files may be saved and restored.",
    ),
    click.option("--append", multiple=True, metavar="GLOB", help="Files that only ever grow."),
    click.option(
        "--overwrite",
        "conflict",
        flag_value="overwrite",
        help="Resume over outside files that others wrote (they are renamed).",
    ),
    click.option(
        "--keep",
        "conflict",
        flag_value="keep",
        help="Leave outside files that others wrote as they are.",
    ),
    click.option(
        "--notice",
        default="auto",
        metavar="auto|none|CMD",
        show_default=True,
        help="Where the host's notices come from.",
    ),
    click.option(
        "--on",
        "hooks",
        multiple=True,
        nargs=2,
        metavar="MOMENT CMD",
        help="Run CMD on save, resume, suspended, held, failed or succeeded.",
    ),
    click.option("--log-limit", metavar="SIZE", help="How much of a worker's output is kept."),
    click.option(
        "--env-omit",
        multiple=True,
        metavar="PATTERN",
        help="Variables whose values are not kept with the job.",
    ),
    click.option(
        "--limit",
        "limits",
        multiple=True,
        metavar="[STEP:]NAME=NUMBER",
        help="How often a task that fails is tried again. NAME, with its default: "
        + ", ".join(f"{name} ({value:g})" for name, value in asdict(DEFAULT_LIMITS).items())
        + ".",
    ),
    click.option(
        "--keep-last",
        type=click.IntRange(min=1),
        default=3,
        show_default=True,
        help="So many of a task's newest checkpoints are kept.",
    ),
    click.option("--keep-age", metavar="AGE", help="And all that are younger: 12h, 7d."),
    click.option(
        "--keep-size", metavar="SIZE", help="At most so much of a task, beside what must stay."
    ),
    click.option(
        "--max-pack-age",
        metavar="AGE",
        help="Checkpoints rest on no older files: for disks that are purged.",
    ),
    click.option(
        "--share",
        type=click.Choice(["group"]),
        help="If the store is made now, make it for all members of its folder's group.",
    ),
    click.option(
        "--local-store",
        metavar="DIR",
        help="A fast folder of each host: saves are taken there first, and copied to the store.",
    ),
    click.option(
        "--encrypt",
        "key_file",
        metavar="KEYFILE",
        help="Encrypt checkpoints by the key in this file.",
    ),
    click.option("--heartbeat-seconds", type=click.FloatRange(min=0.05), default=10.0, hidden=True),
    click.option("--sessions-dir", metavar="DIR", help="Where session folders are made."),
)


def job_options(command: _Command) -> _Command:
    """All options that describe a job."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def job_document(given: Mapping[str, Any], environment: Mapping[str, str]) -> JobDocument:
    """The job that the command line describes; its parts are checked by whoever loads it.

    Raises:
        UsageError, TemplateError: an option cannot be read.
    """
    from perdure.manager.submission import new_job_id
    from perdure.template import parse_parameters
    from perdure.template.pathmapping import read_path_mapping

    if given["again"] and given["key"] is None:
        raise UsageError(
            "--again needs --key: only the job of a key is found again once it has ended",
            hint="Leave it out: without --key a line whose job has ended begins a new one.",
        )
    if given["key"] == "":
        raise UsageError("--key is empty", hint="Is the variable that it comes from not set?")
    for name in given["key_variables"]:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageError(
                f"--key-env {name!r}: no variable has such a name", hint="Give the name alone."
            )
    current = _current_folder()
    template, command = given["template"], read_command(given, environment)
    variables, omitted = split_variables(environment, tuple(given["env_omit"]))
    rules = given["path_mapping_rules"]
    return JobDocument(
        job=new_job_id(),
        name=given["name"] or "",
        template=_text(template) if template is not None else Text(name="", text=""),
        command=command,
        parameters=parse_parameters(given["parameters"]),
        environments=tuple(_text(one) for one in given["environments"]),
        extensions=_extensions(given["extensions"]),
        template_dir=str(template.absolute().parent if template is not None else current),
        current_dir=str(current),
        path_mapping=tuple(rule.to_json() for rule in read_path_mapping(rules)) if rules else (),
        variables=variables,
        omitted=omitted,
        key=given["key"],
        selection=_selection(given),
        options=_options(given),
    )


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UsageError(
            "the folder that you are in has been removed", hint="Go to one that is there: cd DIR."
        ) from error


def with_line(
    document: JobDocument, key_variables: Sequence[str], environment: Mapping[str, str]
) -> JobDocument:
    """Without ``--key`` the same line in the same folder is the same job, while it is not done.

    Args:
        document: the job.
        key_variables: variables whose values are part of the line.
        environment: has them.

    Source: docs/decisions/090.
    """
    from msgspec.structs import replace

    if document.key is not None:
        return document
    described: dict[str, Any] = {
        "folder": document.current_dir,
        "template": [document.template.name, document.template.text],
        "environments": [[one.name, one.text] for one in document.environments],
        "parameters": dict(document.parameters),
        "selection": repr(document.selection),
        "name": document.name or None,
    }
    if document.command:
        described["command"] = document.command
    if key_variables:
        described["variables"] = {name: environment.get(name) for name in key_variables}
    element = element_of(document.variables)
    if element is not None:  # each element of an array is a job of its own
        described["element"] = element
    return replace(document, line=json.dumps(described, sort_keys=True))


def _options(given: Mapping[str, Any]) -> Options:
    from perdure.cli.memory_growth import parse_growth

    limits, step_limits = _limits(given["limits"])
    key = _key(given["key_file"])
    return Options(
        workers=given["workers"],
        files=given["files"],
        deliver=_deliver(given["deliver"]),
        allow_roots=tuple(str(Path(one).absolute()) for one in given["allow_roots"]),
        append=tuple(str(Path(one).absolute()) for one in given["append"]),
        on_conflict=given["conflict"] or "stop",
        notice=given["notice"],
        heartbeat_seconds=given["heartbeat_seconds"],
        preserve=given["preserve"],
        log_limit_bytes=size_bytes(given["log_limit"], of="--log-limit")
        if given["log_limit"]
        else 1 << 30,
        limits=limits,
        step_limits=step_limits,
        keep_last=given["keep_last"],
        keep_age_seconds=age_seconds(given["keep_age"], of="--keep-age"),
        keep_size_bytes=size_bytes(given["keep_size"], of="--keep-size")
        if given["keep_size"]
        else None,
        max_pack_age_seconds=age_seconds(given["max_pack_age"], of="--max-pack-age"),
        hooks=_hooks(given["hooks"]),
        temporary_dir=str(Path(given["sessions_dir"]).absolute())
        if given["sessions_dir"]
        else None,
        key_file=key[0],
        key_id=key[1],
        local_store=str(Path(given["local_store"]).absolute()) if given["local_store"] else None,
        engine=given["engine"],
        slurm=engine_options("slurm", given["slurm"], given["engine"]),
        lsf=engine_options("lsf", given["lsf"], given["engine"]),
        memory_growth=parse_growth(given["memory_growth"], engine=given["engine"]),
        save_signal=_signal(given["save_signal"]),
        save_every_seconds=age_seconds(given["save_every"], of="--save-every"),
        restart_args=words(given["restart_args"], of="--restart-args"),
        restart_cmd=words(given["restart_cmd"], of="--restart-cmd"),
    )


def _signal(text: str) -> str:
    """A signal's name as Python has it; never one that cannot be caught."""
    name = text.upper()
    name = name if name.startswith("SIG") else f"SIG{name}"
    if name not in Signals.__members__ or name in ("SIGKILL", "SIGSTOP"):
        raise UsageError(
            f"--save-signal {text}: there is no such signal that a program can catch",
            hint="Write it like USR2 or SIGUSR2.",
        )
    return name


def engine_options(own: str, given: Sequence[str], engine: str) -> tuple[str, ...]:
    """A batch system's own options, word for word, behind the user's of the configuration file.

    Args:
        own: whose options: ``slurm`` or ``lsf``.
        given: the texts of ``--slurm`` or ``--lsf``.
        engine: the job's.

    Raises:
        UsageError: the engine is another one, a quote is left open, or the file cannot be read.
    """
    if given and engine != own:
        raise UsageError(f"--{own} is for --engine {own}", hint=f"Add --engine {own}.")
    if engine != own:
        return ()
    found = tuple(word for text in given for word in words(text, of=f"--{own}"))
    if own == "lsf":
        return found
    if found:
        from perdure.engines.slurm.slurm_format import refused_option

        if (word := refused_option(found)) is not None:
            raise UsageError(
                f"--slurm: {word!r} is perdure's own: it makes the arrays of workers, and finds"
                " them by their names",
                hint="Leave it out; --workers N says how many run side by side.",
            )
    return (*user_config().slurm, *found)


def told_at_submit(options: Options) -> str | None:
    """What a person should know about the files policy before the job runs."""
    if options.files == "managed":
        return None
    what = "checkpoint files stay" if options.files == "adopt" else "outside files stay"
    return (
        f"--files {options.files}: {what} where the program writes them, without a copy in the"
        " store; to resume, these files must survive, not only the store"
    )


def check_places(options: Options, where: Places) -> None:
    """Refuse folders for the job's own use that lie in the store; before anything is made.

    Raises:
        UsageError: so it would be.
    """
    if options.local_store is not None:
        where.check_outside_store(Path(options.local_store), called="--local-store")
    if options.temporary_dir is not None:
        where.check_outside_store(Path(options.temporary_dir), called="--sessions-dir")
    if options.deliver is not None:
        from perdure.store.delivery.delivery_places import check_apart

        check_apart(options.deliver, where.store_url)


def _deliver(given: str | None) -> str | None:
    """Where finished files go, as it is kept; workers run on this host, so that it is checked."""
    if given is None:
        return None
    from perdure.store.delivery.delivery_places import check_folder, delivery_place

    place = delivery_place(given)
    check_folder(place)
    return place


def _key(given: str | None) -> tuple[str | None, str]:
    """The key file's whole path, and which key it holds."""
    if given is None:
        return None, ""
    from perdure.cli.keys import key_path
    from perdure.store.packs.sealing import read_key

    key_id = read_key(key_path(given)).key_id
    return str(Path(given).absolute()), key_id


def _selection(given: Mapping[str, Any]) -> Selection:
    from perdure.template import parse_task_parameters, parse_tasks

    one, several, most = given["task_parameters"], given["tasks"], given["maximum_tasks"]
    if sum(bool(option) for option in (one, several, most)) > 1:
        raise UsageError("--task-param, --tasks and --maximum-tasks exclude each other")
    if given["step"] is None:
        if one or several or most:
            raise UsageError("--task-param, --tasks and --maximum-tasks need --step NAME")
        return Selection()
    tasks: tuple[dict[str, str], ...] | None = None
    if one:
        tasks = (parse_task_parameters(one),)
    elif several:
        tasks = parse_tasks(several)
    return Selection(
        step=given["step"],
        tasks=tasks,
        maximum_tasks=most,
        run_dependencies=given["run_dependencies"],
    )


def read_text(path: Path) -> bytes:
    """A template's bytes.

    Raises:
        TemplateError: it cannot be read, or is larger than any template.
    """
    try:
        with path.open("rb") as file:
            return file.read(_TEMPLATE_LIMIT_BYTES)
    except OSError as error:
        raise TemplateError(
            f"{path} cannot be read: {error.strerror}", hint="Check the path and its permissions."
        ) from error


def _text(path: Path) -> Text:
    data = read_text(path)
    try:
        return Text(name=str(path), text=data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise TemplateError(f"{path} is no UTF-8 text: {error}") from error


def _extensions(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _hooks(given: tuple[tuple[str, str], ...]) -> dict[str, tuple[str, ...]]:
    hooks: dict[str, tuple[str, ...]] = {}
    for moment, command in given:
        if moment not in _MOMENTS:
            raise UsageError(
                f"--on knows no moment {moment!r}", hint=f"It is one of {', '.join(_MOMENTS)}."
            )
        hooks[moment] = (*hooks.get(moment, ()), command)
    return hooks


def _limits(given: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """``[STEP:]NAME=NUMBER`` as limits of the job and of its steps."""
    kinds = Limits.__annotations__
    job: dict[str, Any] = {}
    steps: dict[str, dict[str, Any]] = {}
    for text in given:
        left, equals, number = text.rpartition("=")
        step, colon, name = left.rpartition(":")
        try:
            value = (int if kinds.get(name) is int else float)(number)
        except ValueError:
            value = -1
        if not equals or name not in kinds or not 0 <= value < math.inf:
            raise UsageError(
                f"--limit {text!r} is not [STEP:]NAME=NUMBER",
                hint=f"NAME is one of {', '.join(kinds)}.",
            )
        (steps.setdefault(step, {}) if colon else job)[name] = value
    return job, steps


def size_bytes(text: str, *, of: str) -> int:
    """``10M``, ``1.5G`` or a plain number as bytes.

    Args:
        text: as it was given.
        of: the option that it was given for.

    Raises:
        UsageError: it is none.
    """
    plain = text.strip().lower().removesuffix("b").removesuffix("i")
    number, unit = (plain[:-1], plain[-1]) if plain[-1:].isalpha() else (plain, "")
    try:
        size = int(float(number) * _SIZES[unit])
    except (ValueError, KeyError, OverflowError):
        size = 0
    if size <= 0:
        raise UsageError(f"{of} {text}: {text!r} is no size", hint="Write it like 500M or 2G.")
    return size


def age(text: str, *, of: str) -> timedelta:
    """``30d``, ``12h``, ``45m`` or ``90s``.

    Args:
        text: as it was given.
        of: the option that it was given for.

    Raises:
        UsageError: it is none.
    """
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
    number, unit = text[:-1], text[-1:]
    if unit not in units or not (number.isascii() and number.isdigit()):
        raise UsageError(f"{of} {text}: {text!r} is no age", hint="Write it like 30d or 12h.")
    try:
        return timedelta(**{units[unit]: int(number)})
    except (OverflowError, ValueError) as error:
        raise UsageError(
            f"{of} {text} is longer than there is time", hint="Write it like 30d or 12h."
        ) from error


def age_seconds(text: str | None, *, of: str) -> int | None:
    """An age in seconds, where there is one; ``of`` as for `age`.

    Raises:
        UsageError: it is none, or no time at all.
    """
    if text is None:
        return None
    found = age(text, of=of)
    if not found:
        raise UsageError(f"{of} {text} is no time at all", hint="Write it like 30d or 12h.")
    return int(found.total_seconds())


def caller_environment() -> dict[str, str]:
    """The variables of whoever gave the command."""
    return dict(os.environ)
