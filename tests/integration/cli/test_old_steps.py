"""What of the old command line needs no Slurm."""

import socket
import struct

import pytest

from perdure.cli.old_slurm.sbatch import _without_wrap
from perdure.cli.old_slurm.step_images import tell_srun_cr


def test_srun_cr_hears_which_step_was_started(tmp_path):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        listening.settimeout(10)
        variables = {"SLURM_SRUN_CR_SOCKET": str(path), "SLURM_JOB_NODELIST": "n[1-2]"}
        tell_srun_cr(variables, "12", "3")
        there, _ = listening.accept()
        with there, there.makefile("rb") as said:
            assert said.read() == struct.pack("=IIi", 12, 3, 6) + b"n[1-2]"


def test_nobody_needs_to_hear_it(tmp_path):
    tell_srun_cr({"SLURM_SRUN_CR_SOCKET": str(tmp_path / "nobody")}, "12", "3")
    tell_srun_cr({}, "12", "3")


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (("-n2", "--wrap=srun a"), ("-n2",)),
        (("--wrap", "srun a", "-n2"), ("-n2",)),
        (("--wra", "srun a"), ()),
        (("--wckey=x", "--wait"), ("--wckey=x", "--wait")),
    ],
)
def test_the_script_in_a_word_is_left_out(words, left):
    assert _without_wrap(words) == left
