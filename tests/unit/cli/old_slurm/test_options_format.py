"""Old options are found wherever getopt finds them, and nowhere else."""

import pytest

from perdure.cli.old_slurm.old_text import OldTextError
from perdure.cli.old_slurm.options_format import (
    OldOptions,
    from_variables,
    split_line,
    split_script,
)
from perdure.cli.old_slurm.tables_format import SBATCH, SRUN

FIVE = OldOptions(checkpoint="5")


@pytest.mark.parametrize(
    ("line", "own", "old", "program"),
    [
        ("--checkpoint=5 a", "", FIVE, "a"),
        ("--checkpoint 5 a", "", FIVE, "a"),
        ("-n 2 --checkpoint=5 -N1 a b", "-n 2 -N1", FIVE, "a b"),
        ("--checkp 5", "", None, ""),
        ("--checkpoint-d d a", "", OldOptions(checkpoint_dir="d"), "a"),
        ("--checkpoint-dir=d a", "", OldOptions(checkpoint_dir="d"), "a"),
        ("--rest=r a", "", OldOptions(restart_dir="r"), "a"),
        ("--restart-dir r a --checkpoint=5", "", OldOptions(restart_dir="r"), "a --checkpoint=5"),
        ("-n2 -- --checkpoint=5", "-n2 --", OldOptions(), "--checkpoint=5"),
        ("--ch dir a", "--ch dir", OldOptions(), "a"),
        ("--job-name --checkpoint=5 a", "--job-name --checkpoint=5", OldOptions(), "a"),
        ("-J --checkpoint=5 a", "-J --checkpoint=5", OldOptions(), "a"),
        ("-vJx --checkpoint=5 a", "-vJx", FIVE, "a"),
        ("-lJ x --checkpoint=5 a", "-lJ x", FIVE, "a"),
        ("-I --checkpoint=5 a", "-I", FIVE, "a"),
        ("-K1 --checkpoint=5 a", "-K1", FIVE, "a"),
        ("--exclusive --checkpoint=5 a", "--exclusive", FIVE, "a"),
        ("--mem 4G --checkpoint=5 a", "--mem 4G", FIVE, "a"),
        ("--label --checkpoint=5 a", "--label", FIVE, "a"),
        ("--partit low --checkpoint=5 a", "--partit low", FIVE, "a"),
        ("--checkpoint=1 --checkpoint=5 a", "", FIVE, "a"),
        ("a --checkpoint=5", "", OldOptions(), "a --checkpoint=5"),
        ("", "", OldOptions(), ""),
        ("- --checkpoint=5", "", OldOptions(), "- --checkpoint=5"),
    ],
)
def test_a_line_of_srun(line, own, old, program):
    if old is None:
        with pytest.raises(OldTextError, match="is ambiguous"):
            split_line(line.split(), SRUN)
        return
    found = split_line(line.split(), SRUN)
    assert found.own == tuple(own.split())
    assert found.old == old
    assert found.program == tuple(program.split())


def test_the_words_of_a_program_are_never_split():
    assert split_line(["--checkpoint=5", "a", "x y", ""], SRUN).program == ("a", "x y", "")


def test_values_of_own_options_are_told():
    found = split_line(["--job-n=x", "--time", "5", "script"], SBATCH)
    assert found.values == {"job-name": "x", "time": "5"}
    found = split_line(["-HJx", "-D", "dir", "-h"], SBATCH)
    assert found.values == {"H": "Jx", "J": "x", "D": "dir", "h": ""}


@pytest.mark.parametrize("word", ["--checkpoint", "--checkpoint-dir", "--restart-dir"])
def test_a_value_is_needed(word):
    with pytest.raises(OldTextError) as caught:
        split_line([word], SRUN)
    assert caught.value.text.startswith(f"srun: option '{word}' requires an argument\n")


def test_sbatch_never_had_restart_dir():
    assert split_line(["--restart-dir=r", "a"], SBATCH).own == ("--restart-dir=r",)


def test_what_the_environment_says():
    variables = {"SLURM_CHECKPOINT": "5", "SLURM_CHECKPOINT_DIR": "d", "SLURM_RESTART_DIR": "r"}
    every = OldOptions(checkpoint="5", checkpoint_dir="d", restart_dir="r")
    assert from_variables(variables, "srun") == every
    assert from_variables(variables, "sbatch") == OldOptions(checkpoint="5", checkpoint_dir="d")
    assert not from_variables({"SLURM_CHECKPOINT": ""}, "srun").is_given


def test_the_line_wins_over_the_environment():
    every = OldOptions(checkpoint="1", checkpoint_dir="d")
    assert FIVE.over(every) == OldOptions(checkpoint="5", checkpoint_dir="d")


@pytest.mark.parametrize(("text", "minutes"), [("90", 90), ("1:30", 2), ("1-0", 1440)])
def test_an_interval_in_minutes(text, minutes):
    assert OldOptions(checkpoint=text).minutes("srun") == minutes
    assert OldOptions().minutes("srun") == 0


def test_what_is_no_interval_is_said():
    with pytest.raises(OldTextError, match=r"srun: error: Invalid --checkpoint.*'5m'"):
        OldOptions(checkpoint="5m").minutes("srun")


SCRIPT = """\
#!/bin/bash
#SBATCH -J name --checkpoint=5
#SBATCH --checkpoint-dir "my images"
# a comment

#SBATCH --time=5 # soon
srun a
#SBATCH --checkpoint=9
"""


def test_a_script_without_its_old_options():
    found = split_script(SCRIPT, SBATCH)
    assert found.old == OldOptions(checkpoint="5", checkpoint_dir="my images")
    assert found.directives == ("#SBATCH -J name", "#SBATCH --time=5 # soon")
    assert found.text == SCRIPT.replace(" --checkpoint=5", "").replace(
        '#SBATCH --checkpoint-dir "my images"', "#"
    )


def test_a_script_without_old_options_is_as_it_was():
    text = "#!/bin/sh\n#SBATCH 'broken\n#SBATCH -n2\nsrun --checkpoint=5 a\n"
    found = split_script(text, SBATCH)
    assert found.text == text
    assert not found.old.is_given


def test_a_later_directive_wins():
    text = "#!/bin/sh\n#SBATCH --checkpoint=1\n#SBATCH --checkpoint=2\n"
    assert split_script(text, SBATCH).old.checkpoint == "2"
