"""What Slurm's commands take and print; the texts are those of a real 22.05."""

import subprocess
from datetime import datetime, timedelta

import pytest

from perdure.engines.causes import Cause
from perdure.engines.slurm.slurm_format import (
    Queued,
    array_script,
    array_sizes,
    cause_of_end,
    command_environment,
    kill_wait_seconds,
    memory_options,
    parse_fields,
    parse_queue,
    parse_settings,
    parse_submission,
    partitions_named,
    place_options,
    refused_option,
    resource_options,
    restricted_partitions,
)
from perdure.engines.tokens import Token, element_lines
from perdure.errors import EngineRefused
from perdure.policy.memory_growth import MemoryWish
from perdure.policy.resources import AmountRequirement, AttributeRequirement, Requirements

NOW = datetime(2026, 11, 30, 11, 9, 7)  # noqa: DTZ001 - local, as Slurm's are


def fields(**other):
    """What scontrol said of a job just when it was cancelled."""
    told = {
        "JobId": "2",
        "ArrayTaskId": "1",
        "JobState": "COMPLETING",
        "Reason": "None",
        "Restarts": "0",
        "RunTime": "00:00:01",
        "TimeLimit": "01:00:00",
        "StartTime": "2026-11-30T11:09:06",
        "EndTime": "2026-11-30T11:09:07",
    }
    return {**told, **other}


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ({}, Cause.CANCELLED),
        ({"JobState": "CANCELLED"}, Cause.CANCELLED),
        ({"Restarts": "1", "EndTime": "2026-11-30T12:09:07"}, Cause.REQUEUED),
        ({"PreemptTime": "2026-11-30T11:09:07"}, Cause.PREEMPTED),
        ({"PreemptTime": "None"}, Cause.CANCELLED),
        ({"RunTime": "01:00:01"}, Cause.TIME_LIMIT),
        ({"RunTime": "1-00:00:00", "TimeLimit": "1-00:00:00"}, Cause.TIME_LIMIT),
        ({"Reason": "TimeLimit"}, Cause.TIME_LIMIT),
        ({"JobState": "TIMEOUT"}, Cause.TIME_LIMIT),
        ({"TimeLimit": "UNLIMITED"}, Cause.CANCELLED),
        ({"JobState": "RUNNING", "EndTime": "2026-11-30T12:09:06"}, Cause.UNKNOWN),
        ({"EndTime": "Unknown"}, Cause.UNKNOWN),
        ({"Reason": "JobLaunchFailure", "ExitCode": "0:9"}, Cause.DIED),
        ({"Reason": "NonZeroExitCode", "ExitCode": "1:0"}, Cause.DIED),
        ({"Reason": "JobLaunchFailure", "Restarts": "1"}, Cause.REQUEUED),
    ],
)
def test_why_a_job_was_ended(said, cause):
    assert cause_of_end(fields(**said), 0, NOW) is cause


def test_who_does_not_answer_tells_no_cause():
    assert cause_of_end({}, 0, NOW) is Cause.UNKNOWN


def test_a_second_run_that_is_cancelled_was_put_back_before_it_began():
    assert cause_of_end(fields(Restarts="1"), 1, NOW) is Cause.CANCELLED


def test_an_end_that_is_still_to_come_is_no_cancellation():
    later = (NOW + timedelta(seconds=1)).isoformat()
    assert cause_of_end(fields(EndTime=later), 0, NOW) is Cause.UNKNOWN


def test_the_fields_of_a_job():
    text = "JobId=2 ArrayJobId=1 JobState=RUNNING Reason=None ExitCode=0:0 Command=(null)\n"
    assert parse_fields(text)["JobState"] == "RUNNING"
    assert parse_fields(text)["ExitCode"] == "0:0"
    assert parse_fields("slurm_load_jobs error: Invalid job id specified") == {}


def test_the_queue():
    text = "1_0|RUNNING|None|perdure-ab\n2|PENDING|Dependency|perdure-settle\n\nnoise\n"
    assert parse_queue(text) == (
        Queued(job="1_0", state="RUNNING", reason="None", name="perdure-ab"),
        Queued(job="2", state="PENDING", reason="Dependency", name="perdure-settle"),
    )


def test_a_name_may_hold_the_separator():
    (found,) = parse_queue("7|RUNNING|None|a|b")
    assert found.name == "a|b"


@pytest.mark.parametrize(
    ("state", "is_over"),
    [
        ("PENDING", False),
        ("RUNNING", False),
        ("COMPLETING", False),
        ("SUSPENDED", False),
        ("REQUEUED", False),
        ("COMPLETED", True),
        ("CANCELLED", True),
        ("TIMEOUT", True),
        ("NODE_FAIL", True),
        ("OUT_OF_MEMORY", True),
        ("a state of a later Slurm", False),
    ],
)
def test_what_is_over(state, is_over):
    assert Queued(job="1", state=state, reason="", name="").is_over is is_over


def test_what_waits_for_its_time_was_put_back():
    queued = Queued(job="1_0", state="PENDING", reason="BeginTime", name="n")
    assert queued.waits_for_its_time
    assert not Queued(job="1_0", state="PENDING", reason="Priority", name="n").waits_for_its_time


@pytest.mark.parametrize(("text", "job"), [("12\n", "12"), ("12;lab\n", "12"), ("note\n7\n", "7")])
def test_the_submitted_job(text, job):
    assert parse_submission(text) == job


@pytest.mark.parametrize("text", ["", "\n", "Submitted batch job", "x12"])
def test_what_names_no_job(text):
    with pytest.raises(ValueError, match="job id was expected"):
        parse_submission(text)


@pytest.mark.parametrize(
    ("count", "limit", "sizes"),
    [(1, 1, [1]), (3, 3, [3]), (4, 3, [3, 1]), (25, 11, [11, 11, 3]), (2, 1, [1, 1]), (0, 5, [])],
)
def test_no_array_is_larger_than_slurm_takes(count, limit, sizes):
    assert array_sizes(count, limit) == sizes


def test_the_settings():
    text = "Configuration data as of 2026-11-30T11:09:07\nMaxArraySize            = 1001\nX =\n"
    assert parse_settings(text) == {"MaxArraySize": "1001", "X": ""}


@pytest.mark.parametrize(
    ("said", "seconds"), [("30 sec", 30.0), ("5 sec", 5.0), ("", 0.0), ("(null)", 0.0)]
)
def test_how_long_slurm_waits_before_it_kills(said, seconds):
    assert kill_wait_seconds({"KillWait": said}) == seconds
    assert kill_wait_seconds({}) == 0.0


def test_a_job_does_not_inherit_which_one_its_submitter_was():
    mine = {
        "PATH": "/bin",
        "SLURM_CONF": "/etc/slurm.conf",
        "SLURM_JOB_ID": "7",
        "SLURM_RESTART_COUNT": "2",
        "SLURMD_NODENAME": "n1",
        "SBATCH_ACCOUNT": "lab",
        "PERDURE_TOKEN": "ab-0",
        "PERDURE_HOME": "/home/me/perdure",
    }
    assert command_environment(mine, without="PERDURE_TOKEN") == {
        "PATH": "/bin",
        "SLURM_CONF": "/etc/slurm.conf",
        "SBATCH_ACCOUNT": "lab",
        "PERDURE_HOME": "/home/me/perdure",
    }


PARTITIONS = """\
PartitionName=low AllowGroups=ALL AllocNodes=login1,login2 Default=YES State=UP
PartitionName=high AllowGroups=ALL AllocNodes=ALL Default=NO State=UP
PartitionName=far AllowGroups=ALL AllocNodes=login1 Default=NO State=UP
"""


@pytest.mark.parametrize(
    ("options", "restricted"),
    [
        ([], [("low", "login1,login2")]),
        (["-t", "5"], [("low", "login1,login2")]),
        (["-p", "high"], []),
        (["-p", "low", "--partition=high"], []),
        (["-p", "high,far"], [("far", "login1")]),
        (["-p", "unknown"], []),
    ],
)
def test_partitions_that_take_jobs_from_some_hosts_only(options, restricted):
    assert restricted_partitions(PARTITIONS, partitions_named(options)) == restricted


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        (["-p", "long", "-a", "0-3"], "-a"),
        (["-a0-3"], "-a0-3"),
        (["--array=0-3%2"], "--array=0-3%2"),
        (["--arr", "0-3"], "--arr"),
        (["-Jmine"], "-Jmine"),
        (["--job-name=mine"], "--job-name=mine"),
        (["--wrap=true"], "--wrap=true"),
        (["--test-only"], "--test-only"),
        (["-A", "lab", "--account=lab", "--wait-all-nodes=1", "--partition=a", "-t", "1"], None),
        ([], None),
    ],
)
def test_options_that_are_perdures_own(options, refused):
    assert refused_option(options) == refused


def amounts(**least):
    names = {"cpus": "vcpu", "memory": "memory", "gpus": "gpu", "scratch": "disk.scratch"}
    return tuple(
        AmountRequirement(name=f"amount.worker.{names[name]}", min=value)
        for name, value in least.items()
    )


def test_amounts_as_options():
    asked = Requirements(amounts=amounts(cpus=1.5, memory=2048.2, gpus=2, scratch=10))
    assert resource_options(asked) == [
        "--cpus-per-task=2",
        "--mem=2049M",
        "--gpus=2",
        "--tmp=10M",
    ]


@pytest.mark.parametrize(
    ("memory", "options", "grown"),
    [
        (1000, [], ["--mem=2000M"]),
        (1000, ["--mem=4G"], ["--mem=8192M"]),
        (0, ["--mem", "1500"], ["--mem=3000M"]),
        (0, ["--mem-per-cpu=512K", "-t", "5"], ["--mem-per-cpu=1M"]),
        (0, ["--mem=6GB"], ["--mem=10000M"]),
        (0, ["--mem=20G"], ["--mem=20480M"]),
        (0, ["--mem=0"], []),
        (0, ["--mem=all"], []),
        (0, [], []),
    ],
)
def test_more_memory_of_what_was_asked(memory, options, grown):
    asked = Requirements(amounts=amounts(memory=memory))
    wish = MemoryWish(times=2.0, most_mib=10_000)
    assert memory_options(asked, options, wish) == grown
    assert memory_options(asked, options, None) == []


def test_nothing_asked_is_one_cpu():
    assert resource_options(Requirements()) == ["--cpus-per-task=1"]


def test_other_amounts_are_licenses_and_attributes_are_features():
    asked = Requirements(
        amounts=(AmountRequirement(name="amount.houdini", min=1.0),),
        attributes=(
            AttributeRequirement(name="attr.worker.os.family", any_of=("linux",)),
            AttributeRequirement(name="attr.site", any_of=("a", "b")),
            AttributeRequirement(name="attr.net", all_of=("ib", "eth")),
        ),
    )
    assert resource_options(asked, avoid_hosts=("n3", "n4"))[1:] == [
        "--licenses=houdini:1",
        "--constraint=[a|b]&ib&eth",
        "--exclude=n3,n4",
    ]


def test_another_operating_system_is_refused():
    windows = AttributeRequirement(name="attr.worker.os.family", any_of=("windows",))
    with pytest.raises(EngineRefused, match="windows"):
        resource_options(Requirements(attributes=(windows,)))


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["-p", "long", "--mem=4G"], ["--partition=long"]),
        (["-plong", "-n", "4"], ["--partition=long"]),
        (["--account=lab", "--qos", "low", "-t", "60"], ["--account=lab", "--qos=low"]),
        (["--gres=gpu:1", "--exclusive"], []),
    ],
)
def test_a_turn_goes_where_the_workers_go_and_needs_no_more(given, kept):
    assert place_options(given) == kept


@pytest.mark.parametrize(
    ("element", "put_back", "said"),
    [
        ("0", None, "--launch l0 --token ab-0 --restarts 0"),
        ("7", None, "--launch l7 --token ab-7-r2 --restarts 2"),
        ("0", "1", "--launch l0 --token ab-0-r1 --restarts 1"),
        ("7", "3", "--launch l7 --token ab-7-r5 --restarts 5"),
    ],
)
def test_the_script_finds_its_launch_and_token(tmp_path, element, put_back, said):
    elements = tmp_path / "it's.elements"
    tokens = [("l0", Token(array="ab", index=0)), ("l7", Token(array="ab", index=7, restarts=2))]
    elements.write_text(element_lines(tokens))
    script = array_script(["echo", "a b"], str(elements))
    variables = {"SLURM_ARRAY_TASK_ID": element}
    if put_back is not None:
        variables["SLURM_RESTART_COUNT"] = put_back
    done = subprocess.run(
        ["sh"], input=script, env=variables, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"a b {said}"


def test_an_element_that_is_not_in_the_file_starts_nothing(tmp_path):
    elements = tmp_path / "elements"
    elements.write_text(element_lines([("l0", Token(array="ab", index=0))]))
    script = array_script(["echo", "started"], str(elements))
    done = subprocess.run(
        ["sh"],
        input=script,
        env={"SLURM_ARRAY_TASK_ID": "9"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == ""
    assert done.returncode == 1
