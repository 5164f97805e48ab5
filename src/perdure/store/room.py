"""How much may still be written to a folder: free room, and what quotas leave of it.

Source: statvfs(3); quotactl_fd(2), since Linux 5.14; where that is missing quotas are not seen.
"""

import ctypes
import os
import struct
from contextlib import suppress
from pathlib import Path

from perdure.store.drivers.driver import Driver
from perdure.store.layout import FORMAT_KEY

_QUOTACTL_FD = 443  # the same number on all architectures
_Q_GETQUOTA = 0x800007
_USER, _GROUP = 0, 1
#: Hard and soft limit in KiB, used bytes, the same of inodes, two times, what is valid.
_QUOTA = struct.Struct("=QQQQQQQQI4x")


def free_bytes(folder: Path, *, user: int | None = None, group: int | None = None) -> int:
    """How many bytes this user may still write there.

    Args:
        folder: that exists.
        user: whose quota counts; None: this process's.
        group: the same.

    Raises:
        OSError: the folder cannot be looked at.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = os.fstatvfs(fd)
        free = found.f_bavail * found.f_frsize
        quotas = (
            _left(fd, _USER, os.geteuid() if user is None else user),
            _left(fd, _GROUP, os.getegid() if group is None else group),
        )
    finally:
        os.close(fd)
    return min([free, *(left for left in quotas if left is not None)])


def free_in(driver: Driver) -> int | None:
    """The same of a store's folder; None where it has none, or nobody can tell."""
    path = driver.local_path(FORMAT_KEY)
    with suppress(OSError):
        return None if path is None else free_bytes(path.parent)
    return None


def _left(fd: int, kind: int, number: int) -> int | None:
    """What a quota leaves; None where there is none, or it cannot be seen."""
    quota = ctypes.create_string_buffer(_QUOTA.size)
    if _get_quota(fd, _Q_GETQUOTA << 8 | kind, number, quota) != 0:
        return None
    hard, _soft, used, *_rest = _QUOTA.unpack(quota.raw)
    return max(hard * 1024 - used, 0) if hard else None


def _get_quota(fd: int, command: int, number: int, quota: "ctypes.Array[ctypes.c_char]") -> int:
    """The system call; 0 where it filled ``quota``."""
    with suppress(AttributeError):
        call = ctypes.CDLL(None, use_errno=True).syscall
        answer: int = call(_QUOTACTL_FD, fd, ctypes.c_uint(command), ctypes.c_int(number), quota)
        return answer
    return -1
