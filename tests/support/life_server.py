"""A process that lives lineages' lives in children, to be killed at any of their system calls.

Started once, because importing takes longer than a life. For each line of JSON on its standard
input it forks a child, which waits; it answers with the child's process id. At the line ``go`` the
child lives (`support.lineage_life`): all steps, then a restore. The answer then is the child's
exit status as `os.waitpid` gives it.

What was acknowledged is written to a file outside of the store, and synced, as it is said.
"""

import ctypes
import json
import os
import sys
from pathlib import Path

from perdure.store.opening import open_store
from support import broken_drivers
from support.lineage_life import Life, Sizes, put_back

_PR_SET_PTRACER = 0x59616D61
_ANY = ctypes.c_ulong(-1)


def live(order: dict[str, str]) -> None:
    """One life and a restore of what it saved last."""
    store, session, fresh = (Path(order[name]) for name in ("store", "session", "fresh"))
    acknowledged = os.open(order["said"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def said(what: str, number: int) -> None:
        os.write(acknowledged, f"{what} {number}\n".encode())
        os.fsync(acknowledged)

    sizes = Sizes(*json.loads(order["sizes"]))
    kind = getattr(broken_drivers, order["driver"])
    how = broken_drivers.making_a_store(kind)
    Life(store, session, sizes=sizes, said=said, opened=how).live()
    driver = open_store(str(store), write=False).driver
    put_back(driver, None, fresh)
    driver.close()
    said("restored", 1)


def fork(order: dict[str, str]) -> tuple[int, int]:
    """A child that waits for a byte, its process id and where to write that byte."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(reading)
        return pid, writing
    try:
        os.close(writing)
        # Where only an ancestor may trace a process, strace is none.
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANY, 0, 0, 0)
        os.read(reading, 1)
        live(order)
        os._exit(0)
    except BaseException as error:
        os.write(2, f"{error!r}\n".encode())
        os._exit(1)


def serve() -> None:
    """Until the end of the standard input."""
    for line in sys.stdin:
        pid, go = fork(json.loads(line))
        print(pid, flush=True)
        sys.stdin.readline()
        os.write(go, b"!")
        os.close(go)
        _pid, status = os.waitpid(pid, 0)
        print(status, flush=True)


if __name__ == "__main__":
    serve()
