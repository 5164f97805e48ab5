"""From texts to a job: all of it follows from the texts, and none of it enumerates tasks."""

import json
import re
from pathlib import Path

import pytest
import yaml

from perdure.errors import TemplateError, UsageError
from perdure.template import EnvironmentScope, load_job, read_document, task_key

HERE = Path("/somewhere/templates")
BASE = {"specificationVersion": "jobtemplate-2023-09", "name": "job"}
SCRIPT = {"actions": {"onRun": {"command": "x"}}}


def load(content, environments=(), **parameters):
    documents = [
        read_document(yaml.safe_dump(one).encode(), name=f"{number}.yaml")
        for number, one in enumerate([content, *environments])
    ]
    return load_job(
        documents[0],
        parameters=parameters,
        environments=documents[1:],
        template_dir=HERE,
        current_dir=Path("/somewhere/dir"),
    )


def step(name="s", **more):
    return {"name": name, "script": SCRIPT, **more}


def external(name, **more):
    return {
        "specificationVersion": "environment-2023-09",
        "environment": {"name": name, "variables": {"A": "b"}},
        **more,
    }


def test_names_dependencies_and_order():
    job = load(
        {
            **BASE,
            "name": "job {{Param.N}}",
            "parameterDefinitions": [{"name": "N", "type": "INT", "description": "how many"}],
            "steps": [
                step("last", dependencies=[{"dependsOn": "first"}, {"dependsOn": "middle"}]),
                step("first"),
                step("middle", dependencies=[{"dependsOn": "first"}]),
            ],
        },
        N="5",
    )
    assert job.name == "job 5"
    assert [(one.index, one.name, one.dependencies) for one in job.steps] == [
        (1, "last", (2, 3)),
        (2, "first", ()),
        (3, "middle", (2,)),
    ]
    assert job.step(2).name == "first"
    assert job.step_named("middle").index == 3
    assert job.step_named("none") is None
    (parameter,) = job.parameters
    assert (parameter.name, parameter.type, parameter.value) == ("N", "INT", "5")
    assert parameter.description == "how many"


def test_a_job_of_a_million_tasks_loads_without_making_them():
    job = load(
        {
            **BASE,
            "steps": [
                step(
                    parameterSpace={
                        "taskParameterDefinitions": [
                            {"name": "A", "type": "INT", "range": "1-1000"},
                            {"name": "B", "type": "INT", "range": "1-1000"},
                            {"name": "C", "type": "FLOAT", "range": ["1.50", 2, 2.5]},
                        ]
                    }
                )
            ],
        }
    )
    space = job.steps[0].space
    assert space.len == 3_000_000
    assert space.task(2_999_999).texts() == {"A": "1000", "B": "1000", "C": "2.5"}
    assert space.task(0).to_json() == {
        "A": {"type": "INT", "value": "1"},
        "B": {"type": "INT", "value": "1"},
        "C": {"type": "FLOAT", "value": "1.50"},
    }
    assert set(space.task(0).for_session()) == {"A", "B", "C"}


def test_the_same_texts_give_the_same_job():
    content = {
        **BASE,
        "extensions": ["CHECKPOINT", "TASK_CHUNKING", "EXPR"],
        "parameterDefinitions": [{"name": "Frames", "type": "STRING", "default": "1-30"}],
        "steps": [
            step(
                let=["twice = 'a' + 'b'"],
                parameterSpace={
                    "taskParameterDefinitions": [
                        {
                            "name": "F",
                            "type": "CHUNK[INT]",
                            "range": "{{Param.Frames}}",
                            "chunks": {"defaultTaskCount": 7, "rangeConstraint": "CONTIGUOUS"},
                        }
                    ]
                },
            )
        ],
    }
    one, other = load(content), load(content)
    table = one.steps[0].symbols.table.to_json_str()
    assert table == other.steps[0].symbols.table.to_json_str()
    assert '"twice"' in table
    keys = [
        [task_key(job.steps[0].space.task(index)) for index in range(5)] for job in (one, other)
    ]
    assert keys[0] == keys[1]
    assert one.extensions == ("CHECKPOINT", "TASK_CHUNKING", "EXPR")
    assert one.revision_extensions.extensions == {"TASK_CHUNKING", "EXPR"}
    chunk = one.steps[0].space.chunk
    assert (chunk.parameter, chunk.default_task_count, chunk.is_contiguous) == ("F", 7, True)
    assert chunk.target_runtime_seconds is None


def test_environments_come_in_the_order_in_which_they_are_entered():
    variables = {"variables": {"A": "b"}}
    job = load(
        {
            **BASE,
            "jobEnvironments": [{"name": "j1", **variables}, {"name": "j2", **variables}],
            "steps": [step(stepEnvironments=[{"name": "s1", **variables}]), step("t")],
        },
        [external("x1"), external("j1", extensions=["REDACTED_ENV_VARS"])],
    )
    assert [(one.name, one.scope) for one in job.environments] == [
        ("x1", EnvironmentScope.EXTERNAL),
        ("j1", EnvironmentScope.EXTERNAL),
        ("j1", EnvironmentScope.JOB),
        ("j2", EnvironmentScope.JOB),
    ]
    assert [one.name for one in job.steps[0].environments] == ["s1"]
    everything = [*job.environments, *job.steps[0].environments]
    assert len({one.identifier for one in everything}) == 5
    assert job.revision_extensions.extensions == {"REDACTED_ENV_VARS"}
    assert all(not one.actions and one.wrapped_by is None for one in everything)


def test_parameters_of_environments_are_asked_for_too():
    around = external("x", parameterDefinitions=[{"name": "Q", "type": "STRING"}])
    with pytest.raises(UsageError, match="Values missing for required job parameters: Q"):
        load({**BASE, "steps": [step()]}, [around])
    job = load({**BASE, "steps": [step()]}, [around], Q="yes")
    assert [(one.name, one.value) for one in job.parameters] == [("Q", "yes")]
    assert set(job.session_parameters) == {"Q"}


def test_parameters_that_do_not_fit_are_usage_errors():
    definitions = [{"name": "N", "type": "INT", "minValue": 3}]
    content = {**BASE, "parameterDefinitions": definitions, "steps": [step()]}
    for given, message in [({}, "missing"), ({"N": "x"}, "integer"), ({"N": "1"}, "3")]:
        with pytest.raises(UsageError, match=message):
            load(content, **given)
    with pytest.raises(UsageError) as caught:
        load(content, N="5", M="1")
    assert "not defined in the template: M" in caught.value.message
    assert caught.value.hint == "The template's parameters: N."


def test_paths_are_relative_to_the_template_and_the_folder():
    definitions = [
        {"name": "In", "type": "PATH", "default": "scene/a.blend"},
        {"name": "Out", "type": "PATH"},
        {"name": "None", "type": "PATH", "default": ""},
    ]
    job = load({**BASE, "parameterDefinitions": definitions, "steps": [step()]}, Out="out")
    assert job.path_values == ("/somewhere/templates/scene/a.blend", "/somewhere/dir/out")
    definitions[0]["default"] = "../outside"
    with pytest.raises(UsageError, match="outside of the template directory"):
        load({**BASE, "parameterDefinitions": definitions, "steps": [step()]}, Out="out")


def test_lists_and_truths_are_given_as_text():
    definitions = [
        {"name": "L", "type": "LIST[PATH]", "default": ["a"]},
        {"name": "B", "type": "BOOL"},
    ]
    content = {
        **BASE,
        "extensions": ["EXPR"],
        "parameterDefinitions": definitions,
        "steps": [step()],
    }
    job = load(content, L='["/x", "/y"]', B="true")
    assert [one.value for one in job.parameters] == [["/x", "/y"], True]
    assert job.path_values == ("/x", "/y")


def test_a_template_that_is_wrong_only_with_these_values():
    space = {"taskParameterDefinitions": [{"name": "F", "type": "INT", "range": "{{Param.R}}"}]}
    content = {
        **BASE,
        "parameterDefinitions": [{"name": "R", "type": "STRING"}],
        "steps": [step(parameterSpace=space)],
    }
    with pytest.raises(TemplateError) as caught:
        load(content, R="5-1")
    (problem,) = caught.value.problems
    assert problem.path.startswith("steps[0] -> parameterSpace")
    assert problem.line is not None


def test_requirements():
    job = load(
        {
            **BASE,
            "extensions": ["FEATURE_BUNDLE_1"],
            "parameterDefinitions": [{"name": "Cpus", "type": "INT", "default": 4}],
            "steps": [
                step(
                    hostRequirements={
                        "amounts": [
                            {"name": "amount.worker.vcpu", "min": "{{Param.Cpus}}", "max": 8},
                            {"name": "AMOUNT.worker.memory", "min": 1024},
                            {"name": "amount.worker.gpu", "min": 1},
                            {"name": "amount.worker.gpu.memory", "min": 512},
                            {"name": "amount.worker.disk.scratch", "min": 10},
                            {"name": "amount.license", "max": 1},
                        ],
                        "attributes": [
                            {"name": "attr.worker.os.family", "anyOf": ["linux", "macos"]},
                            {"name": "attr.software", "allOf": ["a", "b"]},
                        ],
                    }
                ),
                step("free"),
            ],
        }
    )
    needs = job.steps[0].requirements
    assert (needs.cpus, needs.memory_mib, needs.gpus) == (4, 1024, 1)
    assert (needs.gpu_memory_mib, needs.scratch_mib) == (512, 10)
    assert needs.amount("amount.worker.vcpu").maximum == 8
    assert needs.amount("amount.license").minimum is None
    assert needs.attribute("attr.worker.os.family").allows(("LINUX",))
    assert not needs.attribute("attr.worker.os.family").allows(("windows",))
    assert needs.attribute("attr.software").allows(("b", "a", "c"))
    assert not needs.attribute("attr.software").allows(("a",))
    free = job.steps[1].requirements
    assert free.cpus is None
    assert free.amounts == free.attributes == ()


RESUMABLE = {
    "actions": {
        "onRun": {
            "command": "a",
            "timeout": 5,
            "cancelation": {"mode": "NOTIFY_THEN_TERMINATE"},
        },
        "onCheckpointResume": {"command": "b", "args": ["{{Task.Checkpoint.State}}"], "timeout": 6},
    },
    "embeddedFiles": [{"name": "F", "type": "TEXT", "data": "x"}],
}


def test_scripts_for_the_session_leave_clocks_to_the_worker():
    job = load({**BASE, "extensions": ["CHECKPOINT"], "steps": [step(script=RESUMABLE), step("t")]})
    one, plain = job.steps
    assert one.is_resumable
    run, resume = one.run_script.actions.onRun, one.resume_script.actions.onRun
    assert (str(run.command), run.timeout, run.cancelation) == ("a", None, None)
    assert (str(resume.command), resume.timeout, resume.cancelation) == ("b", None, None)
    assert str(resume.args[0]) == "{{Task.Checkpoint.State}}"
    assert str(one.resume_script.embeddedFiles[0].name) == "F"
    assert (one.run.timeout, one.resume.timeout) == (5, 6)
    assert not plain.is_resumable
    assert plain.resume is plain.resume_script is None


def hooks(command="w"):
    names = ("onWrapEnvEnter", "onWrapTaskRun", "onWrapEnvExit")
    return {"actions": {name: {"command": command, "timeout": 9} for name in names}}


def test_a_wrap_environment_is_shown_what_is_written():
    inner = {"actions": {"onEnter": {"command": "i", "timeout": 3}}}
    job = load(
        {
            **BASE,
            "extensions": ["CHECKPOINT", "EXPR", "WRAP_ACTIONS"],
            "jobEnvironments": [
                {"name": "before", "script": inner},
                {"name": "wrap", "script": hooks()},
                {"name": "after", "script": inner},
            ],
            "steps": [step(script=RESUMABLE)],
        }
    )
    before, wrap, after = job.environments
    assert [one.wrapped_by for one in job.environments] == [None, None, wrap.identifier]
    assert wrap.wraps
    assert not before.wraps
    assert before.model.script.actions.onEnter.timeout is None
    assert wrap.model.script.actions.onWrapTaskRun.timeout is None
    assert after.model.script.actions.onEnter.timeout == 3
    (one,) = job.steps
    assert one.wrapped_by == wrap.identifier
    assert one.run_script.actions.onRun.timeout == 5
    assert one.resume_script.actions.onRun.timeout == 6


def test_two_environments_cannot_both_wrap():
    around = {
        **external("outer"),
        "extensions": ["EXPR", "WRAP_ACTIONS"],
        "environment": {"name": "outer", "script": hooks()},
    }
    content = {
        **BASE,
        "extensions": ["EXPR", "WRAP_ACTIONS"],
        "jobEnvironments": [{"name": "inner", "script": hooks()}],
        "steps": [step()],
    }
    with pytest.raises(TemplateError, match=re.escape("'outer' and 'inner' both wrap")):
        load(content, [around])


def test_the_two_values_of_a_resumed_task():
    symbols = load({**BASE, "steps": [step()]}).steps[0].symbols
    full = symbols.with_checkpoint(state="3,2 {{x}} \u00e9", file="/a b/c")
    rows = {row["name"]: row for row in json.loads(full.table.to_json_str())}
    assert rows["Task.Checkpoint.State"]["value"] == "3,2 {{x}} \u00e9"
    assert rows["Task.Checkpoint.File"]["value"] == "/a b/c"
    again = full.with_checkpoint(state=None, file=None)
    rows = {row["name"]: row for row in json.loads(again.table.to_json_str())}
    assert rows["Task.Checkpoint.State"]["value"] == rows["Task.Checkpoint.File"]["value"] == ""


def test_an_environment_template_is_no_job():
    with pytest.raises(TemplateError, match="not a Job Template version"):
        load(external("x"))
