"""What the probe of `perdure doctor --engine slurm` does on a node.

``python -m perdure.cli.node_probe`` looks whether the home, the store and Slurm's commands are
there, writes a checkpoint, and puts what it saw into a report beside its script. It raises nothing
that it could report instead.
"""

import argparse
import json
import os
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import Any

import perdure

REPORT = "report.json"


def main() -> int:
    """Look, and write the report."""
    options = _parser().parse_args()
    report: dict[str, Any] = {
        "host": socket.gethostname(),
        "node": os.environ.get("SLURMD_NODENAME", ""),
        "python": sys.executable,
        "perdure": perdure.__version__,
        "commands": [name for name in ("sbatch", "scontrol", "squeue") if shutil.which(name)],
        "submit": _submit(),
        **_store(options.store, options.job),
        "at": time.time(),
    }
    folder = Path(options.folder)
    unfinished = folder / f"{REPORT}.part"
    unfinished.write_text(json.dumps(report), encoding="utf-8")
    unfinished.rename(folder / REPORT)
    return 0


def _submit() -> str:
    """Why a job may not be submitted from here; "" where it may. Nothing is submitted."""
    from perdure.engines.slurm.commands import slurm
    from perdure.errors import EngineError

    try:
        slurm(["sbatch", "--test-only", "--time=1", "--wrap", "true"])
    except EngineError as error:
        return error.message
    return ""


def _store(url: str, job: str) -> dict[str, str]:
    """Write the checkpoint; its content id, or what went wrong."""
    from perdure.clock import SystemClock, pause
    from perdure.errors import PerdureError
    from perdure.manager.probe_checkpoint import PROBE_BYTES, Probe
    from perdure.store.layout import JobId
    from perdure.store.opening import open_store

    try:
        store = open_store(url, write=True)
        probe = Probe(driver=store.driver, job=JobId(job), clock=SystemClock(), pause=pause)
        content = probe.write(os.urandom(PROBE_BYTES))
    except (PerdureError, OSError) as error:
        return {"store_error": str(error)}
    return {"store_id": store.store_id, "content": content}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="perdure-node-probe")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--job", required=True)
    return parser


if __name__ == "__main__":
    sys.exit(main())
