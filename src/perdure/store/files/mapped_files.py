"""Files that a process may change through memory: such a change may move no time of the file.

A store through a shared, writable map into a page that is dirty already moves neither mtime nor
ctime until the page has been written back. So a file that a process of the task maps so is written
back first (fsync): from then on the next store is seen. Its bytes are never taken over by stamp.

On file systems in memory (tmpfs) nothing is written back, and such stores are never seen: a mapped
file there is read twice, and taken if both readings are equal.

Source: msync(2); proc_pid_maps(5); design, "Never torn".
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def mapped_inodes(pids: Iterable[int]) -> frozenset[int]:
    """The inodes of files that these processes map shared and writable.

    By inode alone: a file of another file system that has the same number costs an fsync too many.
    What may not be read (another user's process) tells nothing.
    """
    found: set[int] = set()
    for pid in pids:
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_bytes().splitlines():
                # address perms offset device inode path
                parts = line.split(None, 5)
                if len(parts) > 4 and parts[1][1:2] == b"w" and parts[1][3:4] == b"s":
                    found.add(int(parts[4]))
    found.discard(0)
    return frozenset(found)
