import pytest

from support.command_line import CommandLine


@pytest.fixture
def perdure(tmp_path):
    command_line = CommandLine(tmp_path)
    yield command_line
    command_line.kill_all()
