"""A plain command as a job of one step."""

import pytest

from perdure.template import (
    ActionName,
    CommandLine,
    NotifyThenTerminate,
    command_job,
    resolve_action,
)
from perdure.template.outline import decode_outline, encode_outline


def arguments(script, *, file="", state=""):
    return script.arguments(file=file, state=state)


@pytest.mark.parametrize(
    ("given", "begins", "goes_on"),
    [
        ({}, ["a", "{file}"], ["a", "{file}"]),
        (
            {"restart_args": ["--from", "{file}:{state}", "{}", "{other}"]},
            ["a", "{file}"],
            ["a", "{file}", "--from", "/f{state}:s {file}", "{}", "{other}"],
        ),
        ({"restart_cmd": ["b", "{state}"]}, ["a", "{file}"], ["b", "s {file}"]),
    ],
)
def test_how_it_begins_and_goes_on(given, begins, goes_on):
    """What is put in is never looked into again."""
    step = command_job(["a", "{file}"], **given).steps[0]
    assert arguments(step.run_script) == begins
    assert arguments(step.resume_script, file="/f{state}", state="s {file}") == goes_on


@pytest.mark.parametrize(
    ("program", "name"),
    [("/usr/bin/gmx", "gmx"), ("./my run.sh", "my_run.sh"), ("/", "command"), ("x" * 99, "x" * 64)],
)
def test_its_name(program, name):
    job = command_job([program])
    assert (job.name, job.steps[0].name) == (name, name)


def test_it_is_one_resumable_task_that_is_asked_by_sigterm():
    job = command_job(["true"])
    step = job.steps[0]
    assert step.is_resumable
    assert step.space.len == 1
    for action in (step.run, step.resume):
        resolved = resolve_action(action, step.symbols)
        for method in (resolved.cancel, resolved.suspend):
            assert isinstance(method, NotifyThenTerminate)
            assert (method.signal.name, method.notify_period.total_seconds()) == ("SIGTERM", 120)
        assert resolved.timeout is None
    assert step.resume.name is ActionName.ON_CHECKPOINT_RESUME
    assert decode_outline(encode_outline(job)).steps[0].name == "true"


def test_words_that_are_added_to_nothing():
    assert arguments(CommandLine(added=("{state}",)), state="") == [""]
