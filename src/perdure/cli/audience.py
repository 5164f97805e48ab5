"""Whoever reads what `run` prints may leave: that ends the command, and loses no work and no wish.

A stream that cannot be written is replaced, at its descriptor, by one that takes everything: what
is printed from then on is lost without harm.

Source: docs/decisions/144.
"""

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from perdure.cli.failing import PIPE_EXIT
from perdure.cli.pointing import pointed


class Audience:
    """The readers of standard output and standard error.

    Args:
        left: called when one of them has left, or can be given nothing more.

    Attributes:
        exit_code: for a command that ends of that; 0 while everybody is there.
    """

    def __init__(self, left: Callable[[], None]) -> None:
        self._left = left
        self.exit_code = 0

    def show(self, data: bytes) -> None:
        """Write to standard output."""
        self._write(sys.stdout, lambda: sys.stdout.buffer.write(data))

    def tell(self, text: str) -> None:
        """Say something on standard error."""
        self._write(sys.stderr, lambda: print(f"perdure: {pointed(text)}", file=sys.stderr))

    def _write(self, stream: TextIO, write: Callable[[], object]) -> None:
        try:
            write()
            stream.flush()
        except OSError as error:
            _silence(stream)
            if not self.exit_code:
                self.exit_code = _exit_code(error)
                self._left()


def _silence(stream: TextIO) -> None:
    """What is still buffered, and all that follows, goes nowhere."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _exit_code(error: OSError) -> int:
    if isinstance(error, BrokenPipeError):
        return PIPE_EXIT
    return 7 if error.errno == errno.ENOSPC else 5
