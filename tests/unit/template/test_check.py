"""What makes a template with the CHECKPOINT extension valid, and what is said when it is not."""

import copy
import json

import pytest

from perdure.errors import TemplateError
from perdure.template import ALL_EXTENSIONS, TemplateKind, check_template, read_document

NOTIFY = {
    "mode": "NOTIFY_THEN_TERMINATE",
    "notifyPeriodInSeconds": 300,
    "signalToNotify": "SIGUSR1",
}
RUN = ("steps", 0, "script", "actions", "onRun")
RESUME = ("steps", 0, "script", "actions", "onCheckpointResume")
RUN_TEXT = "steps[0] -> script -> actions -> onRun"
RESUME_TEXT = "steps[0] -> script -> actions -> onCheckpointResume"


def template(*, extensions=("CHECKPOINT",), names=("P",), **changes):
    """A valid template, with values set at places such as ``steps/0/name``."""
    content = {
        "specificationVersion": "jobtemplate-2023-09",
        "extensions": list(extensions),
        "name": "job",
        "parameterDefinitions": [{"name": "N", "type": "INT", "default": 3}],
        "steps": [
            {
                "name": "step",
                "parameterSpace": {
                    "taskParameterDefinitions": [
                        {"name": name, "type": "INT", "range": "1-3"} for name in names
                    ]
                },
                "script": {
                    "actions": {
                        "onRun": {
                            "command": "python",
                            "args": ["{{Task.Param.P}}"],
                            "cancelation": {"mode": "TERMINATE"},
                            "checkpointCancelation": dict(NOTIFY),
                        },
                        "onCheckpointResume": {
                            "command": "python",
                            "args": ["{{Task.Param.P}}", "{{Task.Checkpoint.State}}"],
                            "checkpointCancelation": dict(NOTIFY),
                        },
                    },
                },
            }
        ],
    }
    return change(content, changes)


def change(content, changes):
    for place, value in changes.items():
        *holders, last = (int(part) if part.isdigit() else part for part in place.split("/"))
        holder = content
        for part in holders:
            holder = holder[part]
        if value is ...:
            del holder[last]
        else:
            holder[last] = value
    return content


def at(location):
    return "/".join(str(part) for part in location)


def check(content, **options):
    return check_template(read_document(json.dumps(content).encode(), name="t.json"), **options)


def refused(content, **options):
    with pytest.raises(TemplateError) as caught:
        check(content, **options)
    return [(problem.path, problem.message) for problem in caught.value.problems]


def assert_one(content, path, message, **options):
    found = refused(content, **options)
    assert [where for where, _ in found] == [path]
    assert message in found[0][1]


def test_the_sample_is_valid():
    assert check(template()) is TemplateKind.JOB


# --- the extension's name ---------------------------------------------------------------------


def test_without_the_extension_its_keys_are_refused_one_problem_each():
    found = refused(template(extensions=["TASK_CHUNKING"]))
    assert [where for where, _ in found] == [f"{RUN_TEXT} -> checkpointCancelation", RESUME_TEXT]
    assert all("needs the CHECKPOINT extension" in message for _, message in found)


def test_without_the_extension_a_signal_in_cancelation_is_refused():
    content = template(
        extensions=["TASK_CHUNKING"],
        **{
            at(RESUME): ...,
            at((*RUN, "checkpointCancelation")): ...,
            at((*RUN, "cancelation")): NOTIFY,
        },
    )
    assert_one(content, f"{RUN_TEXT} -> cancelation -> signalToNotify", "needs the CHECKPOINT")


def test_an_extension_that_is_not_allowed_is_one_problem():
    stock = [name for name in ALL_EXTENSIONS if name != "CHECKPOINT"]
    assert_one(template(), "extensions", "CHECKPOINT", extensions=stock)


def test_an_extension_named_twice():
    content = template(extensions=["CHECKPOINT", "EXPR", "CHECKPOINT"])
    assert_one(content, "extensions[2]", "more than once")


def test_the_library_s_complaints_about_names_keep_their_index():
    content = template(extensions=["CHECKPOINT", "EXPR", 5])
    assert [where for where, _ in refused(content)] == ["extensions[2]"]


def test_an_unknown_extension_beside_ours():
    content = template(extensions=["CHECKPOINT", "NOPE"])
    assert_one(content, "extensions", "NOPE")


# --- the references ---------------------------------------------------------------------------


def references(text, **more):
    return template(**{at((*RESUME, "args")): ["x", text]}, **more)


@pytest.mark.parametrize(
    "text",
    [
        "{{Task.Checkpoint.State}}",
        "{{ Task.Checkpoint.File }}",
        "a{{Task.Checkpoint.State}}b{{Task.Checkpoint.File}}c{{Param.N}}{{Task.Param.P}}",
        "{{Task . Checkpoint . State}}",
        "Task.Checkpoint.Nothing outside of braces",
        "{{Session.WorkingDirectory}}",
    ],
)
def test_references_that_are_fine(text):
    assert check(references(text)) is TemplateKind.JOB


@pytest.mark.parametrize(
    "text",
    [
        "{{Task.Checkpoint.State.split(',')[0]}}",
        "{{Task.Checkpoint.File.name}}",
        "{{ 'x' + Task.Checkpoint.State + 'Task.Checkpoint.File' }}",
        "{{ [Task.Checkpoint.State, Task.Checkpoint.State] }}",
    ],
)
def test_references_in_expressions(text):
    assert check(references(text, extensions=["CHECKPOINT", "EXPR"])) is TemplateKind.JOB


def test_a_type_error_in_an_expression_shows_the_author_s_own_spelling():
    content = references("{{Task.Checkpoint.State + 1}}", extensions=["CHECKPOINT", "EXPR"])
    ((path, message),) = refused(content)
    assert path == f"{RESUME_TEXT} -> args[1]"
    assert message.splitlines()[1:] == [
        "  Task.Checkpoint.State + 1",
        "  ~~~~~~~~~~~~~~~~~~~~~~^~~",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{Task.Checkpoint.Stat}}", "Task.Checkpoint.Stat does not exist"),
        ("{{Task.Checkpoint}}", "Task.Checkpoint does not exist"),
        ("{{Param.M}}", "Did you mean: Param.N"),
        ("{{Task.Param.Q}}", "Task.Param.Q does not exist"),
        ("{{Task.Checkpoint.State", "interpolation"),
    ],
)
def test_references_that_lead_nowhere_are_told_once(text, message):
    assert_one(references(text), f"{RESUME_TEXT} -> args[1]", message)


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ((*RUN, "args"), f"{RUN_TEXT} -> args[0]"),
        ((*RUN, "command"), f"{RUN_TEXT} -> command"),
    ],
)
def test_the_references_exist_in_the_resume_action_only(place, shown):
    value = "{{Task.Checkpoint.State}}"
    content = template(**{at(place): [value] if place[-1] == "args" else value})
    assert_one(content, shown, "does not exist at this location")


def test_embedded_files_and_let_do_not_have_the_references():
    content = template(
        extensions=["CHECKPOINT", "EXPR"],
        **{
            "steps/0/script/let": ["s = Task.Checkpoint.State"],
            "steps/0/script/embeddedFiles": [
                {"name": "F", "type": "TEXT", "data": "{{Task.Checkpoint.File}}"}
            ],
        },
    )
    assert {where for where, _ in refused(content)} == {
        "steps[0] -> script -> let[0]",
        "steps[0] -> script -> embeddedFiles[0] -> data",
    }


@pytest.mark.parametrize("key", ["timeout", "cancelation"])
def test_how_long_and_how_to_stop_do_not_depend_on_the_state(key):
    value = "{{Task.Checkpoint.State}}"
    content = template(
        extensions=["CHECKPOINT", "FEATURE_BUNDLE_1"],
        **{at((*RESUME, key)): value if key == "timeout" else {"mode": value}},
    )
    ((path, message),) = refused(content)
    assert path.startswith(f"{RESUME_TEXT} -> {key}")
    assert "Task.Checkpoint.State does not exist" in message


# --- signals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2"])
@pytest.mark.parametrize("key", ["cancelation", "checkpointCancelation"])
def test_signals_that_are_fine(name, key):
    assert check(template(**{at((*RUN, key)): {**NOTIFY, "signalToNotify": name}}))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("SIGFOO", "'SIGFOO' is not a signal"),
        ("SIGKILL", "'SIGKILL' is not a signal"),
        ("SIGSTOP", "not a signal that a program can wait for"),
        ("usr1", "not a signal"),
        (10, "10 is not the name"),
        (["SIGINT"], "is not the name"),
        ("{{Param.S}}", "is a format string"),
    ],
)
def test_signals_that_are_refused(name, message):
    content = template(**{at((*RUN, "checkpointCancelation")): {**NOTIFY, "signalToNotify": name}})
    path = f"{RUN_TEXT} -> checkpointCancelation -> signalToNotify"
    assert_one(content, path, message)


def test_a_misspelled_signal_gets_a_proposal():
    content = template(**{at((*RUN, "cancelation")): {**NOTIFY, "signalToNotify": "usr1"}})
    with pytest.raises(TemplateError, match=r"Did you mean SIGUSR1\?"):
        check(content)


def test_a_signal_needs_a_mode_that_notifies():
    content = template(
        **{at((*RUN, "cancelation")): {"mode": "TERMINATE", "signalToNotify": "SIGINT"}}
    )
    assert_one(content, f"{RUN_TEXT} -> cancelation -> signalToNotify", "the mode is TERMINATE")


def test_a_wrong_mode_is_told_alone():
    content = template(
        **{at((*RUN, "checkpointCancelation")): {"mode": "TERMINAT", "signalToNotify": "SIGINT"}}
    )
    assert_one(content, f"{RUN_TEXT} -> checkpointCancelation -> mode", "needs a mode")


def test_a_mode_decided_at_run_time_may_have_a_signal():
    content = template(
        extensions=["CHECKPOINT", "FEATURE_BUNDLE_1"],
        **{at((*RUN, "checkpointCancelation")): {**NOTIFY, "mode": "{{Param.N}}"}},
    )
    assert check(content)
    content["extensions"] = ["CHECKPOINT"]
    ((path, message),) = refused(content)
    assert path == f"{RUN_TEXT} -> checkpointCancelation -> mode"
    assert "FEATURE_BUNDLE_1" in message


def test_null_is_as_if_not_written():
    content = template(
        **{
            at(RESUME): None,
            at((*RUN, "checkpointCancelation")): None,
            at((*RUN, "cancelation")): {**NOTIFY, "signalToNotify": None},
        }
    )
    assert check(content)


# --- the parts that were taken out are checked as wholes ----------------------------------------


@pytest.mark.parametrize(
    ("place", "value", "path", "message"),
    [
        (
            (*RUN, "checkpointCancelation", "notifyPeriodInSeconds"),
            9999,
            f"{RUN_TEXT} -> checkpointCancelation -> notifyPeriodInSeconds",
            "between 1 and 600",
        ),
        (
            (*RESUME, "checkpointCancelation", "notifyPeriodInSeconds"),
            0,
            f"{RESUME_TEXT} -> checkpointCancelation -> notifyPeriodInSeconds",
            "between 1 and 600",
        ),
        (
            (*RUN, "checkpointCancelation", "extra"),
            1,
            f"{RUN_TEXT} -> checkpointCancelation -> extra",
            "no such key",
        ),
        (
            (*RUN, "checkpointCancelation"),
            5,
            f"{RUN_TEXT} -> checkpointCancelation -> mode",
            "mode",
        ),
        ((*RESUME, "foo"), 1, f"{RESUME_TEXT} -> foo", "no such key"),
        ((*RESUME, "command"), ..., f"{RESUME_TEXT} -> command", "required"),
        ((*RESUME, "timeout"), -1, f"{RESUME_TEXT} -> timeout", "positive"),
        (RESUME, 5, RESUME_TEXT, "valid dictionary"),
        (RESUME, [], RESUME_TEXT, "valid dictionary"),
    ],
)
def test_shapes(place, value, path, message):
    assert_one(template(**{at(place): value}), path, message)


def test_a_period_that_is_a_format_string_needs_its_extension():
    place = at((*RUN, "checkpointCancelation", "notifyPeriodInSeconds"))
    content = template(**{place: "{{Param.N}}"})
    ((path, message),) = refused(content)
    assert path == f"{RUN_TEXT} -> checkpointCancelation -> notifyPeriodInSeconds"
    assert "FEATURE_BUNDLE_1" in message
    assert check({**content, "extensions": ["CHECKPOINT", "FEATURE_BUNDLE_1"]})


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"steps/0/onCheckpointResume": {"command": "x"}}, "steps[0] -> onCheckpointResume"),
        (
            {"steps/0/script/actions/checkpointCancelation": NOTIFY},
            "steps[0] -> script -> actions -> checkpointCancelation",
        ),
        ({at((*RUN, "signalToNotify")): "SIGINT"}, f"{RUN_TEXT} -> signalToNotify"),
        ({at((*RUN, "onCheckpointResume")): {}}, f"{RUN_TEXT} -> onCheckpointResume"),
        ({"signalToNotify": "SIGINT"}, "signalToNotify"),
    ],
)
def test_keys_in_the_wrong_place(changes, path):
    with pytest.raises(TemplateError) as caught:
        check(template(**changes))
    (problem,) = caught.value.problems
    assert problem.path == path
    assert "It belongs beside" in problem.advice


def environment(**actions):
    return {"name": "env", "script": {"actions": actions}}


@pytest.mark.parametrize("where", ["jobEnvironments", "steps/0/stepEnvironments"])
def test_environments(where):
    path = where.replace("/0/", "[0] -> ")
    good = environment(onEnter={"command": "x", "cancelation": NOTIFY})
    assert check(template(**{where: [good]}))
    bad = environment(onExit={"command": "x", "checkpointCancelation": NOTIFY})
    assert_one(
        template(**{where: [bad]}),
        f"{path}[0] -> script -> actions -> onExit -> checkpointCancelation",
        "not suspended",
    )
    worse = environment(onEnter={"command": "x"}, onCheckpointResume={"command": "x"})
    assert_one(
        template(**{where: [worse]}),
        f"{path}[0] -> script -> actions -> onCheckpointResume",
        "not allowed here",
    )


def test_an_environment_template():
    content = {
        "specificationVersion": "environment-2023-09",
        "extensions": ["CHECKPOINT"],
        "environment": environment(onEnter={"command": "x", "cancelation": NOTIFY}),
    }
    assert check(content) is TemplateKind.ENVIRONMENT
    del content["extensions"]
    assert_one(
        content,
        "environment -> script -> actions -> onEnter -> cancelation -> signalToNotify",
        "needs the CHECKPOINT extension",
    )


def test_variables_may_be_called_what_they_like():
    content = template(jobEnvironments=[{"name": "e", "variables": {"signalToNotify": "x"}}])
    assert check(content)


# --- the short form of steps --------------------------------------------------------------------


def short(**more):
    return {
        **template(extensions=["CHECKPOINT", "FEATURE_BUNDLE_1"]),
        "steps": [{"name": "s", "bash": {"script": "echo"}, **more}],
    }


def test_the_short_form_can_be_suspended_but_not_resumed():
    content = short()
    content["steps"][0]["bash"] |= {"checkpointCancelation": NOTIFY, "cancelation": NOTIFY}
    assert check(content)
    content["steps"][0]["bash"]["checkpointCancelation"] = {"mode": "NO"}
    assert_one(content, "steps[0] -> bash -> checkpointCancelation -> mode", "mode")
    content = short(onCheckpointResume={"command": "x"})
    assert_one(content, "steps[0] -> onCheckpointResume", "no place")


# --- the gaps of the first try -------------------------------------------------------------------


@pytest.mark.parametrize("count", [14, 15, 16])
def test_a_step_may_have_as_many_parameters_as_ever(count):
    names = ["P", *(f"P{number}" for number in range(1, count))]
    args = [f"{{{{Task.Param.{name}}}}}{{{{Task.Checkpoint.State}}}}" for name in names]
    content = template(
        names=names, **{at((*RESUME, "args")): [*args, "".join(args), "{{Task.Param.P99}}"]}
    )
    assert_one(content, f"{RESUME_TEXT} -> args[{count + 1}]", "Task.Param.P99 does not exist")
    content["steps"][0]["script"]["actions"]["onCheckpointResume"]["args"].pop()
    assert check(content)


def test_seventeen_parameters_are_still_too_many():
    content = template(names=["P", *(f"P{number}" for number in range(1, 17))])
    path = "steps[0] -> parameterSpace -> taskParameterDefinitions"
    assert_one(content, path, "at most 16")


@pytest.mark.parametrize("combination", ["(P, Q)", "P * Q", "Q*P"])
def test_a_step_with_a_combination(combination):
    content = template(names=["P", "Q"], **{"steps/0/parameterSpace/combination": combination})
    assert check(content)


def test_hidden_names_do_not_collide_and_are_not_seen():
    from perdure.template.derived import derive
    from perdure.template.split import split_template

    def hidden(content):
        document = read_document(json.dumps(content).encode(), name="t.json")
        return derive(split_template(document, extensions=ALL_EXTENSIONS))

    first = hidden(template())
    assert len(first.state_name) == len("Task.Checkpoint.State") - len("Task.Param.")
    assert len(first.file_name) == len("Task.Checkpoint.File") - len("Task.Param.")
    # One who knows the names cannot use them: they change when they occur in the template.
    content = template(**{at((*RESUME, "args")): [f"{{{{Task.Param.{first.state_name}}}}}"]})
    assert hidden(content).state_name != first.state_name
    assert_one(content, f"{RESUME_TEXT} -> args[0]", "does not exist")


def test_problems_of_all_stages_come_at_once_in_the_order_of_the_document():
    content = template(
        **{
            "unknown": 1,
            "steps/0/name": "",
            at((*RUN, "args")): ["{{Param.M}}"],
            at((*RUN, "checkpointCancelation")): {**NOTIFY, "signalToNotify": "SIGFOO"},
            at((*RESUME, "args")): ["{{Task.Checkpoint.Nope}}"],
            at((*RESUME, "checkpointCancelation")): {"mode": "NO"},
        }
    )
    text = json.dumps(content, indent=1)
    with pytest.raises(TemplateError) as caught:
        check_template(read_document(text.encode(), name="t.json"))
    lines = [problem.line for problem in caught.value.problems]
    assert lines == sorted(lines)
    assert len(lines) == 6


def test_every_problem_about_a_place_says_its_line():
    text = json.dumps(template(**{at((*RESUME, "foo")): 1}), indent=1)
    with pytest.raises(TemplateError) as caught:
        check_template(read_document(text.encode(), name="t.json"))
    (problem,) = caught.value.problems
    assert '"foo"' in text.splitlines()[problem.line - 1]


def test_shared_parts_are_checked_each_for_itself():
    text = b"""
specificationVersion: jobtemplate-2023-09
extensions: [CHECKPOINT]
name: aliases
steps:
- name: s
  script:
    actions:
      onRun: &run
        command: x
        cancelation: &stop {mode: NOTIFY_THEN_TERMINATE, signalToNotify: SIGUSR1}
        checkpointCancelation: *stop
      onCheckpointResume: *run
"""
    document = read_document(text, name="t.yaml")
    before = copy.deepcopy(document.content)
    assert check_template(document) is TemplateKind.JOB
    assert document.content == before


# --- what the library says, said again ------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"specificationVersion": ...}, "specificationVersion", "missing"),
        ({"specificationVersion": "jobtemplate-1"}, "specificationVersion", "Unknown template"),
        ({"specificationVersion": ["x"]}, "specificationVersion", "Unknown template"),
        ({"steps": ...}, "steps", "required"),
        ({"stepz": 1}, "stepz", "no such key"),
        ({"parameterDefinitions/0/type": "IN"}, "parameterDefinitions[0] -> type", "no type 'IN'"),
        ({"parameterDefinitions/0/default": "x"}, "parameterDefinitions[0] -> default", "integer"),
        (
            {"steps/0/dependencies": [{"dependsOn": "z"}]},
            "steps[0] -> dependencies[0] -> dependsOn",
            "Unknown step 'z'",
        ),
        ({"parameterDefinitions/0/type": ...}, "parameterDefinitions[0] -> type", "required"),
    ],
)
def test_stock_problems(changes, path, message):
    assert_one(template(**changes), path, message)


def test_a_misspelled_key_gets_a_proposal():
    content = template(**{at((*RUN, "checkpointCancellation")): NOTIFY})
    with pytest.raises(TemplateError, match=r"Did you mean checkpointCancelation\?"):
        check(content)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"specificationVersion": None},
        {"specificationVersion": "jobtemplate-2023-09", "steps": 5, "extensions": "CHECKPOINT"},
        {"specificationVersion": "jobtemplate-2023-09", "extensions": {"CHECKPOINT": 1}},
        {"specificationVersion": "jobtemplate-2023-09", "steps": [None, 5, {"script": []}]},
        {"specificationVersion": "environment-2023-09", "environment": [1]},
        {**template(), "parameterDefinitions": {"a": 1}},
        {**template(), "steps": [{"script": {"actions": {"onRun": 1, "onCheckpointResume": 2}}}]},
        {**template(), "parameterDefinitions": [{"name": ["x"], "type": {}}]},
    ],
)
def test_odd_shapes_are_template_errors(content):
    assert refused(content)
