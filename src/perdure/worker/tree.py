"""What belongs to one action: its process group, and whatever escaped from it.

A session's environments may leave servers running that the task uses; they are none of the task's
and are told apart by the token: every action has its own (``<launch token>.<n>``). A process that
neither is in the action's group nor carries its token nor descends from its process can only be one
that cleaned its environment and forked twice; being a subreaper, the worker then is its parent.

The worker has children of its own (a command that asks for the host's notices): they carry the
launch's token, not an action's, or stay in the worker's session, and are let alone.

In the usual case nothing is left after the exit, and that costs one look at the worker's children.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from enum import Enum

from perdure.worker.processes import (
    ProcessInfo,
    carrying,
    catches,
    children_of,
    descendants,
    kill_until_gone,
    name_of,
    processes,
    reap_children,
    send,
    signal_target,
    token_of,
)
from perdure.worker.steps import LAUNCHER, NO_STEPS, Steps


class Hold(Enum):
    """Why an action's processes stand still; several reasons may hold at once."""

    #: a save's files are being read
    SAVING = "saving"
    #: it is not certain that this worker still owns the task
    OWNERSHIP = "ownership"


class ActionTree:
    """The processes of one action.

    Args:
        token: that the action's processes carry.
        pid: the action's process, once there is one; it leads its own group and session.
        may_leave: an environment's action may leave servers behind, unless it was killed; they
            end with the session.
        steps: what of it runs on other hosts.
    """

    def __init__(
        self,
        token: str,
        *,
        pid: Callable[[], int | None],
        may_leave: bool = False,
        steps: Steps = NO_STEPS,
    ) -> None:
        self._token = token
        self._launch_token = token.partition(".")[0]
        self._pid = pid
        self._may_leave = may_leave
        self._steps = steps
        self._had_launchers = False
        self._children_before = children_of_this_process()
        self._holds: list[Hold] = []
        self._holding = threading.Lock()

    def find(self) -> list[ProcessInfo]:
        """Everything of the action that is alive, by reading all of /proc."""
        everything = processes()
        pid = self._pid()
        found = {info.pid: info for info in carrying(lambda token: token == self._token)}
        if pid is not None:
            found |= {i.pid: i for i in everything if pid in (i.pid, i.group, i.session)}
            found |= {i.pid: i for i in descendants(pid, everything)}
        for child in self._new_children():
            found |= {i.pid: i for i in everything if i.pid == child}
            found |= {i.pid: i for i in descendants(child, everything)}
        return list(found.values())

    def pids(self) -> list[int]:
        """The action's processes that are found from parent to child: fast, for each save.

        One that has left its parents and its group is not among them.
        """
        leader = self._pid()
        roots = [*self._new_children(), *([leader] if leader is not None else [])]
        found = dict.fromkeys(roots)
        waiting = list(found)
        for pid in waiting:
            below = [child for child in children_of(pid) if child not in found]
            found.update(dict.fromkeys(below))
            waiting.extend(below)
        return list(found)

    def kill(self) -> None:
        """SIGKILL to all of it, without waiting; also where it is held."""
        self._may_leave = False
        self._launchers()
        pid = self._pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        for info in self.find():
            send(info, signal.SIGKILL)

    def end(self) -> int:
        """Kill what is left until nothing is; how many processes that were. Blocks."""
        if self._may_leave:
            return 0
        killed = 0 if self._is_gone() else self._end_here()
        return killed + self._steps.end_orphans() if self._had_launchers else killed

    def _end_here(self) -> int:
        self._launchers()
        pid = self._pid()
        waited_for = frozenset({pid}) if pid is not None else frozenset()
        killed = kill_until_gone(self.find, waited_for=waited_for)
        reap_children(waited_for)
        return killed

    def steps(self) -> tuple[str, ...]:
        """The steps on other hosts that its processes started; blocks while that is asked."""
        return tuple(self._steps.of(self._launchers()))

    def ask(self, number: signal.Signals) -> str:
        """Send a signal to whoever of it catches it; whom, for people; "" where nobody does.

        On other hosts it goes to a step of which a task that runs here catches it: for one that
        does not it would be the end.
        """
        pid = self._pid()
        target = signal_target(pid, number) if pid is not None else None
        if target is None:
            return ""
        if target.caught:
            for receiver in target.pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(receiver, number)
            return target.description
        steps = self.steps()
        if not steps or not any(
            info.name != LAUNCHER and catches(info.pid, number) for info in self.find()
        ):
            return ""
        for step in steps:
            self.signal_step(step, number)
        return f"step {', '.join(steps)}"

    def signal_step(self, step: str, number: signal.Signals) -> None:
        """Send a signal to every task of a step."""
        self._steps.signal(step, number)

    def _launchers(self) -> frozenset[int]:
        """Its processes that start steps and live as long as these."""
        if self._steps is NO_STEPS:
            return frozenset()
        found = frozenset(pid for pid in self.pids() if name_of(pid) == LAUNCHER)
        self._had_launchers = self._had_launchers or bool(found)
        return found

    def hold(self, why: Hold) -> None:
        """Stop all of it (SIGSTOP), repeated until nothing new was forked meanwhile.

        Each call is undone by a `release` for the same reason; it runs on after the last one. What
        runs on several hosts is never held.
        """
        if self._launchers():
            return  # what runs on other hosts would run on, and wait for what stands still here
        with self._holding:
            self._holds.append(why)
            stopped: set[tuple[int, int]] = set()
            while new := [i for i in self.find() if (i.pid, i.started) not in stopped]:
                for info in new:
                    send(info, signal.SIGSTOP)
                    stopped.add((info.pid, info.started))

    def release(self, why: Hold) -> None:
        """Undo one `hold`; nothing to do where there was none."""
        with self._holding:
            if why not in self._holds:
                return
            self._holds.remove(why)
            if not self._holds:
                for info in self.find():
                    send(info, signal.SIGCONT)

    def _new_children(self) -> list[int]:
        """Children that the worker did not have before and did not start for itself."""
        new = children_of_this_process() - self._children_before
        return [pid for pid in new if not _is_own(pid, self._launch_token)]

    def _is_gone(self) -> bool:
        """Whether surely nothing is left: an empty group, no child that was not there before."""
        pid = self._pid()
        if pid is not None:
            try:
                os.killpg(pid, 0)
            except ProcessLookupError:
                pass
            except PermissionError:
                return False
            else:
                return False
        return not self._new_children()


def _is_own(pid: int, launch_token: str) -> bool:
    """Whether a child of this process is one that it started for itself."""
    try:
        if os.getsid(pid) == os.getsid(0):
            return True
    except ProcessLookupError:
        return False
    return token_of(pid) == launch_token


def children_of_this_process() -> frozenset[int]:
    """The pids of this process's children, adopted orphans included."""
    return children_of("self")
