"""The shims: found first, and never found by themselves."""

import os
import subprocess
from pathlib import Path

import pytest

from perdure.cli.shims import COMMANDS, install_shims
from perdure.engines.slurm.real_commands import is_shim, real_command
from perdure.errors import EngineRefused, UsageError

REAL = """\
#!/bin/sh
echo "real $0 $*"
cat
exit 7
"""


@pytest.fixture
def shims(tmp_path) -> Path:
    folder = tmp_path / "shims"
    install_shims(folder)
    return folder


@pytest.fixture
def real(tmp_path) -> Path:
    folder = tmp_path / "real"
    folder.mkdir()
    for name in COMMANDS:
        (folder / name).write_text(REAL, encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_all_that_has_no_old_option_is_the_real_commands(shims, real, name):
    done = subprocess.run(
        [name, "--help", "a b"],
        env={**os.environ, "PATH": f"{shims}:{shims}:{real}:/usr/bin:/bin"},
        input="given",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 7, done.stderr
    assert done.stdout == f"real {real / name} --help a b\ngiven"


def test_without_a_real_command_behind_them_they_say_so(shims, monkeypatch):
    monkeypatch.setenv("PATH", f"{shims}:/nowhere")
    with pytest.raises(EngineRefused, match="behind perdure's shim"):
        real_command("srun")


def test_a_command_that_is_nowhere_is_left_to_whoever_starts_it(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert real_command("srun") == "srun"
    assert real_command("/a/srun") == "/a/srun"


def test_what_is_not_ours_stays(tmp_path, real):
    with pytest.raises(UsageError, match="is no shim of perdure's"):
        install_shims(real)
    assert (real / "srun").read_text(encoding="utf-8") == REAL


def test_they_are_taken_away_again(shims, shell):
    (shims / "scontrol").write_text(REAL, encoding="utf-8")
    assert is_shim(shims / "srun")
    shell("shims", "remove", str(shims), expect=0)
    assert [path.name for path in shims.iterdir()] == ["scontrol"]
