"""docs/cli.md is held to the commands, both ways."""

import importlib
import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from msgspec.structs import asdict

from perdure import errors
from perdure.cli import exits, failing
from perdure.cli.commands import _COMMANDS
from perdure.policy.counting import DEFAULT_LIMITS

DOC = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
#: Their keys are names that people chose, or are described in words.
OPEN = {
    "engines[].settings",
    "engines[].partitions",
    "error.fields",
    "attempts[].parameters",
    "attempts[].saves",
    "jobs[].tasks",
    "jobs[].error",
}


def documented(name):
    """The fields of one JSON object, as the page lists them."""
    start = DOC.index(f"<!-- json: {name} -->")
    table = DOC[start:].split("\n\n", 1)[0]
    cells = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `")]
    return {field for cell in cells for field in re.findall(r"`([^`]+)`", cell)}


def given(value, prefix=""):
    """The fields of an object, as dotted paths; lists are ``[]``."""
    if prefix in OPEN:
        return {prefix}
    if isinstance(value, dict) and value:
        dot = f"{prefix}." if prefix else ""
        return {path for key, inner in value.items() for path in given(inner, f"{dot}{key}")}
    if isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
        return {path for inner in value for path in given(inner, f"{prefix}[]")}
    return {prefix}


def check(name, value, *, ignore=(), more=()):
    """Everything documented is there, and everything there is documented."""
    expected = documented(name) | set(more)
    plain = {path.removesuffix("[]") for path in expected}
    parents = {path for path in plain if any(o.startswith(f"{path}.") for o in plain)}
    parents |= {path for path in plain if any(o.startswith(f"{path}[]") for o in plain)}
    found = {path.removesuffix("[]") for path in given(value)}
    found = {path for path in found if not path.startswith(tuple(ignore))} if ignore else found
    wanted = {p for p in plain - parents if not (ignore and p.startswith(tuple(ignore)))}
    assert found - parents == wanted


def below(prefix, name):
    return {f"{prefix}{field}" for field in documented(name)}


def test_the_status_of_a_held_job(suspended, shell):
    """All kinds of rows at once: tasks, attempts, checkpoints."""
    found = suspended.json("status", "last")
    found["manager"] = dict.fromkeys(("host", "pid", "pid_started", "boot", "state"), 1)
    for attempt in found["attempts"]:
        attempt["notes"] = []
    check("status", found, more=below("attempts[].checkpoints[].", "checkpoint"))


def test_the_list(suspended):
    check("status-list", suspended.json("status"))


def test_wait_prints_the_status(suspended):
    waited, found = suspended.json("wait", "last", expect=75), suspended.json("status", "last")
    assert waited.keys() == found.keys()


def test_why(failed):
    check("why", failed.json("why", "last"))


def test_checkpoints(suspended):
    fields = below("checkpoints[].", "checkpoint")
    check("checkpoints", suspended.json("checkpoints", "last"), more=fields)


def test_one_checkpoint(suspended, shell, tmp_path):
    name = "last/Work@3"
    row = suspended.json("checkpoints", "last")["checkpoints"][0]
    assert suspended.json("checkpoint", "show", name).keys() == {"job", *row}
    check("files", suspended.json("checkpoint", "files", name))
    check("diff", suspended.json("checkpoint", "diff", name))
    check("restore", suspended.json("checkpoint", "restore", name, "--to", tmp_path / "out"))
    check("export", suspended.json("checkpoint", "export", name, tmp_path / "file"))
    shutil.copytree(suspended.store, shell.store)
    check("pin", shell.json("checkpoint", "pin", name))
    check("import", shell.json("checkpoint", "import", "last/Work", tmp_path / "file"))
    (pack,) = shell.store.glob("lineages/*/0001/*/packs/*-3")
    pack.write_bytes(pack.read_bytes()[:5000])
    check("verify-one", shell.json("checkpoint", "verify", name, expect=3))


def test_housekeeping(suspended, shell):
    shutil.copytree(suspended.store, shell.store)
    check("du", shell.json("du"))
    (record,) = shell.store.glob("lineages/*/0001/*/log/0000000002")
    record.write_bytes(b"nonsense")
    check("verify", shell.json("verify", expect=8))
    check("repair", shell.json("repair"))
    check("prune", shell.json("prune", "last", "--keep-last", "1"))
    check("rm", shell.json("rm", "last", "--yes"))


def test_submit_and_wishes(shell):
    template = shell.template(
        "specificationVersion: jobtemplate-2023-09\nname: Slow\nsteps:\n"
        '- {name: Only, script: {actions: {onRun: {command: sleep, args: ["600"]}}}}\n'
    )
    submitted = shell.json("submit", template, "--key", "k")
    check("submit", submitted)
    check("wish", shell.json("cancel", submitted["job"]))
    shell("wait", "last", expect=76)


def test_run_prints_the_status_at_the_end(shell):
    template = shell.template(
        "specificationVersion: jobtemplate-2023-09\nname: Good\nsteps:\n"
        "- {name: Only, script: {actions: {onRun: {command: 'true'}}}}\n"
    )
    ran = shell.json("run", template)
    assert ran.keys() == shell.json("status", "last").keys()
    assert ran["state"] == "SUCCEEDED"


def test_engines(shell):
    """Slurm's own are looked at in tests/cluster; here its commands may be missing."""
    found = shell.json("engines")
    assert [one["name"] for one in found["engines"]] == ["local", "slurm"]
    check("engines", found)


def test_doctor(shell):
    check("doctor", shell.json("doctor"))


def test_errors(suspended):
    check("error", suspended.json("status", "nothing", expect=2))


def commands():
    """All commands by their whole name."""
    for name, (module, _line) in _COMMANDS.items():
        command = getattr(importlib.import_module(module), name)
        yield name, command
        if isinstance(command, click.Group):
            for inner, one in command.commands.items():
                yield f"{name} {inner}", one


ALL = dict(commands())


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_command_and_option_is_documented(name):
    assert re.search(rf"`perdure {re.escape(name)}[ `]", DOC), name
    shared = {"--help", "-h", "--home", "--store", "--json"}
    for parameter in ALL[name].params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            for option in (*parameter.opts, *parameter.secondary_opts):
                assert option in shared or re.search(rf"{re.escape(option)}\b", DOC), option


def test_every_limit_is_documented_with_its_default():
    listed = dict(re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", DOC, re.MULTILINE))
    defaults = {name: f"{value:g}" for name, value in asdict(DEFAULT_LIMITS).items()}
    assert listed == defaults
    (option,) = (one for one in ALL["run"].params if one.name == "limits")
    assert all(f"{name} ({value})" in option.help for name, value in defaults.items())


def test_every_exit_code_is_documented():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    codes = {k.exit_code for k in kinds if issubclass(k, errors.PerdureError)}
    codes |= {v for name, v in vars(exits).items() if name.isupper() and isinstance(v, int)}
    codes |= {failing.BUG_EXIT, failing.PIPE_EXIT, 130}
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", DOC, re.MULTILINE)}
    assert codes == listed


@contextmanager
def a_reader_that_left():
    """Where to write, with nobody who reads it."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as output:
        yield output


def printed_into(output, shell, arguments, environment):
    """A command whose standard output goes there: its exit code, and what it says of it."""
    done = subprocess.run(
        shell.command(*arguments),
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        check=False,
    )
    return done.returncode, done.stderr


def unbuffered_no_more(shell):
    return {name: text for name, text in shell.environment.items() if name != "PYTHONUNBUFFERED"}


@pytest.mark.parametrize("arguments", [("schema",), ("status",), ("status", "--json"), ("--help",)])
def test_a_reader_that_leaves_is_no_failure(suspended, arguments):
    with a_reader_that_left() as output:
        assert printed_into(output, suspended, arguments, suspended.environment) == (141, "")


@pytest.mark.parametrize("arguments", [("status", "--json"), ("--version",)])
def test_what_could_not_be_printed_is_no_success(suspended, arguments):
    environment = unbuffered_no_more(suspended)
    with open("/dev/full", "wb") as output:  # noqa: PTH123 - a device
        code, said = printed_into(output, suspended, arguments, environment)
    assert (code, "No space left" in said) == (7, True)
    with a_reader_that_left() as output:
        code, _ = printed_into(output, suspended, arguments, environment)
    assert code == 141


def test_a_closed_standard_output_is_no_failure(suspended):
    for closed in (">&-", "2>&-"):
        done = subprocess.run(
            ["/bin/sh", "-c", f'"$@" --version {closed}', "sh", *suspended.command()],
            env=unbuffered_no_more(suspended),
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
