"""Which host this is, and which process: so that "the same host and boot" can be told.

Pids are compared only where host, boot and pid namespace are the same (containers share a host's
boot but not its pids), and always with the process's start time, because pids are used again.

Source: proc(5): /proc/sys/kernel/random/boot_id, /proc/PID/stat field 22, /proc/PID/ns/pid.
"""

import socket
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

_PROC = Path("/proc")


class HostIdentity(Struct, frozen=True, kw_only=True):
    """Where pids mean the same."""

    host: str
    boot: str
    pid_namespace: str

    def to_json(self) -> dict[str, str]:
        """As it stands in records and journals."""
        return {"host": self.host, "boot": self.boot, "pid_namespace": self.pid_namespace}


@cache
def this_host() -> HostIdentity:
    """The identity of this host, boot and pid namespace."""
    return HostIdentity(
        host=socket.gethostname(),
        boot=(_PROC / "sys/kernel/random/boot_id").read_text().strip(),
        pid_namespace=str((_PROC / "self/ns/pid").readlink()),
    )


def process_started(pid: int) -> int | None:
    """When process ``pid`` started, in clock ticks since boot; None when it is gone or a zombie."""
    try:
        _, fields = read_stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if is_over(fields) else int(fields[19])


def read_stat(pid: int) -> tuple[bytes, list[bytes]]:
    """The name of process ``pid``, and its fields in /proc/PID/stat from field 3 (its state) on.

    Raises:
        OSError: it is gone, or may not be looked at.
    """
    with open(f"{_PROC}/{pid}/stat", "rb") as file:  # noqa: PTH123 - for each process
        stat = file.read()
    opening, closing = stat.index(b"("), stat.rindex(b")")
    return stat[opening + 1 : closing], stat[closing + 2 :].split()


def is_over(fields: Sequence[bytes]) -> bool:
    """Whether the process of these fields has ended, and only its exit is yet to be collected."""
    return fields[0] in (b"Z", b"X")


def describe_process(pid: int) -> dict[str, Any]:
    """What a journal's first line and ``started`` say about the process that writes them."""
    return {**this_host().to_json(), "pid": pid, "pid_started": process_started(pid)}


def is_of_here(described: Mapping[str, Any]) -> bool:
    """Whether a process described by `describe_process` is one of this host, boot and namespace."""
    return {**described, **this_host().to_json()} == dict(described)


def is_gone(described: Mapping[str, Any]) -> bool:
    """Whether a process described by `describe_process` ran here and is no more.

    False for a process of another host, boot or pid namespace: nothing can be told about it here.
    """
    here = this_host()
    if (described.get("host"), described.get("pid_namespace")) != (here.host, here.pid_namespace):
        return False
    if described.get("boot") != here.boot:
        return True  # this host was started anew since: no process of that boot is left
    return process_started(int(described["pid"])) != described.get("pid_started")
