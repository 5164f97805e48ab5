"""Checkpoint files of the old names: what a small reference file says, and which names there are.

Pure. ``<job_id>.<step_id>.ckpt`` is either such a reference (the checkpoint itself is in the store)
or a self-contained export, a tar. ``<job_id>.ckpt`` says which steps the job's checkpoint is of.

Source: docs/old-slurm.md.
"""

import json
import re
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert, to_builtins

IMAGE_FORMAT = 1
#: A reference is never larger; whatever is, is an export.
LONGEST_BYTES = 1 << 16
_Image = TypeVar("_Image")
_NAME = re.compile(r"(?P<job>[0-9]+)(?:\.(?P<step>[0-9]+))?\.ckpt")


class Reference(Struct, frozen=True, kw_only=True):
    """What a step's reference says.

    Attributes:
        store: its URL.
        job, step, task: the lineage, by perdure's ids.
        sequence: of the checkpoint.
        content: its content's digest.
        command: the program and its arguments: an image of another program is refused.
        slurm: the step that it was written for, JOB.STEP.
        root: the job of Slurm that the work began in.
        call: the how-manieth step of that line in the job's script it is.
    """

    store: str
    job: str
    step: int
    task: str
    sequence: int
    content: str
    command: tuple[str, ...]
    slurm: str
    root: str
    call: int


def encode_reference(reference: Reference) -> bytes:
    """The file's bytes."""
    described: dict[str, Any] = {"perdure-image": IMAGE_FORMAT, **to_builtins(reference)}
    return json.dumps(described, indent=1).encode("utf-8") + b"\n"


def decode_reference(data: bytes) -> Reference | None:
    """What a file's bytes say; None where they are no reference, or of a later format."""
    return _decoded(data, Reference)


class BatchImage(Struct, frozen=True, kw_only=True):
    """What `scontrol checkpoint restart` needs of a batch job.

    Attributes:
        name, script: the script's file name and its text, without old options.
        arguments: the script's.
        options: of sbatch, word for word.
        folder: in which it was submitted.
        checkpoint: the interval, as `--checkpoint` has it.
        checkpoint_dir: where its steps' files are.
        root: the job of Slurm that the work began in; "" for the job itself.
        nodes: that it ran on; "" where that is not known yet.
    """

    name: str
    script: str
    arguments: tuple[str, ...]
    options: tuple[str, ...]
    folder: str
    checkpoint: str
    checkpoint_dir: str
    root: str = ""
    nodes: str = ""


def encode_batch(image: BatchImage) -> bytes:
    """The bytes of ``<job_id>.ckpt``."""
    described: dict[str, Any] = {"perdure-image": IMAGE_FORMAT, **to_builtins(image)}
    return json.dumps(described, indent=1).encode("utf-8") + b"\n"


def decode_batch(data: bytes) -> BatchImage | None:
    """What such a file says; None where it is none, or of a later format."""
    return _decoded(data, BatchImage)


def _decoded(data: bytes, kind: type[_Image]) -> _Image | None:
    try:
        described = json.loads(data)
        if described.get("perdure-image") != IMAGE_FORMAT:
            return None
        return convert(described, kind)
    except (ValueError, AttributeError, ValidationError):
        return None


def image_name(job: str, step: str | None) -> str:
    """The file's name."""
    return f"{job}.ckpt" if step is None else f"{job}.{step}.ckpt"


def split_name(name: str) -> tuple[int, int] | None:
    """Job and step of a step's file; None where it is none."""
    found = _NAME.fullmatch(name)
    if found is None or found["step"] is None:
        return None
    return int(found["job"]), int(found["step"])
