"""Steps of many tasks: side by side, in order, in chunks, with what they ask of the host."""

import os
import re

MANY = """\
specificationVersion: jobtemplate-2023-09
name: Many
steps:
- name: First
  parameterSpace:
    taskParameterDefinitions: [{name: I, type: INT, range: "1-40"}]
  script:
    actions: {onRun: {command: /bin/sh, args: ["-c", "echo first {{Task.Param.I}} by $PPID"]}}
- name: Second
  dependencies: [{dependsOn: First}]
  parameterSpace:
    taskParameterDefinitions: [{name: I, type: INT, range: "1-3"}]
  script: {actions: {onRun: {command: /bin/echo, args: ["second {{Task.Param.I}}"]}}}
"""
ADAPTIVE = """\
specificationVersion: jobtemplate-2023-09
extensions: [TASK_CHUNKING]
name: Adaptive
steps:
- name: Cut
  parameterSpace:
    taskParameterDefinitions:
    - name: Frame
      type: CHUNK[INT]
      range: "1-40"
      chunks: {defaultTaskCount: 2, targetRuntimeSeconds: 1, rangeConstraint: CONTIGUOUS}
  script: {actions: {onRun: {command: /bin/echo, args: ["chunk {{Task.Param.Frame}}"]}}}
"""
ASKING = """\
specificationVersion: jobtemplate-2023-09
name: Asking
steps:
- name: Big
  hostRequirements: {amounts: [{name: amount.worker.vcpu, min: %d}]}
  script: {actions: {onRun: {command: /bin/echo, args: [big]}}}
"""
ENVIRONMENTS = """\
specificationVersion: jobtemplate-2023-09
name: Environments
jobEnvironments:
- name: Outer
  script:
    actions:
      onEnter: {command: /bin/echo, args: ["openjd_env: OUTER=outer"]}
      onExit: {command: /bin/echo, args: [left outer]}
steps:
- name: Inside
  stepEnvironments:
  - name: Inner
    script:
      actions:
        onEnter: {command: /bin/echo, args: [entered inner]}
        onExit: {command: /bin/echo, args: [left inner]}
  parameterSpace:
    taskParameterDefinitions: [{name: I, type: INT, range: "1-3"}]
  script:
    actions: {onRun: {command: /bin/sh, args: ["-c", "echo task {{Task.Param.I}} $OUTER"]}}
"""
SLOW = """\
specificationVersion: jobtemplate-2023-09
name: Slow
steps:
- name: Wait
  parameterSpace:
    taskParameterDefinitions: [{name: I, type: INT, range: "1-8"}]
  script:
    actions: {onRun: {command: /bin/sh, args: ["-c", "echo at {{Task.Param.I}}; sleep 0.4"]}}
"""


def test_every_task_runs_once_and_steps_wait_for_those_before(perdure):
    said = perdure("run", perdure.template(MANY), "--workers", "2").stdout
    firsts = re.findall(r"first (\d+) by", said)
    assert sorted(map(int, firsts)) == list(range(1, 41))
    assert said.index("second") > max(said.index(f"first {i} by") for i in range(1, 41))
    status = perdure.json("status", "last")
    assert [step["tasks"]["succeeded"] for step in status["steps"]] == [40, 3]
    perdure.wait_until_no_process()


def test_one_step_with_selected_tasks_as_openjd_run_selects_them(perdure):
    template = perdure.template(MANY)
    one = perdure("run", template, "--step", "Second", "-tp", "I=2").stdout
    assert re.findall(r"second (\d)", one) == ["2"]
    assert "first" not in one
    some = perdure("run", template, "--step", "First", "--maximum-tasks", "3").stdout
    assert len(re.findall(r"first \d+ by", some)) == 3
    both = perdure("run", template, "--step", "Second", "--run-dependencies").stdout
    assert len(re.findall(r"first \d+ by", both)) == 40
    named = perdure("run", template, "--step", "First", "--tasks", '[{"I": 7}, {"I": 9}]').stdout
    assert sorted(re.findall(r"first (\d+) by", named)) == ["7", "9"]


def test_adaptive_chunks_cover_every_value_once(perdure):
    said = perdure("run", perdure.template(ADAPTIVE), "--workers", "2").stdout
    chunks = [tuple(map(int, c.split("-"))) for c in re.findall(r"chunk (\d+-\d+)", said)]
    values = [value for first, last in chunks for value in range(first, last + 1)]
    assert sorted(values) == list(range(1, 41))
    assert len(chunks) < 20, "chunks grow when values turn out to be quick"


def test_what_no_host_here_has_is_an_error_at_submit(perdure):
    done = perdure("run", perdure.template(ASKING % 100_000), expect=4)
    assert "100000 CPUs are required" in done.stderr
    assert perdure("submit", perdure.template(ASKING % 100_000), expect=4).stdout == ""


def test_what_fits_the_host_alone_runs_one_after_the_other(perdure):
    cpus = len(os.sched_getaffinity(0))
    said = perdure("run", perdure.template(ASKING % cpus), "--workers", "4").stdout
    assert "big" in said


def test_environments_are_entered_once_and_left_in_the_opposite_order(perdure):
    said = perdure("run", perdure.template(ENVIRONMENTS)).stdout
    order = re.findall(r"(?m)\t(entered inner|left inner|left outer|task \d outer)$", said)
    assert order == [
        "entered inner",
        "task 1 outer",
        "task 2 outer",
        "task 3 outer",
        "left inner",
        "left outer",
    ]


def test_tasks_that_were_not_begun_run_after_a_suspension_and_no_other_again(perdure):
    template = perdure.template(SLOW)
    said = perdure.suspended_at(r"at 2", "run", template)
    again = perdure("run", template, "--workers", "2").stdout
    ran = [int(i) for i in re.findall(r"at (\d)", said + again)]
    interrupted = int(re.findall(r"at (\d)", said)[-1])
    assert sorted(set(ran)) == list(range(1, 9))
    assert [i for i in ran if ran.count(i) > 1] in ([], [interrupted, interrupted])


def test_a_submitted_job_goes_on_by_itself(perdure):
    job = perdure("submit", perdure.template(MANY)).stdout.split()[0]
    perdure("wait", job)
    assert perdure.json("status", job)["state"] == "SUCCEEDED"
    perdure.wait_until_no_process()


def test_a_submitted_job_is_suspended_and_resumed_by_commands(perdure):
    job = perdure("submit", perdure.template(SLOW)).stdout.split()[0]
    perdure("suspend", job)
    perdure("wait", job, expect=75)
    perdure.wait_until_no_process()
    perdure("resume", job, "--detach")
    perdure("wait", job)
    perdure.wait_until_no_process()
