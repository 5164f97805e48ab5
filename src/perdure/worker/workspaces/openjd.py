"""Open Job Description sessions: the working folder, the environments, and the starting of actions.

The library makes the folder, writes embedded files, resolves format strings and keeps the variables
that environments set; the process itself is ours (`openjd_subprocess`), and so are clocks and
signals. What the library says of itself goes into the launch's log, as `openjd run` shows it.

Threads: called by the launch's thread; nothing here blocks but for the library's own short work.

Source: openjd-sessions 0.13 and 0.14 (v0).
"""

import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from openjd.sessions import (
    LOG,
    ActionState,
    ActionStatus,
    LogContent,
    PathMappingRule,
    Session,
    SessionState,
)

from perdure.template import Environment, Job, Step, Symbols, TaskParameters
from perdure.worker.action_output import ActionOutput
from perdure.worker.workspaces import openjd_subprocess


class SessionPlan(Struct, frozen=True, kw_only=True):
    """What a session is made from.

    Attributes:
        root: the folder in which its working folder is made; it exists.
        path_mapping: the library's rules.
        retain: whether the working folder is kept when the session ends.
    """

    job: Job
    root: Path
    path_mapping: Sequence[Any] = ()
    retain: bool = False


class OpenJdSession:
    """One session.

    Args:
        plan: what it is made from.
        record: gets every line that the library itself says.

    Attributes:
        working_directory: the session folder.
    """

    def __init__(self, plan: SessionPlan, record: Callable[[str], None]) -> None:
        openjd_subprocess.install()
        self._job = plan.job
        self._id = secrets.token_hex(8)
        self._output: ActionOutput | None = None
        self._hides = False
        self._folder = ""
        self._own_names: set[str] = set()
        self._entered: list[Environment] = []
        self._is_idle = threading.Event()
        _Tap.listen(self._id, record, self._is_shown)
        openjd_subprocess.steer(self._id, self._steering)
        try:
            self._session = Session(
                session_id=self._id,
                job_name=plan.job.name,
                job_parameter_values=dict(plan.job.session_parameters),
                path_mapping_rules=list(plan.path_mapping) or None,
                retain_working_dir=plan.retain,
                callback=self._on_status,
                session_root_directory=plan.root,
                revision_extensions=plan.job.revision_extensions,
            )
        except BaseException:
            self._forget()
            raise
        self.working_directory = Path(self._session.working_directory)
        self._folder = str(self.working_directory)
        self._own_names = openjd_subprocess.made_in(self._folder)
        self._own_names.add(self.files_directory.name)

    @property
    def files_directory(self) -> Path:
        """Where embedded files are written: never part of a dataset."""
        return Path(self._session.files_directory)

    def is_own(self, path: str) -> bool:
        """Whether the library made what lies there: scripts, embedded files, path mapping rules.

        They have other names in the next session, so that they belong to no dataset.

        Args:
            path: relative to the session folder.
        """
        return path.partition("/")[0] in self._own_names

    @property
    def is_ready(self) -> bool:
        """Whether a further task may run here: every action so far succeeded."""
        return self._session.state == SessionState.READY

    @property
    def entered(self) -> tuple[Environment, ...]:
        """The environments entered and not yet left, in order."""
        return tuple(self._entered)

    def enter(self, environment: Environment, output: ActionOutput, step: Step | None) -> None:
        """Start entering an environment; it counts as entered whatever becomes of its onEnter."""
        self._begin(output)
        self._entered.append(environment)
        self._session.enter_environment(
            environment=environment.model,
            identifier=environment.identifier,
            resolved_symtab=environment.symbols.table,
            step_name=step.name if step is not None else None,
        )
        self._settle_start(output)

    def leave(self, output: ActionOutput) -> None:
        """Start leaving the environment entered last."""
        self._begin(output)
        environment = self._entered.pop()
        self._session.exit_environment(
            identifier=environment.identifier,
            keep_session_running=True,
            resolved_symtab=environment.symbols.table,
        )
        self._settle_start(output)

    def run_task(
        self,
        step: Step,
        script: Any,
        symbols: Symbols,
        parameters: TaskParameters,
        output: ActionOutput,
    ) -> None:
        """Start a task's action."""
        self._begin(output)
        self._session.run_task(
            step_script=script,
            task_parameter_values=parameters.for_session(),
            step_name=step.name,
            resolved_symtab=symbols.table,
        )
        self._settle_start(output)

    @property
    def failure(self) -> str | None:
        """What the library says of the last action if it did not succeed (an openjd_fail, say)."""
        status = self._session.action_status
        if status is None or status.state in (ActionState.SUCCESS, ActionState.RUNNING):
            return None
        return status.fail_message or f"the action ended {status.state.value.upper()}"

    def wait_idle(self) -> None:
        """Block until the library has taken note of the end of the action started last."""
        self._is_idle.wait()

    def close(self) -> None:
        """Forget the session and remove its folder unless it is retained."""
        try:
            self._session.cleanup()
        finally:
            self._forget()

    def _forget(self) -> None:
        openjd_subprocess.release(self._id)
        openjd_subprocess.forget_made_in(self._folder)
        _Tap.forget(self._id)

    def _begin(self, output: ActionOutput) -> None:
        if self._output is not None:
            self._hides = self._hides or self._output.is_secret
        if self._hides:
            output.hide()
        self._output = output
        self._is_idle.clear()

    def _on_status(self, _session_id: str, status: ActionStatus) -> None:
        if status.state != ActionState.RUNNING:
            self._is_idle.set()

    def _steering(self) -> ActionOutput:
        assert self._output is not None, "no process outside of an action"
        return self._output

    def _settle_start(self, output: ActionOutput) -> None:
        """Where the library refused before there was a process, say so like a failed start."""
        if output.process is not None:
            return
        self._is_idle.set()
        if self.failure is not None:
            output.spawn_failed(self.failure)

    def _is_shown(self, record: logging.LogRecord) -> bool:
        """Whether a record goes into the log.

        Output does already, but for hidden values and for lines to which the library adds what is
        wrong with them. What it says about this host (versions, its own path) is of no use there.
        """
        content = getattr(record, "openjd_log_content", None)
        if content is not None and LogContent.HOST_INFO in content:
            return False
        if content is None or LogContent.COMMAND_OUTPUT not in content:
            return True
        if self._output is not None and self._output.is_secret:
            return True
        return record.getMessage() != getattr(record, openjd_subprocess.AS_PRINTED, None)


class _Tap(logging.Handler):
    """Takes what openjd-sessions logs, after its own filters, to the session's log."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions: dict[
            str, tuple[Callable[[str], None], Callable[[logging.LogRecord], bool]]
        ] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """One record to whom it concerns."""
        session = self.sessions.get(getattr(record, "session_id", ""))
        if session is not None and session[1](record):
            session[0](record.getMessage())

    @classmethod
    def listen(
        cls,
        session_id: str,
        record: Callable[[str], None],
        is_shown: Callable[[logging.LogRecord], bool],
    ) -> None:
        """Begin listening for a session."""
        tap = next((handler for handler in LOG.handlers if isinstance(handler, cls)), None)
        if tap is None:
            tap = cls()
            LOG.addHandler(tap)
            LOG.propagate = False
        LOG.setLevel(logging.INFO)
        tap.sessions[session_id] = (record, is_shown)

    @classmethod
    def forget(cls, session_id: str) -> None:
        """The session is no more."""
        for handler in LOG.handlers:
            if isinstance(handler, cls):
                handler.sessions.pop(session_id, None)


def library_rules(rules: Sequence[Mapping[str, Any]]) -> list[PathMappingRule]:
    """Path mapping rules of a ``pathmapping-1.0`` document as the library takes them."""
    return [PathMappingRule.from_dict(dict(rule)) for rule in rules]
