"""The processes of a task: who they are, who takes a signal, and how nothing of them is left.

Everything is read from /proc anew; nothing is remembered about a pid but its start time. A process
belongs to a launch if it carries the launch's token in its environment or descends from the worker
(which is a child subreaper, so that a double fork does not escape it).

Source: proc(5); design 8 (who gets the signal), known failures B and J.
"""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from perdure.worker.host import is_over, process_started, read_stat

#: The variable that every process of a launch carries.
TOKEN_VARIABLE = "PERDURE_TOKEN"  # noqa: S105 - a name, not a secret
_PR_SET_CHILD_SUBREAPER = 36
#: Rounds of "kill all that is found" before a tree that keeps forking is given up.
MAX_KILL_ROUNDS = 200
_ROUND_SECONDS = 0.01


class ProcessInfo(Struct, frozen=True, kw_only=True):
    """One process as /proc showed it; ``started`` tells it from a later one with its pid."""

    pid: int
    parent: int
    group: int
    session: int
    name: str
    started: int


def become_subreaper() -> None:
    """Let orphaned descendants become our children, so that none escapes by a double fork."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def processes() -> list[ProcessInfo]:
    """All processes that this user can see and that are not zombies."""
    found = (_process_info(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [info for info in found if info is not None]


def _process_info(pid: int) -> ProcessInfo | None:
    try:
        name, fields = read_stat(pid)
    except OSError:
        return None
    if is_over(fields):
        return None
    return ProcessInfo(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        name=name.decode("utf-8", "replace"),
        started=int(fields[19]),
    )


def descendants(root: int, among: Iterable[ProcessInfo] | None = None) -> list[ProcessInfo]:
    """All processes below ``root``, nearest first; ``root`` itself is not among them."""
    children: dict[int, list[ProcessInfo]] = {}
    for info in processes() if among is None else among:
        children.setdefault(info.parent, []).append(info)
    found: list[ProcessInfo] = []
    queue = [root]
    for pid in queue:
        below = children.get(pid, [])
        found.extend(below)
        queue.extend(info.pid for info in below)
    return found


def children_of(pid: int | str) -> frozenset[int]:
    """The pids of a process's children; none where it is gone.

    Source: proc(5), /proc/PID/task/TID/children.
    """
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                descriptor = os.open(
                    f"/proc/{pid}/task/{task}/children", os.O_RDONLY | os.O_CLOEXEC
                )
                try:
                    found.update(map(int, os.read(descriptor, 1 << 16).split()))
                finally:
                    os.close(descriptor)
    return frozenset(found)


def name_of(pid: int) -> str:
    """What a process is called; "" where it is gone."""
    info = _process_info(pid)
    return info.name if info is not None else ""


def token_of(pid: int) -> str | None:
    """The token that a process carries, or None (also where its environment may not be read)."""
    prefix = TOKEN_VARIABLE.encode() + b"="
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environment = file.read()
    except OSError:
        return None
    for variable in environment.split(b"\0"):
        if variable.startswith(prefix):
            return variable[len(prefix) :].decode("utf-8", "replace")
    return None


def carrying(matches: Callable[[str], bool]) -> list[ProcessInfo]:
    """All processes that carry a token that matches; this process is never among them."""
    me = os.getpid()
    return [
        info
        for info in processes()
        if info.pid != me and (token := token_of(info.pid)) is not None and matches(token)
    ]


def catches(pid: int, number: signal.Signals) -> bool | None:
    """Whether a process has a handler for the signal (SigCgt); None when it is gone."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            status = file.read()
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith(b"SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return None


class SignalTarget(Struct, frozen=True, kw_only=True):
    """Whom a notify signal goes to.

    Attributes:
        pids: all of them get it.
        steps: so do all tasks of these, on other hosts.
        caught: whether they have a handler for it.
        description: for people: ``python 123 behind bash 120``.
        signal: which one.
    """

    pids: tuple[int, ...]
    caught: bool
    description: str
    signal: signal.Signals
    steps: tuple[str, ...] = ()


def signal_target(leader: int, number: signal.Signals) -> SignalTarget | None:
    """Who takes the signal: the action's process, or the nearest descendants that catch it.

    None when the process is gone. Where nobody catches it the action's process is named, not
    caught: the caller may wait for a handler to be installed.
    """
    caught = catches(leader, number)
    if caught is None:
        return None
    leader_info = _process_info(leader)
    name = leader_info.name if leader_info else "process"
    if caught:
        return SignalTarget(
            pids=(leader,), caught=True, description=f"{name} {leader}", signal=number
        )
    for generation in _generations(leader):
        catching = [info for info in generation if catches(info.pid, number)]
        if catching:
            who = " and ".join(f"{info.name} {info.pid}" for info in catching)
            return SignalTarget(
                pids=tuple(info.pid for info in catching),
                caught=True,
                description=f"{who} behind {name} {leader}",
                signal=number,
            )
    return SignalTarget(pids=(leader,), caught=False, description=f"{name} {leader}", signal=number)


def _generations(root: int) -> Iterator[list[ProcessInfo]]:
    """The children of ``root``, then their children, and so on."""
    all_processes = processes()
    parents = {root}
    while generation := [info for info in all_processes if info.parent in parents]:
        yield generation
        parents = {info.pid for info in generation}


def kill_until_gone(
    find: Callable[[], list[ProcessInfo]], *, waited_for: frozenset[int] = frozenset()
) -> int:
    """SIGKILL whatever ``find`` finds until it finds nothing; how many processes that were.

    ``waited_for`` are children whose exits somebody else collects.

    Blocks, at most about two seconds after the last kill took effect; a process in an
    uninterruptible wait is left when the rounds are used up (its pid stays in the answer of
    ``find``, so that the caller can say so).
    """
    killed: set[tuple[int, int]] = set()
    for _ in range(MAX_KILL_ROUNDS):
        found = find()
        if not found:
            break
        for info in found:
            send(info, signal.SIGKILL)
            killed.add((info.pid, info.started))
        reap_children(waited_for)
        time.sleep(_ROUND_SECONDS)
    return len(killed)


def send(info: ProcessInfo, number: signal.Signals) -> bool:
    """Send a signal to that very process; False when it is gone or another one has its pid."""
    if process_started(info.pid) != info.started:
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(info.pid, number)
        return True
    return False


def reap_children(waited_for: frozenset[int] = frozenset()) -> None:
    """Collect the exits of adopted orphans, leaving the children that others wait for.

    Only zombies are collected, and only by their own pid: the exit of a child that somebody waits
    for must never be taken away from them.
    """
    me = os.getpid()
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in waited_for and _is_zombie_of(int(name), me):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(int(name), os.WNOHANG)


def _is_zombie_of(pid: int, parent: int) -> bool:
    try:
        _, fields = read_stat(pid)
    except OSError:
        return False
    return fields[0] == b"Z" and int(fields[1]) == parent
