"""Disks that are purged: nothing new rests on packs beyond an age (``--max-pack-age``)."""

import os
import signal
import time

import pytest

from perdure.store.packs.blocks import packs_of
from perdure.store.restore.verify import verify_checkpoint
from support.task_words import interrupted, job_of

DAY = 86_400

TWO_SAVES = """
    if resumed:
        save("resumed", "data.bin")
        committed(1)
        print("saved again", flush=True)
        wait()
    write("data.bin", "D" * 5000); write("small.txt", "s")
    files("small.txt")
    save("1", "data.bin")
    committed(1)
    print("saved 1", flush=True)
    while not os.path.exists({go!r}):
        time.sleep(0.01)
    save("2", "data.bin")
    committed(2)
    print("saved 2", flush=True)
    wait()
"""


def packs(job, number):
    return packs_of([job.manifest(number)])


def age_all(job, days):
    """As if every pack had been written so long ago."""
    at = time.time() - days * DAY
    found = [job.driver.local_path(key) for key in job.driver.list("lineages") if "/packs/" in key]
    for path in found:
        os.utime(path, (at, at))
    return found


def submitted(ground, **options):
    go = ground.root / "go"
    return go, job_of(ground, TWO_SAVES.format(go=str(go)), **options)


@pytest.mark.parametrize(
    ("days", "options", "rests"),
    [
        (3, {"max_pack_age_seconds": 2 * DAY}, False),
        (1, {"max_pack_age_seconds": 2 * DAY}, True),
        (3, {}, True),
    ],
)
def test_a_save_rests_on_no_pack_beyond_the_age(ground, days, options, rests):
    go, job = submitted(ground, **options)
    worker = job.start()
    job.wait_for("saved 1")
    age_all(job, days)
    go.touch()
    job.wait_for("saved 2")
    first, second = (save.number for save in job.lineage().saves)
    assert (packs(job, second) <= packs(job, first)) == rests
    assert bool(packs(job, second) & packs(job, first)) == rests
    prefix = next(key for key in job.driver.list("lineages") if "/packs/" in key)
    prefix = prefix.rpartition("/")[0]
    assert verify_checkpoint(job.driver, prefix, job.manifest(second)) == ()
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0


def test_the_first_save_after_a_resume_writes_what_is_old_once_more(ground):
    go, job = submitted(ground, max_pack_age_seconds=2 * DAY)
    go.touch()
    interrupted(job)
    old = packs(job, job.lineage().point)
    age_all(job, 3)
    worker = job.start()
    job.wait_for("saved again")
    new = packs(job, job.lineage().point)
    assert new
    assert not new & old
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
