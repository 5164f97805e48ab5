"""Jobs, launches and workers made by hand: what a manager does, without one.

A `Ground` is a folder with a store, sessions and logs; a `JobRun` is a job in it; a `WorkerRun` is
one worker process with its keeper. Everything that tests look at is read from the store.
"""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

from ulid import ULID

from perdure.cli.working import pause
from perdure.clock import SystemClock
from perdure.journal.account import AttemptAccount
from perdure.store import layout
from perdure.store.layout import JobId, LaunchId, StepKey, TaskKey
from perdure.store.manifests.manifest import Manifest
from perdure.store.manifests.manifest_reading import decode_manifest
from perdure.store.opening import open_store
from perdure.store.records.job_document import JobDocument, Options, Text
from perdure.store.records.lineage import Lineage
from perdure.store.records.log import Entry, Log
from perdure.store.records.record_format import encode_record
from perdure.template import Job, task_key
from perdure.worker.job_records import JobRecords, LineageId
from perdure.worker.loading import load
from perdure.worker.output import read_log
from perdure.worker.processes import TOKEN_VARIABLE

PATIENCE_SECONDS = 60.0
PLAIN_VARIABLES = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8"}


def wait_until(what: str, check: Callable[[], Any], *, seconds: float | None = None) -> Any:
    """The first true answer of ``check``; fails the test when there is none in time."""
    seconds = PATIENCE_SECONDS if seconds is None else seconds
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, f"waited {seconds} s in vain: {what}"
        threading.Event().wait(0.01)
    return found


class Zygote:
    """Forks workers from a process that has imported everything (see `zygote`)."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("zygote.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._lock = threading.Lock()
        self._heard = threading.Condition()
        self._pids: list[int] = []
        self._exits: dict[int, int] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(self, request: Mapping[str, Any]) -> int:
        assert self._process.stdin is not None
        with self._lock, self._heard:
            known = len(self._pids)
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            assert self._heard.wait_for(lambda: len(self._pids) > known, PATIENCE_SECONDS)
            return self._pids[known]

    def exit_of(self, pid: int) -> int | None:
        with self._heard:
            return self._exits.get(pid)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            words = json.loads(line)
            with self._heard:
                if "exit" in words:
                    self._exits[words["pid"]] = words["exit"]
                else:
                    self._exits.pop(words["pid"], None)
                    self._pids.append(words["pid"])
                self._heard.notify_all()


@dataclass
class WorkerRun:
    """One worker: its keeper is the process that was started."""

    launch: LaunchId
    token: str
    pid: int
    out: Path
    poll: Callable[[], int | None]

    def wait(self, *, seconds: float | None = None) -> int:
        """Its exit code, once it has ended."""
        wait_until(
            f"the end of worker {self.launch}", lambda: self.poll() is not None, seconds=seconds
        )
        code = self.poll()
        assert code is not None
        return code

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    @property
    def worker_pid(self) -> int:
        """The keeper's child."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return int(wait_until("the worker", lambda: children.read_text().split())[0])

    def said(self) -> str:
        """What worker and keeper printed themselves."""
        return self.out.read_text() if self.out.exists() else ""


@dataclass
class Ground:
    """Where jobs are run."""

    root: Path
    zygote: Zygote | None = None
    workers: list["WorkerRun"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = open_store(str(self.root / "store"), write=True, create=True)
        self.sessions = self.root / "sessions"
        self.logs = self.root / "logs"
        self.work = self.root / "work"
        self.work.mkdir(exist_ok=True)

    def submit(
        self,
        template: str | Mapping[str, Any],
        *,
        parameters: Mapping[str, str] | None = None,
        environments: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        omitted: tuple[str, ...] = (),
        **options: Any,
    ) -> "JobRun":
        """Put a job into the store; ``options`` are fields of `Options`."""
        text = template if isinstance(template, str) else json.dumps(template)
        options = {"notice": "none", "heartbeat_seconds": 0.5, **options}
        document = JobDocument(
            job=JobId(str(ULID()).lower()),
            name="job",
            template=Text(name="job.yaml", text=text),
            environments=tuple(
                Text(name=f"env{n}.yaml", text=one) for n, one in enumerate(environments)
            ),
            parameters=dict(parameters or {}),
            template_dir=str(self.work),
            current_dir=str(self.work),
            variables={**PLAIN_VARIABLES, **(variables or {})},
            omitted=omitted,
            options=Options(**options),
        )
        job = load(document)
        header = {**document.to_header(), "id": secrets.token_hex(16), "at": "2026-01-01T00:00:00Z"}
        self.store.driver.put_if_absent(layout.job_record(document.job), encode_record(header))
        return JobRun(ground=self, document=document, job=job)

    def processes(self) -> list[tuple[int, str]]:
        """Everything alive that carries this ground's path in its command, variables or folder."""
        found = []
        for pid in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()):
            if pid == os.getpid():
                continue
            with contextlib.suppress(OSError):
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                about = command + Path(f"/proc/{pid}/environ").read_bytes()
                about += os.fsencode(Path(f"/proc/{pid}/cwd").readlink())
                if os.fsencode(self.root) in about and state not in "ZX":
                    found.append((pid, command.replace(b"\0", b" ").decode("utf-8", "replace")))
        return found

    def end(self) -> None:
        """Kill what a failed test left: the keeper ends the rest when its worker dies."""
        for worker in self.workers:
            if worker.poll() is None:
                children = Path(f"/proc/{worker.pid}/task/{worker.pid}/children")
                with contextlib.suppress(OSError):
                    for pid in children.read_text().split():
                        os.kill(int(pid), signal.SIGKILL)

    def nothing_runs(self) -> None:
        """Fails unless every process of this ground is gone, at once or within a moment."""
        wait_until(f"processes end: {self.processes()}", lambda: not self.processes(), seconds=10)


@dataclass
class JobRun:
    """A job in the store, and its workers."""

    ground: Ground
    document: JobDocument
    job: Job
    workers: list[WorkerRun] = field(default_factory=list)

    @property
    def id(self) -> JobId:
        return self.document.job

    @property
    def driver(self):
        return self.ground.store.driver

    def log(self) -> Log:
        log = Log(self.driver, layout.job_log(self.id), clock=SystemClock(), pause=pause)
        log.read()
        return log

    def append(self, header: Mapping[str, Any]) -> None:
        """Put a record into the job's log, behind whatever others put meanwhile."""
        log = self.log()
        while not isinstance(log.append(header), Entry):
            pass

    def wish(self, kind: str, **fields: Any) -> None:
        """Put a suspend, cancel or resume into the job's log."""
        self.append({"kind": kind, "scope": {}, **fields})

    def suspend(self, *, by: str = "user", now: bool = False) -> None:
        self.wish("suspend", by=by, now=now)

    def cancel(self) -> None:
        self.wish("cancel", by="user")

    def resume(self) -> None:
        self.wish("resume", lifts=self.log().last)

    def start(
        self,
        *,
        step: int = 1,
        tasks: Sequence[int | Mapping[str, str]] | None = None,
        shares: bool | None = None,
        environment: Mapping[str, str] | None = None,
        enter: Mapping[str, str] | None = None,
        is_real: bool = False,
    ) -> WorkerRun:
        """Put an intent into the log and start its worker.

        Args:
            step: whose tasks it runs.
            tasks: which lineages it takes (indexes, or values of split chunks); None: those that
                were begun and have not succeeded, if any, else shares.
            shares: whether it takes shares; None: where it takes no lineages.
            environment: what the worker finds in its environment.
            enter: files that the process writes before it begins ("PID": its own).
            is_real: start a new interpreter, as an engine does.
        """
        refs = [self._ref(step, task) for task in (tasks if tasks is not None else self.open(step))]
        launch, token = LaunchId(str(ULID()).lower()), secrets.token_hex(16)
        intent = {
            "kind": "launch",
            "launch": launch,
            "token": token,
            "step": step,
            "tasks": refs,
            "shares": not refs if shares is None else shares,
            "resources": {},
        }
        self.append(intent)
        return self._start(launch, token, environment or {}, enter or {}, is_real=is_real)

    def _start(
        self,
        launch: LaunchId,
        token: str,
        environment: Mapping[str, str],
        enter: Mapping[str, str],
        *,
        is_real: bool,
    ) -> WorkerRun:
        ground = self.ground
        ground.logs.mkdir(exist_ok=True)
        out = ground.logs / f"{launch}.out"
        argv = [
            *("--store", str(ground.root / "store")),
            *("--job", self.id, "--launch", launch, "--token", token),
            *("--logs", str(ground.logs / self.id), "--sessions", str(ground.sessions)),
        ]
        variables = {**PLAIN_VARIABLES, **environment, TOKEN_VARIABLE: token}
        if ground.zygote is not None and not is_real:
            zygote = ground.zygote
            pid = zygote.start({"argv": argv, "env": variables, "out": str(out), "enter": enter})
            run = WorkerRun(launch, token, pid, out, lambda: zygote.exit_of(pid))
        else:
            with out.open("ab") as said:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "perdure.cli.work", *argv],
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    start_new_session=True,
                    env=variables,
                )
            run = WorkerRun(launch, token, process.pid, out, process.poll)
        self.workers.append(run)
        ground.workers.append(run)
        return run

    def run(self, *, seconds: float | None = None, **how: Any) -> "JobRun":
        """Start a worker and wait for its end."""
        worker = self.start(**how)
        assert worker.wait(seconds=seconds) == 0, worker.said()
        return self

    def _ref(self, step: int, task: int | Mapping[str, str]) -> dict[str, Any]:
        space = self.job.step(step).space
        if isinstance(task, int):
            return {"task": task_key(space.task(task)), "index": task}
        return {"task": task_key(space.typed(task)), "values": dict(task)}

    def key(self, task: int | Mapping[str, str] = 0, *, step: int = 1) -> TaskKey:
        return TaskKey(self._ref(step, task)["task"])

    def records(self) -> JobRecords:
        records = JobRecords(self.driver, self.id, clock=SystemClock(), pause=pause)
        records.refresh()
        for launch in records.state.launches:
            records.account(launch)
        return records

    def attempts(self, task: int | Mapping[str, str] = 0, *, step: int = 1) -> list[AttemptAccount]:
        """What counts of the task's attempts, in order."""
        records = self.records()
        key = self.key(task, step=step)
        found = [
            (at.attempt, account)
            for launch in records.state.launches
            for at, account in records.known_account(launch).of(step, key)
        ]
        return [account for _, account in sorted(found, key=lambda pair: pair[0])]

    def outcome(
        self, task: int | Mapping[str, str] = 0, *, step: int = 1, attempt: int = -1
    ) -> Mapping[str, Any]:
        """The outcome of an attempt (the last one)."""
        attempts = self.attempts(task, step=step)
        assert attempts, (self.log_text(), [worker.said() for worker in self.workers])
        outcome = attempts[attempt].outcome
        assert outcome is not None, (self.log_text(), [worker.said() for worker in self.workers])
        return outcome

    def notes(self, task: int | Mapping[str, str] = 0, *, attempt: int = -1) -> list[str]:
        return [str(note["text"]) for note in self.attempts(task)[attempt].notes]

    def kept(self, task: int | Mapping[str, str] = 0) -> dict[int, int | None]:
        kept: dict[int, int | None] = {}
        for attempt in self.attempts(task):
            kept.update(attempt.kept)
        return kept

    def open(self, step: int = 1) -> list[int | Mapping[str, str]]:
        """Lineages that were begun or split off and have not ended well."""
        records = self.records()
        space = self.job.step(step).space
        everything: list[int | Mapping[str, str]] = list(range(space.len or 0))
        everything += [dict(v) for share in records.shares(StepKey(step)) for v in share.values]
        found: list[int | Mapping[str, str]] = []
        for task in everything:
            states = [(a.outcome or {}).get("state") for a in self.attempts(task, step=step)]
            if states and states[-1] not in ("SUCCEEDED", "CANCELED"):
                found.append(task)
        return found

    def lineage(self, task: int | Mapping[str, str] = 0, *, step: int = 1) -> Lineage:
        records = self.records()
        log = records.lineage_log(LineageId(step=StepKey(step), task=self.key(task, step=step)))
        log.read()
        launches = {layout.LaunchId(share.launch): share for share in records.shares(StepKey(step))}
        share = next(iter(launches.values()), None)
        return records.fold(log, share=share)

    def manifest(self, number: int, task: int | Mapping[str, str] = 0) -> Manifest:
        records = self.records()
        log = records.lineage_log(LineageId(step=StepKey(1), task=self.key(task)))
        log.read()
        record = log.fetch(number)
        return decode_manifest(record.header, record.payload, name=f"@{number}")

    def text(self, worker: WorkerRun) -> str:
        """All that a worker's launch logged."""
        path = self.ground.logs / self.id / f"{worker.launch}.log"
        return read_log(path, 0).decode("utf-8", "replace") if path.exists() else ""

    def log_text(self) -> str:
        """The logs of all launches, joined."""
        return "".join(self.text(worker) for worker in self.workers)

    def wait_for(self, text: str, *, seconds: float | None = None) -> None:
        """Until the last worker's log says so."""
        worker = self.workers[-1]
        wait_until(
            f"{text!r} in {self.text(worker)[-500:]!r} {worker.said()}",
            lambda: text in self.text(worker) or self._over(worker, text),
            seconds=seconds,
        )

    def _over(self, worker: WorkerRun, text: str) -> bool:
        if worker.poll() is not None:
            assert text in self.text(worker), (self.text(worker), worker.said())
        return False


def python_step(
    code: str,
    *,
    name: str = "Step",
    resume: bool = True,
    notice_seconds: int | None = 2,
    suspend_signal: str = "SIGUSR1",
    timeout: int | None = None,
    cancel: Mapping[str, Any] | None = None,
    command: Sequence[str] = ("python3", "{{Task.File.Run}}"),
    more: Mapping[str, Any] | None = None,
    args: Sequence[str] = (),
    resume_args: Sequence[str] = ("{{Task.Checkpoint.State}}", "{{Task.Checkpoint.File}}"),
) -> dict[str, Any]:
    """A step whose action runs ``code``; the resumed one gets state and file as arguments."""

    def action(*extra: str) -> dict[str, Any]:
        described: dict[str, Any] = {"command": command[0], "args": [*command[1:], *args, *extra]}
        if timeout is not None:
            described["timeout"] = timeout
        if cancel is not None:
            described["cancelation"] = dict(cancel)
        if notice_seconds is not None:
            described["checkpointCancelation"] = {
                "mode": "NOTIFY_THEN_TERMINATE",
                "notifyPeriodInSeconds": notice_seconds,
                "signalToNotify": suspend_signal,
            }
        return described

    actions = {"onRun": action()}
    if resume:
        actions["onCheckpointResume"] = action(*resume_args)
    return {
        "name": name,
        "script": {
            "actions": actions,
            "embeddedFiles": [
                {"name": "Run", "type": "TEXT", "filename": "run.py", "data": dedent(code)}
            ],
        },
        **(more or {}),
    }


def template(
    *steps: Mapping[str, Any], extensions: Sequence[str] = (), **more: Any
) -> dict[str, Any]:
    """A job template of these steps."""
    return {
        "specificationVersion": "jobtemplate-2023-09",
        "extensions": ["CHECKPOINT", *extensions],
        "name": "job",
        "steps": list(steps),
        **more,
    }
