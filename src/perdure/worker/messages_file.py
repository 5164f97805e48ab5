"""Follows ``PERDURE_MESSAGES``: the same grammar and limits as stdout, in a file.

For programs whose output is prefixed, interleaved or buffered. Lines are counted for themselves.
The file must stay a regular file; a link or a pipe in its place is not followed.

A save freezes its files when its line is read, so the file is looked at the moment it grows: the
pump, which sleeps until the task prints something, wakes for it too. The watch (inotify) is made
once a launch, because ending one takes the kernel milliseconds. Where there is none, the supervisor
looks twice a second.

Source: inotify(7).
"""

import contextlib
import ctypes
import os
import threading
from pathlib import Path

from perdure.protocol.lines import LineSplitter
from perdure.worker.action_output import Hearing

_READ_BYTES = 1 << 18
_IN_MODIFY = 0x2
_IN_MOVED_TO = 0x80
_FOLLOWING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FolderWatch:
    """Says when a file in a folder grows; one a launch, moved from session to session.

    Attributes:
        descriptor: readable when there is news; None where there is no inotify.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        made = int(self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
        self.descriptor: int | None = made if made >= 0 else None
        self._folder: Path | None = None

    def watch(self, folder: Path) -> bool:
        """Watch this folder from now on; whether that can be."""
        if self.descriptor is None:
            return False
        if folder == self._folder:
            return True
        events = _IN_MODIFY | _IN_MOVED_TO
        added = self._libc.inotify_add_watch(self.descriptor, os.fsencode(folder), events)
        self._folder = folder if added >= 0 else None
        return bool(added >= 0)

    def drain(self) -> None:
        """Forget what it said so far."""
        if self.descriptor is not None:
            with contextlib.suppress(BlockingIOError):
                while os.read(self.descriptor, 1 << 16):
                    pass


class MessagesFile:
    """The file of one attempt; made empty at once.

    Args:
        path: its folder is there.
        hearing: of the attempt's messages.
        watch: of the launch.
    """

    def __init__(self, path: Path, hearing: Hearing, watch: FolderWatch) -> None:
        self._path = path
        self._hearing = hearing
        self._splitter = LineSplitter()
        self._offset = 0
        self._lock = threading.Lock()
        self._watch = watch
        _create_empty(path)
        self._is_watched = watch.watch(path.parent)

    @property
    def descriptor(self) -> int | None:
        """Readable when the file may have grown; None: `read` it now and then."""
        return self._watch.descriptor if self._is_watched else None

    def news(self) -> None:
        """The descriptor is readable: listen to what was added."""
        self._watch.drain()
        self.read()

    def read(self) -> None:
        """Listen to what was added since the last call."""
        with self._lock, contextlib.suppress(OSError):
            if os.lstat(self._path).st_size > self._offset:
                self._read_new()

    def finish(self) -> None:
        """Listen to the rest, an unfinished last line included."""
        self.read()
        self._hearing.hear(self._splitter.finish())

    def _read_new(self) -> None:
        descriptor = os.open(self._path, _FOLLOWING)
        try:
            while data := os.pread(descriptor, _READ_BYTES, self._offset):
                self._offset += len(data)
                self._hearing.hear(self._splitter.find(data))
        finally:
            os.close(descriptor)


def _create_empty(path: Path) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
