"""What tasks start is ended with them, whatever they do to escape; and what dead workers left."""

import os
import signal
import stat
from pathlib import Path

import pytest

from perdure.worker.processes import carrying
from support.task_words import job_of
from support.worker_runs import wait_until

DAEMON = """
    import subprocess
    how = {how!r}
    code = "import os, time; open({mark!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    python = sys.executable
    if how == "child":
        subprocess.Popen([python, "-c", code])
    elif how == "setsid":
        subprocess.Popen([python, "-c", code], start_new_session=True)
    elif how == "clean":
        subprocess.Popen([python, "-c", code], start_new_session=True, env={{}}, cwd="/")
    else:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.chdir("/")
                if how == "double":
                    os.execv(python, [python, "-c", code])
                os.execve(python, [python, "-c", code], {{}})
            os._exit(0)
        os.wait()
    while not (os.path.exists({mark!r}) and open({mark!r}).read()):
        time.sleep(0.005)
"""
ESCAPES = ["child", "setsid", "clean", "double", "double-clean"]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


@pytest.mark.parametrize("end", ["exits", "suspended", "killed"])
@pytest.mark.parametrize("how", ESCAPES)
def test_nothing_that_a_task_started_outlives_it(ground, how, end):
    mark = str(ground.work / "daemon")
    code = DAEMON.format(how=how, mark=mark) + ("\n    wait()\n" if end != "exits" else "")
    job = job_of(ground, code, notice_seconds=1)
    worker = job.start()
    if end != "exits":
        job.wait_for("ready")
        if end == "suspended":
            worker.signal(signal.SIGTERM)
        else:
            job.cancel()
    assert worker.wait() == 0
    assert not is_alive(int(Path(mark).read_text()))
    state = {"exits": "SUCCEEDED", "suspended": "SUSPENDED", "killed": "CANCELED"}[end]
    assert job.outcome()["state"] == state


@pytest.mark.parametrize("how", ESCAPES)
def test_a_worker_that_is_killed_takes_everything_with_it(ground, how):
    mark = str(ground.work / "daemon")
    job = job_of(ground, DAEMON.format(how=how, mark=mark) + "\n    wait()\n")
    worker = job.start()
    job.wait_for("ready")
    os.kill(worker.worker_pid, signal.SIGKILL)
    assert worker.wait() == 128 + signal.SIGKILL
    assert not is_alive(int(Path(mark).read_text()))


def test_a_worker_goes_on_without_its_keeper(ground):
    code = """
    print("ready", flush=True)
    while not os.path.exists(os.environ["GO"]):
        time.sleep(0.01)
    """
    go = ground.work / "go"
    job = job_of(ground, code, variables={"GO": str(go)})
    worker = job.start()
    job.wait_for("ready")
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    go.touch()
    wait_until("its outcome", lambda: job.attempts()[-1].outcome)
    assert job.outcome()["state"] == "SUCCEEDED"


def test_the_next_launch_ends_and_removes_what_a_dead_one_left(ground):
    code = """
    if resumed:
        sys.exit()
    write("big", "x" * 1000); save("1"); committed(1)
    while True:
        print("alive", flush=True); time.sleep(0.05)
    """
    job = job_of(ground, code)
    worker = job.start()
    wait_until("a checkpoint", lambda: job.lineage().point)
    keeper, child = worker.pid, worker.worker_pid
    os.kill(keeper, signal.SIGSTOP)  # so that it cannot end the task
    os.kill(child, signal.SIGKILL)
    os.kill(keeper, signal.SIGKILL)
    worker.wait()
    assert carrying(lambda token: token.startswith(worker.token))
    assert list((ground.sessions / worker.launch).iterdir())
    job.run()
    assert job.outcome()["state"] == "SUCCEEDED"
    assert not carrying(lambda token: token.startswith(worker.token))
    assert not (ground.sessions / worker.launch).exists()


def test_session_folders_are_kept_where_that_was_asked(ground):
    job = job_of(ground, "write('mine', 'kept')\n", preserve=True)
    job.run()
    assert [p.read_text() for p in ground.sessions.glob("*/*/mine")] == ["kept"]
    plain = job_of(ground, "write('mine', 'gone')\n")
    plain.run()
    assert len(list(ground.sessions.glob("*/*/mine"))) == 1


#: So that the session lasts longer than the command.
SLOW_EXIT = {
    "name": "Slow",
    "script": {"actions": {"onExit": {"command": "sleep", "args": ["3"]}}},
}


def test_a_command_of_the_workers_own_is_no_process_of_a_task(ground):
    """The one that asks for the host's notices runs while a task ends."""
    runs = ground.work / "asked"
    command = f"echo begun >> {runs}; sleep 2; echo done >> {runs}"
    code = f"while not os.path.exists({str(runs)!r}):\n    time.sleep(0.01)\n"
    step = {"more": {"stepEnvironments": [SLOW_EXIT]}}
    job = job_of(ground, code, notice=command, **step)
    worker = job.start()
    assert worker.wait() == 0
    assert job.outcome()["state"] == "SUCCEEDED"
    assert "done" in runs.read_text()  # it was not killed with the task


def test_folders_are_for_their_owner_only(ground):
    job = job_of(ground, "wait()\n", notice_seconds=1)
    worker = job.start()
    job.wait_for("ready")
    for folder in (ground.sessions / worker.launch, ground.logs / job.id):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
