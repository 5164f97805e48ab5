"""SIGKILL at every call by which a delivery changes a folder: nobody sees half of anything."""

import subprocess
import sys
from pathlib import Path

VICTIM = Path(__file__).with_name("delivery_victim.py")


def test_a_delivery_that_is_killed_anywhere_is_ended_by_the_next_attempt(tmp_path):
    done = subprocess.run(
        [sys.executable, VICTIM, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 200
