"""What is ended of a launch that noted which process leads its action, and what is spared."""

import json
import os
import subprocess
import sys

import pytest

from perdure.worker.keeper import end_launch
from perdure.worker.led_sessions import LedSession, led_processes
from perdure.worker.processes import TOKEN_VARIABLE


@pytest.fixture
def start():
    """Starts a process that leads a session, with nothing but these variables."""
    started = []

    def begin(command, **environment):
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"{command}\necho begun\nexec sleep 60"],
            env={"PATH": os.environ["PATH"], **environment},
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        process.stdout.readline()
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_its_session_is_ended_and_what_descends_from_it(start, tmp_path):
    leader = start("sleep 61 & setsid sleep 62 &")
    LedSession(tmp_path).note(leader.pid)
    assert {info.pid for info in led_processes(tmp_path)} >= {leader.pid}
    assert end_launch("t", folder=tmp_path) == 3
    assert led_processes(tmp_path) == []


def test_another_launchs_processes_are_spared(start, tmp_path):
    leader = start(":", **{TOKEN_VARIABLE: "other.1"})
    LedSession(tmp_path).note(leader.pid)
    assert end_launch("t", folder=tmp_path) == 0


@pytest.mark.parametrize("changed", [{"pid_started": 1}, {"boot": "another"}, {"pid": "nonsense"}])
def test_a_process_that_only_has_the_pid_is_spared(start, tmp_path, changed):
    leader = start(":")
    LedSession(tmp_path).note(leader.pid)
    noted = json.loads((tmp_path / ".led").read_bytes()) | changed
    (tmp_path / ".led").write_text(json.dumps(noted))
    assert end_launch("t", folder=tmp_path) == 0


def test_a_command_that_a_task_gives_does_not_end_itself(start):
    """Its parents carry the token; it is one of what descends from them."""
    code = "from perdure.worker.keeper import end_launch; print(end_launch('t'))"
    done = subprocess.run(
        ["/bin/sh", "-c", f'env -u {TOKEN_VARIABLE} {sys.executable} -c "{code}"; :'],
        env={**os.environ, TOKEN_VARIABLE: "t.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "1\n"
    assert done.returncode == -9
