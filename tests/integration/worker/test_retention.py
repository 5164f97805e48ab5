"""A worker prunes its own lineage by its job's options."""

import pytest

from support.task_words import interrupted, job_of

FOUR_SAVES = """
    for n in range(1, 5):
        write("data.bin", str(n) * 5000)
        save(str(n), "data.bin")
        committed(n)
    wait()
"""
HOUR = 3600


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"keep_last": 2, "keep_age_seconds": 0}, ["3", "4"]),
        ({"keep_last": 1, "keep_age_seconds": HOUR}, ["1", "2", "3", "4"]),
        ({"keep_last": 4, "keep_size_bytes": 1}, ["4"]),
        ({"keep_last": 4, "keep_age_seconds": HOUR, "keep_size_bytes": 1}, ["4"]),
        ({"keep_last": 4, "keep_size_bytes": 1 << 30}, ["1", "2", "3", "4"]),
    ],
)
def test_after_each_save_it_lets_go_of_what_the_options_say(ground, options, kept):
    job = job_of(ground, FOUR_SAVES, **options)
    interrupted(job)
    there = [save for save in job.lineage().saves if not save.is_pruned]
    assert [job.manifest(save.number).state for save in there] == kept


def test_a_task_that_is_interrupted_again_and_again_keeps_no_more(ground):
    code = """
        state = str(int(open("data.bin").read()[0]) + 1) if resumed else "1"
        write("data.bin", state * 5000)
        save(state, "data.bin")
        committed(1)
        print("begun", state, flush=True)
        wait()
    """
    job = job_of(ground, code, keep_last=2, keep_age_seconds=0)
    for number in range(1, 7):
        interrupted(job, until=f"begun {number}")
    there = [save for save in job.lineage().saves if not save.is_pruned]
    assert [job.manifest(save.number).state for save in there] == ["5", "6"]
