"""Suspended, killed and resumed by hand: the specification's example, and who gets the signal."""

import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.worker_runs import python_step, template, wait_until

EXAMPLES = Path(__file__).parents[3] / "examples"
FIBONACCI = (EXAMPLES / "fibonacci.yaml").read_text()


def numbers(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("Fibonacci", "Final"))]


def test_the_fibonacci_job_goes_on_where_it_was_suspended(ground):
    job = ground.submit(FIBONACCI, parameters={"N": "2"})
    job.start()
    job.wait_for("Fibonacci number 0 is 0")
    job.suspend()
    worker = job.workers[-1]
    assert worker.wait() == 0
    outcome = job.outcome()
    assert (outcome["state"], outcome["by"], outcome["exit_code"]) == ("SUSPENDED", "user", 1)
    assert outcome["reason"].startswith("saved ")
    job.resume()
    job.run()
    assert job.outcome()["state"] == "SUCCEEDED"
    assert job.outcome()["resume_status"] == "RESUMED"
    assert numbers(job.log_text()) == [
        "Fibonacci number 0 is 0",
        "Fibonacci number 1 is 1",
        "Final answer: Fibonacci number 2 is 1",
    ]


def test_the_fibonacci_job_goes_on_after_everything_was_killed(ground):
    """Numbers since the last save may repeat; nothing else does."""
    fast = FIBONACCI.replace("time.sleep(5)", "time.sleep(0.1)")
    fast = fast.replace("interval * 60", "interval / 50")
    job = ground.submit(fast, parameters={"N": "12"})
    worker = job.start()
    wait_until("a checkpoint", lambda: job.lineage().point)
    job.wait_for("Fibonacci number 5 is")
    for pid in (worker.pid, worker.worker_pid):
        os.kill(pid, signal.SIGKILL)
    assert worker.wait() == -9
    job.run()
    outcome = job.outcome()
    assert outcome["state"] == "SUCCEEDED"
    assert outcome["resume_status"] == "RESUMED"
    said = numbers(job.text(job.workers[-1]))
    assert said[-1] == "Final answer: Fibonacci number 12 is 144"
    assert said[0] != "Fibonacci number 0 is 0"
    everything = numbers(job.log_text())
    for n in range(12):
        assert any(line.startswith(f"Fibonacci number {n} is") for line in everything)


SAVING = """
    import os, signal, sys, time
    def save(*_):
        os.write(1, b'openjd_checkpoint_save: {"state": "saved"}\\n')  # whole, also beside others
        os._exit(9)
    late = float(sys.argv[1])
    if late:
        print("ready", flush=True)
        time.sleep(late)
    signal.signal(signal.SIGUSR1, save)
    print("ready", flush=True)
    while True:
        time.sleep(60)
"""
IGNORING = """
    import signal, time
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    print("ready", flush=True)
    time.sleep(60)
"""
DEFENCELESS = """
    import time
    print("ready", flush=True)
    time.sleep(60)
"""
FORWARD = "trap 'kill -USR1 $p' USR1; {} & p=$!; wait $p; wait $p; exit 4"
PYTHON = "python3 {{Task.File.Run}} 0"


@pytest.mark.parametrize(
    ("code", "command", "period", "reason", "exit_code", "note"),
    [
        (SAVING, ["python3", "{{Task.File.Run}}", "0"], 20, "saved", 9, "sent to python3"),
        (SAVING, ["bash", "-c", f"exec {PYTHON}"], 20, "saved", 9, "sent to python3"),
        (SAVING, ["bash", "-c", f"{PYTHON}; exit 5"], 20, "saved", 5, "behind bash"),
        (SAVING, ["bash", "-c", f"({PYTHON}; true); exit 5"], 20, "saved", 5, "behind bash"),
        (SAVING, ["bash", "-c", FORWARD.format(PYTHON)], 20, "saved", 4, "sent to bash"),
        (SAVING, ["python3", "{{Task.File.Run}}", "1"], 60, "saved", 9, "sent to python3"),
        (
            SAVING,
            ["bash", "-c", f"{PYTHON} & {PYTHON}; wait; exit 6"],
            20,
            "saved",
            6,
            " and python3",
        ),
        (
            IGNORING,
            ["python3", "{{Task.File.Run}}"],
            1,
            "no process of the task",
            -9,
            "does not catch",
        ),
        (
            DEFENCELESS,
            ["python3", "{{Task.File.Run}}"],
            2,
            "no process of the task",
            -10,
            "does not catch",
        ),
        (
            IGNORING,
            ["bash", "-c", "python3 {{Task.File.Run}}; exit 5"],
            1,
            "no process",
            -10,
            "does not",
        ),
    ],
    ids=[
        "direct",
        "exec",
        "behind-bash",
        "behind-two",
        "trap-forwards",
        "handler-late",
        "two-equally-near",
        "ignores",
        "dies-early",
        "bash-dies-child-ignores",
    ],
)
def test_who_gets_the_signal(ground, code, command, period, reason, exit_code, note):
    job = ground.submit(template(python_step(code, notice_seconds=period, command=command)))
    worker = job.start()
    job.wait_for("ready")
    if "and python3" in note:
        wait_until("both", lambda: job.log_text().count("ready") == 2)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.said()
    outcome = job.outcome()
    assert (outcome["state"], outcome["by"]) == ("SUSPENDED", "host"), outcome
    assert reason in outcome["reason"]
    assert outcome["exit_code"] == exit_code
    assert any(note in text for text in job.notes()), job.notes()
    if reason == "saved":
        assert job.manifest(job.lineage().point).state == "saved"


CANCEL_INFO = """
    import json, os, signal, time
    def tell(*_):
        print("info", open("cancel_info.json").read(), flush=True)
        os._exit(1)
    signal.signal(signal.SIGUSR1, tell)
    print("ready", flush=True)
    time.sleep(60)
"""


def told_end(job) -> datetime:
    line = next(line for line in job.log_text().splitlines() if line.startswith("info"))
    end = json.loads(line.removeprefix("info "))["NotifyEnd"]
    return datetime.strptime(end, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def test_cancel_info_tells_the_end_of_the_notice(ground):
    job = ground.submit(template(python_step(CANCEL_INFO, notice_seconds=100)))
    worker = job.start()
    job.wait_for("ready")
    before = datetime.now(UTC)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    after = datetime.now(UTC)
    period = timedelta(seconds=100)
    assert before + period - timedelta(seconds=1) <= told_end(job) <= after + period


def test_a_deadline_shortens_the_notice_so_that_the_commit_fits(ground):
    said = ground.root / "notice"
    said.write_text("")
    step = python_step(CANCEL_INFO, notice_seconds=100)
    job = ground.submit(template(step), notice=f"cat {said}")
    job.start()
    job.wait_for("ready")
    deadline = datetime.now(UTC) + timedelta(seconds=40)
    said.write_text(f"terminate {deadline.isoformat()}\n")
    worker = job.workers[-1]
    assert worker.wait() == 0
    assert told_end(job) <= deadline - timedelta(seconds=5)
    assert job.outcome()["by"] == "host"
    assert "the host gave notice: terminate" in job.log_text()


def test_a_second_interrupt_ends_it_at_once_at_the_last_checkpoint(ground):
    code = """
        import signal, time
        signal.signal(signal.SIGUSR1, lambda *_: print("heard", flush=True))
        print('openjd_checkpoint_save: {"state": "first"}', flush=True)
        print("ready", flush=True)
        while True:
            time.sleep(60)
    """
    job = ground.submit(template(python_step(code, notice_seconds=500)))
    worker = job.start()
    job.wait_for("ready")
    worker.signal(signal.SIGINT)
    job.wait_for("heard")
    worker.signal(signal.SIGINT)
    assert worker.wait() == 0
    outcome = job.outcome()
    assert (outcome["state"], outcome["by"]) == ("SUSPENDED", "user")
    assert job.manifest(job.lineage().point).state == "first"


def test_cancel_after_suspend_is_a_cancel(ground):
    code = """
        import signal, time
        signal.signal(signal.SIGUSR1, lambda *_: print("heard", flush=True))
        print("ready", flush=True)
        while True:
            time.sleep(60)
    """
    job = ground.submit(template(python_step(code, notice_seconds=500)))
    worker = job.start()
    job.wait_for("ready")
    job.suspend()
    job.wait_for("heard")
    job.cancel()
    assert worker.wait() == 0
    assert job.outcome()["state"] == "CANCELED"


def test_without_checkpoint_cancelation_it_is_suspended_by_terminate(ground):
    """And goes on from the last save."""
    code = """
        import sys, time
        if len(sys.argv) > 1:
            print("state", sys.argv[1]); sys.exit(0)
        print('openjd_checkpoint_save: {"state": "kept"}', flush=True)
        print("ready", flush=True)
        time.sleep(60)
    """
    job = ground.submit(template(python_step(code, notice_seconds=None)))
    worker = job.start()
    job.wait_for("ready")
    job.suspend()
    assert worker.wait() == 0
    outcome = job.outcome()
    assert (outcome["state"], outcome["exit_code"]) == ("SUSPENDED", -9)
    job.resume()
    job.run()
    assert "state kept" in job.log_text()
    assert job.outcome()["state"] == "SUCCEEDED"
    assert job.outcome()["resume_status"] == "unknown"


def test_a_step_that_cannot_resume_begins_again(ground):
    code = """
        import os, signal, time
        signal.signal(signal.SIGUSR1, lambda *_: os._exit(1))
        print('openjd_checkpoint_save: {"state": "x"}', flush=True)
        if os.path.exists(os.environ["MARK"]):
            raise SystemExit(0)
        open(os.environ["MARK"], "w").close()
        print("ready", flush=True)
        time.sleep(60)
    """
    mark = str(ground.work / "mark")
    job = ground.submit(template(python_step(code, resume=False)), variables={"MARK": mark})
    worker = job.start()
    job.wait_for("ready")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert job.outcome()["state"] == "SUSPENDED"
    job.run()
    attempts = job.attempts()
    assert [a.begun["action"] for a in attempts] == ["onRun", "onRun"]
    assert job.outcome()["state"] == "SUCCEEDED"
