"""Files of the old names: what takes whose place, and which one a step goes on from."""

import io
import json
import tarfile

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from perdure.cli.old_slurm.image_files import (
    IMAGE_PART,
    find_step_image,
    put_bytes,
    put_image,
    read_step_image,
)
from perdure.cli.old_slurm.image_format import Reference, encode_reference
from perdure.cli.old_slurm.offering import check_offers
from perdure.cli.old_slurm.old_text import OldTextError
from perdure.manager.exporting import ABOUT

PROGRAM = ("./a", "x")
ONE = Reference(
    store="/s",
    job="01j",
    step=1,
    task="ab",
    sequence=7,
    content="c0",
    command=PROGRAM,
    slurm="12.0",
    root="12",
    call=1,
)


def _export(path, reference) -> None:
    about = json.dumps({IMAGE_PART: to_builtins(reference)}).encode()
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo(ABOUT)
        info.size = len(about)
        tar.addfile(info, io.BytesIO(about))


def test_a_reference_takes_the_place_of_a_reference(tmp_path):
    path = tmp_path / "12.0.ckpt"
    put_bytes(path, encode_reference(ONE))
    reader = path.open("rb")
    put_bytes(path, encode_reference(replace(ONE, sequence=8)))
    assert read_step_image(path).reference.sequence == 8
    assert [one.name for one in tmp_path.iterdir()] == ["12.0.ckpt"]
    with reader:  # who is restoring reads the one before to its end
        assert reader.read() == encode_reference(ONE)


@pytest.mark.parametrize("is_ours", [True, False])
def test_what_is_no_reference_is_renamed_first(tmp_path, is_ours):
    path = tmp_path / "12.0.ckpt"
    if is_ours:
        _export(path, ONE)
    else:
        path.write_bytes(b"somebody's")
    before = path.read_bytes()
    for number in (1, 2):
        put_bytes(path, encode_reference(ONE))
        assert (tmp_path / "12.0.ckpt.displaced-1").read_bytes() == before, number
    assert read_step_image(path).reference == ONE


def test_a_file_that_could_not_be_made_changes_nothing(tmp_path):
    path = tmp_path / "12.0.ckpt"
    put_bytes(path, encode_reference(ONE))

    def fail(temporary):
        temporary.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        put_image(path, fail)
    assert path.read_bytes() == encode_reference(ONE)
    assert [one.name for one in tmp_path.iterdir()] == ["12.0.ckpt"]


def test_the_newest_file_of_this_program_is_found(tmp_path):
    for job, step in ((9, 3), (12, 0), (100, 0)):
        name = f"{job}.{step}"
        put_bytes(tmp_path / f"{name}.ckpt", encode_reference(replace(ONE, slurm=name)))
    other = replace(ONE, command=("./b",))
    put_bytes(tmp_path / "200.0.ckpt", encode_reference(other))
    (tmp_path / "300.0.ckpt").write_bytes(b"somebody's")
    found = find_step_image(tmp_path, PROGRAM, 1, "")
    assert found.reference.slurm == "100.0"
    assert not found.is_export


def test_an_export_is_found_too(tmp_path):
    _export(tmp_path / "12.0.ckpt", ONE)
    assert find_step_image(tmp_path, PROGRAM, 1, "").is_export


def test_the_same_step_of_a_script_comes_first(tmp_path):
    put_bytes(tmp_path / "12.0.ckpt", encode_reference(ONE))
    put_bytes(tmp_path / "12.2.ckpt", encode_reference(replace(ONE, slurm="12.2", call=2)))
    assert find_step_image(tmp_path, PROGRAM, 1, "").reference.slurm == "12.0"
    assert find_step_image(tmp_path, PROGRAM, 2, "").reference.slurm == "12.2"


def test_a_restarted_job_takes_only_its_own(tmp_path):
    put_bytes(tmp_path / "12.0.ckpt", encode_reference(ONE))
    assert find_step_image(tmp_path, PROGRAM, 1, "12") is not None
    assert find_step_image(tmp_path, PROGRAM, 2, "12") is None
    assert find_step_image(tmp_path, PROGRAM, 1, "13") is None


def test_no_file_for_this_program_is_said(tmp_path):
    with pytest.raises(OldTextError, match="cannot be read"):
        find_step_image(tmp_path / "none", PROGRAM, 1, "")
    with pytest.raises(OldTextError, match="has no checkpoint image of a step"):
        find_step_image(tmp_path, PROGRAM, 1, "")
    put_bytes(tmp_path / "12.0.ckpt", encode_reference(ONE))
    with pytest.raises(OldTextError, match=r"12\.0\.ckpt is of '\./a x'"):
        find_step_image(tmp_path, ("./b",), 1, "")


def test_which_programs_offer_a_checkpoint(tmp_path):
    saving, silent, empty = (tmp_path / name for name in ("saving", "silent", "empty"))
    saving.write_bytes(b"\x7fELF\0" * 1000 + b"openjd_checkpoint_save: %s\0")
    silent.write_bytes(b"#!/bin/sh\nsleep 1\n")
    empty.touch()
    check_offers("srun", [str(saving)], {})
    check_offers("srun", [str(silent), "-x", str(saving)], {})
    check_offers("srun", [str(silent)], {"PERDURE_SAVE_SIGNAL": "USR2"})
    for program in ([str(silent)], [str(empty)], ["/none"], [str(tmp_path)], ["sleep", "1"]):
        with pytest.raises(OldTextError, match="offers no checkpoint"):
            check_offers("srun", program, {"PATH": "/usr/bin:/bin"})
