"""A program of several ranks: each counts; rank 0 says what is saved.

Usage: ranks.py FOLDER MOST. Each rank writes to FOLDER/ticks: the moment, its rank, the attempt and
where it stands; so that a test sees whether two attempts were ever at work at once.
"""

import json
import os
import pathlib
import signal
import sys
import time

out, most = pathlib.Path(sys.argv[1]), int(sys.argv[2])
rank = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["SLURM_PROCID"])
attempt = os.environ["PERDURE_ATTEMPT"]
begin = int(os.environ.get("PERDURE_CHECKPOINT_STATE") or 0)
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
ticks = (out / "ticks").open("a", buffering=1)


def save(number):
    if rank == 0:
        path = pathlib.Path(os.environ["PERDURE_MESSAGES"])
        with path.open("a") as messages:  # mpirun passes nothing on
            messages.write("openjd_checkpoint_save: " + json.dumps({"state": str(number)}) + "\n")


for number in range(begin, most):
    ticks.write(f"{time.time():.3f}:{rank}:{attempt}:{number}\n")
    time.sleep(0.25)
    if asked:
        time.sleep(1)
        save(number + 1)
        sys.exit(1)
    if number % 8 == 7:
        save(number + 1)
ticks.write(f"{time.time():.3f}:{rank}:{attempt}:{most}\n")
