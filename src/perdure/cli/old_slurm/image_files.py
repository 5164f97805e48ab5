"""Checkpoint files of the old names in their folder: put, read, and found for a step.

A file is written beside and renamed, so that whoever is reading the one before reads it to its end.
A reference takes the place of an earlier one of ours; anything else of that name is first renamed
(``NAME.displaced-N``): a self-contained file may be the only copy, and what is not ours is not ours
to write over.
"""

import json
import os
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, ValidationError, convert

from perdure.cli.old_slurm.image_format import (
    LONGEST_BYTES,
    BatchImage,
    Reference,
    decode_batch,
    decode_reference,
    split_name,
)
from perdure.cli.old_slurm.old_text import OldTextError
from perdure.manager.exporting import ABOUT
from perdure.store.drivers.posix_files import sync_folder

_ABOUT_LIMIT_BYTES = 1 << 20
#: The part of an export's description that is ours.
IMAGE_PART = "slurm"


class StepImage(Struct, frozen=True, kw_only=True):
    """A step's checkpoint file.

    Attributes:
        is_export: whether it is self-contained.
    """

    path: Path
    reference: Reference
    is_export: bool


def put_image(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` make a file, and give it this name.

    Args:
        path: of the file; its folder exists.
        write: makes a new file of the name that it is given, durably.

    Raises:
        OSError: it cannot be written; what was there is there.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.perdure-partial")
    temporary.unlink(missing_ok=True)
    try:
        write(temporary)
        if path.exists() and not _is_reference(path):
            _displace(path)
        temporary.replace(path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def put_bytes(path: Path, data: bytes) -> None:
    """`put_image` of these bytes."""

    def write(temporary: Path) -> None:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    put_image(path, write)


def read_step_image(path: Path) -> StepImage | None:
    """A step's file; None where it is none of ours."""
    data = _small(path)
    reference = None if data is None else decode_reference(data)
    if reference is not None:
        return StepImage(path=path, reference=reference, is_export=False)
    described = _described(path)
    return None if described is None else StepImage(path=path, reference=described, is_export=True)


def read_batch_image(path: Path) -> BatchImage | None:
    """What the file of a batch job says; None where there is none of ours."""
    data = _small(path)
    return None if data is None else decode_batch(data)


def find_step_image(folder: Path, program: Sequence[str], call: int, root: str) -> StepImage | None:
    """The newest file in a folder that a step goes on from.

    Args:
        folder: where files are.
        program: the step's program and its arguments.
        call: the how-manieth step of that line in its script it is.
        root: the job of Slurm that the script began in, where a job is restarted: then no file
            means that the step had not begun; "" for a step that is to be restarted.

    Raises:
        OldTextError: the folder has none for this program.
    """
    images = list(_images(folder))
    mine = [one for one in images if one.reference.command == tuple(program)]
    if root:
        mine = [one for one in mine if (one.reference.root, one.reference.call) == (root, call)]
    else:
        mine = [one for one in mine if one.reference.call == call] or mine
    if mine:
        return max(mine, key=lambda one: split_name(one.path.name) or (0, 0))
    if root:
        return None
    if not images:
        raise OldTextError(f"srun: error: {folder} has no checkpoint image of a step")
    other = images[-1]
    raise OldTextError(
        f"srun: error: {folder} has no checkpoint image of this program:"
        f" {other.path.name} is of {' '.join(other.reference.command)!r}"
    )


def _images(folder: Path) -> Iterator[StepImage]:
    try:
        names = sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise OldTextError(f"srun: error: {folder} cannot be read: {error.strerror}") from error
    for name in names:
        if split_name(name) is not None and (image := read_step_image(folder / name)) is not None:
            yield image


def _small(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(LONGEST_BYTES * 16)
    except OSError:
        return None


def _is_reference(path: Path) -> bool:
    data = _small(path)
    return data is not None and (decode_reference(data) or decode_batch(data)) is not None


def _described(path: Path) -> Reference | None:
    """What an export says about the step that it was made for."""
    try:
        with path.open("rb") as file, tarfile.open(fileobj=file, mode="r|") as tar:
            member = tar.next()
            if member is None or member.name != ABOUT or member.size > _ABOUT_LIMIT_BYTES:
                return None
            reader = tar.extractfile(member)
            described = json.loads(reader.read()) if reader is not None else {}
        return convert(described[IMAGE_PART], Reference)
    except (OSError, tarfile.TarError, EOFError, ValueError, KeyError, TypeError, ValidationError):
        return None


def _displace(path: Path) -> None:
    number = 1
    while (beside := path.with_name(f"{path.name}.displaced-{number}")).exists():
        number += 1
    path.rename(beside)
