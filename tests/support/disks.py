"""Real file systems in files, where this user may mount them."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-F", "-m", "0"],
    "xfs": ["mkfs.xfs", "-q", "-m", "reflink=1"],
}


@contextmanager
def mounted(kind: str, folder: Path, size_bytes: int) -> Iterator[Path]:
    """A file system of that kind and size at ``folder/disk``; skips where it cannot be."""
    image, disk = folder / "image", folder / "disk"
    disk.mkdir()
    with image.open("wb") as file:
        file.truncate(size_bytes)
    try:
        subprocess.run([*_MAKE[kind], image], check=True, capture_output=True)
        subprocess.run(["mount", "-o", "loop", image, disk], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no {kind} can be mounted here: {error}")
    disk.chmod(0o700)
    try:
        yield disk
    finally:
        os.sync()
        subprocess.run(["umount", "-l", disk], check=True)
        image.unlink()
