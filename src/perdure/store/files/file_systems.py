"""What kind of file system a file lies on, as far as that changes what may be believed of it.

Two versions of a file may carry one stamp where its clock is coarse: on kernels before 6.13 for a
tick of up to 10 ms, on network file systems, whose attributes are cached, for seconds. Only the
local file systems that were taught finer stamps (multigrain) never do that.

Source: "multigrain timestamps" in the kernel's filesystems documentation; proc_pid_mountinfo(5).
"""

import os
import re
from contextlib import suppress
from pathlib import Path

_FINE_SINCE = (6, 13)
#: File systems with multigrain timestamps.
_FINE = frozenset({"ext4", "xfs", "btrfs", "tmpfs"})
_LOCAL = _FINE | {"ext2", "ext3", "f2fs", "zfs", "overlay", "bcachefs"}
#: File systems whose files can share their bytes.
_CLONES = frozenset({"xfs", "btrfs", "bcachefs", "overlay"})
_LOCAL_TICK_NS = 20_000_000
_COARSE_NS = 2_000_000_000


def kind_of(device: int) -> str:
    """The file system's name, like ``ext4``; "" where nobody can tell."""
    return _mounts().get(device, "")


def may_clone(device: int) -> bool:
    """Whether it is worth trying to make two files share their bytes there."""
    kind = kind_of(device)
    return kind in _CLONES or not kind


def tick_ns(device: int, release: str | None = None) -> int:
    """How long two versions of a file on that device may carry one stamp.

    Args:
        device: as `os.stat` tells it.
        release: of the kernel; None: the one that runs.
    """
    return tick_of(kind_of(device), release or os.uname().release)


def tick_of(kind: str, release: str) -> int:
    """The same by the file system's name. Pure."""
    numbers = re.match(r"(\d+)\.(\d+)", release)
    is_fine = numbers is not None and (int(numbers[1]), int(numbers[2])) >= _FINE_SINCE
    if is_fine and kind in _FINE:
        return 0
    return _LOCAL_TICK_NS if kind in _LOCAL else _COARSE_NS


def _mounts() -> dict[int, str]:
    """The kinds of mounted file systems by device, as they are now."""
    found: dict[int, str] = {}
    with suppress(OSError):
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
        for line in mounts.splitlines():
            left, _dash, right = line.partition(" - ")
            major, _colon, minor = left.split()[2].partition(":")
            found[os.makedev(int(major), int(minor))] = right.split()[0]
    return found
