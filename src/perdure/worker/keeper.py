"""The keeper: the worker's parent, which ends the worker's tree when the worker dies.

Theory of operation. The process that the engine starts becomes the keeper before anything heavy is
imported: it makes itself a child subreaper, forks the worker, and waits. A worker that dies of
SIGKILL leaves its task's processes to the nearest subreaper above: the keeper, which kills whatever
descends from it or carries the launch's token, until nothing is left, and exits as the worker did.
Signals that the engine sends to the keeper are passed on. A worker whose keeper is killed goes on;
what is left over after its own death is ended by the next command: what carries the token, what
descends from that, and what has not left its action's session.

Memory: an interpreter with nothing imported, about 10 MB.

Source: prctl(2) PR_SET_CHILD_SUBREAPER; design 3 (6), 8; known failures J.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from perdure.worker.led_sessions import led_processes
from perdure.worker.processes import (
    ProcessInfo,
    become_subreaper,
    carrying,
    descendants,
    kill_until_gone,
    processes,
    reap_children,
    token_of,
)

#: Signals that the engine or a person may send to the process that was started.
PASSED_ON = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGURG,
)


def keep(token: str, work: Callable[[], int]) -> int:
    """Run ``work`` in a child and return its exit code, with nothing of it left.

    Blocks until the worker ends. In the child this never returns. A worker that died of a signal
    gives 128 plus its number.
    """
    become_subreaper()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os._exit(_work(work))
    worker = [pid]
    _pass_signals_on(worker)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    code = _wait(pid)
    worker.clear()  # its pid may be somebody else's from now on
    end_launch(token, root=os.getpid())
    return code


def _work(work: Callable[[], int]) -> int:
    """The child's whole life: its exit code, whatever happens."""
    become_subreaper()
    try:
        return work()
    except BaseException:  # noqa: BLE001 - the traceback is printed, the child must not return
        import traceback  # noqa: PLC0415 - the keeper itself stays small

        traceback.print_exc()
        return 70


def _pass_signals_on(worker: Sequence[int]) -> None:
    def pass_on(number: int, _frame: FrameType | None) -> None:
        for pid in worker:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    for number in PASSED_ON:
        signal.signal(number, pass_on)


def _wait(pid: int) -> int:
    """The worker's exit code; orphans that come to us meanwhile are left for the end."""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def end_launch(token: str, *, root: int | None = None, folder: Path | None = None) -> int:
    """Kill all that is left of a launch: what carries its token, and whatever descends from that.

    Another launch's processes are spared, wherever they descend from: a worker that ends may have
    started the next ones. Returns how many processes that were; blocks until they are gone.

    Args:
        token: of the launch; its actions have tokens made from it.
        root: a process that is spared, and below which everything is the launch's.
        folder: where the launch noted which process leads its action.
    """

    def left() -> list[ProcessInfo]:
        mine = [info for info in carrying(lambda t: is_of_launch(t, token)) if info.pid != root]
        if folder is not None:
            mine += [info for info in led_processes(folder) if not _is_anothers(info, token)]
        below = [_below(info.pid, token) for info in mine]
        if root is not None:
            below.append(_below(root, token))
        found = {info.pid: info for infos in (mine, *below) for info in infos}
        found.pop(os.getpid(), None)  # a command that a task gives about its own job
        return list(found.values())

    return kill_until_gone(left)


def _below(root: int, token: str) -> list[ProcessInfo]:
    """What descends from ``root``, but for other launches and all that is below them."""
    everything = processes()
    others = {info.pid for info in descendants(root, everything) if _is_anothers(info, token)}
    return descendants(root, [info for info in everything if info.pid not in others])


def _is_anothers(info: ProcessInfo, token: str) -> bool:
    """Whether the process carries another launch's token."""
    carried = token_of(info.pid)
    return carried is not None and not is_of_launch(carried, token)


def end_actions(token: str) -> int:
    """Kill whatever this launch's actions left: all that descends from this process.

    For the worker itself; what it started for itself (see `tree`) is spared. Blocks.
    """
    own_session = os.getsid(0)

    def left() -> list[ProcessInfo]:
        below = [
            info
            for info in descendants(os.getpid())
            if info.session != own_session and token_of(info.pid) != token
        ]
        return below + carrying(lambda carried: carried.startswith(f"{token}."))

    killed = kill_until_gone(left)
    reap_children()
    return killed


def is_of_launch(carried: str, token: str) -> bool:
    """Whether a process with the token ``carried`` belongs to the launch of ``token``."""
    return carried == token or carried.startswith(token + ".")
