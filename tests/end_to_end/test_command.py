"""Plain commands: `perdure run -- CMD` as a person uses it."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.counting import numbers

COUNT = """\
import json, os, signal, sys, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
start = int(os.environ.get("PERDURE_CHECKPOINT_STATE") or 0)
print("words", json.dumps(sys.argv[1:]), flush=True)
if start:
    print('openjd_checkpoint_resume_status: {"status": "RESUMED"}', flush=True)
for number in range(start, 6):
    print("number", number, flush=True)
    for _ in range(20):
        time.sleep(0.02)
        if asked:
            if "file" in sys.argv:
                with open("kept.txt", "w") as file:
                    file.write(f"{number + 1}")
                said = {"state": str(number + 1), "file": os.path.abspath("kept.txt")}
            else:
                said = {"state": str(number + 1)}
            print("openjd_checkpoint_save: " + json.dumps(said), flush=True)
            sys.exit(75)
"""


@pytest.fixture
def count(perdure):
    path = perdure.work / "count.py"
    path.write_text(COUNT, encoding="utf-8")
    return [sys.executable, str(path)]


def test_it_runs_where_the_person_stands_with_what_the_person_has(perdure):
    perdure.environment["NUMBER"] = "of the person"
    python = shutil.which("python", path=perdure.environment["PATH"])
    line = ["sh", "-c", 'pwd; command -v python; echo "$NUMBER"; printf "%s|" "$@"; echo', "sh"]
    words = ["{{Param.N}}", "two words", "a\nb", "", "--json", "ü"]
    done = perdure("run", "--", *line, *words)
    expected = [str(perdure.work), *([python] if python else []), "of the person"]
    assert done.stdout == "\n".join(expected) + "\n" + "|".join(words) + "|\n"
    assert done.stderr == ""


def test_its_own_exit_code_is_kept_and_nothing_but_its_output_is_on_standard_output(perdure):
    line = ["run", "--limit", "per_point=1", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]
    done = perdure(*line, expect=1)
    assert done.stdout == "out\nerr\n"
    assert "exited with code 7" in done.stderr
    attempts = perdure.json("status", "last")["attempts"]
    assert [one["exit_code"] for one in attempts] == [7]


def test_ctrl_c_suspends_and_the_same_line_goes_on(perdure, count):
    line = ["run", "--", *count, "x"]
    with perdure.running(*line) as run:
        run.until("number 2")
        run.signal(signal.SIGINT)
        said = run.end(expect=75)
    assert "perdure resume" in said
    perdure.wait_until_no_process()
    perdure.environment["LATER"] = "not the submitter's"
    again = perdure(*line)
    assert numbers(said) + numbers(again.stdout) == list(range(6))
    attempts = perdure.json("status", "last")["attempts"]
    assert [one["outcome"] for one in attempts] == ["SUSPENDED", "SUCCEEDED"]
    assert attempts[1]["resume_status"] == "RESUMED"
    anew = perdure(*line)
    assert numbers(anew.stdout) == list(range(6))
    assert "this is a new one" in anew.stderr


def test_it_goes_on_as_it_was_said(perdure, count):
    line = [
        "run",
        "--restart-args",
        "--from '{state} of {file}' {}",
        "--",
        *count,
        "file",
        "{file}",
    ]
    with perdure.running(*line) as run:
        run.until("number 1")
        run.signal(signal.SIGINT)
        run.end(expect=75)
    perdure.wait_until_no_process()
    (perdure.work / "kept.txt").unlink()
    kept = perdure.work / "kept.txt"
    again = perdure("resume", "last").stdout
    assert f'words ["file", "{{file}}", "--from", "2 of {kept}", "{{}}"]' in again
    assert kept.read_text() == "2"


def test_another_line_where_it_goes_on(perdure, count):
    line = ["run", "--restart-cmd", "echo {state} number 9", "--", *count]
    with perdure.running(*line) as run:
        run.until("number 1")
        run.signal(signal.SIGINT)
        run.end(expect=75)
    perdure.wait_until_no_process()
    assert perdure(*line).stdout == "2 number 9\n"


def test_a_variable_that_is_part_of_the_line(perdure, count):
    line = ["run", "--key-env", "CASE", "--", *count]
    said = {}
    for case in ("a", "b"):
        perdure.environment["CASE"] = case
        said[case] = perdure.suspended_at("number 1", *line)
        perdure.wait_until_no_process()
    assert numbers(said["a"])[0] == numbers(said["b"])[0] == 0
    perdure.environment["CASE"] = "a"
    assert numbers(said["a"]) + numbers(perdure(*line).stdout) == list(range(6))
    assert [job["state"] for job in perdure.json("status")["jobs"]] == ["SUCCEEDED", "SUSPENDED"]


def test_a_program_that_is_killed_with_all_of_perdure(perdure, count):
    with perdure.running("run", "--", *count) as run:
        run.until("number 1")
        perdure.kill_all()
    perdure.wait_until_no_process()
    assert numbers(perdure("run", "--", *count).stdout) == list(range(6))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--", "there-is-no-such-program"], "there is no program 'there-is-no-such-program'"),
        (["--", "./a-script"], "./a-script cannot be executed"),
        (["--", "a-script"], "To run a script that lies here: ./a-script"),
        (["--", "./gone"], "./gone is not there"),
        (["--"], "no command stands behind --"),
        ([], "neither a template nor a command is given"),
        (["gmx", "mdrun"], "A command stands behind --: perdure run -- COMMAND [ARG]..."),
        (["job.yaml", "--", "true"], "both a template (job.yaml) and a command are given"),
        (["-p", "N=1", "--", "true"], "-p is for templates"),
        (["--restart-cmd", "true", "job.yaml"], "--restart-cmd is for a command behind --"),
        (["--restart-args", "a", "--restart-cmd", "b", "--", "true"], "exclude each other"),
        (["--restart-cmd", "./gone {file}", "--", "true"], "./gone is not there"),
        (["--restart-cmd", "", "--", "true"], "--restart-cmd is empty"),
        (["--key", "", "--", "true"], "--key is empty"),
        (["--key-env", "A=B", "--", "true"], "--key-env 'A=B': no variable has such a name"),
        (["--restart-args", "'", "--", "true"], '--restart-args "\'" cannot be read'),
        (["--", "true", os.fsdecode(b"\xff")], "word 2 of the command is no UTF-8 text"),
    ],
)
def test_a_line_that_cannot_be_run_is_refused_before_anything_is_done(perdure, words, text):
    (perdure.work / "a-script").write_text("#!/bin/sh\n")
    done = perdure("run", *words, expect=2)
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert not Path(perdure.environment["PERDURE_STORE"]).exists()


def test_one_key_is_one_command(perdure):
    perdure("run", "--key", "k", "--", "true")
    refused = perdure("run", "--key", "k", "--", "sh", "-c", "true", expect=2)
    assert "differs in its command" in refused.stderr
    assert (
        "is for templates" in perdure("resume", "last", "--as", "new", "-p", "N=1", expect=2).stderr
    )


SAVING = """\
import sys, time
sys.path.insert(0, sys.argv[1])
from perdure import task

number = 0
with task.Checkpointer(lambda: task.save(state=str(number)), interval_seconds=1e9) as saver:
    print("begun", flush=True)
    for number in range(100000):
        time.sleep(0.02)
        saver.safe_point()
"""


@pytest.fixture
def saving(perdure):
    path = perdure.work / "saving.py"
    path.write_text(SAVING, encoding="utf-8")
    return ["--", sys.executable, str(path), str(Path(__file__).parents[2] / "src")]


def test_a_program_is_asked_to_save_and_goes_on(perdure, saving):
    with perdure.running("run", *saving) as run:
        run.until("begun")
        for count in (1, 2):
            assert "saved" in perdure("checkpoint", "save", "last").stdout
            assert len(perdure.json("checkpoints", "last")["checkpoints"]) == count
        assert perdure.json("status", "last")["attempts"][0]["outcome"] is None
        run.signal(signal.SIGINT)
        run.end(expect=75)
    assert "nothing of job" in perdure("checkpoint", "save", "last", expect=2).stderr


def test_a_program_is_asked_every_so_often(perdure, saving):
    with perdure.running("run", "--save-every", "1s", *saving) as run:
        run.until("begun")
        perdure.wait_for_checkpoints(2)
        run.signal(signal.SIGINT)
        run.end(expect=75)


def test_a_program_that_does_not_listen_is_left_alone(perdure):
    with perdure.running("run", "--", "sh", "-c", "echo begun; exec sleep 600") as run:
        run.until("begun")
        said = perdure("checkpoint", "save", "last", "--wait", "1.5", expect=3).stderr
        assert "1 of 1 tasks did not save within 1.5 s" in said
        assert "nobody catches SIGUSR2: it saves by itself" in str(perdure.json("status", "last"))
        run.signal(signal.SIGTERM)
        run.end(expect=143)
    perdure("cancel", "last")
    perdure.wait_until_no_process()


def test_a_save_signal_that_is_none(perdure):
    said = perdure("run", "--save-signal", "KILL", "--", "true", expect=2).stderr
    assert "--save-signal KILL: there is no such signal that a program can catch" in said


def test_a_folder_that_is_gone_is_said(perdure):
    gone = perdure.work / "gone"
    gone.mkdir()
    line = shlex.join(perdure.command("run", "--", "true"))
    script = f"cd {gone} && rmdir {gone} && exec {line}"
    done = subprocess.run(
        ["sh", "-c", script], env=perdure.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "the folder that you are in has been removed" in done.stderr


def test_whoever_resumes_brings_the_secrets_also_while_the_last_manager_leaves(perdure):
    """Some seconds pass between the stop and the last words of whoever makes the turns."""
    code = """if [ "$PERDURE_RESUMED_FROM" ]; then echo "token $MY_TOKEN"; exit 0; fi
    trap 'sleep 1; echo "openjd_checkpoint_save: {\\"state\\": \\"1\\"}"; exit 1' TERM
    echo begun; while :; do sleep 0.05; done"""
    perdure.environment["MY_TOKEN"] = "first"
    with perdure.running("run", "--", "bash", "-c", code) as run:
        run.until("begun")
        perdure("suspend", "last")
        perdure.environment["MY_TOKEN"] = "second"
        assert "token second" in perdure("resume", "last").stdout
        run.end(expect=75)
