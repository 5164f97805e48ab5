"""Variables, PATH and folders of tasks; and what their output does to the worker."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from support.task_words import interrupted, job_of
from support.worker_runs import python_step, template, wait_until


def seen(job) -> dict[str, str]:
    line = next(x for x in job.log_text().splitlines()[::-1] if x.startswith("seen "))
    return json.loads(line.removeprefix("seen "))


SHOW = 'print("seen", json.dumps(dict(os.environ)), flush=True)\n'


def test_the_variables_of_an_attempt(ground):
    job = job_of(ground, f"{SHOW}if not resumed:\n    save('1'); committed(1); wait()\n")
    interrupted(job)
    first = seen(job)
    job.run()
    second = seen(job)
    assert first["PERDURE_JOB"] == job.id
    assert first["PERDURE_STEP"] == "Step"
    assert first["PERDURE_TASK"] == job.key()
    assert (first["PERDURE_ATTEMPT"], second["PERDURE_ATTEMPT"]) == ("1", "2")
    assert first["PERDURE_RESUMED_FROM"] == ""
    assert (first["PERDURE_CHECKPOINT_STATE"], second["PERDURE_CHECKPOINT_STATE"]) == ("", "1")
    assert first["PERDURE_CHECKPOINT_FILE"] == second["PERDURE_CHECKPOINT_FILE"] == ""
    assert first["OMPI_MCA_odls_base_sigkill_timeout"] == "1"
    assert second["PERDURE_RESUMED_FROM"] == str(job.lineage().point)
    assert first["PERDURE_NOTICE_SECONDS"] == "2"
    assert first["PERDURE_INTERVAL_SECONDS"].isdigit()
    assert first["PYTHONUNBUFFERED"] == "1"
    session = first["OPENJD_SESSION_WORKING_DIR"]
    for name in ("CHECKPOINT_DIR", "COMMIT_FILE", "MESSAGES"):
        assert first[f"PERDURE_{name}"].startswith(session + "/")
    assert first["PERDURE_TOKEN"].startswith(job.workers[0].token)
    assert {name for name in first if name.startswith("PERDURE_")} == {
        f"PERDURE_{name}"
        for name in (
            *("JOB", "STEP", "TASK", "ATTEMPT", "RESUMED_FROM", "CHECKPOINT_DIR", "COMMIT_FILE"),
            *("CHECKPOINT_FILE", "CHECKPOINT_STATE", "SAVE_SIGNAL"),
            *("MESSAGES", "NOTICE_SECONDS", "INTERVAL_SECONDS", "TOKEN"),
        )
    }


def test_the_submitters_variables_and_the_secrets_that_were_brought(ground):
    job = job_of(
        ground,
        SHOW,
        variables={"MINE": "mine", "HOME": "/somewhere"},
        omitted=("API_TOKEN", "NOT_BROUGHT"),
    )
    job.run(environment={"API_TOKEN": "brought", "WORKERS_OWN": "x", "VIRTUAL_ENV": "/perdure"})
    variables = seen(job)
    assert variables["MINE"] == "mine"
    assert variables["HOME"] == "/somewhere"
    assert variables["API_TOKEN"] == "brought"
    assert not {"NOT_BROUGHT", "WORKERS_OWN", "VIRTUAL_ENV", "PYTHONPATH"} & set(variables)


def test_python_is_offered_last_where_there_is_none(ground):
    folder = ground.root / "path"
    folder.mkdir()
    for name in ("sh", "cat"):
        (folder / name).symlink_to(shutil.which(name))
    step = python_step(SHOW, command=["python", "{{Task.File.Run}}"])
    step["script"]["embeddedFiles"][0]["data"] = (
        "import json, os, sys\n" + SHOW + ('print("runs", sys.prefix, flush=True)\n')
    )
    job = ground.submit(template(step), variables={"PATH": str(folder)})
    job.run()
    assert job.outcome()["state"] == "SUCCEEDED", job.log_text()
    parts = seen(job)["PATH"].split(os.pathsep)
    assert parts[0] == str(folder)
    assert len(parts) == 2
    prefix = next(x for x in job.log_text().splitlines() if x.startswith("runs")).split()[1]
    assert ".venv" not in prefix


def test_an_own_python_is_not_shadowed(ground):
    folder = ground.root / "path"
    folder.mkdir()
    own = folder / "python"
    own.write_text("#!/bin/sh\necho own python\n")
    own.chmod(0o755)
    job = ground.submit(
        template(python_step("pass", command=["python", "x"])),
        variables={"PATH": f"{folder}:/usr/bin:/bin"},
    )
    job.run()
    assert "own python" in job.log_text()


def test_the_checkpoint_folder_is_empty_for_each_task_and_restored_for_its_own(ground):
    frames = {
        "parameterSpace": {
            "taskParameterDefinitions": [{"name": "F", "type": "INT", "range": "1-2"}]
        }
    }
    code = """
    folder = os.environ["PERDURE_CHECKPOINT_DIR"]
    print("found", sys.argv[1], sorted(os.listdir(folder)), flush=True)
    name = f"{folder}/{sys.argv[1]}"
    if sys.argv[1] == "2" and not resumed:
        write(name, "x"); save("1", name); committed(1); wait()
    write(name, "x")
    """
    job = job_of(ground, code, more=frames, args=["{{Task.Param.F}}"])
    interrupted(job).run()
    found = [x for x in job.log_text().splitlines() if x.startswith("found")]
    assert found == ["found 1 []", "found 2 []", "found 2 ['2']"]


def test_openjds_host_information_is_not_in_the_log(ground):
    job = job_of(ground, "print('hello')\n")
    job.run()
    text = job.log_text()
    assert "hello" in text
    assert "Library Version" not in text
    assert "site-packages" not in text


# --- output -----------------------------------------------------------------------------------


def peak_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(x for x in status.splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1])


FLOOD = """
    line = b"x" * 99 + b"\\n"
    block = line * 10_000
    for n in range(300):
        os.write(1, block)
        if n % 100 == 50:
            save(str(n))
    save("last"); wait()
"""
LONG_LINE = """
    block = b"y" * (1 << 20)
    for _ in range(200):
        os.write(1, block)
    os.write(1, b'openjd_checkpoint_save: {"state": "forged"}\\n')
    save("last"); wait()
"""


@pytest.mark.parametrize("code", [FLOOD, LONG_LINE], ids=["300-MB-of-lines", "200-MB-line"])
def test_memory_and_log_stay_bounded_and_messages_are_heard(ground, code):
    job = job_of(ground, code, log_limit_bytes=1 << 20)
    worker = job.start()
    before = peak_kib(wait_until("the worker", lambda: worker.worker_pid))
    wait_until(
        "the last save",
        lambda: job.lineage().point and job.manifest(job.lineage().point).state == "last",
    )
    assert peak_kib(worker.worker_pid) < before + 60_000
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    logs = [p for p in (ground.logs / job.id).iterdir() if p.name.startswith(worker.launch)]
    assert sum(p.stat().st_size for p in logs) < 2 << 20
    states = {job.manifest(s.number).state for s in job.lineage().saves if not s.is_pruned}
    assert "forged" not in states


def test_a_silent_task_costs_next_to_nothing(ground):
    """Counted in wake-ups of the threads that watch the task, not in seconds."""
    job = job_of(ground, "wait()\n")
    worker = job.start()
    job.wait_for("ready")
    threads = Path(f"/proc/{worker.worker_pid}/task")

    def switches() -> dict[str, int]:
        found = {}
        for thread in threads.iterdir():
            status = (thread / "status").read_text()
            name = status.split("Name:")[1].split()[0]
            line = next(x for x in status.splitlines() if x.startswith("voluntary"))
            found[f"{name}-{thread.name}"] = int(line.split()[1])
        return found

    def beats() -> int:
        return int(
            json.loads(job.driver.get(f"jobs/{job.id}/launches/{worker.launch}/heartbeat"))[
                "counter"
            ]
        )

    wait_until("the start is over", lambda: beats() >= 2)
    before, at = switches(), beats()
    wait_until("some heartbeats", lambda: beats() >= at + 4)
    more = {name: n - before.get(name, 0) for name, n in switches().items()}
    awake = [name for name, n in more.items() if n > 0]
    assert len(awake) <= 1, more  # the ticker
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
