"""docs/task.md is held to the library: its program runs, its signatures are the code's."""

import inspect
import os
import re
import sys
from pathlib import Path

import pytest

from perdure import task
from support.command_line import CommandLine

DOC = (Path(__file__).parents[3] / "docs" / "task.md").read_text(encoding="utf-8")


def template():
    """The page's job."""
    found = re.search(r"<!-- file: sum.yaml -->\n```yaml\n(.*?)```", DOC, re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.fixture
def perdure(tmp_path):
    """A command line whose tasks find a Python with the library."""
    line = CommandLine(tmp_path)
    python = str(Path(sys.executable).parent)
    line.environment["PATH"] = os.pathsep.join((python, line.environment["PATH"]))
    return line


def test_the_program_is_interrupted_and_goes_on(perdure, tmp_path):
    output = tmp_path / "output"
    output.mkdir()
    given = ("-p", "Last=60", "-p", f"Output={output}")
    perdure.suspended_at("number 20$", "run", perdure.template(template()), *given)
    perdure("resume", "last")
    assert (output / "total.txt").read_text() == f"{sum(range(61))}\n"
    assert len((output / "log.txt").read_text().splitlines()) == 60
    first, second = perdure.json("status", "last")["attempts"]
    assert (first["outcome"], second["resume_status"]) == ("SUSPENDED", "RESUMED")


@pytest.mark.parametrize("name", sorted(set(task.__all__) - {"Commit"}))
def test_each_function_is_described_with_its_parameters(name):
    heading = re.search(rf"^### `task\.{name}\((.*)\)(?: -> .*)?`$", DOC, re.MULTILINE)
    assert heading is not None
    parameters = inspect.signature(getattr(task, name)).parameters.values()
    listed = [part.split("=")[0].strip() for part in heading.group(1).split(", ") if part]
    named = [part.lstrip("*") for part in listed if part != "*"]
    assert named == [one.name for one in parameters]
    for one in parameters:
        if one.default is not inspect.Parameter.empty:
            assert f"{one.name}={one.default!r}" in heading.group(1)
