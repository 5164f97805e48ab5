"""Jobs as a person runs them: started, interrupted in every way, gone on with."""

import re
import shlex
import shutil
import signal
from pathlib import Path

import pytest

from support.counting import COUNTING, numbers

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
FAILING = """\
specificationVersion: jobtemplate-2023-09
name: Failing
steps:
- name: Fail
  script: {actions: {onRun: {command: /bin/sh, args: ["-c", "echo trouble; exit 3"]}}}
- name: After
  dependencies: [{dependsOn: Fail}]
  script: {actions: {onRun: {command: /bin/echo, args: [after]}}}
- name: Other
  script: {actions: {onRun: {command: /bin/echo, args: [other goes on]}}}
"""
ANOTHER = """\
- name: Another
  dependencies: [{dependsOn: Count}]
  script: {actions: {onRun: {command: "true"}}}
"""


def test_a_job_succeeds_with_exit_code_0(perdure):
    done = perdure("run", perdure.template(COUNTING), "-p", "N=2")
    assert numbers(done.stdout) == [0, 1]
    assert re.search(r"exited with code: 0\b", done.stdout)


def test_ctrl_c_suspends_and_the_printed_line_resumes(perdure):
    template = perdure.template(COUNTING)
    said = perdure.suspended_at(r"number 2", "run", template)
    job = re.search(r"It goes on with:\s+perdure resume (\S+)", said).group(1)
    perdure.wait_until_no_process()
    again = perdure("resume", job).stdout
    assert numbers(said) + numbers(again) == list(range(6))
    status = perdure.json("status", job)
    assert status["state"] == "SUCCEEDED"
    assert [a["outcome"] for a in status["attempts"]] == ["SUSPENDED", "SUCCEEDED"]
    assert status["attempts"][1]["resume_status"] == "RESUMED"


def test_a_suspended_job_is_resumed_or_removed_by_the_very_next_command(perdure):
    """Whoever makes its turns is still leaving: that is waited for."""
    template = perdure.template(COUNTING)
    with perdure.running("run", template, "-p", "N=40") as run:
        run.until(r"number 2")
        perdure("suspend", "last")
        with perdure.running("resume", "last") as again:
            assert numbers(run.end(expect=75)) + numbers(again.end(expect=0)) == list(range(40))
    for _ in range(3):
        perdure("submit", template, "--key", "next")
        perdure("suspend", "next", "--now")
        perdure("wait", "next", expect=75)
        perdure("rm", "next", "--yes")


def test_the_printed_line_names_the_store_and_can_be_asked_what_is_done(perdure, tmp_path):
    store = ("--store", str(tmp_path / "a store"))
    template = perdure.template(COUNTING)
    with perdure.running("run", template, *store) as run:
        run.until(r"number 2")
        run.signal(signal.SIGINT)
        line = re.search(r"It goes on with:\s+(perdure resume .*)", run.end(expect=75)).group(1)
    perdure.wait_until_no_process()
    with perdure.running(*shlex.split(line)[1:]) as again:
        again.until(r"number 4")
        again.signal(signal.SIGINT)
        assert line in again.end(expect=75)
    perdure.wait_until_no_process()
    said = perdure(*shlex.split(line)[1:], "--verbose").stderr
    assert re.search("launch [0-9a-z]{26} is started", said)
    assert "step Count is settled: SUCCEEDED" in said
    assert "the job is settled: SUCCEEDED" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_hosts_signals_save_alike_and_leave_the_job_pending(perdure, number):
    template = perdure.template(COUNTING)
    with perdure.running("run", template) as run:
        run.until(r"number 2")
        run.signal(number)
        said = run.end(expect=143)
    assert "State: PENDING" in said
    again = perdure("run", template).stdout
    assert numbers(said) + numbers(again) == list(range(6))


def test_submitting_the_line_of_a_run_that_has_not_ended_is_said(perdure):
    line = (perdure.template(COUNTING), "-p", "N=4")
    with perdure.running("run", *line) as run:
        run.until(r"number 2")
        run.signal(signal.SIGINT)
        run.end(expect=75)
    first = perdure.json("status", "last")["job"]
    assert "of this very line" not in perdure("submit", *line[:2], "N=1").stderr
    said = perdure("submit", *line).stderr
    assert f"job {first} of this very line has not ended" in said
    assert f"perdure resume {first}" in said
    perdure("wait", "last")
    perdure("run", *line)  # it goes on with the first one, which ends
    assert "of this very line" not in perdure("submit", *line).stderr
    perdure("wait", "last")
    perdure.wait_until_no_process()


@pytest.mark.parametrize("command", ["run", "submit"])
def test_again_without_a_key_is_refused(perdure, command):
    said = perdure(command, perdure.template(COUNTING), "--again", expect=2).stderr
    assert "--again needs --key" in said


def test_a_second_ctrl_c_stops_at_once(perdure):
    template = perdure.template(COUNTING.replace("if asked:", "if len(asked) > 9:"))
    with perdure.running("run", template) as run:
        run.until(r"number 2")
        run.signal(signal.SIGINT)
        run.until("Ctrl-C again stops them at once")
        run.signal(signal.SIGINT)
        run.end(expect=75)
    perdure.wait_until_no_process()


def test_the_manager_is_killed_and_the_same_line_adopts_its_worker(perdure):
    template = perdure.template(COUNTING)
    with perdure.running("run", template, "-p", "N=12") as run:
        run.until(r"number 1")
        run.signal(signal.SIGKILL)
        run.process.wait()
    said = perdure("run", template, "-p", "N=12").stdout
    assert "done" in said
    status = perdure.json("status", "last")
    assert [a["outcome"] for a in status["attempts"]] == ["SUCCEEDED"]
    perdure.wait_until_no_process()


def test_everything_is_killed_and_the_same_line_begins_where_it_was_saved(perdure):
    template = perdure.template(COUNTING)
    perdure.suspended_at(r"number 2", "run", template)
    with perdure.running("run", template) as run:
        run.until(r"number 4")
        perdure.kill_all()
    said = perdure("run", template).stdout
    assert numbers(said)[0] == 3
    assert numbers(said)[-1] == 5
    perdure.wait_until_no_process()


def test_a_command_in_two_terminals_one_works_the_other_says_who_does(perdure):
    template = perdure.template(COUNTING)
    with perdure.running("run", template, "-p", "N=30") as run:
        run.until(r"number 1")
        refused = perdure("run", template, "-p", "N=30", expect=6)
        assert f"process {run.process.pid} on" in refused.stderr
        run.signal(signal.SIGINT)
        run.end(expect=75)


def test_a_failed_step_cancels_what_depends_on_it_and_nothing_else(perdure):
    done = perdure("run", perdure.template(FAILING), "--limit", "back_off_seconds=0.1", expect=1)
    assert "other goes on" in done.stdout
    status = perdure.json("status", "last")
    assert {s["name"]: s["state"] for s in status["steps"]} == {
        "Fail": "FAILED",
        "After": "CANCELED",
        "Other": "SUCCEEDED",
    }
    failed = [a for a in status["attempts"] if a["outcome"] == "FAILED"]
    assert [a["exit_code"] for a in failed] == [3, 3, 3]


def test_cancel_abandons_the_job(perdure):
    template = perdure.template(COUNTING)
    with perdure.running("run", template, "-p", "N=50") as run:
        run.until(r"number 1")
        perdure("cancel", "last")
        run.end(expect=76)
    perdure.wait_until_no_process()
    refused = perdure("resume", "last", expect=2)
    assert "canceled" in refused.stderr


def test_the_store_alone_is_enough(perdure):
    """The home is deleted, the cache too: the same line goes on from the store."""
    template = perdure.template(COUNTING)
    line = ["run", template, "--store", perdure.folder / "elsewhere", "--key", "mine"]
    said = perdure.suspended_at(r"number 2", *line)
    shutil.rmtree(perdure.home, ignore_errors=True)
    perdure.environment["PERDURE_HOME"] = str(perdure.folder / "another-home")
    perdure.environment["PERDURE_CACHE"] = str(perdure.folder / "another-cache")
    again = perdure(*line).stdout
    assert numbers(said) + numbers(again) == list(range(6))
    done = perdure(*line).stdout  # a finished key is done
    assert numbers(done) == []


def test_a_template_that_is_wrong_is_told_at_once_with_exit_code_2(perdure):
    wrong = COUNTING.replace("signalToNotify: SIGUSR1", "signalToNotify: SIGFOO")
    done = perdure("run", perdure.template(wrong), expect=2)
    assert done.stderr.count("signalToNotify (line") == 2
    assert "Traceback" not in done.stderr


def test_fibonacci_byte_for_byte_is_suspended_in_its_sleep_and_loses_nothing(perdure):
    template = EXAMPLES / "fibonacci.yaml"
    said = perdure.suspended_at(r"Fibonacci number 1 is 1", "run", template, "-p", "N=3")
    said += perdure("run", template, "-p", "N=3").stdout
    shown = re.findall(r"Fibonacci number (\d+) is (\d+)", said)
    assert shown == [("0", "0"), ("1", "1"), ("2", "1"), ("3", "2")]
    assert "Final answer: Fibonacci number 3 is 2" in said


def test_an_older_checkpoint_is_chosen_and_the_beginning_too(perdure):
    template = perdure.template(COUNTING)
    said = ""
    for stop in ("number 1", "number 3"):
        with perdure.running("run", template) as run:
            run.until(stop)
            run.signal(signal.SIGINT)
            said += run.end(expect=75)
    status = perdure.json("status", "last")
    sequences = [c["sequence"] for a in status["attempts"] for c in a["checkpoints"]]
    assert len(sequences) == 2
    again = perdure("resume", "last", "--from", sequences[0]).stdout
    assert numbers(again)[0] == 2
    assert numbers(again)[-1] == 5


def test_going_back_to_the_beginning_is_a_persons_choice(perdure):
    template = perdure.template(COUNTING)
    perdure.suspended_at("number 2", "run", template)
    again = perdure("resume", "last", "--from", "start").stdout
    assert numbers(again) == list(range(6))


def test_a_new_job_goes_on_from_an_old_ones_checkpoint_with_other_parameters(perdure):
    template = perdure.template(COUNTING)
    perdure.suspended_at("number 2", "run", template)
    old = perdure.json("status", "last")["job"]
    again = perdure("resume", old, "--as", "new", "-p", "N=9").stdout
    assert numbers(again) == [3, 4, 5, 6, 7, 8]
    assert perdure.json("status", old)["state"] == "SUSPENDED"


def test_canceling_one_task_sets_nothing_going(perdure):
    """Of a job on which nobody works."""
    template = perdure.template(COUNTING.replace("steps:\n", "steps:\n" + ANOTHER))
    with perdure.running("run", template) as run:
        run.until("number 1")
        perdure.kill_all()
    perdure("cancel", "last", "--step", "Another")
    assert perdure.processes() == []
    status = perdure.json("status", "last")
    assert status["state"] == "PENDING"
    assert [step["state"] for step in status["steps"]] == ["CANCELED", "PENDING"]
    perdure("run", template, expect=76)
    assert perdure.json("status", "last")["steps"][1]["state"] == "SUCCEEDED"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--limit", "back_off_seconds=nan"),
        ("--limit", "back_off_seconds=inf"),
        ("--limit", "Nowhere:per_point=2"),
    ],
)
def test_limits_that_are_none_are_refused(perdure, arguments):
    done = perdure("run", perdure.template(COUNTING), *arguments, expect=2)
    assert "Traceback" not in done.stderr


def test_a_new_job_may_go_on_by_itself(perdure):
    perdure("run", perdure.template(COUNTING), "-p", "N=2")
    done = perdure("resume", "last", "--as", "new", "-p", "N=3", "--detach")
    assert re.fullmatch("[0-9a-z]{26}\n", done.stdout)
    perdure("wait", done.stdout.strip(), expect=0)


def test_what_goes_wrong_is_said_while_it_goes_on(perdure):
    template = perdure.template(FAILING.replace("echo trouble", "echo 'openjd_checkpoint_sav: 1'"))
    quick = ("--limit", "back_off_seconds=0.05", "--limit", "quick_seconds=0")
    said = perdure("run", template, *quick, expect=1).stderr
    assert re.search("Fail: attempt 1 FAILED: exited with code 3; .* tried again in", said)
    assert "it is not tried again by itself" in said


def test_an_option_that_has_no_effect_on_a_job_that_goes_on_is_named(perdure):
    template = perdure.template(COUNTING)
    perdure.suspended_at("number 1", "run", template)
    again = perdure("run", template, "--keep-last", "7")
    assert "--keep-last stays 3 (given now: 7)" in again.stderr


def test_a_cache_that_cannot_be_written_is_done_without(perdure):
    (perdure.folder / "a file").touch()
    perdure.environment["PERDURE_CACHE"] = str(perdure.folder / "a file" / "cache")
    perdure("run", perdure.template(COUNTING), "-p", "N=2")
    job = perdure("submit", perdure.template(COUNTING), "-p", "N=1").stdout.strip()
    perdure("wait", job, expect=0)


def test_a_home_that_cannot_be_made_is_one_sentence(perdure):
    template = perdure.template(COUNTING)
    perdure.environment.pop("PERDURE_STORE")
    file = perdure.folder / "a file"
    file.touch()
    for home in (file, "/proc/no-home"):
        done = perdure("run", template, "--home", home, expect=5)
        assert "Traceback" not in done.stderr
        assert str(home) in done.stderr


def test_a_part_of_a_suspended_job_does_not_go_on_alone_and_says_why(perdure):
    template = perdure.template(COUNTING)
    perdure.suspended_at("number 1", "run", template)
    refused = perdure("resume", "last", "--task", "Count", expect=2)
    assert "the whole job is suspended" in refused.stderr
    sequence = perdure.json("status", "last")["attempts"][0]["checkpoints"][0]["sequence"]
    again = perdure("resume", "last", "--task", "Count", "--from", sequence).stdout
    assert numbers(again)[-1] == 5


def test_a_line_whose_job_has_ended_begins_a_new_one_and_says_so(perdure):
    template = perdure.template(COUNTING)
    first = perdure("run", template, "-p", "N=1")
    second = perdure("run", template, "-p", "N=1")
    assert "this is a new one" not in first.stderr
    assert "this is a new one" in second.stderr
    assert numbers(second.stdout) == [0]
