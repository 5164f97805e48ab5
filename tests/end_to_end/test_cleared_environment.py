"""A program that clears its environment carries no token; it is ended with its launch alike."""

import os
import signal

import pytest

from perdure.worker.host import process_started
from support.command_line import wait_until
from support.roles import role_of

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


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_is_ended_before_the_next_attempt(perdure, program):
    pids = perdure.folder / "pids"
    template = perdure.template(TEMPLATE % PROGRAMS[program].replace("PIDS", str(pids)))
    with perdure.running("run", template, "--limit", "back_off_seconds=0.05") as run:
        run.until("Output:")
        wait_until(lambda: pids.exists() and pids.read_text(), "it has not begun")
        # Keeper and worker at one moment: neither ends what the other leaves.
        mine = [pid for pid in perdure.processes() if role_of(pid) in ("keeper", "worker")]
        assert len(mine) == 2
        for pid in mine:
            os.kill(pid, signal.SIGSTOP)
        for pid in mine:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: pids.read_text().count("\n") == 2, "no second attempt has begun")
        first, second = map(int, pids.read_text().split())
        assert process_started(first) is None
        perdure("cancel", "last")
        run.end(expect=76)
    assert process_started(second) is None
    perdure.wait_until_no_process()
