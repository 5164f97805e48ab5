"""``--deliver`` as people use it: from the command line, over several workers, with a conflict."""

import signal
from pathlib import Path

import pytest

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


def test_a_conflict_is_told_and_once_it_is_gone_the_job_goes_on(perdure, line):
    command, target = line
    target.mkdir()
    (target / "2.exr").write_text("a person's")
    done = perdure(*command, expect=75)
    assert f"could not be delivered to {target}" in done.stderr
    assert "2.exr" in done.stderr
    assert "Move what is there away" in perdure("why", "last").stdout
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
    """Nothing answers there: the task is done, and its files cannot be delivered yet."""
    command, _target = line
    perdure.environment |= {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
    }
    command[command.index("--deliver") + 1] = "s3://bucket/x"
    with perdure.running(*command) as run:
        run.until("openjd_checkpoint_files")
        run.signal(signal.SIGINT)
        run.end(expect=75)
    status = perdure.json("status", "last")
    assert status["state"] == "SUSPENDED"
    assert "stopped while its files were being delivered to s3://bucket/x" in str(status)
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
