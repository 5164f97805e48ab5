"""The hands of the attempt machine: one action's process, from its start until nothing is left.

One thread supervises: it takes events from a queue (the pump's, the ticker's, its own timers'),
gives them to the machine, and carries out what the machine says. A silent task costs nothing: the
supervisor sleeps until there is an event or a timer is over.

Source: design 8; `machine` has the rules.
"""

import contextlib
import json
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import assert_never

from msgspec import Struct

from perdure.clock import Clock
from perdure.worker import machine
from perdure.worker.action_output import ActionProcess
from perdure.worker.machine import AttemptMachine, Facts
from perdure.worker.messages_file import MessagesFile
from perdure.worker.processes import SignalTarget, signal_target
from perdure.worker.tree import ActionTree

#: How often it is looked whether a handler was installed.
SEEK_SECONDS = 0.05
#: How often the messages file is looked at where nobody says when it grows.
LOOK_SECONDS = 0.5
CANCEL_INFO = "cancel_info.json"


class Surroundings(Struct, frozen=True, kw_only=True):
    """What an action's supervisor works with.

    Attributes:
        events: where the machine's events come from.
        tree: what belongs to the action.
        session_dir: where cancel_info.json is written.
        finish_captures: commit or drop what is in flight; blocks; called once nothing is left.
        on_notice: told when a notify signal was sent, to whom.
        messages_file: of the attempt, or None.
    """

    clock: Clock
    events: SimpleQueue[machine.Event]
    tree: ActionTree
    session_dir: Path
    finish_captures: Callable[[], None]
    on_notice: Callable[[SignalTarget], None]
    messages_file: MessagesFile | None = None


class ActionRun:
    """Supervises one action.

    Args:
        attempt: the machine; its facts are the result.
        process: the process that was started, once it was.
    """

    def __init__(
        self,
        attempt: AttemptMachine,
        process: Callable[[], ActionProcess | None],
        surroundings: Surroundings,
    ) -> None:
        self._machine = attempt
        self._process = process
        self._with = surroundings
        self._deadlines: dict[machine.Timer, float] = {}
        self._seek: tuple[signal.Signals, float] | None = None
        self._is_finished = False

    def run(self) -> Facts:
        """Supervise until the machine has ended; returns its facts. Blocks."""
        while not self._is_finished:
            event = self._next_event()
            if event is not None:
                self._handle(event)
            elif self._looks_itself():
                self._messages().read()
            if self._seek is not None:
                self._look_for_target(*self._seek)
        return self._machine.facts

    def _handle(self, event: machine.Event) -> None:
        for instruction in self._machine.handle(event):
            self._do(instruction)

    def _next_event(self) -> machine.Event | None:
        """The next event; None: it is time to look for a handler again."""
        now = self._with.clock.monotonic()
        for timer, deadline in list(self._deadlines.items()):
            if deadline <= now:
                del self._deadlines[timer]
                return machine.TimerElapsed(timer=timer)
        waits = [deadline - now for deadline in self._deadlines.values()]
        if self._seek is not None:
            waits.append(SEEK_SECONDS)
        if self._looks_itself():
            waits.append(LOOK_SECONDS)
        try:
            return self._with.events.get(timeout=min(waits, default=None))
        except Empty:
            return None

    def _looks_itself(self) -> bool:
        """Whether nobody says when the messages file grows."""
        messages = self._with.messages_file
        return messages is not None and messages.descriptor is None

    def _messages(self) -> MessagesFile:
        assert self._with.messages_file is not None
        return self._with.messages_file

    def _do(self, instruction: machine.Instruction) -> None:
        match instruction:
            case machine.StartTimer(timer=timer, seconds=seconds):
                self._start_timer(timer, seconds)
            case machine.StopTimer(timer=timer):
                self._deadlines.pop(timer, None)
            case machine.WriteCancelInfo(notice_seconds=seconds):
                self._write_cancel_info(seconds)
            case machine.Notify(signal=number, wait_seconds=seconds):
                self._seek = (number, self._with.clock.monotonic() + seconds)
            case machine.Kill():
                self._seek = None
                self._with.tree.kill()
            case machine.EndTree():
                self._end_tree()
            case machine.FinishCaptures():
                if self._with.messages_file is not None:
                    self._with.messages_file.finish()
                self._with.finish_captures()
                self._with.events.put(machine.CapturesDone())
            case machine.Finish():
                self._is_finished = True
            case _:
                assert_never(instruction)

    def _start_timer(self, timer: machine.Timer, seconds: float) -> None:
        """A timer that runs already may end earlier, never later."""
        deadline = self._with.clock.monotonic() + seconds
        self._deadlines[timer] = min(deadline, self._deadlines.get(timer, deadline))

    def _look_for_target(self, number: signal.Signals, until: float) -> None:
        """Send the signal as soon as somebody catches it, or when waiting is over."""
        process = self._process()
        target = None
        if process is not None and process.pid is not None and process.exit_code is None:
            target = signal_target(process.pid, number)
        if target is None or process is None:
            self._seek = None  # it is gone: its exit is on its way
            return
        if not target.caught:
            target = self._on_other_hosts(target)
        if not target.caught and self._with.clock.monotonic() < until:
            return
        self._seek = None
        self._with.on_notice(target)  # before it is sent: a save may answer it at once
        is_collected = process.exit_code is not None
        for receiver in target.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(receiver, number)
        for step in target.steps:
            self._with.tree.signal_step(step, number)
        if not is_collected:  # else the notice never was one
            self._handle(machine.NotifySent(caught=target.caught))

    def _on_other_hosts(self, target: SignalTarget) -> SignalTarget:
        """The steps of the action in place of a launcher that would end them without a word."""
        steps = self._with.tree.steps()
        if not steps:
            return target
        return SignalTarget(
            pids=(),
            steps=steps,
            caught=True,  # as far as anybody here can tell
            description=f"step {', '.join(steps)} behind {target.description}",
            signal=target.signal,
        )

    def _end_tree(self) -> None:
        self._seek = None
        self._with.tree.end()
        process = self._process()
        if process is None or process.pid is None:
            self._with.events.put(machine.TreeGone())
        else:
            process.stop_reading()

    def _write_cancel_info(self, seconds: float) -> None:
        """Until when the task may run, as openjd-sessions writes it; whole or not at all."""
        running = self._deadlines.get(machine.Timer.NOTICE)
        if running is not None:
            seconds = min(seconds, running - self._with.clock.monotonic())
        end = self._with.clock.now() + timedelta(seconds=seconds)
        text = json.dumps({"NotifyEnd": end.strftime("%Y-%m-%dT%H:%M:%SZ")})
        path = self._with.session_dir / CANCEL_INFO
        new = path.with_name(f"{CANCEL_INFO}.new")
        with contextlib.suppress(OSError):  # a full disk must not keep the signal from being sent
            new.write_text(text, encoding="utf-8")
            new.replace(path)
