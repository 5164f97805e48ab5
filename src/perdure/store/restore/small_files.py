"""Files of one block: checked and written in one go, thousands at a time. No store is asked.

What a restore of many small files costs is what is done for each of them; so this is one loop over
plain rows, without a call that is not needed. A second process can run it just as well
(`perdure.store.restore.second_process`): a row holds all that it must know.

Source: openat(2); docs/decisions/049, 141.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from perdure.store.drivers.posix_files import in_our_words, write_all
from perdure.store.files.roots import OpenFolders

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MODES = 0o777


class SmallFile(Struct, frozen=True, array_like=True, gc=False):
    """A file to be written, and where its bytes lie in the run that they were read in.

    Attributes:
        base: the folder from which it is opened, absolute.
        folder: relative to it, opened without following links; it is there.
        name: in that folder: the temporary one, where it gets another later.
        start, length: of its bytes.
        digest: of them.
    """

    base: str
    folder: str
    name: str
    start: int
    length: int
    digest: bytes
    mode: int
    mtime_ns: int


def write_new(folder: int, name: str, data: memoryview, mode: int, mtime_ns: int) -> None:
    """Write a file whole, with its mode and time; one that was left there is replaced."""
    try:
        fd = os.open(name, NEW, 0o600, dir_fd=folder)
    except FileExistsError:
        os.unlink(name, dir_fd=folder)
        fd = os.open(name, NEW, 0o600, dir_fd=folder)
    try:
        write_all(fd, data, 0)
        finish(fd, mode, mtime_ns)
    finally:
        os.close(fd)


def finish(fd: int, mode: int, mtime_ns: int) -> None:
    """Give a file or folder its mode and time, once nothing more is written to it."""
    os.fchmod(fd, mode & _MODES)
    os.utime(fd, ns=(mtime_ns, mtime_ns))


class SmallFileWriter:
    """Writes runs; for one thread. Keeps one folder open."""

    def __init__(self) -> None:
        self._folders = OpenFolders()
        self._bases: dict[str, Path] = {}

    def write(
        self, files: Sequence[SmallFile], run: memoryview, digest: Callable[[memoryview], bytes]
    ) -> int | None:
        """Check and write the files of a run, in order, up to one that is damaged: which.

        Raises:
            OutOfSpace: and the like: a file cannot be written.
        """
        try:
            for number, file in enumerate(files):
                data = run[file.start : file.start + file.length]
                if digest(data) != file.digest:
                    return number
                self._write(file, data)
        except OSError as error:
            with in_our_words("write", f"{file.base}/{file.folder}/{file.name}"):
                raise error from None
        return None

    def _write(self, file: SmallFile, data: memoryview) -> None:
        base = self._bases.get(file.base)
        if base is None:
            base = self._bases[file.base] = Path(file.base)
        folder = self._folders.folder(base, file.folder)
        write_new(folder, file.name, data, file.mode, file.mtime_ns)

    def close(self) -> None:
        """Close the folder."""
        self._folders.close()
