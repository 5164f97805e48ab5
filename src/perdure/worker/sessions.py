"""The sessions of one launch: a task runs in the one that is there while all of them succeed.

A session is opened when a task needs it: its folder is made, then the job's environments are
entered, then the step's. After anything but success it is closed: its environments are left in the
opposite order, whatever became of the task, and nothing that was started in it lives on.

Source: Open Job Description, "How jobs are run"; design 8 (environments exited with the time left).
"""

from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace

from perdure.errors import PerdureError
from perdure.policy.outcome import Cause, NotStarted
from perdure.store.layout import StepKey
from perdure.template import (
    ActionName,
    Environment,
    ResolvedAction,
    Terminate,
    resolve_action,
    resolve_wrapped,
)
from perdure.worker.action_output import ActionOutput
from perdure.worker.actions import ActionOrder, ActionResult, run_action
from perdure.worker.context import LaunchContext
from perdure.worker.keeper import end_actions
from perdure.worker.workspaces.command import CommandSession
from perdure.worker.workspaces.openjd import OpenJdSession, SessionPlan
from perdure.worker.workspaces.workspace import Workspace

#: An environment without the action: nothing runs, nothing is interrupted.
NO_ACTION = ResolvedAction(timeout=None, cancel=Terminate(), suspend=Terminate())
#: The hook of a wrap environment that runs instead.
_HOOKS = {
    ActionName.ON_ENTER: ActionName.ON_WRAP_ENV_ENTER,
    ActionName.ON_EXIT: ActionName.ON_WRAP_ENV_EXIT,
}


class StepSessions:
    """Gives the launch's tasks a session; one at a time."""

    def __init__(self, context: LaunchContext) -> None:
        self._context = context
        self._session: Workspace | None = None
        self._resolved_tasks: dict[bool, ResolvedAction] = {}

    def ready(self) -> Workspace | NotStarted:
        """A session whose environments are entered; blocks while they are.

        A failure closes the session and says which environment it was.
        """
        if self._session is not None and self._session.is_ready:
            return self._session
        self.close()
        try:
            self._session = self._open()
        except (RuntimeError, OSError) as error:
            return NotStarted(cause=Cause.SPAWN, reason=f"no session folder: {error}")
        failure = self._enter(self._session)
        if failure is not None:
            self.close()
            return failure
        return self._session

    def close(self) -> None:
        """Leave the environments, end whatever lives on, and remove the folder."""
        session, self._session = self._session, None
        if session is None:
            return
        while session.entered:
            self._leave(session)
        end_actions(self._context.token)
        session.close()

    def resolved_task(self, *, is_resume: bool) -> ResolvedAction:
        """The clock and the cancelations of the step's task action; resolved once.

        Raises:
            TemplateError: a format string says something that is not allowed there.
        """
        if is_resume not in self._resolved_tasks:
            self._resolved_tasks[is_resume] = self._resolve_task(is_resume=is_resume)
        return self._resolved_tasks[is_resume]

    def _resolve_task(self, *, is_resume: bool) -> ResolvedAction:
        step = self._context.step
        action = step.resume if is_resume else step.run
        assert action is not None
        wrapper = self._environment(step.wrapped_by)
        if wrapper is None:
            return resolve_action(action, step.symbols)
        hook = wrapper.actions[ActionName.ON_WRAP_TASK_RUN]
        return resolve_wrapped(hook, wrapper.symbols, action, step.symbols)

    def _open(self) -> Workspace:
        document = self._context.document
        if document.command:
            return CommandSession(
                self._context.session_root,
                Path(document.current_dir),
                retain=document.options.preserve,
            )
        return OpenJdSession(self._plan(), self._record)

    def _plan(self) -> SessionPlan:
        return SessionPlan(
            job=self._context.job,
            root=self._context.session_root,
            path_mapping=self._context.path_mapping,
            retain=self._context.document.options.preserve,
        )

    def _record(self, text: str) -> None:
        self._context.log.say(text)

    def _enter(self, session: Workspace) -> NotStarted | None:
        for environment in (*self._context.job.environments, *self._context.step.environments):
            stop = self._context.board.stops_all(StepKey(self._context.step.index))
            if stop is not None:
                return NotStarted(cause=Cause.ENTER, reason="it was stopped before")
            try:
                result = self._run(session, environment, ActionName.ON_ENTER)
            except PerdureError as error:
                return NotStarted(
                    cause=Cause.ENTER, reason=f"environment {environment.name!r}: {error.message}"
                )
            if not session.is_ready:
                return NotStarted(cause=Cause.ENTER, reason=_why(environment, result))
        return None

    def _leave(self, session: Workspace) -> None:
        """An onExit that fails changes no outcome; it is told."""
        environment = session.entered[-1]
        try:
            result = self._run(session, environment, ActionName.ON_EXIT)
        except PerdureError as error:
            self._note(f"environment {environment.name!r}: onExit: {error.message}")
            return
        if result.facts.exit_code != 0:
            self._note(_why(environment, result))

    def _run(self, session: Workspace, environment: Environment, name: ActionName) -> ActionResult:
        step = self._context.step
        is_enter = name is ActionName.ON_ENTER

        def start(output: ActionOutput) -> None:
            if is_enter:
                session.enter(environment, output, step)
            else:
                session.leave(output)

        resolved = self._resolved(environment, name)
        order = ActionOrder(
            start=start,
            resolved=resolved if is_enter else self._in_time(resolved),
            may_leave=True,
            is_leaving=not is_enter,
        )
        return run_action(self._context, session, order)

    def _in_time(self, resolved: ResolvedAction) -> ResolvedAction:
        """An environment is left in the time that the host still has."""
        stop = self._context.board.stops_all(StepKey(self._context.step.index))
        if stop is None or stop.deadline is None:
            return resolved
        seconds = max(0.0, stop.deadline - self._context.clock.monotonic())
        left = timedelta(seconds=seconds)
        timeout = left if resolved.timeout is None else min(left, resolved.timeout)
        return replace(resolved, timeout=timeout)

    def _resolved(self, environment: Environment, name: ActionName) -> ResolvedAction:
        """The clock and the cancelation of an environment's action, or of the hook around it."""
        action = environment.actions.get(name)
        if action is None:
            return NO_ACTION
        wrapper = self._environment(environment.wrapped_by)
        hook_name = _HOOKS[name]
        if wrapper is None or hook_name not in wrapper.actions:
            return resolve_action(action, environment.symbols)
        hook = wrapper.actions[hook_name]
        return resolve_wrapped(hook, wrapper.symbols, action, environment.symbols)

    def _environment(self, identifier: str | None) -> Environment | None:
        everything = (*self._context.job.environments, *self._context.step.environments)
        return next((e for e in everything if e.identifier == identifier), None)

    def _note(self, text: str) -> None:
        self._context.log.say(f"perdure: {text}")


def _why(environment: Environment, result: ActionResult) -> str:
    """Why an environment's action did not succeed, in one sentence."""
    facts = result.facts
    if facts.intent is not None and facts.intent.value != "timeout":
        what = "was stopped"
    elif facts.timed_out:
        what = "ran longer than its timeout"
    elif facts.exit_code is None or facts.spawn_failed:
        what = f"could not start: {result.failure}"
    else:
        what = f"exited with code {facts.exit_code}"
        if result.failure and "FAILED" not in result.failure:
            what = f"{what} ({result.failure})"
    return f"environment {environment.name!r}: its action {what}"
