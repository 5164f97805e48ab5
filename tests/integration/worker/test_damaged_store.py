"""A worker that meets damage leaves, and its journal says why."""

from perdure.store import layout
from perdure.store.layout import StepKey
from support.worker_runs import python_step, template


def test_a_worker_that_finds_a_damaged_log_says_so_in_its_last_line(ground):
    job = ground.submit(template(python_step("print('never')")))
    log = layout.lineage_log(job.id, StepKey(1), job.key())
    job.driver.put_if_absent(layout.record_key(log, 1), b"no record")
    worker = job.start()
    assert worker.wait() == 8, worker.said()
    account = job.records().account(worker.launch)
    assert account.is_closed
    assert "is damaged" in account.trouble
    assert account.attempts == {}
