"""A real memory cgroup for a worker, where this host lets us make one (root, version 1 or 2)."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

_LIMIT_BYTES = 160 << 20


def own_memory_cgroup() -> tuple[Path, str, dict[str, str]] | None:
    """The folder of this process's memory cgroup, its files' names, and the limits to write."""
    root = Path("/sys/fs/cgroup")
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            folder = root / "memory" / path.lstrip("/")
            return folder, "cgroup.procs", {"memory.limit_in_bytes": str(_LIMIT_BYTES)}
        if number == "0" and (root / "cgroup.controllers").exists():
            folder = root / path.lstrip("/")
            limits = {"memory.max": str(_LIMIT_BYTES), "memory.swap.max": "0"}
            return folder, "cgroup.procs", limits
    return None


@contextlib.contextmanager
def memory_cgroup() -> Iterator[Path | None]:
    """The ``cgroup.procs`` of a new limited cgroup, or None where none can be made."""
    found = own_memory_cgroup()
    if found is None or os.geteuid() != 0:
        yield None
        return
    parent, procs, limits = found
    folder = parent / f"perdure-test-{secrets.token_hex(4)}"
    try:
        folder.mkdir()
        for name, value in limits.items():
            (folder / name).write_text(value)
    except OSError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        yield None
        return
    try:
        yield folder / procs
    finally:
        for _ in range(500):
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
