"""``--deliver`` as people use it: from the command line, over several workers, with a conflict."""

import re
import signal
from pathlib import Path

import pytest

from support.faulty_proxy import answer, proxy_before
from support.object_store import BUCKET, environment_for, s3_in_this_process

RENDER = """\
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT]
name: Rendering
parameterDefinitions:
- {name: Out, type: PATH, objectType: DIRECTORY, dataFlow: OUT}
steps:
- name: Render
  parameterSpace:
    taskParameterDefinitions: [{name: Frame, type: INT, range: "1-4"}]
  script:
    actions:
      onRun:
        command: python3
        args: ["{{Task.File.Render}}", "{{Param.Out}}", "{{Task.Param.Frame}}"]
    embeddedFiles:
    - name: Render
      type: TEXT
      data: |
        import json, os, sys
        out, frame = sys.argv[1:]
        os.makedirs(out, exist_ok=True)
        image, log = os.path.join(out, f"{frame}.exr"), os.path.abspath("log.txt")
        for path in (image, log):
            with open(path, "w") as file:
                file.write(f"frame {frame}")
        print("openjd_checkpoint_files: " + json.dumps({"files": [image, log]}), flush=True)
"""
QUICK = ["--limit", "back_off_seconds=0.05", "--limit", "quick_seconds=0"]


@pytest.fixture
def line(perdure, tmp_path):
    """The line, and where it delivers."""
    target = tmp_path / "delivered"
    out = f"Out={tmp_path / 'out'}"
    template = perdure.template(RENDER)
    return ["run", template, "-p", out, "--deliver", target, *QUICK], target


def test_all_workers_fill_one_folder(perdure, line):
    command, target = line
    perdure(*command, "--workers", "2")
    assert [(target / f"{n}.exr").read_text() for n in range(1, 5)] == [
        f"frame {n}" for n in range(1, 5)
    ]
    status = perdure.json("status", "last", "--attempts", "all")
    for attempt in status["attempts"]:
        assert (target / f"1-{attempt['key']}" / "log.txt").exists()
        assert (target / "perdure" / status["job"] / f"1-{attempt['key']}.json").exists()
    perdure.wait_until_no_process()


def test_a_conflict_is_told_and_once_it_is_gone_the_job_goes_on(perdure, line, tmp_path):
    command, target = line
    target.mkdir()
    (target / "2.exr").write_text("a person's")
    done = perdure(*command, expect=75)
    assert f"could not be delivered to {target}" in done.stderr
    assert "2.exr" in done.stderr
    why = perdure("why", "last").stdout
    assert "Move what is there away" in why
    assert "# once that is mended" in why
    (command,) = re.findall(r"perdure (checkpoint restore \S+ --to) DIR", why)
    perdure(*command.split(), tmp_path / "elsewhere")
    assert [path.read_text() for path in (tmp_path / "elsewhere").rglob("2.exr")] == ["frame 2"]
    assert (target / "2.exr").read_text() == "a person's"
    status = perdure.json("status", "last")
    failed = [a["cause"] for a in status["attempts"] if a["outcome"] == "FAILED"]
    assert failed == ["delivery"]  # the work is not done again in vain
    assert status["held"]
    (target / "2.exr").unlink()
    perdure("resume", "last")
    assert (target / "2.exr").read_text() == "frame 2"
    perdure.wait_until_no_process()


def test_a_person_who_stops_a_delivery_that_waits_is_obeyed_at_once(perdure, line):
    """Nothing answers there any more: the task is done, and its files cannot be delivered yet."""
    command, _target = line
    url = f"s3://{BUCKET}/x"
    command[command.index("--deliver") + 1] = url
    with s3_in_this_process() as s3, proxy_before(s3) as proxy:
        perdure.environment |= environment_for(proxy.port)
        submitted = perdure("submit", *command[1:]).stdout.strip()
        perdure("suspend", "last", "--now")
        perdure("wait", "last", expect=75)
        proxy.fault = lambda _request: answer(503, "SlowDown")
        with perdure.running("resume", "last") as run:
            run.until("its files are not delivered yet")
            run.signal(signal.SIGINT)
            run.end(expect=75)
    status = perdure.json("status", submitted)
    assert status["state"] == "SUSPENDED"
    assert f"stopped while its files were being delivered to {url}" in str(status)
    assert "its work is done, and its files are kept in checkpoint" in str(status)
    perdure.wait_until_no_process()


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("InvalidAccessKeyId", "does not let us in"),
        ("NoSuchBucket", "names a bucket or container that is not there"),
    ],
)
@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_bucket_that_takes_nothing_is_refused_before_any_work_is_done(
    command, code, text, perdure, line
):
    arguments, _target = line
    url = f"s3://{BUCKET}/x"
    arguments[arguments.index("--deliver") + 1] = url
    with s3_in_this_process() as s3, proxy_before(s3) as proxy:
        proxy.fault = lambda _request: answer(403 if "Key" in code else 404, code)
        perdure.environment |= environment_for(proxy.port)
        done = perdure(command, *arguments[1:], expect=5)
    assert f"{url} {text}" in done.stderr
    assert perdure.json("status")["jobs"] == []


def test_a_folder_that_cannot_be_made_is_refused_before_any_work_is_done(perdure, line):
    arguments, _target = line
    arguments[arguments.index("--deliver") + 1] = "/proc/x"
    done = perdure(*arguments, expect=5)
    assert done.stderr.startswith("perdure: cannot make, or write to, /proc/x: ")
    assert "Name a --deliver folder that can be made" in done.stderr
    assert perdure.json("status")["jobs"] == []


def test_the_folder_is_made_at_submit_with_those_above_it_and_nothing_is_left_there(perdure, line):
    arguments, target = line
    deep = target / "a" / "b"
    arguments[arguments.index("--deliver") + 1] = deep
    perdure("submit", *arguments[1:])
    perdure("cancel", "last")
    perdure("wait", "last", expect=None)
    assert deep.is_dir()
    assert not list(deep.glob(".perdure-*"))
    perdure.wait_until_no_process()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("http://x/y", "nothing can be delivered to http://"),
        ("s3://key:hidden@bucket/x", "must hold no secret"),
        ("{file}/x", "no folder is at"),
        ("{file}", "no folder is at"),
        ("{store}", "lie in each other"),
        ("{store}/x", "lie in each other"),
    ],
)
def test_what_cannot_be_delivered_to_is_refused_before_anything_is_made(
    given, text, perdure, tmp_path
):
    store = tmp_path / "a-store"
    (tmp_path / "file").write_text("x")
    place = given.format(file=tmp_path / "file", store=store)
    line = ["submit", perdure.template(RENDER), "-p", "Out=/x", "--store", store]
    done = perdure(*line, "--deliver", place, expect=2)
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert "hidden" not in done.stderr
    assert not Path(store).exists()
