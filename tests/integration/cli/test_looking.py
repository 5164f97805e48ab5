"""The commands that look at jobs, on jobs that `perdure run` made."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path

import pytest

import perdure
from support.command_line import wait_until

SLOW = """
specificationVersion: jobtemplate-2023-09
name: Slow
steps:
- {name: Only, script: {actions: {onRun: {command: sleep, args: ["600"]}}}}
"""


def test_a_suspended_job_says_so_and_how_it_goes_on(suspended):
    text = suspended("status", "last").stdout
    assert "SUSPENDED" in text
    assert f"perdure resume {suspended.job}" in text
    assert "\x1b" not in text  # off a terminal nothing is coloured


def test_the_list_has_every_job_and_its_state(suspended):
    assert suspended.job in suspended("status").stdout
    (job,) = suspended.json("status")["jobs"]
    assert (job["job"], job["state"], job["key"]) == (suspended.job, "SUSPENDED", "my key")
    assert job["tasks"]["suspended"] == 1


@pytest.mark.parametrize("name", ["last", "my key"])
def test_a_job_is_called_by_last_or_its_key(suspended, name):
    assert suspended.json("status", name)["job"] == suspended.job


def test_the_status_has_attempts_and_their_checkpoints(suspended):
    found = suspended.json("status", "last")
    (attempt,) = found["attempts"]
    assert attempt["task"] == "Work[Frame=12]"
    assert (attempt["outcome"], attempt["by"]) == ("SUSPENDED", "user")
    assert [c["sequence"] for c in attempt["checkpoints"]] == [1, 2, 3]
    assert attempt["checkpoints"][-1]["state"] == "step 3"
    assert attempt["checkpoints"][-1]["file"] == "run/data.bin"
    assert found["manager"] is None


def test_with_and_without_the_cache_the_answer_is_the_same(suspended):
    first = suspended.json("status", "last")
    second = suspended.json("status", "last")
    shutil.rmtree(suspended.folder / "cache", ignore_errors=True)
    assert first == second == suspended.json("status", "last")


def test_a_damaged_cache_changes_nothing(suspended):
    first = suspended.json("status", "last")
    cache = suspended.folder / "cache"
    cache.mkdir(exist_ok=True)
    (cache / "perdure.db").write_bytes(b"this is no database" * 1000)
    assert suspended.json("status", "last") == first


def test_looking_writes_nothing_to_the_store_nor_the_home(suspended):
    def everything():
        return {
            str(path): path.stat().st_mtime_ns
            for folder in (suspended.store, suspended.home)
            for path in folder.rglob("*")
        }

    before = everything()
    if suspended.forgets:
        pytest.skip("the runner itself deletes the home")
    suspended("status")
    suspended("status", "last", "--attempts", "all")
    suspended("why", "last")
    suspended("logs", "last")
    suspended("checkpoints", "last")
    suspended("checkpoint", "verify", "last/Work")
    suspended("du")
    suspended("verify")
    assert everything() == before


def test_wait_exits_as_the_job_ended(suspended, failed):
    suspended("wait", "last", expect=75)
    assert failed.json("wait", "last", expect=1)["state"] == "FAILED"


def test_why_names_the_reason_and_what_can_be_done(suspended, failed):
    text = suspended("why", "last").stdout
    assert "asked by the user" in text
    assert f"perdure resume {suspended.job}" in text
    text = failed("why", "last", "Frames[Frame=2]").stdout
    assert "attempt 2" in text
    assert "exited with code 1" in text
    assert "--from start" in text
    everything = failed.json("why", "last")["explanations"]
    assert any(one["about"] == "Step Later" and one["state"] == "CANCELED" for one in everything)


def frames(text):
    return re.findall(r"^frame (\d)", text, re.MULTILINE)


def test_logs_show_all_attempts_in_order(failed):
    if failed.forgets:
        pytest.skip("the logs are gone")
    assert sorted(frames(failed("logs", "last").stdout)) == ["1", "2", "2", "3"]
    assert frames(failed("logs", "last", "Frames[Frame=2]").stdout) == ["2", "2"]
    assert frames(failed("logs", "last", "Frames[Frame=2]", "--attempt", "2").stdout) == ["2"]
    titled = failed("logs", "last", "Frames[Frame=2]", "--titles").stdout
    assert "--- Frames[Frame=2] attempt 1 from the beginning" in titled
    failed("logs", "last", "Frames[Frame=2]", "--attempt", "9", expect=2)


def test_following_ends_with_the_job(failed):
    followed = failed("logs", "last", "-f", timeout=30)
    if not failed.forgets:
        assert sorted(frames(followed.stdout)) == ["1", "2", "2", "3"]


def test_where_the_home_is_gone_the_ends_in_the_store_are_shown(failed, tmp_path):
    done = failed("logs", "last", "--home", tmp_path / "other")
    assert "the store keeps the end of it" in done.stderr
    assert frames(done.stdout) == ["2", "2"]  # of what succeeded nothing is kept
    assert done.stderr.count("keeps no end of it") == 2


def test_a_jobs_logs_are_followed_while_it_runs(shell):
    if shell.forgets:
        pytest.skip("the logs are gone")
    template = shell.template(
        """
specificationVersion: jobtemplate-2023-09
name: Slow
steps:
- name: Only
  script:
    actions:
      onRun:
        command: bash
        args: ["-c", "echo first; while [ ! -e %s ]; do sleep 0.05; done; echo second"]
"""
        % (shell.folder / "go")
    )
    shell("submit", template)
    with shell.running("logs", "last", "-f") as logs:
        logs.until("^first")
        (shell.folder / "go").touch()
        logs.until("^second")
        logs.end(0)
    shell("wait", "last", expect=0)


def test_following_says_when_nobody_works_on_the_job(shell):
    shell("submit", shell.template(SLOW))
    wait_until(lambda: shell.json("status", "last")["state"] == "RUNNING", "it does not run")
    shell.kill_all()
    with shell.running("logs", "last", "-f") as logs:
        logs.until("it goes on with: perdure resume")
        shell("cancel", "last")
        logs.end(0)


def test_waiting_has_an_end(shell):
    shell("submit", shell.template(SLOW))
    assert shell.json("wait", "last", "--timeout", "0.5", expect=124)["state"] in (
        "PENDING",
        "RUNNING",
    )
    wait_until(lambda: shell.json("status", "last")["state"] == "RUNNING", "it does not run")
    shell("cancel", "last")
    shell("wait", "last", expect=76)


def test_without_a_manager_waiting_says_that_nobody_works_on_it(shell):
    shell("submit", shell.template(SLOW))
    wait_until(lambda: shell.json("status", "last")["state"] == "RUNNING", "it does not run")
    shell.kill_all()
    found = shell.json("status", "last")
    assert found["state"] == "PENDING"
    assert found["manager"]["state"] == "gone"
    assert found["steps"][0]["tasks"]["running"] == 0
    waited = shell("wait", "last", "--timeout", "0.2", expect=124)
    assert "nobody works on it now" in waited.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("status", "nothing"), 2, "has no job 'nothing'"),
        (("why", "last", "Bake"), 2, "has no task 'Bake'"),
        (("logs", "last", "Work[Frame=9]"), 2, "has no task"),
        (("checkpoint", "show", "last/Work@9"), 3, "no checkpoint 9"),
        (("checkpoint", "show", "last"), 2, "names no checkpoint"),
        (("checkpoint", "diff", "last/Work@1"), 3, "on top of no other"),
        (("checkpoint", "diff", "last/Work@2", "@x"), 2, "no checkpoint's number"),
        (("rm",), 2, "name jobs"),
        (("rm", "--older", "soon"), 2, "is no age"),
        (("wait", "last", "--timeout", "-1"), 2, "-1"),
    ],
)
def test_bad_input_is_one_sentence_and_the_right_code(suspended, arguments, code, says):
    done = suspended(*arguments, expect=code)
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    error = suspended.json(*arguments, expect=code) if "logs" not in arguments else None
    assert error is None or says in error["error"]["message"]


def test_a_store_that_is_not_there(shell):
    for command in (
        ("status", "last"),
        ("du",),
        ("prune",),
        ("rm", "--older", "1d"),
        ("resume", "x"),
    ):
        said = shell(*command, expect=5).stderr
        assert "no store" in said
        assert "No job was run there yet" in said
    assert "no store" in shell("status", "--store", shell.folder / "x", expect=5).stderr
    environment = {n: t for n, t in shell.environment.items() if n != "PERDURE_STORE"}
    done = subprocess.run(
        shell.command("status"), env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "There are no jobs" in done.stdout) == (0, True)


def test_one_job_that_cannot_be_read_holds_up_no_other(suspended, tmp_path):
    store = tmp_path / "store"
    shutil.copytree(suspended.store, store)
    bad = store / "jobs" / "01jdxyz0000000000000000000"
    bad.mkdir()
    (bad / "job").write_bytes(b"nonsense")
    listed = suspended.json("status", "--store", store)["jobs"]
    assert [job["state"] for job in listed] == [None, "SUSPENDED"]
    assert listed[0]["error"]["kind"] == "store-damaged"
    assert "UNREADABLE" in suspended("status", "--store", store).stdout


def interpreter_of_all_users():
    """One that somebody else can run with what is installed here, or None."""
    for python in (sys.executable, "/usr/bin/python3"):
        with suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(
                [python, "-c", "import sys; print(*sys.version_info[:2])"],
                user=65534,
                check=True,
                cwd="/",
                capture_output=True,
                text=True,
            )
            if done.stdout.split() == [str(part) for part in sys.version_info[:2]]:
                return python
    return None


def test_a_store_that_one_may_only_read(suspended):
    """Another user, who may read all and write nothing."""
    python = interpreter_of_all_users()
    if python is None:
        pytest.skip("no interpreter can be run by another user")
    installed = [str(Path(perdure.__file__).parent.parent), sysconfig.get_path("purelib")]
    for path in (suspended.store, *suspended.store.rglob("*")):
        path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
    for path in suspended.folder.parents:
        if str(path).startswith(os.environ.get("TMPDIR", "/tmp")) and path.stat().st_uid == 0:
            path.chmod(path.stat().st_mode | 0o011)
    suspended.folder.chmod(0o755)
    for arguments in (
        ("status", "last"),
        ("why", "last"),
        ("logs", "last"),
        ("checkpoints", "last"),
        ("checkpoint", "verify", "last/Work"),
        ("verify",),
    ):
        done = subprocess.run(
            [python, *suspended.command(*arguments)[1:]],
            env={
                **suspended.environment,
                "PERDURE_CACHE": "/nonexistent/cache",
                "PYTHONPATH": os.pathsep.join(installed),
            },
            cwd="/",
            capture_output=True,
            text=True,
            user=65534,
            group=65534,
            extra_groups=[],
            check=False,
        )
        assert done.returncode == 0, (arguments, done.stderr)
