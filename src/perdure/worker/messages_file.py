"""Follows ``PERDURE_MESSAGES``: the same grammar and limits as stdout, in a file.

For programs whose output is prefixed, interleaved or buffered. Lines are counted for themselves.
The file must stay a regular file; a link or a pipe in its place is not followed.

A save freezes its files when its line is read, so the file is looked at the moment it grows: a
thread sleeps on inotify, which costs a silent task nothing. Where there is no inotify (or no more
watches), the same thread looks twice a second.

Source: inotify(7).
"""

import contextlib
import ctypes
import os
import select
import threading
from pathlib import Path

from perdure.protocol.lines import LineSplitter
from perdure.worker.action_output import Hearing

#: How often the file is looked at where nobody says when it grows.
LOOK_SECONDS = 0.5
_READ_BYTES = 1 << 18
_IN_MODIFY = 0x2
_IN_MOVED_TO = 0x80
_FOLLOWING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class MessagesFile:
    """The file of one attempt; made empty at once.

    Args:
        path: its folder is there.
        hearing: of the attempt's messages.
    """

    def __init__(self, path: Path, hearing: Hearing) -> None:
        self._path = path
        self._hearing = hearing
        self._splitter = LineSplitter()
        self._offset = 0
        self._lock = threading.Lock()
        _create_empty(path)
        self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread = threading.Thread(target=self._follow, name="perdure-messages", daemon=True)
        self.error: BaseException | None = None

    def start(self) -> None:
        """Begin to follow it."""
        self._thread.start()

    def read(self) -> None:
        """Listen to what was added since the last call."""
        with self._lock, contextlib.suppress(OSError):
            if self._path.lstat().st_size > self._offset:
                self._read_new()

    def finish(self) -> None:
        """Listen to the rest, an unfinished last line included; it is followed no more.

        Raises:
            BaseException: whatever ended the thread that was no error of ours.
        """
        self.close()
        if self.error is not None:
            raise self.error
        self.read()
        self._hearing.hear(self._splitter.finish())

    def close(self) -> None:
        """Follow it no more; may be called again."""
        with self._lock:
            stop, self._stop = self._stop, -1
        if stop < 0:
            return
        if self._thread.is_alive():
            os.eventfd_write(stop, 1)
            self._thread.join()
        os.close(stop)

    def _read_new(self) -> None:
        descriptor = os.open(self._path, _FOLLOWING)
        try:
            while data := os.pread(descriptor, _READ_BYTES, self._offset):
                self._offset += len(data)
                self._hearing.hear(self._splitter.find(data))
        finally:
            os.close(descriptor)

    def _follow(self) -> None:
        """The thread: look whenever the folder's watch says so, until told to stop."""
        stop = self._stop
        watch = _watch(self._path.parent)
        try:
            poll = select.poll()
            poll.register(stop, select.POLLIN)
            if watch is not None:
                poll.register(watch, select.POLLIN)
            self.read()  # what was written before the watch was there
            wait_ms = None if watch is not None else LOOK_SECONDS * 1e3
            while True:
                ready = [descriptor for descriptor, _ in poll.poll(wait_ms)]
                if stop in ready:
                    return
                if watch is not None:
                    os.read(watch, 1 << 16)
                self.read()
        except BaseException as error:  # noqa: BLE001 - raised again by `finish`
            self.error = error
        finally:
            if watch is not None:
                os.close(watch)


def _watch(folder: Path) -> int | None:
    """A descriptor that is readable when a file in ``folder`` grows; None where that cannot be."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
    if descriptor < 0:
        return None
    if libc.inotify_add_watch(descriptor, os.fsencode(folder), _IN_MODIFY | _IN_MOVED_TO) < 0:
        os.close(descriptor)
        return None
    return descriptor


def _create_empty(path: Path) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
