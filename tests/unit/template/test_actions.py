"""What is carried out: defaults once, format strings at run time, suspend and cancel apart."""

from datetime import timedelta
from pathlib import Path
from signal import Signals

import pytest
import yaml

from perdure.errors import TemplateError
from perdure.template import (
    ActionName,
    NotifyThenTerminate,
    Terminate,
    load_job,
    read_document,
    resolve_action,
    resolve_wrapped,
)

ALL = ["CHECKPOINT", "FEATURE_BUNDLE_1", "EXPR"]


def load(content, **parameters):
    document = read_document(yaml.safe_dump(content).encode(), name="t.yaml")
    here = Path("/tmp")
    return load_job(document, parameters=parameters, template_dir=here, current_dir=here)


def job(action, *, resume=None, extensions=ALL, **more):
    actions = {"onRun": {"command": "x", **action}}
    if resume is not None:
        actions["onCheckpointResume"] = {"command": "x", **resume}
    return {
        "specificationVersion": "jobtemplate-2023-09",
        "extensions": list(extensions),
        "name": "job",
        "parameterDefinitions": [
            {"name": "Seconds", "type": "INT", "default": 7},
            {"name": "Mode", "type": "STRING", "default": "NOTIFY_THEN_TERMINATE"},
        ],
        "steps": [{"name": "s", "script": {"actions": actions}}],
        **more,
    }


def resolved(action, **parameters):
    step = load(job(action), **parameters).steps[0]
    return resolve_action(step.run, step.symbols)


def notify(name, seconds):
    return NotifyThenTerminate(signal=Signals[name], notify_period=timedelta(seconds=seconds))


N = "NOTIFY_THEN_TERMINATE"


@pytest.mark.parametrize(
    ("action", "cancel", "suspend"),
    [
        ({}, Terminate(), Terminate()),
        ({"cancelation": {"mode": "TERMINATE"}}, Terminate(), Terminate()),
        ({"cancelation": {"mode": N}}, notify("SIGTERM", 120), notify("SIGTERM", 120)),
        (
            {"cancelation": {"mode": N, "notifyPeriodInSeconds": 9, "signalToNotify": "SIGINT"}},
            notify("SIGINT", 9),
            notify("SIGINT", 9),
        ),
        (
            {"checkpointCancelation": {"mode": N, "signalToNotify": "SIGUSR1"}},
            Terminate(),
            notify("SIGUSR1", 120),
        ),
        (
            {"cancelation": {"mode": N}, "checkpointCancelation": {"mode": "TERMINATE"}},
            notify("SIGTERM", 120),
            Terminate(),
        ),
    ],
)
def test_defaults(action, cancel, suspend):
    outcome = resolved(action)
    assert (outcome.timeout, outcome.cancel, outcome.suspend) == (None, cancel, suspend)


def test_the_resume_action_has_its_own_and_the_same_defaults():
    step = load(job({"timeout": 5}, resume={"timeout": 6, "cancelation": {"mode": N}})).steps[0]
    assert resolve_action(step.run, step.symbols).timeout == timedelta(seconds=5)
    outcome = resolve_action(step.resume, step.symbols.with_checkpoint(state="s", file="/f"))
    assert outcome.timeout == timedelta(seconds=6)
    assert outcome.cancel == outcome.suspend == notify("SIGTERM", 120)


def test_format_strings_are_resolved_at_run_time():
    outcome = resolved(
        {
            "timeout": "{{Param.Seconds}}",
            "cancelation": {"mode": "{{Param.Mode}}", "notifyPeriodInSeconds": "{{Param.Seconds}}"},
            "checkpointCancelation": {
                "mode": "{{Param.Mode}}",
                "notifyPeriodInSeconds": "{{Param.Seconds * 2}}",
                "signalToNotify": "SIGUSR2",
            },
        }
    )
    assert outcome.timeout == timedelta(seconds=7)
    assert outcome.cancel == notify("SIGTERM", 7)
    assert outcome.suspend == notify("SIGUSR2", 14)


def test_without_expressions_too():
    content = job({"timeout": "{{Param.Seconds}}0"}, extensions=["FEATURE_BUNDLE_1"])
    step = load(content, Seconds="12").steps[0]
    assert resolve_action(step.run, step.symbols).timeout == timedelta(seconds=120)


def test_null_drops_the_field_and_a_null_mode_the_whole():
    outcome = resolved(
        {
            "timeout": "{{ null }}",
            "cancelation": {"mode": N, "notifyPeriodInSeconds": "{{null}}"},
            "checkpointCancelation": {"mode": "{{ null }}", "signalToNotify": "SIGUSR1"},
        }
    )
    assert outcome.timeout is None
    assert outcome.cancel == outcome.suspend == notify("SIGTERM", 120)


@pytest.mark.parametrize(
    ("action", "place", "message"),
    [
        ({"timeout": "{{Param.Mode}}"}, "timeout", "'NOTIFY_THEN_TERMINATE' is not a whole number"),
        ({"timeout": "{{Param.Seconds - 7}}"}, "timeout", "'0' is not a whole number"),
        (
            {"cancelation": {"mode": N, "notifyPeriodInSeconds": "{{Param.Seconds + 600}}"}},
            "cancelation -> notifyPeriodInSeconds",
            "'607' is not a whole number from 1 to 600",
        ),
        ({"cancelation": {"mode": "x{{Param.Mode}}"}}, "cancelation -> mode", "is not TERMINATE"),
        (
            {"checkpointCancelation": {"mode": "{{'TERM' + 'INATE'}}", "signalToNotify": "SIGINT"}},
            "checkpointCancelation -> mode",
            "has no signalToNotify",
        ),
        (
            {"cancelation": {"mode": "{{'TERMINATE'}}", "notifyPeriodInSeconds": 5}},
            "cancelation -> mode",
            "has no notifyPeriodInSeconds",
        ),
        ({"timeout": "{{ 5 / (Param.Seconds - 7) }}"}, "timeout", "cannot be resolved"),
    ],
)
def test_what_may_not_come_out(action, place, message):
    with pytest.raises(TemplateError) as caught:
        resolved(action)
    (problem,) = caught.value.problems
    assert problem.path == f"steps[0] -> script -> actions -> onRun -> {place}"
    assert message in problem.message


def test_a_timeout_beyond_all_clocks_is_none():
    assert resolved({"timeout": 2**62}).timeout is None
    assert resolved({"timeout": 86400 * 365}).timeout == timedelta(days=365)


def test_the_short_form_of_a_step():
    content = job({})
    content["steps"] = [
        {
            "name": "s",
            "python": {
                "script": "print(1)",
                "timeout": 4,
                "cancelation": {"mode": N, "signalToNotify": "SIGINT"},
                "checkpointCancelation": {"mode": N, "signalToNotify": "SIGHUP"},
            },
        }
    ]
    step = load(content).steps[0]
    outcome = resolve_action(step.run, step.symbols)
    assert outcome.timeout == timedelta(seconds=4)
    assert (outcome.cancel, outcome.suspend) == (notify("SIGINT", 120), notify("SIGHUP", 120))
    assert step.run.path == "steps[0] -> python"


def test_environment_actions():
    content = job({})
    notifying = {"mode": N, "signalToNotify": "SIGINT"}
    content["jobEnvironments"] = [
        {
            "name": "e",
            "script": {
                "actions": {
                    "onEnter": {"command": "x", "timeout": 3, "cancelation": notifying},
                    "onExit": {"command": "x"},
                }
            },
        }
    ]
    (environment,) = load(content).environments
    enter = resolve_action(environment.actions[ActionName.ON_ENTER], environment.symbols)
    assert enter.timeout == timedelta(seconds=3)
    assert enter.cancel == enter.suspend == notify("SIGINT", 30)
    leave = resolve_action(environment.actions[ActionName.ON_EXIT], environment.symbols)
    assert leave.cancel == Terminate()


def wrapping(hook):
    hooks = {
        name: {"command": "w", **hook}
        for name in ("onWrapEnvEnter", "onWrapTaskRun", "onWrapEnvExit")
    }
    return {"name": "wrap", "script": {"actions": hooks}}


def wrapped(action, hook):
    content = job(action, extensions=[*ALL, "WRAP_ACTIONS"], jobEnvironments=[wrapping(hook)])
    loaded = load(content)
    (around,), step = loaded.environments, loaded.steps[0]
    assert step.wrapped_by == around.identifier
    return resolve_wrapped(
        around.actions[ActionName.ON_WRAP_TASK_RUN], around.symbols, step.run, step.symbols
    )


FORWARD = {
    "timeout": "{{WrappedAction.Timeout}}",
    "cancelation": {
        "mode": "{{WrappedAction.Cancelation.Mode}}",
        "notifyPeriodInSeconds": "{{WrappedAction.Cancelation.NotifyPeriodInSeconds}}",
    },
}


def test_a_hook_may_forward_what_it_wraps():
    outcome = wrapped({"timeout": 5, "cancelation": {"mode": N}}, FORWARD)
    assert outcome.timeout == timedelta(seconds=5)
    assert outcome.cancel == outcome.suspend == notify("SIGTERM", 120)
    outcome = wrapped({"cancelation": {"mode": "TERMINATE"}}, FORWARD)
    assert (outcome.timeout, outcome.cancel) == (None, Terminate())
    assert wrapped({}, FORWARD).cancel == Terminate()


def test_the_hook_s_own_holds_and_the_task_says_how_to_suspend():
    action = {
        "timeout": 5,
        "checkpointCancelation": {"mode": N, "signalToNotify": "SIGUSR1"},
    }
    outcome = wrapped(action, {"timeout": 9, "cancelation": {"mode": N}})
    assert outcome.timeout == timedelta(seconds=9)
    assert outcome.cancel == notify("SIGTERM", 30)
    assert outcome.suspend == notify("SIGUSR1", 120)
