"""A task that overwrites its only file, so many pages of the next version a line that it reads."""

import os
import sys


def write_for_ever(path: str, page_bytes: int) -> None:
    """Versions 1, 2, … in place, page by page; each is announced, or how far it came."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    for version, line in enumerate(sys.stdin, start=1):
        page = bytes([version]) * page_bytes
        for number in range(int(line)):
            os.pwrite(fd, page, number * page_bytes)
        print(version, flush=True)


if __name__ == "__main__":
    write_for_ever(sys.argv[1], int(sys.argv[2]))
