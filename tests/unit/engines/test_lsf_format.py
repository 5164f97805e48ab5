"""What LSF's commands take and print; the texts are made after its documentation, not met."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure.engines.lsf.lsf_format import (
    Job,
    Verdict,
    array_script,
    begin_text,
    job_id,
    parse_jobs,
    parse_submission,
    place_options,
    resource_options,
    verdict_of,
    warning_options,
)
from perdure.engines.tokens import Token, element_lines
from perdure.errors import EngineRefused
from perdure.policy.resources import AmountRequirement, AttributeRequirement, Requirements

GOLDEN = Path(__file__).parents[2] / "golden" / "lsf-10.1"


@pytest.fixture(scope="module")
def jobs():
    return parse_jobs((GOLDEN / "bjobs.json").read_text(encoding="utf-8"))


def test_all_that_bjobs_knows_and_no_more(jobs):
    assert [(job.job, job.state) for job in jobs] == [
        ("806290[1]", "RUN"),
        ("806290[2]", "PEND"),
        ("806290[3]", "EXIT"),
        ("806290[4]", "EXIT"),
        ("806291", "DONE"),
        ("806292[5]", "UNKWN"),
    ]


def test_a_job_that_runs(jobs):
    assert jobs[0] == Job(
        job="806290[1]",
        state="RUN",
        name="perdure-0f3a[1]",
        run_seconds=16038.0,
        limit_minutes=1440.0,
    )
    assert jobs[0].seconds_left == 1440 * 60 - 16038


def test_limits_with_a_host_in_hours_and_none(jobs):
    assert jobs[1].limit_minutes == 1440.0
    assert jobs[3].limit_minutes == 10.0
    assert jobs[3].seconds_left == -5.0
    assert jobs[4].seconds_left is None


def test_what_came_of_jobs_that_are_over(jobs):
    assert jobs[2].verdict is Verdict.STOP
    assert jobs[2].exit_code == "130"
    assert jobs[3].verdict is Verdict.GO_ON
    assert jobs[4].verdict is Verdict.COUNT


def test_what_a_site_prints_before_is_passed_over():
    text = 'Cannot connect to LSF. Please wait ...\n{"COMMAND":"bjobs","JOBS":0,"RECORDS":[]}'
    assert parse_jobs(text) == ()


@pytest.mark.parametrize("text", ["", "No job found", "{}", '{"RECORDS": {}}', "[]", "{"])
def test_what_is_no_answer(text):
    with pytest.raises(ValueError, match=r"RECORDS|Expecting|delimiter"):
        parse_jobs(text)


@pytest.mark.parametrize(
    ("state", "over", "out_of_reach", "stopped"),
    [
        ("PEND", False, False, False),
        ("RUN", False, False, False),
        ("WAIT", False, False, False),
        ("PSUSP", False, False, True),
        ("USUSP", False, False, True),
        ("SSUSP", False, False, True),
        ("UNKWN", False, True, False),
        ("ZOMBI", False, True, False),
        ("DONE", True, False, False),
        ("EXIT", True, False, False),
        ("POST_DONE", True, False, False),
        ("POST_ERR", True, False, False),
        ("a state of a later LSF", False, False, False),
    ],
)
def test_states(state, over, out_of_reach, stopped):
    job = Job(job="1", state=state)
    assert (job.is_over, job.is_out_of_reach, job.is_stopped) == (over, out_of_reach, stopped)


@pytest.mark.parametrize(
    ("reason", "verdict"),
    [
        ("", Verdict.COUNT),
        ("TERM_RUNLIMIT: job killed after reaching LSF run time limit", Verdict.GO_ON),
        ("TERM_PREEMPT: job killed after preemption", Verdict.GO_ON),
        ("TERM_DEADLINE: job killed after deadline expires", Verdict.GO_ON),
        ("TERM_WINDOW: job killed after queue run window closed", Verdict.GO_ON),
        ("TERM_LOAD: job killed after load exceeds threshold", Verdict.GO_ON),
        ("TERM_REQUEUE_OWNER: job killed and requeued by owner", Verdict.GO_ON),
        ("TERM_REQUEUE_ADMIN: job killed and requeued by root", Verdict.GO_ON),
        ("TERM_CHKPNT: job killed after checkpointing", Verdict.GO_ON),
        ("TERM_RC_RECLAIM: job killed and requeued", Verdict.GO_ON),
        ("TERM_ZOMBIE: job exited while LSF is not available", Verdict.GO_ON),
        ("TERM_OWNER: job killed by owner", Verdict.STOP),
        ("TERM_FORCE_OWNER: job killed by owner without time for cleanup", Verdict.STOP),
        ("TERM_ADMIN: job killed by root or LSF administrator", Verdict.STOP),
        ("TERM_FORCE_ADMIN: job killed by root", Verdict.STOP),
        ("TERM_BUCKET_KILL: job killed with bkill -b", Verdict.STOP),
        ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit", Verdict.COUNT),
        ("TERM_CPULIMIT: job killed after reaching LSF CPU usage limit", Verdict.COUNT),
        ("TERM_SWAP: job killed after reaching LSF swap usage limit", Verdict.COUNT),
        ("TERM_PROCESSLIMIT: job killed", Verdict.COUNT),
        ("TERM_EXTERNAL_SIGNAL: job killed by a signal external to LSF", Verdict.COUNT),
        ("TERM_UNKNOWN: unknown reason", Verdict.COUNT),
        ("TERM_OF_A_LATER_LSF: whatever", Verdict.COUNT),
    ],
)
def test_reasons(reason, verdict):
    assert verdict_of(reason) is verdict


@pytest.mark.parametrize(
    ("job", "index", "name"),
    [
        ("7", "", "7"),
        ("7", "0", "7"),
        ("7", "3", "7[3]"),
        ("7[3]", "3", "7[3]"),
        ("7[3]", "", "7[3]"),
    ],
)
def test_ids(job, index, name):
    assert job_id(job, index) == name


@pytest.mark.parametrize(
    "text",
    [
        "Job <123> is submitted to queue <normal>.\n",
        "Job <123> is submitted to default queue <normal>.\n",
        "note of the site\nJob <123> is submitted to queue <normal>.\n",
    ],
)
def test_the_submitted_job(text):
    assert parse_submission(text) == "123"


@pytest.mark.parametrize("text", ["", "123", "Job <x> is submitted to queue <normal>."])
def test_what_names_no_job(text):
    with pytest.raises(ValueError, match="job id was expected"):
        parse_submission(text)


def test_nothing_asked_is_one_slot():
    assert resource_options(Requirements()) == ["-n", "1", "-R", "span[hosts=1]"]


def test_amounts_and_attributes_as_options():
    names = {"vcpu": 1.5, "memory": 2048.2, "gpu": 2, "disk.scratch": 10}
    asked = Requirements(
        amounts=(
            *(AmountRequirement(name=f"amount.worker.{n}", min=m) for n, m in names.items()),
            AmountRequirement(name="amount.houdini", min=1.0),
        ),
        attributes=(
            AttributeRequirement(name="attr.worker.os.family", any_of=("linux",)),
            AttributeRequirement(name="attr.site", any_of=("a", "b")),
            AttributeRequirement(name="attr.net", all_of=("ib", "eth")),
        ),
    )
    assert resource_options(asked, avoid_hosts=("h3",)) == [
        "-n",
        "2",
        "-R",
        (
            "select[(a || b) && ib && eth && hname!='h3']"
            " rusage[mem=2049MB,tmp=10MB,houdini=1] span[hosts=1]"
        ),
        "-gpu",
        "num=2",
    ]


def test_another_operating_system_is_refused():
    windows = AttributeRequirement(name="attr.worker.os.family", any_of=("windows",))
    with pytest.raises(EngineRefused, match="windows"):
        resource_options(Requirements(attributes=(windows,)))


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        (["-W", "8:00"], ["-wa", "URG", "-wt", "3"]),
        (["-W", "480/hostA"], ["-wa", "URG", "-wt", "3"]),
        (["-q", "long", "-W", "4"], ["-wa", "URG", "-wt", "2"]),
        (["-W", "2"], ["-wa", "URG", "-wt", "1"]),
        (["-W", "1"], []),
        (["-W", "0"], []),
        (["-W", "soon"], []),
        (["-W"], []),
        ([], []),
        (["-W", "60", "-wa", "CHKPNT", "-wt", "10"], []),
    ],
)
def test_a_warning_in_minutes_rounded_up(options, warned):
    assert warning_options(options, lead_seconds=180.0, lead_part=0.4) == warned


@pytest.mark.parametrize(
    ("second", "text"),
    [(0, "2026:11:30:23:59"), (1, "2026:12:01:00:00")],
)
def test_a_moment_to_begin_at_is_rounded_up(second, text):
    assert begin_text(datetime(2026, 11, 30, 23, 59, second, tzinfo=UTC)) == text


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["-q", "long", "-M", "4GB"], ["-q", "long"]),
        (["-P", "lab", "-G", "users", "-W", "60"], ["-P", "lab", "-G", "users"]),
        (["-gpu", "num=1", "-x"], []),
    ],
)
def test_a_turn_goes_where_the_workers_go_and_needs_no_more(given, kept):
    assert place_options(given) == kept


def test_the_script_of_an_array():
    worker = ["python", "-P", "-m", "perdure.cli.work", "--store", "s t"]
    script = array_script(worker, "/home/a user/logs/0f3a.elements")
    assert script == (GOLDEN / "array.sh").read_text(encoding="utf-8")


def run_script(script, element):
    variables = {"LSB_JOBINDEX": element, "LSB_JOBID": "9", "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        ["sh"], input=script, env=variables, capture_output=True, text=True, check=False
    )


def test_the_script_finds_its_launch_and_counts_its_runs(tmp_path):
    elements = tmp_path / "it's.elements"
    tokens = [("l1", Token(array="ab", index=1)), ("l7", Token(array="ab", index=7, restarts=2))]
    elements.write_text(element_lines(tokens))
    script = array_script(["echo", "a b"], str(elements))
    said = [run_script(script, element).stdout.strip() for element in ("1", "7", "1", "7", "1")]
    assert said == [
        "a b --launch l1 --token ab-1 --restarts 0",
        "a b --launch l7 --token ab-7-r2 --restarts 2",
        "a b --launch l1 --token ab-1-r1 --restarts 1",
        "a b --launch l7 --token ab-7-r3 --restarts 3",
        "a b --launch l1 --token ab-1-r2 --restarts 2",
    ]


def test_an_element_that_is_not_in_the_file_starts_nothing(tmp_path):
    elements = tmp_path / "elements"
    elements.write_text(element_lines([("l1", Token(array="ab", index=1))]))
    done = run_script(array_script(["echo", "started"], str(elements)), "9")
    assert done.stdout == ""
    assert done.returncode == 1
