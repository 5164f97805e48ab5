"""A step of the old command line: a job of perdure's in front, inside the allocation.

Theory of operation. The job's command is the real srun with its own options. Which job it is, is
told by the line, the job of Slurm and the how-manieth step of that line it is: a script that was
put back runs from its beginning, and its steps go on where they were; those that were done return
at once. Another job of Slurm begins anew, unless ``--restart-dir`` names where checkpoints are.

Source: docs/old-slurm.md; docs/decisions/160.
"""

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from perdure.cli.jobs import open_job
from perdure.cli.managed import Managed
from perdure.cli.old_slurm.image_files import StepImage, find_step_image
from perdure.cli.old_slurm.offering import SIGNAL_VARIABLE, check_offers
from perdure.cli.old_slurm.old_text import OldTextError
from perdure.cli.old_slurm.options_format import Line, OldOptions, from_variables, split_line
from perdure.cli.old_slurm.real import become, run_name, slurm_folder
from perdure.cli.old_slurm.tables_format import SRUN
from perdure.cli.places import Places, places
from perdure.engines.local import LocalEngine
from perdure.engines.slurm.real_commands import real_command
from perdure.manager.job_view import JobView
from perdure.store.opening import Store
from perdure.store.records.job_document import JobDocument
from perdure.worker.processes import TOKEN_VARIABLE

#: The job of Slurm that a restarted job's work began in.
ROOT_VARIABLE = "PERDURE_SLURM_ROOT"
#: The copy of a batch script that is a step as a whole.
SCRIPT_VARIABLE = "PERDURE_SLURM_SCRIPT"
_HEARTBEAT_SECONDS = "2"
_MOST_CALLS = 100_000
#: Options by which lines of output go elsewhere, or get something before them.
_HIDING = (("output", "o"), ("label", "l"))


class _Step(Struct, frozen=True, kw_only=True):
    """A step as it was asked for.

    Attributes:
        program: the program and its arguments, by which it is known wherever it lies.
        call: the how-manieth of this line in this run of its script.
        root: the job of Slurm that its work began in.
    """

    line: Line
    program: tuple[str, ...]
    old: OldOptions
    minutes: int
    call: int
    root: str
    is_restarted: bool


def run_step(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a step in front; without an old option this process becomes the real srun.

    Blocks until the step has ended, however often it was tried. Killed, it leaves the step running
    until Slurm ends the job; where the script runs again, its steps go on.

    Raises:
        OldTextError: it cannot be run so; nothing was started.
    """
    line = split_line(words, SRUN)
    old = line.old.over(from_variables(environment, "srun"))
    if not old.is_given or not line.program:
        become("srun", [*line.own, *line.program] if line.old.is_given else words)
    if TOKEN_VARIABLE in environment:  # inside of a step that is saved as a whole
        become("srun", [*line.own, *line.program])
    minutes = old.minutes("srun")
    if "SLURM_JOB_ID" not in environment:
        raise OldTextError(
            "srun: error: --checkpoint needs an allocation: give the line in a script of sbatch,"
            " or in salloc"
        )
    if "pty" in line.values:
        raise OldTextError("srun: error: --pty and --checkpoint exclude each other")
    check_offers("srun", line.program, environment)
    _caution(line)
    root = environment.get(ROOT_VARIABLE) or environment["SLURM_JOB_ID"]
    program = _known_as(line.program, environment)
    step = _Step(
        line=line,
        program=program,
        old=old,
        minutes=minutes,
        call=_count([*line.own, "", *program], environment),
        root=root,
        is_restarted=ROOT_VARIABLE in environment,
    )
    return _run(step, environment)


def _caution(line: Line) -> None:
    """Say so where what the program prints does not come here as it prints it."""
    unseen = [f"--{long}" for long, letter in _HIDING if {long, letter} & line.values.keys()]
    if unseen:
        print(
            f"srun: {unseen[0]}: saves that the program prints are not seen so; those in the file"
            " that PERDURE_MESSAGES names are",
            file=sys.stderr,
            flush=True,
        )


def _known_as(program: tuple[str, ...], environment: Mapping[str, str]) -> tuple[str, ...]:
    """What a program is known as: a batch script that is a step as a whole lies in a home."""
    if program[0] != environment.get(SCRIPT_VARIABLE):
        return program
    digest = hashlib.sha256(Path(program[0]).read_bytes()).hexdigest()[:16]
    return (f"{Path(program[0]).name}:{digest}", *program[1:])


def _count(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """The how-manieth step of these words in this run of its script this one is."""
    described = json.dumps([str(Path.cwd()), *words])
    digest = hashlib.sha256(described.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    folder = slurm_folder("calls", run_name(environment))
    for number in range(1, _MOST_CALLS):
        try:
            (folder / f"{digest}.{number}").touch(mode=0o600, exist_ok=False)
        except FileExistsError:
            continue
        return number
    raise OldTextError(f"srun: error: this line was given {_MOST_CALLS} times in one job")


def _run(step: _Step, environment: Mapping[str, str]) -> int:
    from perdure.cli.running import Shown, go_on

    given = _given(step, environment)
    where = places(None, None)
    store = where.open(write=True, create=True)
    image = _image(step)
    engine = LocalEngine()
    folder = Path(step.old.checkpoint_dir or ".").absolute()
    os.environ["SLURM_CHECKPOINT_DIR"] = str(folder)  # the worker's, also of an older job
    try:
        managed = _found(step, given, where, store, image, engine)
        code = go_on(managed, Shown.by(given), lambda: _go_on_with(managed.view))
    finally:
        engine.close()
    return _exit_code(managed.view, code, environment)


def _given(step: _Step, environment: Mapping[str, str]) -> dict[str, Any]:
    """The options of `perdure run` that mean this step."""
    from perdure.cli.run import run

    options = ["--heartbeat-seconds", _HEARTBEAT_SECONDS, "--limit", "per_point=1"]
    if step.minutes:
        options += ["--save-every", f"{step.minutes}m"]
    if signal := environment.get(SIGNAL_VARIABLE):
        options += ["--save-signal", signal]
    command = [real_command("srun"), *step.line.own, *step.line.program]
    return dict(run.make_context("run", [*options, "--", *command]).params)


def _document(step: _Step, given: dict[str, Any]) -> JobDocument:
    from perdure.cli.job_options import caller_environment, job_document

    document = job_document(given, caller_environment())
    folder = str(Path(step.old.checkpoint_dir or ".").absolute())
    described = {
        "folder": document.current_dir,
        "command": [*step.line.own, "", *step.program],
        "slurm": {
            "program": step.program,
            "cluster": document.variables.get("SLURM_CLUSTER_NAME", ""),
            "root": step.root,
            "call": step.call,
        },
    }
    return replace(
        document,
        name=step.line.program[0],
        line=json.dumps(described, sort_keys=True),
        options=replace(document.options, image_dir=folder),
    )


def _image(step: _Step) -> StepImage | None:
    """The checkpoint file that the step is to go on from."""
    if step.old.restart_dir is None:
        return None
    root = step.root if step.is_restarted else ""
    folder = Path(step.old.restart_dir).absolute()
    return find_step_image(folder, step.program, step.call, root)


def _found(
    step: _Step,
    given: dict[str, Any],
    where: Places,
    store: Store,
    image: StepImage | None,
    engine: LocalEngine,
) -> Managed:
    """The job that the step is: of its line, of the image that it goes on from, or a new one."""
    from perdure.cli.job_options import check_places
    from perdure.clock import SystemClock, pause
    from perdure.manager.submission import submit

    if image is not None:
        managed = _of_image(where, store, image, engine)
        if managed is not None:
            return managed
    document = _document(step, given)
    check_places(document.options, where)
    submitted = submit(
        store.driver, document, SystemClock(), pause, is_same=lambda _document, _known: True
    )
    managed = open_job(where, submitted.document.job, write=True, local=engine)
    if image is not None and not managed.view.records.state.launches:
        _bring(managed.view, store, image)  # again where this was killed before anything ran
    return managed


def _of_image(where: Places, store: Store, image: StepImage, engine: LocalEngine) -> Managed | None:
    """The job that an image was made of, to go on from it; None where it has ended or is not here.

    An older checkpoint than its last becomes what it goes on from.

    Raises:
        OldTextError: somebody is at work on it.
    """
    from perdure.clock import SystemClock, pause
    from perdure.manager.branching import branch
    from perdure.manager.lineages import meant_base, read_lineage
    from perdure.manager.presence import has_live_manager
    from perdure.manager.stored_jobs import stored_job
    from perdure.manager.submission import is_settled
    from perdure.store.layout import JobId

    job = JobId(image.reference.job)
    document = stored_job(store.driver, job)
    if document is None or is_settled(store.driver, job, SystemClock(), pause):
        return None
    if has_live_manager(store.driver, job):
        raise OldTextError(
            f"srun: error: {image.path} is of work that is being done now, as step"
            f" {image.reference.slurm} (perdure's job {job}): end that first"
        )
    managed = open_job(where, job, write=True, local=engine)
    view = managed.view
    found = next(iter(view.steps.values()))
    ref = _only_task(view)
    stored = read_lineage(view, found, ref)
    save = stored.lineage.save(image.reference.sequence)
    if save is None or save.is_pruned or save.content != image.reference.content:
        return None
    if meant_base(view, stored) != save.number:
        branch(view, found, ref, save.number)
    return managed


def _bring(view: JobView, store: Store, image: StepImage) -> None:
    """Let a new job go on from the image: a copy of that checkpoint, checked, becomes its own."""
    from perdure.cli.keys import given_key, sealing_of
    from perdure.cli.old_slurm.exporting import export_step
    from perdure.manager.importing import import_checkpoint

    view.refresh()
    with tempfile.TemporaryDirectory(prefix="perdure-image-") as folder:
        path = image.path
        if not image.is_export:
            path = Path(folder) / "image"
            export_step(store, image.reference, path)
        step = next(iter(view.steps.values()))
        sealing = sealing_of(view.document)
        import_checkpoint(view, step, _only_task(view), path, sealing, given_key())


def _only_task(view: JobView) -> Any:
    from perdure.cli.naming import all_tasks

    return next(all_tasks(next(iter(view.steps.values())))).ref


def _go_on_with(view: JobView) -> None:
    """Whoever gives the line wants it to go on, whatever was suspended."""
    from perdure.cli.managed import resume_all

    if view.settled(None) is None:
        resume_all(view)


def _exit_code(view: JobView, code: int, environment: Mapping[str, str]) -> int:
    """The program's own code where it failed; a job that is to end does not return to its script.

    Blocks in the latter case until Slurm ends this process.
    """
    from perdure.cli.exits import FAILED, SUSPENDED
    from perdure.cli.old_slurm.ending import is_ending
    from perdure.engines.slurm.allocation import Allocation
    from perdure.manager.facts_reading import read_facts

    if code == SUSPENDED and is_ending(environment):
        allocation = Allocation.of(environment)
        assert allocation is not None
        allocation.wait_for_the_end(until_killed=True)
    if code != FAILED:
        return code
    facts, _ = read_facts(view)
    ends = [one.exit_code for one in facts.attempts if one.exit_code]
    return ends[-1] if ends and 0 < ends[-1] < 256 else code
