"""A real program, suspended by a real signal at any moment, loses nothing."""

import signal
import subprocess
import sys

import pytest

from perdure.protocol import CheckpointSave, LineSplitter, decode

PROGRAM = """
import sys
from perdure import task

n = m = int(sys.argv[1])

def save():
    assert n == m, "a save between two halves of a step"
    task.save(state=str(n))

with task.Checkpointer(save, interval_seconds=1e9) as checkpointer:
    while True:
        checkpointer.safe_point()
        n += 1
        m += 1
        if n % 1000 == 0:
            print("step", n)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_suspended_program_goes_on_where_it_saved(number):
    state, steps = "0", []
    for _ in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, state],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # what a buffer read ahead, communicate would not see
        )
        output = child.stdout.readline()  # it runs, and its handler is there
        child.send_signal(number)
        rest, errors = child.communicate(timeout=60)
        assert (child.returncode, errors) == (75, b"")
        lines = [line.data for line in LineSplitter().feed(output + rest)]
        steps += [int(line.split()[1]) for line in lines if line.startswith(b"step")]
        saves = [read for read in map(decode, lines) if isinstance(read, CheckpointSave)]
        assert len(saves) == 1
        assert decode(lines[-1]) == saves[0]
        state = saves[0].state
    assert steps == [1000 * (n + 1) for n in range(len(steps))]
    assert len(steps) >= 4
