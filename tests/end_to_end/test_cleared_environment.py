"""A program that clears its environment carries no token; it is ended with its launch alike."""

import os
import signal
from pathlib import Path

import pytest

from support.command_line import wait_until

#: The program itself, and one that it started in a session of its own and that is still its child.
PROGRAMS = {
    "itself": "exec /usr/bin/env -i /bin/sh -c 'echo $$ >> PIDS; exec sleep 77'",
    "behind a shell": "/usr/bin/env -i setsid /bin/sh -c 'echo $$ >> PIDS; exec sleep 77'; true",
}
TEMPLATE = """\
specificationVersion: jobtemplate-2023-09
name: Cleared
steps:
- name: Work
  script: {actions: {onRun: {command: /bin/sh, args: ["-c", "%s"]}}}
"""


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()[0]
    except OSError:
        return False
    return state != b"Z"


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_is_ended_before_the_next_attempt(perdure, program):
    pids = perdure.folder / "pids"
    template = perdure.template(TEMPLATE % PROGRAMS[program].replace("PIDS", str(pids)))
    with perdure.running("run", template, "--limit", "back_off_seconds=0.05") as run:
        run.until("Output:")
        wait_until(lambda: pids.exists() and pids.read_text(), "it has not begun")
        manager = run.process.pid
        # Keeper and worker at one moment: neither ends what the other leaves.
        mine = [pid for pid in perdure.processes() if pid != manager and is_worker(pid)]
        assert len(mine) == 2
        for pid in mine:
            os.kill(pid, signal.SIGSTOP)
        for pid in mine:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: pids.read_text().count("\n") == 2, "no second attempt has begun")
        first, second = map(int, pids.read_text().split())
        assert not is_alive(first)
        perdure("cancel", "last")
        run.end(expect=76)
    assert not is_alive(second)
    perdure.wait_until_no_process()


def is_worker(pid):
    try:
        return b"perdure.cli.work" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
