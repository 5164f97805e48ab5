"""Environments around tasks: their order, their failures, and what they leave running."""

import json
import signal
from textwrap import dedent

import pytest

from support.worker_runs import python_step, template, wait_until


def environment(name: str, enter: str | None = None, leave: str | None = None, **timeouts: int):
    actions = {}
    for action, text in (("onEnter", enter), ("onExit", leave)):
        if text is not None:
            actions[action] = {"command": "bash", "args": ["-c", dedent(text)]}
            if action in timeouts:
                actions[action]["timeout"] = timeouts[action]
    return {"name": name, "script": {"actions": actions}}


def external(*environments) -> list[str]:
    return [
        json.dumps({"specificationVersion": "environment-2023-09", "environment": one})
        for one in environments
    ]


def marks(job) -> list[str]:
    return [
        line for line in job.log_text().splitlines() if line.startswith(("enter", "leave", "run"))
    ]


FRAMES = {
    "parameterSpace": {"taskParameterDefinitions": [{"name": "F", "type": "INT", "range": "1-3"}]}
}


def test_they_are_entered_in_order_once_and_left_in_the_opposite_one(ground):
    step = python_step(
        "import os, sys; print('run', sys.argv[1], os.environ['FROM'])",
        args=["{{Task.Param.F}}"],
        more={**FRAMES, "stepEnvironments": [environment("S", "echo enter S", "echo leave S")]},
    )
    job = ground.submit(
        template(step, jobEnvironments=[environment("J", "echo enter J", "echo leave J")]),
        environments=external(
            environment("X", "echo enter X; echo openjd_env: FROM=X", "echo leave X $FROM")
        ),
    )
    job.run()
    assert marks(job) == [
        "enter X",
        "enter J",
        "enter S",
        "run 1 X",
        "run 2 X",
        "run 3 X",
        "leave S",
        "leave J",
        "leave X X",
    ]


def test_after_a_failed_task_the_next_one_gets_a_session_of_its_own(ground):
    step = python_step(
        "import sys; print('run', sys.argv[1]); sys.exit(sys.argv[1] == '2')",
        args=["{{Task.Param.F}}"],
        resume=False,
        more={**FRAMES, "stepEnvironments": [environment("S", "echo enter", "echo leave")]},
    )
    job = ground.submit(template(step))
    job.run()
    assert marks(job) == [
        "enter",
        "run 1",
        "run 2",
        "leave",
        "enter",
        "run 3",
        "leave",
    ]
    assert [job.outcome(n)["state"] for n in range(3)] == ["SUCCEEDED", "FAILED", "SUCCEEDED"]


def test_an_environment_that_cannot_be_entered_is_no_failure_of_the_task(ground):
    step = python_step(
        "print('run')",
        more={
            "stepEnvironments": [
                environment("Good", "echo enter Good", "echo leave Good"),
                environment("Bad", "echo enter Bad; exit 7", "echo leave Bad"),
                environment("Never", "echo enter Never", "echo leave Never"),
            ]
        },
    )
    job = ground.submit(template(step))
    job.run()
    outcome = job.outcome()
    assert (outcome["state"], outcome["cause"]) == ("NOT_STARTED", "enter")
    assert "environment 'Bad'" in outcome["reason"]
    assert "exited with code 7" in outcome["reason"]
    assert marks(job) == ["enter Good", "enter Bad", "leave Bad", "leave Good"]


def test_the_words_of_openjd_fail_reach_the_reason(ground):
    bad = environment("Bad", "echo 'openjd_fail: no licence left'; exit 1")
    job = ground.submit(template(python_step("pass", more={"stepEnvironments": [bad]})))
    job.run()
    assert "no licence left" in job.outcome()["reason"]


def test_the_words_of_a_tasks_openjd_fail_are_kept(ground):
    code = "print('openjd_fail: the scene is empty', flush=True); raise SystemExit(3)"
    job = ground.submit(template(python_step(code)))
    job.run()
    assert job.outcome()["failure"] == "the scene is empty"


def test_a_message_that_openjd_does_not_understand_is_told(ground):
    job = ground.submit(template(python_step("print('openjd_progress: much')")))
    job.run()
    assert "ERROR: Progress must be" in job.log_text()
    assert job.outcome()["state"] == "SUCCEEDED"


SERVER = """
    echo enter
    python3 -c '
    import socket, sys, time
    server = socket.create_server(("127.0.0.1", 0))
    open("port.new", "w").write(str(server.getsockname()[1]))
    import os; os.rename("port.new", "port")
    while True:
        client, _ = server.accept()
        client.sendall(b"served"); client.close()
    ' &
    while [ ! -e port ]; do sleep 0.05; done
"""
CLIENT = """
    import os, socket
    client = socket.create_connection(("127.0.0.1", int(open("port").read())))
    print("run", client.recv(100).decode())
"""


@pytest.mark.parametrize("how", ["", "setsid ", "env -i "])
def test_a_server_of_an_environment_outlives_on_enter_and_ends_with_the_session(ground, how):
    server = dedent(SERVER).replace("python3 -c", f"{how}python3 -c")
    if how == "env -i ":
        server = server.replace("env -i python3", "env -i $(command -v python3)")
    code = dedent(CLIENT)
    step = python_step(
        code,
        more={**FRAMES, "stepEnvironments": [environment("S", server, "echo leave")]},
    )
    job = ground.submit(template(step))
    job.run()
    assert marks(job) == ["enter", "run served", "run served", "run served", "leave"]
    ground.nothing_runs()


def test_a_suspension_leaves_environments_the_time_to_exit(ground):
    step = python_step(
        """
        import os, signal, time
        def save(*_):
            print('openjd_checkpoint_save: {"state": "1"}', flush=True)
            os._exit(1)
        signal.signal(signal.SIGUSR1, save)
        print("ready", flush=True)
        time.sleep(60)
        """,
        more={"stepEnvironments": [environment("S", "echo enter", "sleep 0.5; echo leave done")]},
    )
    job = ground.submit(template(step))
    worker = job.start()
    job.wait_for("ready")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert marks(job) == ["enter", "leave done"]
    assert job.outcome()["state"] == "SUSPENDED"


def test_a_stop_that_comes_while_an_environment_is_left_ends_it_only_when_it_is_at_once(ground):
    leave = "echo leaving; sleep 30 & wait; echo leave done"
    step = python_step(
        "print('run')", more={"stepEnvironments": [environment("S", "echo enter", leave)]}
    )
    job = ground.submit(template(step))
    worker = job.start()
    job.wait_for("leaving")
    worker.signal(signal.SIGINT)
    worker.signal(signal.SIGINT)
    assert worker.wait() == 0
    assert "leave done" not in job.log_text()
    assert job.outcome()["state"] == "SUCCEEDED"


def test_a_stop_while_an_environment_is_entered_stops_before_the_task(ground):
    enter = "echo entering; sleep 60 & wait"
    step = python_step(
        "print('run')", more={"stepEnvironments": [environment("S", enter, "echo leave")]}
    )
    job = ground.submit(template(step))
    worker = job.start()
    job.wait_for("entering")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    outcome = job.outcome()
    assert (outcome["state"], outcome["by"]) == ("SUSPENDED", "host")
    assert "stopped before it began" in outcome["reason"]
    assert "run" not in marks(job)


def test_the_timeouts_of_environments_hold(ground):
    slow_enter = environment("S", "echo enter; sleep 60", "echo leave", onEnter=1)
    job = ground.submit(
        template(python_step("print('run')", more={"stepEnvironments": [slow_enter]}))
    )
    job.run()
    assert "ran longer than its timeout" in job.outcome()["reason"]
    slow_exit = environment("S", "echo enter", "echo leave; sleep 60", onExit=1)
    job = ground.submit(
        template(python_step("print('run')", more={"stepEnvironments": [slow_exit]}))
    )
    job.run()
    assert job.outcome()["state"] == "SUCCEEDED"
    assert "ran longer than its timeout" in job.log_text()


def test_an_exit_that_fails_is_told_and_changes_no_outcome(ground):
    bad = environment("S", "echo enter", "echo leave; exit 3")
    job = ground.submit(template(python_step("print('run')", more={"stepEnvironments": [bad]})))
    job.run()
    assert job.outcome()["state"] == "SUCCEEDED"
    assert "environment 'S': its action exited with code 3" in job.log_text()


def test_a_hidden_value_of_an_environment_stays_hidden_in_tasks(ground):
    enter = "echo 'openjd_redacted_env: PASS=sekret'"
    step = python_step(
        "import os; print('it is', os.environ['PASS'])",
        more={"stepEnvironments": [environment("S", enter)]},
    )
    job = ground.submit(template(step, extensions=["REDACTED_ENV_VARS"]))
    job.run()
    assert "it is ********" in job.log_text()
    assert "sekret" not in job.log_text()


def test_an_environment_without_actions_of_a_kind_runs_nothing(ground):
    only_exit = environment("S", None, "echo leave")
    only_values = {"name": "V", "variables": {"VALUE": "v"}}
    step = python_step(
        "import os; print('run', os.environ['VALUE'])",
        more={"stepEnvironments": [only_exit, only_values]},
    )
    job = ground.submit(template(step))
    job.run()
    assert marks(job) == ["run v", "leave"]
    wait_until("its end", lambda: job.outcome()["state"] == "SUCCEEDED")
