"""A store in a bucket, as people use it: every command, and workers that are too late."""

import os
import random
import re
import signal
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from perdure.store.opening import open_store
from support.command_line import wait_until
from support.counting import COUNTING, numbers
from support.faulty_proxy import Fault, answer, proxy_before
from support.machines import Machine
from support.object_store import BUCKET, environment_for, s3_of_its_own
from support.roles import role_of


@pytest.fixture(scope="module")
def s3():
    with s3_of_its_own() as port:
        yield port


@pytest.fixture
def url(tmp_path):
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.fixture
def bucket(perdure, s3, url):
    """The command line whose store is the bucket."""
    perdure.environment |= {**environment_for(s3), "PERDURE_STORE": url}
    return perdure


@pytest.fixture
def look(s3, url, monkeypatch):
    """The driver, to look at what the commands did."""
    for name, value in environment_for(s3).items():
        monkeypatch.setenv(name, value)
    return lambda: open_store(url, write=False).driver


SAVING = """\
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT]
name: Saving
steps:
- name: Save
  script:
    actions:
      onRun: {command: python3, args: ["{{Task.File.Save}}"]}
      onCheckpointResume:
        command: python3
        args: ["{{Task.File.Save}}", "{{Task.Checkpoint.State}}", "{{Task.Checkpoint.File}}"]
    embeddedFiles:
    - name: Save
      type: TEXT
      data: |
        import os, signal, sys
        at = int(sys.argv[1]) if sys.argv[1:] else 0
        if at:
            print("found", len(open(sys.argv[2], "rb").read()), flush=True)
        path = os.path.abspath(f"data-{at}.bin")
        with open(path, "wb") as file:
            for piece in range(5):
                file.write(os.urandom(1 << 20))
        print('openjd_checkpoint_save: {"state": "%d", "file": "%s"}' % (at + 1, path), flush=True)
        if at < 2:
            signal.pause()
"""


def test_all_that_the_commands_do_with_a_folder_they_do_with_a_bucket(bucket, look, tmp_path):
    template = bucket.template(SAVING)
    for _ in range(2):
        with bucket.running("run", template) as run:
            run.until("openjd_checkpoint_save")
            wait_until(lambda: has_saved(bucket), "the save is not committed")
            run.signal(signal.SIGINT)
            run.end(expect=75)
        bucket.wait_until_no_process()
    name = f"last/Save@{saved(bucket)[-1][-1]}"
    bucket("checkpoint", "verify", name)
    bucket("checkpoint", "export", name, tmp_path / "copy")
    imported = bucket.json("checkpoint", "import", "last/Save", tmp_path / "copy")["sequence"]
    said = bucket("resume", "last").stdout
    assert f"found {5 << 20}" in said
    job = bucket.json("status", "last")
    assert job["state"] == "SUCCEEDED"
    resumed = [attempt["resumed_from"] for attempt in job["attempts"]]
    assert resumed == [None, saved(bucket)[0][-1], imported]
    assert "Saving" in bucket("status").stdout
    assert f"found {5 << 20}" in bucket("logs", "last").stdout
    assert "SUCCEEDED" in bucket("why", "last").stdout
    assert f"@{imported} " in bucket("checkpoints", "last").stdout
    usage = bucket.json("du", "last")
    assert usage["total_bytes"] > 15 << 20
    assert "All of it is what was written" in bucket("verify").stdout
    assert "Nothing is damaged" in bucket("repair").stdout
    assert list(look().list("lineages"))
    bucket("rm", "last")
    assert [key for key in look().list("") if not key.startswith("keys/")] == ["format"]


def saved(bucket):
    """The sequences of the checkpoints of each attempt of the last job."""
    attempts = bucket.json("status", "last")["attempts"]
    return [[c["sequence"] for c in a["checkpoints"] if not c["imported"]] for a in attempts]


def has_saved(bucket):
    return bool((saved(bucket) or [[]])[-1])


def test_a_damaged_pack_is_found_and_named(bucket, look, url, s3):
    with bucket.running("run", bucket.template(SAVING)) as run:
        run.until("openjd_checkpoint_save")
        wait_until(lambda: has_saved(bucket), "the save is not committed")
        run.signal(signal.SIGINT)
        run.end(expect=75)
    bucket.wait_until_no_process()
    (pack,) = [key for key in look().list("") if "/packs/" in key]
    data = bytearray(look().get(pack))
    data[2 << 20] ^= 1
    open_store(url, write=True).driver.put(pack, data)
    assert "is damaged" in bucket("verify", expect=8).stdout


def test_a_detached_job_is_managed_from_a_bucket(bucket):
    job = bucket("submit", bucket.template(COUNTING), "-p", "N=2").stdout.split()[0]
    assert "SUCCEEDED" in bucket("wait", job).stdout
    if not bucket.forgets:  # logs are in the home
        assert numbers(bucket("logs", job).stdout) == [0, 1]
    bucket.wait_until_no_process()
    assert [a["outcome"] for a in bucket.json("status", job)["attempts"]] == ["SUCCEEDED"]


def test_the_line_that_is_printed_names_the_bucket_and_no_secret(bucket, url):
    del bucket.environment["PERDURE_STORE"]
    with bucket.running("run", bucket.template(COUNTING), "--store", url) as run:
        run.until("number 1")
        run.signal(signal.SIGINT)
        said = run.end(expect=75)
    assert re.search(rf"perdure resume \S*--store {re.escape(url)}|--store {re.escape(url)}", said)
    shown = bucket("status", "last", "--store", url).stdout
    assert "AWS_SECRET" not in said + shown


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"PERDURE_STORE": "s3://no-such-bucket/x"}, "names a bucket or container that is not"),
        ({"PERDURE_STORE": "s3://key:hidden@bucket/x"}, "must hold no secret"),
        ({"AWS_ALLOW_HTTP": ""}, "which is not encrypted"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "is out of reach: no connection"),
    ],
)
def test_a_bucket_that_cannot_be_used_is_said_in_a_sentence(changed, text, bucket):
    bucket.environment |= changed
    done = bucket("run", bucket.template(COUNTING), expect=None)
    assert done.returncode in (2, 5)
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert "hidden" not in done.stderr


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 12))]
)
def test_a_job_over_a_bad_line_is_the_same_job(seed, bucket, s3):
    """One request in four is lost, cut, refused for now, or done without an answer."""
    chance, lock = random.Random(seed), threading.Lock()
    bad = [
        Fault.LOSE_REPLY,
        Fault.LOSE_REQUEST,
        Fault.CUT,
        answer(503, "SlowDown"),
        answer(500, "InternalError"),
    ]

    def fault(_request):
        with lock:
            return chance.choice(bad) if chance.random() < 0.25 else Fault.NONE

    template = bucket.template(COUNTING)
    with proxy_before(s3) as proxy:
        bucket.environment |= environment_for(proxy.port)
        proxy.fault = fault
        line = ["run", template, "-p", "N=25"]
        said = bucket.suspended_at("number 2", *line)
        said += bucket(*line).stdout
        bucket.wait_until_no_process()
    assert numbers(said) == list(range(25))
    bucket.environment |= environment_for(s3)
    status = bucket.json("status", "last")
    assert [a["outcome"] for a in status["attempts"]] == ["SUSPENDED", "SUCCEEDED"]
    assert status["attempts"][1]["resume_status"] == "RESUMED"
    assert "All of it is what was written" in bucket("verify").stdout


def test_a_bucket_out_of_reach_holds_the_task_and_costs_it_nothing(bucket, s3):
    template = bucket.template(COUNTING)
    with proxy_before(s3) as proxy:
        bucket.environment |= environment_for(proxy.port)
        line = ["run", template, "-p", "N=45", "--heartbeat-seconds", "1"]
        with bucket.running(*line) as run:
            run.until("number 1")
            proxy.fault = lambda _request: Fault.LOSE_REQUEST
            wait_until(lambda: "T" in task_states(bucket), "the task is not held")
            proxy.fault = lambda _request: Fault.NONE
            said = run.end(expect=0)
        bucket.wait_until_no_process()
        status = bucket.json("status", "last")
    assert numbers("".join(run.lines)) == list(range(45))
    assert "State: SUCCEEDED" in said
    assert [a["outcome"] for a in status["attempts"]] == ["SUCCEEDED"]


def task_states(machine):
    """What the kernel says of the task's processes: T is stopped."""
    found = set()
    for pid in machine.processes():
        if role_of(pid) == "task":
            with suppress(OSError):
                found.add(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0])
    return found


def test_credentials_that_are_renewed_while_a_job_runs_are_taken(bucket, s3, tmp_path):
    """The keys in the file expire; the job goes on with those that are put there."""
    path = tmp_path / "credentials"
    keys = "[default]\naws_access_key_id = {}\naws_secret_access_key = secret\n"
    path.write_text(keys.format("old"))
    template = bucket.template(COUNTING)
    with proxy_before(s3) as proxy:
        bucket.environment |= environment_for(proxy.port)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            del bucket.environment[name]
        bucket.environment["AWS_SHARED_CREDENTIALS_FILE"] = str(path)
        refused = threading.Event()

        def lets_in_the_new(request):
            if request.access_key == "new":
                return Fault.NONE
            refused.set()
            return answer(400, "ExpiredToken")

        with bucket.running("run", template) as run:
            run.until("number 1")
            proxy.fault = lets_in_the_new
            assert refused.wait(60)
            path.write_text(keys.format("new"))
            said = run.end(expect=0)
        bucket.wait_until_no_process()
    assert "State: SUCCEEDED" in said
    assert numbers("".join(run.lines)) == list(range(6))


def test_a_worker_that_slept_while_another_machine_went_on_adds_nothing(tmp_path, s3, url, look):
    """The first machine freezes whole and wakes when the job has ended elsewhere."""
    line = ["--store", url, "--key", "mine", "--heartbeat-seconds", "1", "-p", "N=8"]
    first = Machine(tmp_path / "first", environment_for(s3))
    second = Machine(tmp_path / "second", environment_for(s3))
    try:
        with first.running("run", first.template(COUNTING), *line) as run:
            run.until("number 1")
            frozen = first.processes()
            for pid in frozen:
                os.kill(pid, signal.SIGSTOP)
            said = second("run", second.template(COUNTING), *line).stdout
            assert numbers(said)[-1] == 7
            before = objects(look())
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)
            wait_until(lambda: not workers_of(first), "the old worker goes on")
            run.end(expect=0)
            after = objects(look())
        added = {key: data for key, data in after.items() if key not in before}
        assert not [key for key in added if key.startswith("lineages/")]
        assert {key: after[key] for key in before if "/log/" in key} == {
            key: data for key, data in before.items() if "/log/" in key
        }
    finally:
        first.kill_all()
        second.kill_all()


def objects(driver):
    keys = list(driver.list(""))
    return dict(zip(keys, driver.get_many(keys), strict=True))


def workers_of(machine):
    return [pid for pid in machine.processes() if role_of(pid) in ("worker", "task", "keeper")]
