"""A worker on what looks like another host: pids and host name of its own, the same store.

Needs to be root (unshare). What runs there is invisible to it from here, and the other way round
pids mean nothing, so that a launch of the one is judged by the other by its heartbeat alone.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ulid import ULID

from perdure.store.layout import LaunchId
from perdure.worker.processes import TOKEN_VARIABLE
from support.worker_runs import PLAIN_VARIABLES, JobRun, WorkerRun

_UNSHARE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts"]
_SCRIPT = 'hostname another-host && exec "$@"'


def is_possible() -> bool:
    """Whether another host can be made here."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    done = subprocess.run([*_UNSHARE, "sh", "-c", _SCRIPT, "sh", "true"], check=False)
    return done.returncode == 0


def start_elsewhere(job: JobRun, refs: Sequence[Mapping[str, Any]]) -> WorkerRun:
    """Put an intent for these lineages into the log, and start its worker on another host."""
    ground = job.ground
    launch, token = LaunchId(str(ULID()).lower()), secrets.token_hex(16)
    intent = {"kind": "launch", "launch": launch, "token": token, "step": 1, "resources": {}}
    job.append({**intent, "tasks": list(refs), "shares": False})
    there = ground.root / "another-host"
    there.mkdir(exist_ok=True)
    out = there / f"{launch}.out"
    arguments = {
        "--store": str(ground.root / "store"),
        "--job": job.id,
        "--launch": launch,
        "--token": token,
        "--logs": str(ground.logs / job.id),
        "--sessions": str(there / "sessions"),
    }
    argv = [part for pair in arguments.items() for part in pair]
    worker = [sys.executable, "-P", "-m", "perdure.cli.work", *argv]
    with out.open("ab") as said:
        process = subprocess.Popen(
            [*_UNSHARE, "sh", "-c", _SCRIPT, "sh", *worker],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
            env={**PLAIN_VARIABLES, TOKEN_VARIABLE: token},
        )
    run = WorkerRun(launch, token, process.pid, out, process.poll)
    job.workers.append(run)
    return run


def state_of(job: JobRun) -> str:
    """Everything about the job's log, for a failed test."""
    return "\n".join(json.dumps(dict(entry.header)) for entry in job.log().entries)
