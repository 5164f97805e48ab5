"""The conformance jobs of the CHECKPOINT extension, run, interrupted and resumed as they say."""

import json
import re
import signal
from pathlib import Path

import pytest
import yaml

from support.command_line import wait_until

JOBS = Path(__file__).parent.parent.parent / "conformance" / "CHECKPOINT" / "jobs"
CASES = sorted(JOBS.glob("*.test.yaml"))
QUICK = ["--limit", "back_off_seconds=0.05", "--limit", "quick_seconds=0"]


def command(perdure, case):
    """The line that the suite's runner gives."""
    template = perdure.work / "template.yaml"
    template.write_text(yaml.safe_dump(case["template"], sort_keys=False), encoding="utf-8")
    line = ["run", template, *QUICK]
    if case.get("parameters"):
        parameters = perdure.work / "parameters.yaml"
        parameters.write_text(yaml.safe_dump(case["parameters"]), encoding="utf-8")
        line += ["-p", f"file://{parameters}"]
    for number, environment in enumerate(case.get("environments", ())):
        path = perdure.work / f"env{number}.yaml"
        path.write_text(yaml.safe_dump(environment), encoding="utf-8")
        line += ["--env", path]
    if case.get("pathMapping"):
        rules = perdure.work / "pm.json"
        content = {"version": "pathmapping-1.0", "path_mapping_rules": case["pathMapping"]}
        rules.write_text(json.dumps(content), encoding="utf-8")
        line += ["--path-mapping-rules", f"file://{rules}"]
    return line


def commits(perdure):
    return sum(
        len(attempt["checkpoints"]) for attempt in perdure.json("status", "last")["attempts"]
    )


def interrupt(perdure, line, how):
    """One attempt, interrupted as the case says; what it printed."""
    with perdure.running(*line) as run:
        run.until(re.escape(str(how["afterOutput"])))
        if how.get("afterCommit"):
            wait_until(lambda: commits(perdure) >= how["afterCommit"], "no commit")
        if how["how"] == "LOSE":
            perdure.kill_all()
        else:
            run.signal(signal.SIGINT)
        run.lines.extend(run.process.stdout)
        run.process.wait()
    return "".join(run.lines)


def holds(expected, text):
    """Whether an entry of ``output`` is in the text."""
    if isinstance(expected, dict):
        return any(one in text for one in expected["anyOf"])
    return str(expected) in text


def check(expected, text):
    for one in [*expected.get("output", ()), *expected.get("output_posix", ())]:
        assert holds(one, text), (one, text)
    for one in expected.get("forbidden", ()):
        assert str(one) not in text, (one, text)


@pytest.mark.parametrize("path", CASES, ids=[path.name.split(".test")[0] for path in CASES])
def test_job(perdure, path):
    case = yaml.safe_load(path.read_text(encoding="utf-8"))
    line = command(perdure, case)
    expected = case.get("expected", {})
    first = [interrupt(perdure, line, how) for how in case.get("interrupt", ())]
    failure = expected.get("taskFailure")
    last = perdure(*line, expect=1 if failure is not None else 0)
    rest = last.stdout + last.stderr
    check(expected, "".join(first) + rest)
    check(expected.get("resume", {}), "".join(first[1:]) + rest)
    if failure and "exitCode" in failure:
        codes = re.findall(r"exited with code:\s*(-?\d+)", rest)
        assert next(code for code in codes if code != "0") == str(failure["exitCode"])
