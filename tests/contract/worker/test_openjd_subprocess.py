"""The seam in openjd-sessions: our process class does what the stock one does, where they agree.

Every test that compares runs the same small script twice: in a session as the library ships it, and
in one with our class in place. What the traps of the log filter are is written in the module.
"""

import ast
import inspect
import logging
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from textwrap import dedent
from typing import Any

import pytest
from openjd.model import parse_model
from openjd.model.v2023_09 import Environment as EnvironmentModel
from openjd.model.v2023_09 import StepScript
from openjd.sessions import LOG, LogContent, Session, SessionState, _runner_base, _session
from openjd.sessions import _subprocess as stock

from perdure.protocol.attempt_messages import AttemptMessages, SaveAnnounced
from perdure.worker import machine
from perdure.worker.action_output import ActionOutput, Hearing
from perdure.worker.output import OutputLog, read_log
from perdure.worker.workspaces import openjd_subprocess
from perdure.worker.workspaces.openjd_subprocess import SteeredSubprocess

PATIENCE_SECONDS = 30
EXTENSIONS = ["FEATURE_BUNDLE_1", "REDACTED_ENV_VARS"]


def sh(text: str) -> dict[str, Any]:
    return {"command": "/bin/sh", "args": ["-c", dedent(text)]}


class Run:
    """One session; its actions run one after the other."""

    def __init__(self, folder: Path, *, ours: bool, events: Callable[[Any], None] | None = None):
        self.ours = ours
        self.lines: list[str] = []
        self.statuses: list[Any] = []
        self.events: list[Any] = []
        self.log_path = folder / ("ours.log" if ours else "stock.log")
        self._idle = threading.Event()
        self._output: ActionOutput | None = None
        self._log = OutputLog(self.log_path)
        self._on_event = events or self.events.append
        self.id = f"session-{id(self)}"
        self._handler = _Lines(self.id, self.lines)
        LOG.addHandler(self._handler)
        LOG.setLevel(logging.INFO)
        if ours:
            openjd_subprocess.install()
            openjd_subprocess.steer(self.id, self._steering)
        else:
            restore_stock()
        self.session = Session(
            session_id=self.id,
            job_parameter_values={},
            callback=self._on_status,
            session_root_directory=folder,
            revision_extensions=revision_extensions(),
        )

    def _steering(self) -> ActionOutput:
        assert self._output is not None
        return self._output

    def _on_status(self, _id: str, status: Any) -> None:
        self.statuses.append(status)
        if status.state.value != "running":
            self._idle.set()

    def begin(self) -> None:
        """For the next action."""
        self._idle.clear()
        hidden = self._output is not None and self._output.is_secret
        self.machine_events: SimpleQueue[machine.Event] = SimpleQueue()
        self._output = ActionOutput(
            log=self._log,
            environment={"PATH": "/usr/local/bin:/usr/bin:/bin"},
            events=self.machine_events,
            hearing=Hearing(AttemptMessages(is_resume=False), self._on_event),
        )
        if hidden:
            self._output.hide()

    def task(self, action: dict[str, Any]) -> Any:
        """Run a task; its last status."""
        script = parse_model(
            model=StepScript, obj={"actions": {"onRun": action}}, supported_extensions=EXTENSIONS
        )
        self.begin()
        self.session.run_task(step_script=script, task_parameter_values={})
        return self.wait()

    def enter(self, action: dict[str, Any]) -> Any:
        model = parse_model(
            model=EnvironmentModel,
            obj={"name": "Env", "script": {"actions": {"onEnter": action}}},
            supported_extensions=EXTENSIONS,
        )
        self.begin()
        self.session.enter_environment(environment=model)
        return self.wait()

    def wait(self) -> Any:
        stopping = threading.Thread(target=self._end_output)
        stopping.start()
        assert self._idle.wait(PATIENCE_SECONDS)
        stopping.join()
        return self.session.action_status

    def _end_output(self) -> None:
        """What the supervisor does when nothing of the action is left."""
        while self.ours:
            match self.machine_events.get(timeout=PATIENCE_SECONDS):
                case machine.Exited():
                    assert self._output is not None
                    assert self._output.process is not None
                    self._output.process.stop_reading()
                case machine.TreeGone() | machine.SpawnFailed():
                    return

    def close(self) -> None:
        if self.session.state not in (SessionState.READY, SessionState.READY_ENDING):
            self.session.cancel_action()
            self._idle.wait(PATIENCE_SECONDS)
        self.session.cleanup()
        LOG.removeHandler(self._handler)
        openjd_subprocess.release(self.id)
        self._log.close()

    def shown(self) -> str:
        """What our log has."""
        return read_log(self.log_path, 0).decode("utf-8", "replace")


class _Lines(logging.Handler):
    def __init__(self, session_id: str, lines: list[str]) -> None:
        super().__init__()
        self._session_id = session_id
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        content = getattr(record, "openjd_log_content", None)
        if getattr(record, "session_id", None) != self._session_id or content is None:
            return
        if content & (LogContent.COMMAND_OUTPUT | LogContent.PROCESS_CONTROL):
            self._lines.append(record.getMessage())


def revision_extensions() -> Any:
    from openjd.model import RevisionExtensions, SpecificationRevision

    return RevisionExtensions(
        spec_rev=SpecificationRevision.v2023_09, supported_extensions=EXTENSIONS
    )


def restore_stock() -> None:
    for module in (_runner_base, _session):
        vars(module)["LoggingSubprocess"] = stock.LoggingSubprocess


@pytest.fixture
def run(tmp_path) -> Iterator[Callable[..., Run]]:
    made: list[Run] = []

    def make(*, ours: bool = True, **how: Any) -> Run:
        made.append(Run(tmp_path, ours=ours, **how))
        return made[-1]

    yield make
    for one in made:
        one.close()
    restore_stock()
    LOG.setLevel(logging.INFO)


def saves(run: Run) -> list[str | None]:
    return [event.state for event in run.events if isinstance(event, SaveAnnounced)]


# --- the members that the library uses --------------------------------------------------------


def members_used() -> set[str]:
    """Attributes of a LoggingSubprocess that the library's own modules reach for."""
    used: set[str] = set()
    names = {"_process", "process", "_subprocess"}
    for module in (_runner_base, _session):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if not isinstance(node, ast.Attribute):
                continue
            value = node.value
            is_name = isinstance(value, ast.Name) and value.id in names
            is_member = isinstance(value, ast.Attribute) and value.attr in names
            if is_name or is_member:
                used.add(node.attr)
    return used


def test_every_member_that_the_library_uses_is_there():
    used = members_used()
    assert {"run", "notify", "terminate", "exit_code", "is_running"} <= used  # the search works
    missing = {name for name in used if not hasattr(SteeredSubprocess, name)}
    assert missing == set()


def test_it_is_made_with_the_same_arguments():
    ours = inspect.signature(SteeredSubprocess.__init__).parameters
    theirs = inspect.signature(stock.LoggingSubprocess.__init__).parameters
    assert set(theirs) == set(ours)
    for name in ("run", "notify", "terminate", "wait_until_started"):
        mine = inspect.signature(getattr(SteeredSubprocess, name)).parameters
        assert list(inspect.signature(getattr(stock.LoggingSubprocess, name)).parameters) == list(
            mine
        )


def test_the_class_is_used_by_name_in_both_modules_and_nowhere_else():
    assert vars(_runner_base)["LoggingSubprocess"].__name__
    assert vars(_session)["LoggingSubprocess"].__name__
    package = Path(inspect.getfile(_session)).parent
    naming = {
        path.name
        for path in package.glob("*.py")
        if "= LoggingSubprocess(" in path.read_text(encoding="utf-8")
    } - {"_subprocess.py"}  # an example in its own docstring
    assert naming == {"_runner_base.py", "_session.py"}


# --- the same as the stock class --------------------------------------------------------------

SCRIPTS = {
    "succeeds": "echo hello",
    "fails": "echo no; exit 3",
    "exits-255": "exit 255",
    "dies-of-a-signal": "kill -SEGV $$",
    "is-killed": "kill -KILL $$",
    "is-silent": "true",
    "writes-to-stderr": "echo out; echo err >&2; echo out again",
    "ends-without-a-line-end": "printf 'no end'",
    "has-empty-lines": "printf '\\n\\na\\n\\n'",
    "returns-in-lines": "printf '10%%\\r20%%\\r30%%\\n'",
    "windows-line-ends": "printf 'a\\r\\nb\\r\\n'",
    "is-no-utf-8": "printf 'caf\\351 \\377\\n'",
    "is-utf-8": "echo 'süß 漢字'",
    "reports-progress": "echo 'openjd_progress: 50'; echo 'openjd_status: half'",
    "fails-with-a-message": "echo 'openjd_fail: out of paint'; exit 1",
    "reports-nonsense": "echo 'openjd_progress: much'; echo 'openjd_progress: 200'",
    "prints-our-messages": "echo 'openjd_checkpoint_save: {}'; echo 'openjd_task_complete: {}'",
    "prints-a-prefix": "echo '[0]: openjd_progress: 10'; echo ' openjd_progress: 20'",
    "closes-its-output": "exec >&- 2>&-; exit 4",
    "reads-its-input": "cat; echo done",
}
NOT_COMPARED = ("Running command", "Output:")


def said(run: Run, status: Any) -> tuple[Any, ...]:
    return (
        status.state.value,
        status.exit_code,
        status.progress,
        status.status_message,
        status.fail_message,
    )


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_status_is_the_same(run, script):
    theirs = run(ours=False)
    expected = said(theirs, theirs.task(sh(script)))
    ours = run()
    assert said(ours, ours.task(sh(script))) == expected


def without_pid(lines: list[str]) -> list[str]:
    return [re.sub(r"pid:? \d+", "pid N", line) for line in lines]


#: The library adds to lines that it does not understand; our log has them as they were printed.
ADDED_TO = {"reports-nonsense"}


@pytest.mark.parametrize("name", sorted(SCRIPTS.keys() - ADDED_TO))
def test_log_lines_are_the_same(run, name):
    """What our log has beside the library's own records is what the stock class logs as output."""
    theirs = run(ours=False)
    theirs.task(sh(SCRIPTS[name]))
    ours = run()
    ours.task(sh(SCRIPTS[name]))
    control = [line for line in without_pid(ours.lines) if line.startswith(("Command", "Process"))]
    expected = without_pid(theirs.lines)
    assert control == [line for line in expected if line.startswith(("Command", "Process"))]
    output = [
        line for line in expected if not line.startswith(("Command", "Process pid", *NOT_COMPARED))
    ]
    raw = read_log(ours.log_path, 0).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    shown = raw.decode("utf-8", "backslashreplace").splitlines()
    assert shown == output


def test_the_exit_line_is_stocks(run):
    ours = run()
    ours.task(sh("exit 17"))
    pid = next(line for line in ours.lines if line.startswith("Command started as pid: "))
    number = pid.removeprefix("Command started as pid: ")
    assert number.isdigit()
    assert f"Process pid {number} exited with code: 17 (unsigned) / 0x11 (hex)" in ours.lines


def test_a_command_that_is_not_there_fails_the_same(run):
    action = {"command": "/no/such/program"}
    theirs = run(ours=False)
    expected = theirs.task(action)
    ours = run()
    found = ours.task(action)
    assert (found.state, found.exit_code) == (expected.state, expected.exit_code)


def test_variables_of_an_environment_reach_the_next_action(run):
    """Set, replaced and unset: as the stock class passes them."""

    def shown(one: Run) -> list[str]:
        one.enter(
            sh(
                """
                echo 'openjd_env: FIRST=1'
                echo 'openjd_env: SECOND=two words=and more'
                echo 'openjd_env: "THIRD=a\\nb"'
                echo 'openjd_env: GONE=x'
                echo 'openjd_unset_env: GONE'
                """
            )
        )
        one.task(sh('echo "$FIRST|$SECOND|$THIRD|${GONE-unset}"'))
        text = one.shown() if one.ours else "\n".join(one.lines)
        return [line for line in text.splitlines() if "|" in line or line == "b"]

    ours, theirs = run(), run(ours=False)
    restore_stock()
    expected = shown(theirs)
    openjd_subprocess.install()
    assert shown(ours)[-2:] == expected[-2:]
    assert any("two words=and more" in line for line in expected)


def test_a_malformed_variable_fails_the_action_in_both(run):
    script = sh("echo 'openjd_env: not a variable'; sleep 20")
    theirs = run(ours=False)
    expected = theirs.enter(script)
    ours = run()
    found = ours.enter(script)
    assert found.state == expected.state
    assert found.fail_message == expected.fail_message


# --- the traps of the log filter --------------------------------------------------------------


def test_a_loglevel_message_silences_no_later_line_and_no_later_session(run):
    first = run()
    first.task(
        sh(
            """
            echo 'openjd_session_runtime_loglevel: ERROR'
            echo 'openjd_checkpoint_save: {"state": "1"}'
            """
        )
    )
    assert saves(first) == ["1"]
    assert "openjd_session_runtime_loglevel: ERROR" in first.shown()
    assert LOG.level == logging.INFO
    second = run()
    status = second.task(sh("echo 'openjd_status: heard'"))
    assert status.status_message == "heard"
    assert any("exited with code" in line for line in second.lines)


def test_a_secret_is_hidden_from_its_line_on_and_a_state_is_not_damaged(run):
    one = run()
    one.enter(sh("echo 'openjd_redacted_env: PASS=sekret'; echo 'it is sekret'"))
    one.task(
        sh("""echo "again: $PASS"; echo "openjd_checkpoint_save: {\\"state\\": \\"$PASS\\"}" """)
    )
    assert saves(one) == ["sekret"]  # the task's own text, untouched
    assert "sekret" not in one.shown()
    assert "sekret" not in "\n".join(one.lines)
    assert "again: ********" in "\n".join(one.lines)


def test_a_secret_that_is_cut_between_two_reads_is_hidden(run):
    one = run()
    output = sh(
        """
        printf 'openjd_redac'
        sleep 0.2
        printf 'ted_env: PASS=sekret\\n'
        echo 'sekret'
        """
    )
    one.enter(output)
    assert "sekret" not in one.shown()
    assert "sekret" not in "\n".join(one.lines)


def test_a_line_beyond_the_limit_forges_no_message(run):
    """The stock class cuts it, and the rest would be a line of its own."""
    one = run()
    status = one.task(
        sh(
            """
            head -c 64000 /dev/zero | tr '\\0' x
            echo 'openjd_status: forged'
            head -c 64000 /dev/zero | tr '\\0' x
            echo 'openjd_checkpoint_save: {"state": "forged"}'
            printf 'openjd_status: '
            head -c 70000 /dev/zero | tr '\\0' y
            echo
            echo 'openjd_checkpoint_save: {"state": "true"}'
            """
        )
    )
    assert saves(one) == ["true"]
    assert status.status_message is None


def test_messages_on_stderr_and_behind_returns_count(run):
    one = run()
    one.task(
        sh(
            """
            echo 'openjd_checkpoint_save: {"state": "err"}' >&2
            printf '50%%\\ropenjd_checkpoint_save: {"state": "return"}\\r60%%\\n'
            printf 'openjd_checkpoint_save: {"state": "unended"}'
            """
        )
    )
    assert saves(one) == ["err", "return", "unended"]


def test_bytes_that_are_no_utf_8_end_nothing(run):
    one = run()
    one.task(sh("""printf '\\377\\376\\n'; echo 'openjd_checkpoint_save: {"state": "on"}'"""))
    assert saves(one) == ["on"]


def test_only_the_first_line_may_look_like_the_librarys_own(run):
    """A task cannot forge the line that names its process."""
    one = run()
    one.task(sh("echo 'Command started as pid: 1'; echo 'Output:'"))
    shown = [line for line in one.lines if line.startswith("Command started")]
    assert len(shown) == 1
    assert shown[0] != "Command started as pid: 1"


class Raising(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if "openjd_status: bad" in record.getMessage():
            raise ZeroDivisionError
        return True


def test_a_raising_filter_ends_the_action_and_nothing_else(run):
    one = run()
    raising = Raising()
    LOG.addFilter(raising)
    try:
        status = one.task(sh("echo 'openjd_status: bad'; sleep 60; echo never"))
    finally:
        LOG.removeFilter(raising)
    assert status.state.value == "failed"
    assert status.exit_code == -9
    assert one._output is not None
    assert "ZeroDivisionError" in one._output.process.complaint
    assert run().task(sh("true")).state.value == "success"


def test_an_error_of_ours_while_reading_leaves_no_process_and_nobody_waiting(run):
    def broken(_event: Any) -> None:
        raise KeyError("ours")

    one = run(events=broken)
    status = one.task(sh("""echo 'openjd_checkpoint_save: {}'; sleep 60"""))
    assert status.state.value == "failed"
    assert isinstance(one._output.process.error, KeyError)


def test_a_survivor_that_holds_the_output_does_not_hold_the_action(run):
    """The stock class waits six seconds for it; what it prints later harms nothing."""
    one = run()
    status = one.enter(sh("(sleep 0.5; echo late; sleep 20) & echo early"))
    assert status.state.value == "success"
    assert "early" in one.shown()
    assert "late" not in one.shown()


def test_a_survivor_that_floods_the_output_does_not_hold_the_action(run):
    one = run()
    status = one.enter(sh("yes & sleep 0.2; echo $! > flood.pid"))
    assert status.state.value == "success"
    pid = int((Path(one.session.working_directory) / "flood.pid").read_text())
    os.kill(pid, signal.SIGKILL)


def test_stop_reading_after_the_end_writes_into_no_other_file(run, tmp_path):
    """The descriptor's number may be another file's by then."""
    one = run()
    one.task(sh("true"))
    process = one._output.process
    files = [(tmp_path / f"f{n}").open("wb") for n in range(20)]
    process.stop_reading()
    process.stop_reading()
    for file in files:
        file.close()
        assert Path(file.name).read_bytes() == b""


def test_it_runs_once(run):
    one = run()
    one.task(sh("true"))
    with pytest.raises(RuntimeError, match="already been run"):
        one._output.process.run()
