"""The configuration file, as commands read it."""

import pytest

TEMPLATE = """
specificationVersion: jobtemplate-2023-09
name: Good
steps:
- {name: Only, script: {actions: {onRun: {command: 'true'}}}}
"""
#: Notes what it was asked, and takes nothing.
SBATCH = """#!/bin/sh
echo "$@" >>"$ASKED"
echo "sbatch: error: not today" >&2
exit 1
"""


@pytest.fixture
def configured(shell, tmp_path):
    """A shell with a configuration folder of its own, and an sbatch that notes its options."""
    folder = tmp_path / "config" / "perdure"
    folder.mkdir(parents=True)
    shell.config = folder / "config.toml"
    shell.asked = tmp_path / "asked"
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("sbatch", "squeue", "scontrol", "scancel"):
        (commands / name).write_text(SBATCH, encoding="utf-8")
        (commands / name).chmod(0o755)
    shell.environment |= {
        "XDG_CONFIG_HOME": str(folder.parent),
        "ASKED": str(shell.asked),
        "PATH": f"{commands}:{shell.environment['PATH']}",
    }
    shell.environment.pop("SLURM_JOB_ID", None)
    shell.job = shell.template(TEMPLATE)
    return shell


def write(shell, text):
    shell.config.write_text(text, encoding="utf-8")


def test_the_command_line_comes_last_and_wins(configured):
    write(configured, '[defaults]\nengine = "slurm"\n[slurm]\noptions = ["-p", "long"]\n')
    done = configured("submit", configured.job, "--slurm", "-p short", expect=4)
    assert "not today" in done.stderr
    assert "-p long -p short" in configured.asked.read_text(encoding="utf-8")


def test_another_engine_on_the_command_line(configured):
    write(configured, '[defaults]\nengine = "slurm"\nworkers = 3\n[slurm]\noptions = "-p long"\n')
    done = configured("run", configured.job, "--engine", "local")
    assert "State: SUCCEEDED" in done.stdout
    assert not configured.asked.exists()
    assert configured.json("status", "last")["engine"]["options"] == []


def test_in_a_job_of_slurm_the_default_is_that_job(configured):
    write(configured, '[defaults]\nengine = "slurm"\n')
    configured.environment["SLURM_JOB_ID"] = "7"
    assert "State: SUCCEEDED" in configured("run", configured.job).stdout


@pytest.mark.parametrize("command", ["run", "submit"])
def test_what_is_wrong_is_said_with_file_and_line_and_nothing_is_done(configured, command):
    write(configured, '[defaults]\nengine = "lsf"\n')
    done = configured(command, configured.job, expect=2)
    assert f"{configured.config}, line 2: engine is one of local, slurm, not 'lsf'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not configured.home.exists()


def test_a_file_that_is_named_has_to_be_there(configured, tmp_path):
    configured.environment["PERDURE_CONFIG"] = str(tmp_path / "nowhere")
    done = configured("run", configured.job, expect=2)
    assert "nowhere, which PERDURE_CONFIG names, is not there" in done.stderr


def test_commands_that_do_not_need_it_do_not_read_it(configured):
    write(configured, "[defaults\n")
    configured("--help")
    configured("status")
    configured("run", "--help")
