"""What perdure builds on in openjd-model: when a new version breaks one of these, we know first."""

import json
from pathlib import Path

import pytest
from openjd.expr import ExprValue, SerializedSymbolTable
from openjd.model import (
    DecodeValidationError,
    create_job_with_symbol_tables,
    decode_job_template,
    parse_model,
)
from openjd.model import v2023_09 as model
from pydantic import ValidationError

from perdure.template.extensions import (
    ENVIRONMENT_ACTIONS,
    FILE_REFERENCE,
    STATE_REFERENCE,
    STOCK_EXTENSIONS,
    SUGAR_KEYS,
)
from perdure.template.symbols import Symbols

ACTION = {"command": "x"}


def template(**changes):
    step = {"name": "s", "script": {"actions": {"onRun": ACTION}}, **changes.pop("step", {})}
    return {
        "specificationVersion": "jobtemplate-2023-09",
        "name": "t",
        "steps": [step],
        **changes,
    }


def details(content):
    with pytest.raises(DecodeValidationError) as caught:
        decode_job_template(template=content, supported_extensions=list(STOCK_EXTENSIONS))
    assert isinstance(caught.value.__context__, ValidationError)
    return {detail["loc"]: detail for detail in caught.value.__context__.errors()}


def test_the_library_knows_just_the_extensions_that_we_call_stock():
    assert {name.value for name in model.ExtensionName} == set(STOCK_EXTENSIONS)


def test_the_library_still_does_not_know_ours():
    found = details(template(extensions=["CHECKPOINT"]))
    assert "Unsupported extension names: CHECKPOINT" in found["extensions",]["msg"]


def test_the_error_behind_the_error_has_the_parts():
    content = template(unknown=1, step={"script": {"actions": {"onRun": {"args": ["{{No.Way}}"]}}}})
    found = details(content)
    run = ("steps", 0, "script", "actions", "onRun")
    assert found["unknown",]["type"] == "extra_forbidden"
    assert found[(*run, "command")]["type"] == "missing"
    reference = found[(*run, "args", 0)]
    assert reference["type"] == "value_error"
    assert "No.Way does not exist at this location" in str(reference["ctx"]["error"])


def test_union_members_stand_in_locations_and_a_missing_tag_has_a_type():
    cancelation = {"mode": "NOTIFY_THEN_TERMINATE", "notifyPeriodInSeconds": 0}
    action = {**ACTION, "cancelation": cancelation}
    (loc,) = details(template(step={"script": {"actions": {"onRun": action}}}))
    assert loc[-2:] == ("notify_then_terminate", "notifyPeriodInSeconds")
    action = {**ACTION, "cancelation": {"mode": "NO"}}
    ((_, detail),) = details(template(step={"script": {"actions": {"onRun": action}}})).items()
    assert detail["type"] == "union_tag_not_found"
    assert "cancelation" in detail["ctx"]["discriminator"]


def test_two_checks_spell_steps_as_step():
    (loc,) = details(template(step={"dependencies": [{"dependsOn": "z"}]}))
    assert loc[:2] == ("step", 0)


def test_references_are_checked_although_there_are_too_many_parameters():
    # `derived` adds two parameters and a step may have 16 of its own.
    parameters = [{"name": f"P{number}", "type": "INT", "range": "1"} for number in range(18)]
    script = {
        "actions": {"onRun": {**ACTION, "args": ["{{Task.Param.P17}}", "{{Task.Param.P18}}"]}}
    }
    step = {"parameterSpace": {"taskParameterDefinitions": parameters}, "script": script}
    found = details(template(step=step))
    assert set(found) == {
        ("steps", 0, "parameterSpace", "taskParameterDefinitions"),
        ("steps", 0, "script", "actions", "onRun", "args", 1),
    }


def test_decoding_changes_nothing_in_what_it_is_given():
    content = template(extensions=["TASK_CHUNKING"])
    before = json.dumps(content)
    decode_job_template(template=content, supported_extensions=["TASK_CHUNKING"])
    assert json.dumps(content) == before


def test_names_of_actions_and_short_forms():
    assert set(model.EnvironmentActions.model_fields) == set(ENVIRONMENT_ACTIONS)
    assert set(model.StepActions.model_fields) == {"onRun"}
    sugar = set(model.StepTemplate.model_fields) & set(SUGAR_KEYS)
    assert sugar == {name.value for name in model.ScriptInterpreter} == set(SUGAR_KEYS)
    assert {"timeout", "cancelation"} <= set(model.Action.model_fields)
    assert {"timeout", "cancelation"} <= set(model.SimpleAction.model_fields)


def test_a_part_of_a_template_is_parsed_without_checking_references():
    script = parse_model(
        model=model.StepScript,
        obj={"actions": {"onRun": {**ACTION, "args": [f"{{{{{STATE_REFERENCE}}}}}"]}}},
        supported_extensions=[],
    )
    assert str(script.actions.onRun.args[0]) == f"{{{{{STATE_REFERENCE}}}}}"
    copied = script.actions.onRun.model_copy(update={"timeout": 5})
    assert (copied.timeout, script.actions.onRun.timeout) == (5, None)


def created(content):
    decoded = decode_job_template(template=content, supported_extensions=list(STOCK_EXTENSIONS))
    return create_job_with_symbol_tables(job_template=decoded, job_parameter_values={})


def test_symbol_tables_are_rows_of_name_type_value():
    table = created(template()).step_symbol_tables["s"]
    rows = json.loads(table.to_json_str())
    assert {"name": "Step.Name", "type": "string", "value": "s"} in rows
    again = SerializedSymbolTable.from_json_str(json.dumps(rows))
    assert again.to_json_str() == table.to_json_str()


def test_a_table_takes_our_two_values_with_their_types():
    table = created(template()).step_symbol_tables["s"]
    full = Symbols(table=table).with_checkpoint(state="3,2", file="/r/cp.bin").table
    engine = full.to_symtab()
    assert str(engine[STATE_REFERENCE]) == "3,2"
    assert str(engine[FILE_REFERENCE]) == "/r/cp.bin"
    assert isinstance(engine[FILE_REFERENCE], ExprValue)
    assert str(engine[FILE_REFERENCE].type) == "path"


def test_short_forms_become_scripts_in_the_job():
    content = template(extensions=["FEATURE_BUNDLE_1"])
    content["steps"] = [{"name": "s", "bash": {"script": "echo", "timeout": 3}}]
    script = created(content).job.steps[0].script
    assert script.actions.onRun.timeout == 3


def test_format_strings_of_timeouts_reach_the_job_unresolved():
    action = {**ACTION, "timeout": "{{Param.N}}"}
    content = template(
        extensions=["FEATURE_BUNDLE_1"],
        parameterDefinitions=[{"name": "N", "type": "INT", "default": 3}],
        step={"script": {"actions": {"onRun": action}}},
    )
    timeout = created(content).job.steps[0].script.actions.onRun.timeout
    assert hasattr(timeout, "resolve_value")
    assert not hasattr("plain", "resolve_value")


def test_the_path_mapping_rules_are_those_of_the_sessions():
    from openjd.sessions import PathMappingRule as SessionRule

    from perdure.template import PathMappingRule

    for source in ("/mnt/a", "s3://bucket/x"):
        form = "URI" if "://" in source else "POSIX"
        rule = PathMappingRule(
            source_path_format=form, source_path=source, destination_path="/data"
        )
        theirs = SessionRule.from_dict(rule.to_json())
        assert theirs.to_dict() == rule.to_json()
        assert theirs.apply(path=f"{source}/f") == (True, "/data/f")
    with pytest.raises(ValueError, match="scheme"):
        SessionRule.from_dict(
            {"source_path_format": "URI", "source_path": "x", "destination_path": "/"}
        )


def test_limits_and_defaults_are_the_session_s():
    from openjd.sessions import _runner_base as runner
    from openjd.sessions import _types as types

    from perdure.template import actions

    assert runner.MAX_SCHEDULABLE_TIMEOUT_SECONDS == actions.MAX_TIMEOUT_SECONDS
    assert types.TASK_RUN_DEFAULT_NOTIFY_PERIOD_SECONDS == actions.TASK_NOTIFY_SECONDS
    assert types.ENV_ACTION_DEFAULT_NOTIFY_PERIOD_SECONDS == actions.ENVIRONMENT_NOTIFY_SECONDS


def test_a_session_runs_the_resume_script_with_the_two_values(tmp_path):
    from perdure.template import load_job, read_document

    text = b"""
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT]
name: t
steps:
- name: s
  script:
    actions:
      onRun: {command: "false"}
      onCheckpointResume:
        command: sh
        args:
        - -c
        - printf %s "$0$1" > {{Session.WorkingDirectory}}/out
        - '{{Task.Checkpoint.State}}'
        - '|{{Task.Checkpoint.File}}'
"""
    document = read_document(text, name="t.yaml")
    job = load_job(document, parameters={}, template_dir=Path("/t"), current_dir=Path("/t"))
    step = job.steps[0]
    state = "3 {{Param.X}} $HOME ' \" \u00e9"
    out = run_session(tmp_path, job, step, step.symbols.with_checkpoint(state=state, file="/r/f"))
    assert out == f"{state}|/r/f"


def run_session(root, job, step, symbols):
    import threading

    from openjd.sessions import ActionState, Session

    ended = threading.Event()

    def callback(_, status):
        if status.state is not ActionState.RUNNING:
            ended.set()

    with Session(
        session_id="contract",
        job_parameter_values=dict(job.session_parameters),
        session_root_directory=root,
        callback=callback,
        revision_extensions=job.revision_extensions,
    ) as session:
        session.run_task(
            step_script=step.resume_script,
            task_parameter_values={},
            step_name=step.name,
            resolved_symtab=symbols.table,
        )
        assert ended.wait(30)
        return (session.working_directory / "out").read_text()
