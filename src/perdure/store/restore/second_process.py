"""A second process that writes small files: what they cost is Python's work, done on two cores.

Theory of operation. The restore reads runs of small files and writes them itself, or gives them
away: into memory that both see it reads the run's bytes, behind them it puts the rows, and through
a socket it says which half of the memory that was. The answer tells whether all was written. Two
runs are on their way at most, so that the second process never waits while it has work.

Rules: the process is a help, never needed. One that cannot be started, that dies, or that meets
anything unusual leaves its runs to the restore, which still has their bytes and says what is wrong
with them; writing a file again replaces it. It ends with the socket, and the kernel kills it with
the thread that started it: nothing is written any more when a restore has died, or another one
could begin beside it.

Source: memfd_create(2), prctl(2) PR_SET_PDEATHSIG; docs/decisions/141.
"""

import ctypes
import mmap
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from struct import Struct

from msgspec.msgpack import Decoder, Encoder

from perdure.errors import PerdureError
from perdure.store.packs.sealing import PLAIN
from perdure.store.restore.small_files import SmallFile, SmallFileWriter

#: Which half, how many bytes of rows.
_ORDER = Struct("=II")
#: Which half, whether all its files are written.
_ANSWER = Struct("=II")
_HALVES = 2
_PR_SET_PDEATHSIG = 1
_ENCODER = Encoder()


class SecondProcess:
    """The process, as the restore sees it; for one thread.

    Args:
        run_bytes: the most bytes of a run.
        rows_bytes: the most bytes of a run's rows.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, run_bytes: int, rows_bytes: int) -> None:
        self._run_bytes = run_bytes
        self._half_bytes = run_bytes + rows_bytes
        shared = os.memfd_create("perdure-small-files", os.MFD_CLOEXEC)
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                os.ftruncate(shared, _HALVES * self._half_bytes)
                self._memory = memoryview(mmap.mmap(shared, _HALVES * self._half_bytes))
                sizes = (str(shared), str(run_bytes), str(rows_bytes), str(os.getpid()))
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", __name__, *sizes],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(shared,),
                )
            except BaseException:
                self._socket.close()
                raise
            finally:
                os.close(shared)
        self._free = list(range(_HALVES))
        self._given: set[int] = set()

    def free_half(self) -> int | None:
        """A half of the memory that nobody uses, or None."""
        return self._free[-1] if self._free else None

    def run_of(self, half: int) -> memoryview:
        """Where the bytes of a run lie."""
        start = half * self._half_bytes
        return self._memory[start : start + self._run_bytes]

    def give(self, half: int, files: Sequence[SmallFile]) -> bool:
        """Have the run in ``half`` written; whether that could be asked for."""
        try:
            rows = _ENCODER.encode(files)
        except UnicodeEncodeError:  # a name that is no text
            return False
        start = half * self._half_bytes + self._run_bytes
        if len(rows) > self._half_bytes - self._run_bytes:
            return False
        self._memory[start : start + len(rows)] = rows
        try:
            self._socket.sendall(_ORDER.pack(half, len(rows)))
        except OSError:
            return False
        self._free.remove(half)
        self._given.add(half)
        return True

    def answers(self, *, wait: bool) -> list[tuple[int, bool]]:
        """The halves whose runs have ended, each with whether its files are written.

        Args:
            wait: until all have.
        """
        ended: list[tuple[int, bool]] = []
        while self._given and (wait or select.select([self._socket], [], [], 0)[0]):
            answer = _receive(self._socket, _ANSWER.size)
            if answer is None:
                ended += [(half, False) for half in self._given]
                self._given.clear()  # no half is free any more: nothing more is given
                self._free.clear()
                break
            half, is_written = _ANSWER.unpack(answer)
            self._given.remove(half)
            self._free.append(half)
            ended.append((half, bool(is_written)))
        return ended

    def close(self) -> None:
        """End it; blocks until nothing of it is left."""
        self._socket.close()
        if self._given:
            self._process.kill()
        self._process.wait()


def _receive(connection: socket.socket, size: int) -> bytes | None:
    """So many bytes; None where the other side is gone."""
    try:
        return connection.recv(size, socket.MSG_WAITALL) or None
    except OSError:
        return None


def main(arguments: Sequence[str]) -> None:
    """Write runs until nobody gives any more."""
    shared, run_bytes, rows_bytes, parent = (int(text) for text in arguments)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the kernel knew
        return
    half_bytes = run_bytes + rows_bytes
    memory = memoryview(mmap.mmap(shared, _HALVES * half_bytes, prot=mmap.PROT_READ))
    decoder = Decoder(list[SmallFile])
    writer = SmallFileWriter()
    connection = socket.socket(fileno=0)
    while order := _receive(connection, _ORDER.size):
        half, size = _ORDER.unpack(order)
        start = half * half_bytes
        rows = decoder.decode(memory[start + run_bytes : start + run_bytes + size])
        try:
            is_written = writer.write(rows, memory[start : start + run_bytes], PLAIN.digest) is None
        except (OSError, PerdureError):
            is_written = False
        connection.sendall(_ANSWER.pack(half, is_written))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it ends it
    main(sys.argv[1:])
    os._exit(0)  # nothing is left to tidy, and somebody waits
