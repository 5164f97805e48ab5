import pytest

from perdure.journal.medium import segment_key
from perdure.store import layout

JOB = layout.JobId("01jdxyz0000000000000000000")
LAUNCH = layout.LaunchId("01jdxyz0000000000000000001")
STEP = layout.StepKey(2)
TASK = layout.TaskKey("0123456789abcdef")


def test_every_key_is_where_the_format_says():
    assert [
        layout.FORMAT_KEY,
        layout.job_record(JOB),
        layout.record_key(layout.job_log(JOB), 7),
        layout.manager(JOB),
        layout.share(JOB, STEP, 3),
        layout.journal(JOB, LAUNCH),
        segment_key(layout.journal(JOB, LAUNCH), 12),
        layout.heartbeat(JOB, LAUNCH),
        layout.ends(JOB, LAUNCH),
        layout.record_key(layout.lineage_log(JOB, STEP, TASK), 1),
        layout.pack_key(layout.packs(JOB, STEP, TASK), layout.pack_id(LAUNCH, 3, 4)),
    ] == [
        "format",
        f"jobs/{JOB}/job",
        f"jobs/{JOB}/log/0000000007",
        f"jobs/{JOB}/manager",
        f"jobs/{JOB}/shares/0002/0000000003",
        f"jobs/{JOB}/launches/{LAUNCH}/journal",
        f"jobs/{JOB}/launches/{LAUNCH}/journal.0000000012",
        f"jobs/{JOB}/launches/{LAUNCH}/heartbeat",
        f"jobs/{JOB}/launches/{LAUNCH}/ends",
        f"lineages/{JOB}/0002/{TASK}/log/0000000001",
        f"lineages/{JOB}/0002/{TASK}/packs/{LAUNCH}-3-4",
    ]


def test_names_of_people_never_become_keys():
    key = layout.name_log("../../etc/passwd night run")
    assert key.startswith("keys/")
    assert key.endswith("/log")
    middle = key.split("/")[1]
    assert len(middle) == 32
    assert set(middle) <= set("0123456789abcdef")


def test_the_step_of_what_is_held_is_read_back():
    assert layout.step_of(layout.share(JOB, STEP, 3)) == STEP
    log = layout.lineage_log(JOB, STEP, TASK)
    assert layout.step_of(layout.record_key(log, 1)) == STEP


def test_a_records_number_is_read_back():
    assert layout.record_number(layout.record_key("jobs/a/log", 1234)) == 1234
    for key in ("jobs/a/log/12", "jobs/a/log/000000000x", "jobs/a/log/" + "\u0660" * 10):
        with pytest.raises(ValueError, match="number"):
            layout.record_number(key)


@pytest.mark.parametrize("number", [0, -1, 10**10])
def test_numbers_that_would_sort_wrong_are_refused(number):
    with pytest.raises(ValueError, match="ten digits"):
        layout.record_key("jobs/a/log", number)


@pytest.mark.parametrize("step", [0, -3, 10_000])
def test_steps_that_would_sort_wrong_are_refused(step):
    with pytest.raises(ValueError, match="step"):
        layout.shares(JOB, layout.StepKey(step))


@pytest.mark.parametrize("job", ["", "../x", "a/../b", "A", "a b"])
def test_ids_that_are_no_keys_are_refused(job):
    with pytest.raises(ValueError, match="no key"):
        layout.job_record(layout.JobId(job))


def test_ids_are_recognised():
    assert layout.is_ulid(JOB)
    assert not layout.is_ulid(JOB.upper())
    assert not layout.is_ulid("81jdxyz0000000000000000000")
    assert layout.is_task_key(TASK)
    assert not layout.is_task_key("0123")
    pack = layout.pack_id(LAUNCH, 3, 4)
    assert layout.is_pack_id(pack)
    assert layout.pack_launch(pack) == LAUNCH
    assert not layout.is_pack_id("../x-1-1")
