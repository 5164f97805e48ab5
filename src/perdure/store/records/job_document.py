"""The job as submitted: everything that any process needs to run it anywhere, as one record.

Pure. Texts are kept as they were given (the template is decoded anew by every process), parameters
as texts, the submitter's variables with their values but for those whose names look like secrets:
of these only the names are kept, and the command that resumes brings the values.

Source: docs/store-format.md, "The job record"; design 11.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct, ValidationError, convert, field, to_builtins

from perdure.errors import FormatTooNew, StoreDamaged
from perdure.policy.memory_growth import MemoryGrowth
from perdure.store.layout import JobId

#: Variables whose values are never written, unless ``--env-omit`` adds to them.
SECRET_NAMES = ("*TOKEN*", "*SECRET*", "*PASSWORD*", "*KEY*")
#: perdure's own variables are made anew for each attempt.
_OWN_NAMES = "PERDURE_*"
#: What a job can be made from.
_FRONTS = frozenset({"openjd", "command"})


class Text(Struct, frozen=True, kw_only=True):
    """A document as it was given, with the name by which errors call it."""

    name: str
    text: str


class Selection(Struct, frozen=True, kw_only=True):
    """Which tasks of the job are run, as `openjd run` selects them.

    Attributes:
        step: only this step (and its dependencies, see below); None: the whole job.
        tasks: only these sets of parameter values of that step; None: all.
        maximum_tasks: at most so many tasks of that step; None: all.
        run_dependencies: whether the steps that ``step`` depends on are run before.
    """

    step: str | None = None
    tasks: tuple[Mapping[str, str], ...] | None = None
    maximum_tasks: int | None = None
    run_dependencies: bool = False


class Options(Struct, frozen=True, kw_only=True):
    """How the job is run; given at submit, kept with it.

    Attributes:
        workers: how many run side by side.
        files: the files policy: managed, shared or adopt.
        deliver: where declared files of finished tasks are delivered, or None.
        allow_roots: further folders from which files may be saved and restored.
        append: globs of files that only ever grow.
        on_conflict: stop, overwrite or keep: outside files that perdure may not replace.
        notice: ``auto``, ``none`` or a command.
        heartbeat_seconds: how often a launch moves its counter.
        preserve: keep session folders.
        log_limit_bytes: how much of a launch's output is kept.
        limits: what counts against a task: fields of `policy.counting.Limits` that differ.
        step_limits: the same by step name.
        keep_last: how many checkpoints of a lineage are kept.
        keep_age_seconds: all that are younger are kept, too; None: some an hour and a day.
        keep_size_bytes: what a lineage's checkpoints may take in all, beside those that must stay.
        max_pack_age_seconds: no new checkpoint rests on older packs; None: on any.
        hooks: commands by moment: save, resume, suspended, held, failed, succeeded.
        temporary_dir: where session folders are made; None: the system's.
        local_store: a folder of each host where saves are taken first; None: there is one tier.
        key_file: the file of the key that encrypts blocks; None: they are not encrypted.
        key_id: of that key; "" in jobs of before 2026-11-30.
        engine: what starts workers: ``local``, ``slurm`` or ``lsf``.
        slurm, lsf: sbatch's or bsub's own options.
        memory_growth: what is asked for after an end for want of memory; None: no more.
        restart_args: words that a command gets where it goes on from a checkpoint.
        restart_cmd: the line that is given there instead of the command.
        save_signal: asks a program that catches it to save and go on.
        save_every_seconds: how long after the last save it is asked; None: it never is.
        image_dir: where a step of Slurm has its checkpoint file of the old name; None: nowhere.
    """

    workers: int = 1
    files: str = "managed"
    deliver: str | None = None
    allow_roots: tuple[str, ...] = ()
    append: tuple[str, ...] = ()
    on_conflict: str = "stop"
    notice: str = "auto"
    heartbeat_seconds: float = 10.0
    preserve: bool = False
    log_limit_bytes: int = 1 << 30
    limits: Mapping[str, Any] = field(default_factory=dict)
    step_limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    keep_last: int = 3
    keep_age_seconds: int | None = None
    keep_size_bytes: int | None = None
    max_pack_age_seconds: int | None = None
    hooks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    temporary_dir: str | None = None
    key_file: str | None = None
    key_id: str = ""
    local_store: str | None = None
    engine: str = "local"
    slurm: tuple[str, ...] = ()
    lsf: tuple[str, ...] = ()
    memory_growth: MemoryGrowth | None = None
    restart_args: tuple[str, ...] = ()
    restart_cmd: tuple[str, ...] = ()
    save_signal: str = "SIGUSR2"
    save_every_seconds: int | None = None
    image_dir: str | None = None

    @property
    def engine_options(self) -> tuple[str, ...]:
        """The batch system's own options; none where the workers run on one host."""
        return {"slurm": self.slurm, "lsf": self.lsf}.get(self.engine, ())

    def retention(self) -> dict[str, Any]:
        """What is kept, as commands show it."""
        return {
            "keep_last": self.keep_last,
            "keep_age_seconds": self.keep_age_seconds,
            "keep_size_bytes": self.keep_size_bytes,
            "max_pack_age_seconds": self.max_pack_age_seconds,
        }


class JobDocument(Struct, frozen=True, kw_only=True):
    """The job record.

    Attributes:
        key: of ``--key``, or None.
        line: by what the same command line in the same folder is recognised, or None.
        command: a program and its arguments, in place of a template, which is empty then.
        template_dir, current_dir: what relative paths are relative to.
        path_mapping: a ``pathmapping-1.0`` document's rules.
        variables: the submitter's, without secrets.
        omitted: names of variables whose values were not kept.
        submitted_at: for people.
    """

    job: JobId
    name: str
    template: Text = Text(name="", text="")
    command: tuple[str, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    environments: tuple[Text, ...] = ()
    extensions: tuple[str, ...] | None = None
    template_dir: str
    current_dir: str
    path_mapping: tuple[Mapping[str, Any], ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    omitted: tuple[str, ...] = ()
    key: str | None = None
    line: str | None = None
    submitted_at: str = ""
    selection: Selection = field(default_factory=Selection)
    options: Options = field(default_factory=Options)

    def to_header(self) -> dict[str, Any]:
        """The record's header, without id and moment."""
        front = "command" if self.command else "openjd"
        return {"kind": "job", "front": front, **to_builtins(self)}


def from_header(header: Mapping[str, Any]) -> JobDocument:
    """The opposite of `JobDocument.to_header`; keys of later versions are passed over.

    Raises:
        FormatTooNew: it is of a kind that only a later version knows.
        StoreDamaged: it describes no job.
    """
    front = header.get("front", "openjd")
    if front not in _FRONTS:
        raise FormatTooNew(
            f"job {header.get('job')} is of a kind that this version does not know: {front!r}",
            hint="Use the version of perdure that submitted it.",
        )
    try:
        return convert(header, JobDocument)
    except ValidationError as error:
        raise StoreDamaged(
            f"the record of job {header.get('job')} describes no job: {error}",
            hint="Put the record back from a copy of the store.",
        ) from error


def split_variables(
    variables: Mapping[str, str], omit: tuple[str, ...] = ()
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The variables whose values are kept, and the names of the others, sorted."""
    secret = (*SECRET_NAMES, *omit)
    mine = {name: text for name, text in variables.items() if not fnmatchcase(name, _OWN_NAMES)}
    omitted = {
        name
        for name in mine
        if any(fnmatchcase(name.upper(), pattern.upper()) for pattern in secret)
    }
    kept = {name: text for name, text in mine.items() if name not in omitted}
    return kept, tuple(sorted(omitted))
