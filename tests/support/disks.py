"""Real file systems in files, where this user may mount them."""

import os
import subprocess
import threading
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


@contextmanager
def in_memory(folder: Path, size_bytes: int) -> Iterator[Path]:
    """A tmpfs of that size at ``folder/disk``: full when it is; skips where it cannot be."""
    disk = folder / "disk"
    disk.mkdir()
    options = f"size={size_bytes},mode=0700"
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no tmpfs can be mounted here: {error}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Take every byte of the disk, also what somebody gives back meanwhile; all is free behind."""
    path, end, is_full = disk / "filling", threading.Event(), threading.Event()

    def fill() -> None:
        with path.open("ab", buffering=0) as file:
            while not end.is_set():
                try:
                    file.write(bytes(4096))
                except OSError:
                    is_full.set()
                    end.wait(0.001)

    thread = threading.Thread(target=fill)
    thread.start()
    try:
        assert is_full.wait(60)
        yield
    finally:
        end.set()
        thread.join()
        path.unlink()
