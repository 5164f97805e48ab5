"""Checkpoint files of the old names: what a small reference file says, and which names there are.

Pure. ``<job_id>.<step_id>.ckpt`` is either such a reference (the checkpoint itself is in the store)
or a self-contained export, a tar. ``<job_id>.ckpt`` says which steps the job's checkpoint is of.

Source: docs/old-slurm.md.
"""

import json
import re
from typing import Any

from msgspec import Struct, ValidationError, convert, to_builtins

IMAGE_FORMAT = 1
#: A reference is never larger; whatever is, is an export.
LONGEST_BYTES = 1 << 16
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
    """

    store: str
    job: str
    step: int
    task: str
    sequence: int
    content: str
    command: tuple[str, ...]
    slurm: str


def encode_reference(reference: Reference) -> bytes:
    """The file's bytes."""
    described: dict[str, Any] = {"perdure-image": IMAGE_FORMAT, **to_builtins(reference)}
    return json.dumps(described, indent=1).encode("utf-8") + b"\n"


def decode_reference(data: bytes) -> Reference | None:
    """What a file's bytes say; None where they are no reference, or of a later format."""
    try:
        described = json.loads(data)
        if described.get("perdure-image") != IMAGE_FORMAT:
            return None
        return convert(described, Reference)
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
