"""A job whose machine vanishes, disk and all, goes on elsewhere from the bucket alone.

The machine is lost at seeded moments: every process of perdure and of the task dies at once, and
home, cache, logs and session folders are deleted. The same line is given on an empty machine with
another name, until the job has ended. Then

- its result is that of a run that nothing interrupted;
- each attempt went on from the newest checkpoint of the one before, and none has a number twice;
- nothing that the store had called done was done again, neither tasks nor values of a chunk;
- whenever a task is called done its declared files lie whole where they are delivered
  (``--deliver``), whichever machines made them.

What tasks did is written down by a notebook outside of all machines, which perdure does not know.
"""

import hashlib
import json
import random
import re
import time
from collections import Counter

import pytest
from blake3 import blake3
from obstore.store import S3Store

from support.machines import Machine
from support.object_store import BUCKET, environment_for, s3_of_its_own

TEMPLATE = """\
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT, TASK_CHUNKING]
name: Vanishing
parameterDefinitions:
- {name: Notebook, type: STRING}
steps:
- name: Sum
  parameterSpace:
    taskParameterDefinitions: [{name: Item, type: INT, range: "1-2"}]
  script:
    actions:
      onRun:
        command: python3
        args: ["{{Task.File.Sum}}", "{{Param.Notebook}}", "{{Task.Param.Item}}"]
      onCheckpointResume:
        command: python3
        args: ["{{Task.File.Sum}}", "{{Param.Notebook}}", "{{Task.Param.Item}}",
               "{{Task.Checkpoint.State}}", "{{Task.Checkpoint.File}}"]
    embeddedFiles:
    - name: Sum
      type: TEXT
      data: |
        import hashlib, os, sys, time
        notebook, item, *saved = sys.argv[1:]
        def note(text):
            with open(notebook, "a") as pages:
                pages.write(text + "\\n")
        number, data = 0, item.encode()
        if saved:
            number, data = int(saved[0]), open(saved[1], "rb").read()
        note(f"begin {item} {number}")
        def declare(name, text):
            path = os.path.abspath(name)
            with open(path, "w") as file:
                file.write(text)
            print('openjd_checkpoint_files: {"files": ["%s"]}' % path, flush=True)
        declare("early.txt", f"early {item}")
        while number < 12:
            # What is added depends on all that was there before.
            data += hashlib.sha256(data).digest() * 300
            number += 1
            print("number", item, number, flush=True)
            time.sleep(0.05)
            if number % 3 == 0:
                path = os.path.abspath(f"sums-{number}.bin")
                with open(path, "wb") as file:
                    file.write(data)
                print('openjd_checkpoint_save: {"state": "%d", "file": "%s"}' % (number, path),
                      flush=True)
        declare("result.txt", hashlib.sha256(data).hexdigest())
        print("result", item, hashlib.sha256(data).hexdigest(), flush=True)
        note(f"end {item}")
- name: Frames
  dependencies: [{dependsOn: Sum}]
  parameterSpace:
    taskParameterDefinitions:
    - name: Frame
      type: CHUNK[INT]
      range: "1-6"
      chunks: {defaultTaskCount: 6, rangeConstraint: CONTIGUOUS}
  script:
    actions:
      onRun:
        command: python3
        args: ["{{Task.File.Frames}}", "{{Param.Notebook}}", "{{Task.Param.Frame}}"]
    embeddedFiles:
    - name: Frames
      type: TEXT
      data: |
        import os, sys, time
        notebook, frames = sys.argv[1:]
        first, _, last = frames.partition("-")
        for frame in range(int(first), int(last or first) + 1):
            with open(notebook, "a") as pages:
                pages.write(f"frame {frame}\\n")
            time.sleep(0.05)
            print("frame", frame, flush=True)
            path = os.path.abspath(f"frame-{frame}.txt")
            with open(path, "w") as file:
                file.write(f"frame {frame}")
            print('openjd_checkpoint_files: {"files": ["%s"]}' % path, flush=True)
            print('openjd_task_complete: {"Frame": %d}' % frame, flush=True)
            time.sleep(0.05)
"""
#: What a whole run prints, so that a moment can be drawn by how much was printed before it.
LINES = 87
KILLS = 3
QUICK = ["--heartbeat-seconds", "1", "--limit", "back_off_seconds=0.05"]
QUICK += ["--limit", "quick_seconds=0"]


class Story:
    """One job, from its first line to its end, on as many machines as it takes."""

    def __init__(self, folder, port, seed):
        self.folder = folder
        self.chance = random.Random(seed)
        self.notebook = folder / "notebook"
        self.notebook.touch()
        self.environment = environment_for(port)
        self.store = ["--store", f"s3://{BUCKET}/{folder.name}", "--key", "mine"]
        self.delivered = f"{folder.name}-delivered"
        self.port = port
        self.machines = 0
        self.said = ""
        self.promised = []

    def machine(self):
        """The next one, empty but for the template, and the line that is given there."""
        self.machines += 1
        made = Machine(self.folder / f"machine-{self.machines}", self.environment)
        template = made.template(TEMPLATE)
        line = ["run", template, "-p", f"Notebook={self.notebook}", *QUICK, *self.store]
        line += ["--deliver", f"s3://{BUCKET}/{self.delivered}"]
        return made, line

    def lose_one(self):
        """Run until a seeded moment and lose the machine; the phase, or None: it had ended."""
        made, line = self.machine()
        wanted = self.chance.randrange(LINES)
        lines = []
        try:
            with made.running(*line) as run:
                for _ in range(wanted):
                    text = run.process.stdout.readline()
                    if not text:
                        break
                    lines.append(text)
                # Not a wait: where the machine is lost is drawn by the seed.
                time.sleep(self.chance.random() * (0.1 if wanted else 1.5))
                has_ended = run.process.poll() is not None
                made.kill_all()
        finally:
            made.vanish()
        self.said += "".join(lines)
        return None if has_ended else phase_of("".join(lines))

    def done(self):
        """What the store calls done, tasks and values of the chunk, read by another machine."""
        made, _ = self.machine()
        try:
            found = made("status", "mine", *self.store[:2], "--json", expect=None)
        finally:
            made.vanish()
        if found.returncode:
            assert found.returncode in (2, 5), (
                found.stderr
            )  # the job, or even the store, is not there yet
            return set()
        self.check_delivered(json.loads(found.stdout))
        attempts = json.loads(found.stdout)["attempts"]
        tasks = {a["task"] for a in attempts if a["outcome"] == "SUCCEEDED"}
        return tasks | {f"frame {value}" for a in attempts for value in a["kept"]}

    def check_delivered(self, status):
        """The files of whatever is called done are there; of the job's tasks, so many are."""
        tasks = {
            ({"Sum": 1, "Frames": 2}[a["step"]], a["key"], a["task"])
            for a in status["attempts"]
            if a["outcome"] == "SUCCEEDED"
        }
        for step, key, task in tasks:
            record = json.loads(self.get(f"perdure/{status['job']}/{step}-{key}.json"))
            found = {
                one["path"].rpartition("/")[2]: self.get(one["path"]) for one in record["files"]
            }
            assert all(
                blake3(found[one["path"].rpartition("/")[2]].encode()).hexdigest() == one["blake3"]
                for one in record["files"]
            )
            assert found == files_of(task), (task, found)
        return len(tasks)

    def get(self, path):
        """An object that was delivered."""
        where = S3Store(
            BUCKET,
            prefix=self.delivered,
            endpoint=f"http://127.0.0.1:{self.port}",
            access_key_id="test",
            secret_access_key="test",
            region="us-east-1",
            client_options={"allow_http": True},
        )
        return where.get(path).bytes().to_bytes().decode()

    def end(self):
        """The line once more, to the end; the job's status."""
        made, line = self.machine()
        try:
            self.said += made(*line).stdout
            return made.json("status", "last", *self.store[:2])
        finally:
            made.vanish()


def phase_of(said):
    if "frame" in said:
        return "in the chunk"
    if "openjd_checkpoint_save" in said:
        return "after a save"
    return "in a task" if "number" in said else "at the start"


def result(item):
    """What the task of ``item`` computes."""
    data = str(item).encode()
    for _ in range(12):
        data += hashlib.sha256(data).digest() * 300
    return hashlib.sha256(data).hexdigest()


def files_of(task):
    """What is delivered for a task, by name."""
    found = re.match(r"Sum\[Item=(\d)\]", task)
    if found is None:
        return {f"frame-{n}.txt": f"frame {n}" for n in range(1, 7)}
    item = found.group(1)
    return {"early.txt": f"early {item}", "result.txt": result(item)}


def check_attempts(attempts):
    """Each went on from the newest checkpoint that was committed before it, and all are counted."""
    newest, numbers = {}, {}
    for attempt in sorted(attempts, key=lambda found: (found["key"], found["number"])):
        task = attempt["key"]
        numbers.setdefault(task, []).append(attempt["number"])
        if attempt["started_at"] is not None:  # else the machine vanished before it began
            assert attempt["resumed_from"] == newest.get(task), attempt
        for checkpoint in attempt["checkpoints"]:
            if not checkpoint["support"]:  # files of kept values: nothing is resumed from them
                newest[task] = checkpoint["sequence"]
    assert all(counted == list(range(1, len(counted) + 1)) for counted in numbers.values()), numbers


def story(folder, port, seed):
    """One job whose machine vanishes up to `KILLS` times; the phases in which it did."""
    folder.mkdir()
    one = Story(folder, port, seed)
    phases = Counter()
    for _ in range(KILLS):
        phase = one.lose_one()
        if phase is None:
            break
        phases[phase] += 1
        done = one.done()
        pages = len(one.notebook.read_text().splitlines())
        one.promised.append((done, pages))
    status = one.end()
    assert status["state"] == "SUCCEEDED", status
    check_attempts(status["attempts"])
    assert one.check_delivered(status) == 3, status
    pages = one.notebook.read_text().splitlines()
    for done, before in one.promised:
        again = {began(page) for page in pages[before:]} & done
        assert not again, (seed, again)
    results = set(re.findall(r"result (\d) ([0-9a-f]{64})", one.said))
    assert results <= {("1", result(1)), ("2", result(2))}, seed
    assert {"end 1", "end 2", *(f"frame {n}" for n in range(1, 7))} <= set(pages), seed
    return phases


def began(page):
    """What a line of the notebook says that was begun, as `Story.done` calls it."""
    found = re.match(r"begin (\d)", page)
    return f"Sum[Item={found.group(1)}]" if found else page


@pytest.fixture(scope="module")
def s3():
    with s3_of_its_own() as port:
        yield port


@pytest.mark.parametrize("seed", [1, 2])
def test_a_sample(tmp_path, s3, seed):
    story(tmp_path / f"sample-{seed}", s3, seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_fifty_moments(tmp_path, s3):
    total = Counter()
    seed = 1000
    while sum(total.values()) < 50:
        total += story(tmp_path / f"job-{seed}", s3, seed)
        seed += 1
    print(f"{sum(total.values())} machines lost in {seed - 1000} jobs: {dict(total)}")
