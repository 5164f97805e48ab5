"""The step that passes Slurm's first word on, with a plain process in the place of a step."""

import os
import signal
import threading
from pathlib import Path

from perdure.engines.slurm.sentinel import Sentinel
from support.worker_runs import wait_until


def waits_for_signals(pid):
    """Whether the program has come as far as to read."""
    state = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    caught = next(line for line in state.splitlines() if line.startswith("SigCgt"))
    return int(caught.split()[1], 16) & (1 << (signal.SIGTERM - 1))


def test_the_word_comes_at_once_and_once():
    heard = threading.Event()
    with Sentinel(heard.set, step=()) as sentinel:
        pid = sentinel._process.pid
        wait_until("it waits", lambda: waits_for_signals(pid))
        os.kill(pid, signal.SIGTERM)
        assert heard.wait(10)
        os.kill(pid, signal.SIGTERM)
    assert sentinel._process.returncode == 0


def test_a_step_that_is_killed_was_cancelled():
    heard = threading.Event()
    with Sentinel(heard.set, step=()) as sentinel:
        pid = sentinel._process.pid
        wait_until("it waits", lambda: waits_for_signals(pid))
        os.kill(pid, signal.SIGKILL)
        assert heard.wait(10)


def test_nothing_is_said_where_nothing_happens():
    heard = threading.Event()
    with Sentinel(heard.set, step=()) as sentinel:
        pass
    assert sentinel._process.returncode == 0
    assert not heard.is_set()


def test_where_no_step_can_be_started_nothing_is_lost():
    heard = threading.Event()
    with Sentinel(heard.set, step=("/no/such/srun",)):
        pass
    assert not heard.is_set()


def test_a_step_that_fails_says_nothing():
    heard = threading.Event()
    with Sentinel(heard.set, step=("false",)):
        pass
    assert not heard.is_set()
