"""Running one action of a session, a task's or an environment's, from its start to its facts."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from queue import SimpleQueue

from msgspec import Struct, field

from perdure.policy.notice import Capturing, plan_notice
from perdure.store.layout import StepKey, TaskKey
from perdure.template import NotifyThenTerminate, ResolvedAction, Terminate
from perdure.worker import machine
from perdure.worker.action_output import ActionOutput, Hearing
from perdure.worker.attempt import ActionRun, Surroundings
from perdure.worker.context import LaunchContext
from perdure.worker.machine import AttemptMachine, Facts, Intent, Interrupt
from perdure.worker.messages_file import MessagesFile
from perdure.worker.processes import SignalTarget
from perdure.worker.stops import Stop
from perdure.worker.task_environment import with_token
from perdure.worker.tree import ActionTree
from perdure.worker.workspaces.workspace import Workspace

#: The task for which an environment's action runs: any stop of the launch covers it.
NO_TASK = TaskKey("")


class ActionOrder(Struct, frozen=True, kw_only=True):
    """One action to run.

    Attributes:
        start: starts it in the session; returns at once.
        resolved: its timeout, and how to interrupt it.
        task: whose stops cover it.
        environment: what is added to the launch's variables.
        may_leave: an environment's action may leave servers behind.
        is_leaving: an environment is left because of the stops that are there already: only later
            ones interrupt it.
        finish_captures, on_notice: see `Surroundings`.
        capturing: what is known about capture, for the notice period.
        on_tree: told the action's processes, before it starts.
    """

    start: Callable[[ActionOutput], None]
    resolved: ResolvedAction
    task: TaskKey = NO_TASK
    environment: Mapping[str, str] = field(default_factory=dict)
    may_leave: bool = False
    is_leaving: bool = False
    hearing: Hearing | None = None
    messages_file: MessagesFile | None = None
    finish_captures: Callable[[Facts], None] = lambda _facts: None
    on_notice: Callable[[SignalTarget], None] = lambda _target: None
    on_stop: Callable[[Stop, Interrupt], None] = lambda _stop, _interrupt: None
    capturing: Callable[[], Capturing] = Capturing
    on_tree: Callable[[ActionTree], None] = lambda _tree: None


class ActionResult(Struct, frozen=True, kw_only=True):
    """How an action ended.

    Attributes:
        failure: what the library says of it, or None.
        ran_seconds: from its start until its exit was collected and its tree was gone.
    """

    facts: Facts
    failure: str | None
    ran_seconds: float


def run_action(context: LaunchContext, session: Workspace, order: ActionOrder) -> ActionResult:
    """Run an action; blocks until nothing of it is left and its captures are done."""
    events: SimpleQueue[machine.Event] = SimpleQueue()
    token = context.action_token()
    output = ActionOutput(
        log=context.log,
        environment=with_token({**context.environment, **order.environment}, token),
        events=events,
        hearing=order.hearing,
    )
    tree = ActionTree(token, pid=lambda: output.pid, may_leave=order.may_leave, steps=context.steps)
    order.on_tree(tree)
    attempt = _machine(order.resolved)
    surroundings = Surroundings(
        clock=context.clock,
        events=events,
        tree=tree,
        session_dir=session.working_directory,
        finish_captures=lambda: order.finish_captures(attempt.facts),
        on_notice=order.on_notice,
        messages_file=order.messages_file,
    )
    started = context.clock.monotonic()
    if order.messages_file is not None:
        output.follow(order.messages_file)
    with _interruptible(context, order, events):
        order.start(output)
        if output.process is None and not output.spawn_error:
            return ActionResult(facts=Facts(exit_code=0), failure=None, ran_seconds=0.0)
        context.led.note(output.pid)
        facts = ActionRun(attempt, lambda: output.process, surroundings).run()
    session.wait_idle()
    return ActionResult(
        facts=facts,
        failure=_failure(output, session, facts),
        ran_seconds=context.clock.monotonic() - started,
    )


@contextmanager
def _interruptible(
    context: LaunchContext, order: ActionOrder, events: SimpleQueue[machine.Event]
) -> Iterator[None]:
    """Stops that cover the action become its machine's events."""
    subscribing: int | None = threading.get_ident()

    def stop(wish: Stop) -> None:
        if order.is_leaving and threading.get_ident() == subscribing:
            return  # it was there before
        interrupt = interrupt_for(
            wish, order.resolved, now=context.clock.monotonic(), capturing=order.capturing()
        )
        order.on_stop(wish, interrupt)
        events.put(interrupt)

    context.board.subscribe(StepKey(context.step.index), order.task, stop)
    subscribing = None
    try:
        yield
    finally:
        context.board.unsubscribe()


def _failure(output: ActionOutput, session: Workspace, facts: Facts) -> str | None:
    """What went wrong, in words, if anything did.

    Raises:
        BaseException: the reading of the output ended by a bug of ours.
    """
    if output.process is not None:
        if output.process.error is not None:
            raise output.process.error
        if output.process.complaint:
            facts.killed = True
            return output.process.complaint
    return output.spawn_error or session.failure


def interrupt_for(
    stop: Stop, resolved: ResolvedAction, *, now: float, capturing: Capturing
) -> Interrupt:
    """How a stop interrupts an action: by which signal, with how much notice."""
    method = resolved.cancel if stop.intent is Intent.CANCEL else resolved.suspend
    match method:
        case NotifyThenTerminate(signal=number, notify_period=period) if not stop.is_now:
            left = None if stop.deadline is None else timedelta(seconds=stop.deadline - now)
            plan = plan_notice(period, time_left=left, capturing=capturing)
            return Interrupt(
                intent=stop.intent,
                by=stop.by,
                signal=number,
                notice_seconds=plan.period.total_seconds(),
            )
        case NotifyThenTerminate() | Terminate():
            return Interrupt(intent=stop.intent, by=stop.by)


def _machine(resolved: ResolvedAction) -> AttemptMachine:
    timeout = resolved.timeout.total_seconds() if resolved.timeout is not None else None
    match resolved.cancel:
        case NotifyThenTerminate(signal=number, notify_period=period):
            return AttemptMachine(
                timeout_seconds=timeout,
                timeout_signal=number,
                timeout_notice_seconds=period.total_seconds(),
            )
        case Terminate():
            return AttemptMachine(timeout_seconds=timeout)
