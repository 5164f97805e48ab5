"""Whether the kernel killed for want of memory in this process's cgroup: the only proof there is.

The counter of kills is read before an attempt and after it; a task that died while it moved was out
of memory. Without a memory cgroup there is no proof, and a SIGKILL from outside stays what it is.

Source: cgroup-v2 ``memory.events`` (oom_kill); cgroup-v1 ``memory.oom_control`` (oom_kill).
"""

import os
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_READ_BYTES = 8192


class OomCounter:
    """The counter of kills of this process's cgroup; found once, read by one call each time.

    Args:
        membership: where it stands in which cgroup this process is.
        cgroups: where cgroups are mounted.
    """

    def __init__(
        self, membership: Path = Path("/proc/self/cgroup"), cgroups: Path = _CGROUPS
    ) -> None:
        self._descriptor: int | None = None
        for file in _candidates(membership, cgroups):
            try:
                self._descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            if self.read() is not None:
                return
            self.close()

    def read(self) -> int | None:
        """How many processes of this cgroup were killed for memory; None: not counted."""
        if self._descriptor is None:
            return None
        try:
            text = os.pread(self._descriptor, _READ_BYTES, 0)
        except OSError:
            return None
        for line in text.splitlines():
            name, _, value = line.partition(b" ")
            if name == b"oom_kill" and value.isdigit():
                return int(value)
        return None

    def close(self) -> None:
        """Let go of the file; nothing is counted afterwards."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _candidates(membership: Path, cgroups: Path) -> Iterator[Path]:
    """Files that may have the counter."""
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        below = path.lstrip("/")
        if number == "0":
            yield cgroups / below / "memory.events"
            yield cgroups / "unified" / below / "memory.events"
        elif "memory" in controllers.split(","):
            yield cgroups / "memory" / below / "memory.oom_control"


def memory_proof(before: int | None, after: int | None) -> str | None:
    """The proof, in words, or None."""
    if before is None or after is None or after <= before:
        return None
    return f"the kernel killed {after - before} process(es) of its cgroup for want of memory"
