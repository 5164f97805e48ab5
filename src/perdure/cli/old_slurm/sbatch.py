"""A batch job of the old command line: all steps of its script are saved.

What is submitted is a small script with the directives of the one that was given: it puts our shims
first on PATH and the old options into the variables that srun reads, and runs a copy of the script.
A script that starts no step is one step as a whole. What a restart needs is kept in the home, and
written beside the steps' files (``<job_id>.ckpt``) when the first of them is.

Source: docs/old-slurm.md; docs/decisions/161.
"""

import os
import re
import secrets
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from perdure.cli.old_slurm.image_files import put_bytes
from perdure.cli.old_slurm.image_format import BatchImage, encode_batch, image_name
from perdure.cli.old_slurm.offering import check_offers
from perdure.cli.old_slurm.old_text import OldTextError
from perdure.cli.old_slurm.options_format import (
    Line,
    OldOptions,
    from_variables,
    split_line,
    split_script,
)
from perdure.cli.old_slurm.real import become, slurm_folder
from perdure.cli.old_slurm.srun import ROOT_VARIABLE, SCRIPT_VARIABLE
from perdure.cli.old_slurm.step_images import BATCH_VARIABLE
from perdure.cli.old_slurm.tables_format import SBATCH
from perdure.cli.places import places
from perdure.cli.shims import install_shims
from perdure.engines.slurm.real_commands import real_command

_STARTS_STEPS = re.compile(r"\bsrun\b")
_JOB = re.compile(r"\b([0-9]+)\b")
_ASKING = frozenset({"help", "usage", "version", "h", "V"})


def submit_batch(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Submit a batch job; its exit code is sbatch's. Blocks for as long as sbatch does.

    Without an old option this process becomes the real sbatch.

    Raises:
        OldTextError: an old option cannot be read, or the script could save nothing.
    """
    line = split_line(words, SBATCH)
    given = line.old.over(from_variables(environment, "sbatch"))
    if _ASKING & line.values.keys():
        become("sbatch", words)
    name, text = _script(line, given)
    if text is None or not text.startswith("#!"):
        become("sbatch", [*line.own, *line.program] if line.old.is_given else words)
    found = split_script(text, SBATCH)
    old = given.over(found.old)
    if not old.is_given:
        become("sbatch", words)
    old.minutes("sbatch")
    if not _STARTS_STEPS.search(found.text):
        check_offers("sbatch", line.program or (name,), environment)
    image = BatchImage(
        name=name,
        script=found.text,
        arguments=line.program[1:],
        options=_without_wrap(line.own),
        folder=str(Path.cwd()),
        checkpoint=old.checkpoint or "0",
        checkpoint_dir=str(Path(old.checkpoint_dir or _chdir(line)).absolute()),
    )
    return submit_image(image, restart_dir=None)


def submit_image(image: BatchImage, *, restart_dir: str | None, nodes: str = "") -> int:
    """Submit the job that an image describes; its exit code is sbatch's.

    Args:
        image: what is submitted.
        restart_dir: where its steps' files are; None: they begin anew.
        nodes: that it is to run on; "" for any.
    """
    folder = slurm_folder("batch", secrets.token_hex(8))
    script = folder / image.name
    script.write_text(image.script, encoding="utf-8", errors="surrogateescape")
    script.chmod(0o700)
    record = folder / "image"
    put_bytes(record, encode_batch(image))
    front = folder / "front" / image.name  # a job is called like its script
    front.parent.mkdir()
    lines = _front(image, script, record, restart_dir)
    front.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogateescape")
    more = [f"--nodelist={nodes}"] if nodes else []
    code, job = _sbatch([*image.options, *more, str(front), *image.arguments], image.folder)
    if job:
        put_bytes(slurm_folder("jobs") / image_name(job, None), encode_batch(image))
    return code


def _script(line: Line, given: OldOptions) -> tuple[str, str | None]:
    """The script's name and text; None where sbatch itself is to say what is wrong."""
    if "wrap" in line.values:
        return "wrap", f"#!/bin/sh\n{line.values['wrap']}\n"
    if not line.program:
        # What stands on standard input is read only where it matters: it cannot be put back.
        return "sbatch", sys.stdin.read() if given.is_given else None
    try:
        data = Path(line.program[0]).read_bytes()
    except OSError:
        return line.program[0], None
    return Path(line.program[0]).name, data.decode("utf-8", errors="surrogateescape")


def _front(image: BatchImage, script: Path, record: Path, restart_dir: str | None) -> Iterator[str]:
    """What is submitted, line by line."""
    shims = slurm_folder("shims")
    install_shims(shims)
    directives = split_script(image.script, SBATCH).directives
    variables = {
        "SLURM_CHECKPOINT": image.checkpoint,
        "SLURM_CHECKPOINT_DIR": image.checkpoint_dir,
        "PERDURE_HOME": str(places(None, None).home),
        BATCH_VARIABLE: str(record),
    }
    if image.root:
        variables[ROOT_VARIABLE] = image.root
    if restart_dir is not None:
        variables["SLURM_RESTART_DIR"] = restart_dir
    is_whole = not _STARTS_STEPS.search(image.script)
    if is_whole:
        variables[SCRIPT_VARIABLE] = str(script)
    yield "#!/bin/sh"
    yield from directives
    yield from (f"export {name}={shlex.quote(text)}" for name, text in variables.items())
    yield f'export PATH={shlex.quote(str(shims))}:"$PATH"'
    as_step = "srun --nodes=1 --ntasks=1 " if is_whole else ""
    yield f'exec {as_step}{shlex.quote(str(script))} "$@"'


def _sbatch(words: Sequence[str], folder: str) -> tuple[int, str]:
    """The real sbatch; its exit code, and the job's id as it printed it."""
    try:
        process = subprocess.Popen(
            [real_command("sbatch"), *words],
            cwd=folder,
            env=dict(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise OldTextError(f"sbatch: error: it cannot be run: {error}") from error
    job = ""
    assert process.stdout is not None
    with process.stdout as said:
        for line in said:
            print(line, end="", flush=True)
            found = _JOB.search(line)
            job = job or (found[1] if found else "")
    code = process.wait()
    return (128 - code if code < 0 else code), (job if code == 0 else "")


def _chdir(line: Line) -> str:
    """Where the job runs: there its files are, unless somebody says otherwise."""
    return line.values.get("chdir") or line.values.get("D") or "."


def _without_wrap(own: Sequence[str]) -> tuple[str, ...]:
    """Sbatch's options without the script in a word: it is a file by now."""
    words = iter(own)
    kept: list[str] = []
    for word in words:
        name, equals, _ = word.partition("=")
        if len(name) > len("--w") and "--wrap".startswith(name):
            if not equals:
                next(words, None)
            continue
        kept.append(word)
    return tuple(kept)


def rooted(image: BatchImage, job: str) -> BatchImage:
    """The image of a job as what its restart submits: its steps are found by where they began."""
    return image if image.root else replace(image, root=job)
