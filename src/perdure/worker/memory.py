"""Whether the kernel killed for want of memory in this process's cgroup: the only proof there is.

The counter of kills is read before an attempt and after it; a task that died while it moved was out
of memory. Without a memory cgroup there is no proof, and a SIGKILL from outside stays what it is.

Source: cgroup-v2 ``memory.events`` (oom_kill); cgroup-v1 ``memory.oom_control`` (oom_kill).
"""

from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def oom_kills(membership: Path = Path("/proc/self/cgroup"), cgroups: Path = _CGROUPS) -> int | None:
    """How many processes of this cgroup were killed for memory; None where that is not counted."""
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        below = path.lstrip("/")
        if number == "0":
            files = [
                cgroups / below / "memory.events",
                cgroups / "unified" / below / "memory.events",
            ]
        elif "memory" in controllers.split(","):
            files = [cgroups / "memory" / below / "memory.oom_control"]
        else:
            continue
        for file in files:
            count = _counter(file)
            if count is not None:
                return count
    return None


def _counter(file: Path) -> int | None:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:
        return None
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.isdigit():
            return int(value)
    return None


def memory_proof(before: int | None, after: int | None) -> str | None:
    """The proof, in words, or None."""
    if before is None or after is None or after <= before:
        return None
    return f"the kernel killed {after - before} process(es) of its cgroup for want of memory"
