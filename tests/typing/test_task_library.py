"""The types of the library that programs import, as a user's mypy sees them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SNIPPETS = sorted((Path(__file__).parent / "snippets").glob("*.py"))


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda path: path.stem)
def test_mypy_agrees_with_every_line(snippet, tmp_path):
    # Not from the checkout: no settings of ours, and the package as it is installed.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", snippet],
        cwd=tmp_path,
        env={name: text for name, text in os.environ.items() if name != "MYPYPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
