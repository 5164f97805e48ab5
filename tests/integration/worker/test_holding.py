"""Holding a task for several reasons; who its processes are."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.worker.processes import TOKEN_VARIABLE, signal_target
from perdure.worker.tree import ActionTree, Hold
from support.worker_runs import wait_until

TOKEN = "aaaabbbbccccdddd.1"


@pytest.fixture
def task():
    """A process and its child, as an action has them."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", "sleep 600 & wait"],
        start_new_session=True,
        env={"PATH": os.environ["PATH"], TOKEN_VARIABLE: TOKEN},
    )
    yield process
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def states(pids) -> set[str]:
    return {Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in pids}


def tree_of(process) -> ActionTree:
    tree = ActionTree(TOKEN, pid=lambda: process.pid)
    wait_until("the child", lambda: len(tree.find()) == 2)
    return tree


def test_it_runs_on_when_no_reason_is_left(task):
    tree = tree_of(task)
    pids = [info.pid for info in tree.find()]
    tree.hold(Hold.SAVING)
    tree.hold(Hold.OWNERSHIP)
    tree.hold(Hold.SAVING)
    wait_until("it stands", lambda: states(pids) == {"T"})
    tree.release(Hold.SAVING)
    tree.release(Hold.SAVING)
    tree.release(Hold.SAVING)  # one too many changes nothing
    assert states(pids) == {"T"}
    tree.release(Hold.OWNERSHIP)
    wait_until("it goes on", lambda: states(pids) == {"S"})


def test_a_held_tree_can_be_killed(task):
    tree = tree_of(task)
    tree.hold(Hold.OWNERSHIP)
    tree.kill()
    assert task.wait() == -signal.SIGKILL


def test_what_the_worker_started_for_itself_is_none_of_the_task(task):
    tree = tree_of(task)
    launch = TOKEN.partition(".")[0]
    own = subprocess.Popen(["sleep", "600"])
    apart = subprocess.Popen(
        ["sleep", "600"], start_new_session=True, env={**os.environ, TOKEN_VARIABLE: launch}
    )
    stranger = subprocess.Popen(["sleep", "600"], start_new_session=True, env={})
    try:
        found = {info.pid for info in tree.find()}
        assert task.pid in found
        assert stranger.pid in found  # new, of another session, without a token: it escaped
        assert not {own.pid, apart.pid} & found
    finally:
        for process in (own, apart, stranger):
            process.kill()
            process.wait()


def test_nobody_takes_a_signal_that_is_gone():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert signal_target(process.pid, signal.SIGUSR1) is None
