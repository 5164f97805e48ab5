"""Jobs made by hand in a store in memory, for what only looks at them."""

import secrets
from dataclasses import dataclass, field

from msgspec.structs import replace

from perdure.clock import SystemClock
from perdure.journal.journal_format import Kind
from perdure.journal.writer import JournalWriter
from perdure.manager.job_view import JobView, ViewParts
from perdure.store import layout
from perdure.store.drivers.memory import MemoryDriver
from perdure.store.layout import JobId, LaunchId, StepKey, TaskKey
from perdure.store.opening import Store
from perdure.store.records.job_document import JobDocument, Text
from perdure.store.records.log import Log
from perdure.store.records.record_format import encode_record
from perdure.worker.loading import load

FRAMES = """
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT]
name: Movie
steps:
- name: Render
  parameterSpace:
    taskParameterDefinitions:
    - {name: Frame, type: INT, range: "1-20"}
    - {name: Camera, type: STRING, range: ["left,top", "right"]}
  script:
    actions:
      onRun: {command: "true"}
      onCheckpointResume: {command: "true"}
- name: Encode
  dependencies: [{dependsOn: Render}]
  script:
    actions:
      onRun: {command: "true"}
"""

CHUNKS = """
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT, TASK_CHUNKING]
name: Chunky
steps:
- name: Render
  parameterSpace:
    taskParameterDefinitions:
    - name: Frame
      type: CHUNK[INT]
      range: "1-20"
      chunks: {defaultTaskCount: 5, rangeConstraint: CONTIGUOUS}
  script:
    actions:
      onRun: {command: "true"}
      onCheckpointResume: {command: "true"}
"""

LAUNCH = LaunchId("01jdxyz0000000000000000001")
JOB = JobId("01jdxyz0000000000000000000")
#: A process that is no more: pids are never that large.
GONE_PID = 2**30


def never(tries):
    raise AssertionError(f"nothing here is uncertain (try {tries})")


@dataclass
class HandMade:
    """A job in a store in memory."""

    template: str = FRAMES
    job: JobId = JOB
    driver: MemoryDriver = field(default_factory=MemoryDriver)
    document: JobDocument | None = None

    def __post_init__(self):
        self.document = replace(
            JobDocument(
                job=self.job,
                name="Movie",
                template=Text(name="job.yaml", text=self.template),
                template_dir="/",
                current_dir="/",
                submitted_at="2026-11-29T10:00:00.000Z",
            ),
            **(self.document or {}),
        )
        header = {**self.document.to_header(), "id": secrets.token_hex(16), "at": ""}
        self.driver.put_if_absent(layout.job_record(self.job), encode_record(header))
        self._writers = {}

    @property
    def store(self):
        return Store(driver=self.driver, url="memory://here", store_id="0" * 32, is_writable=True)

    def log(self, prefix):
        log = Log(self.driver, prefix, clock=SystemClock(), pause=never)
        log.read()
        return log

    def record(self, kind, **fields):
        return self.log(layout.job_log(self.job)).append({"kind": kind, **fields}).number

    def launch(self, launch=LAUNCH, *, step=1, tasks=(), shares=True, pid=None):
        """An intent, its engine's ids, and the first line of its journal."""
        token = f"token-{launch}"
        self.record(
            "launch",
            launch=launch,
            token=token,
            step=step,
            tasks=list(tasks),
            shares=shares,
            resources={},
        )
        process = self.process(pid)
        self.record("launched", token=token, ids=process)
        self.journal(Kind.OPENED, launch=launch, format=1, **process)
        return token

    def process(self, pid):
        """This very process, or one that is no more."""
        import os

        from perdure.worker.host import describe_process

        described = describe_process(os.getpid())
        return described if pid is None else {**described, "pid": pid, "pid_started": 1}

    def share(self, first, last, *, launch=LAUNCH, step=1):
        log = self.log(layout.shares(self.job, StepKey(step)))
        log.append({"kind": "share", "launch": launch, "tasks": [[first, last]]})

    def journal(self, kind, *, launch=LAUNCH, **fields):
        fields = {"launch": launch, **fields} if kind is Kind.OPENED else fields
        key = layout.journal(self.job, launch)
        if launch not in self._writers:
            self._writers[launch] = JournalWriter(self.driver, key)
        self._writers[launch].append(kind, fields, durable=True)

    def begun(self, task, values, *, launch=LAUNCH, attempt=1, action="onRun", base=None, step=1):
        self.journal(
            Kind.BEGUN,
            launch=launch,
            step=step,
            task=task,
            attempt=attempt,
            action=action,
            base=base,
            values=values,
            log=0,
            host="here",
            at="2026-11-29T10:00:01.000Z",
        )

    def ended(self, task, state, *, launch=LAUNCH, attempt=1, step=1, **fields):
        key = {"step": step, "task": task, "attempt": attempt}
        described = {"cause": None, "by": None, "reason": f"it {state}", "exit_code": 0}
        described |= {"ran": 100.0, "log": [0, 0], "at": "2026-11-29T10:05:00.000Z", **fields}
        self.journal(Kind.OUTCOME, launch=launch, **key, state=state, **described)
        self.journal(Kind.RELEASED, launch=launch, **key)

    def save(self, task, content, *, claim=0, step=1, **fields):
        """A checkpoint's record, without anything in it."""
        log = self.log(layout.lineage_log(self.job, StepKey(step), TaskKey(task)))
        header = {"attempt": 1, "launch": LAUNCH, "save": 1, "content": content, "roots": []}
        header |= {"size": 10, "new": 5, "files": 1, **fields}
        return log.append({"kind": "save", "claim": claim, **header}).number

    def claim(self, task, attempt, *, launch=LAUNCH, base=None, step=1, **fields):
        log = self.log(layout.lineage_log(self.job, StepKey(step), TaskKey(task)))
        described = {"attempt": attempt, "launch": launch, "base": base, **fields}
        return log.append({"kind": "claim", **described}).number

    def view(self, engine=None):
        view = JobView(
            ViewParts(
                driver=self.driver,
                document=self.document,
                job=load(self.document),
                clock=SystemClock(),
                pause=never,
                engine=engine,
            )
        )
        view.refresh()
        return view

    def key(self, index, step=1):
        """The key of a task."""
        from perdure.template import task_key

        return task_key(self.view().steps[StepKey(step)].step.space.task(index))
