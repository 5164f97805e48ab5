"""A job is put once, whatever becomes of the answers."""

import pytest

from perdure.clock import SystemClock
from perdure.manager.stored_jobs import job_ids
from perdure.manager.submission import submit
from perdure.store.drivers.driver import PutUncertain
from perdure.store.drivers.memory import Call, LoseReply, MemoryDriver
from perdure.store.layout import JobId
from perdure.store.records.job_document import JobDocument, Text

JOB = JobId("01jdxyz0000000000000000000")


def document(**fields):
    return JobDocument(
        job=JOB,
        name="A",
        template=Text(name="a", text="a"),
        template_dir="/",
        current_dir="/",
        **fields,
    )


def losing(replies, *, applied):
    """A driver that loses the first answers to puts of a key."""
    left = [replies]

    def before(call, key):
        if call is Call.PUT_IF_ABSENT and key.endswith("/job") and left[0]:
            left[0] -= 1
            raise LoseReply(applied=applied)

    return MemoryDriver(before=before)


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("key", [None, "mine"])
def test_a_submission_whose_answer_is_lost_is_one_job(applied, key):
    driver, waited = losing(3, applied=applied), []
    done = submit(driver, document(key=key), SystemClock(), waited.append)
    assert done.is_new
    assert job_ids(driver) == (JOB,)
    assert waited == [1, 2, 3]


def test_a_store_that_never_answers_is_given_up():
    driver = losing(100, applied=False)
    with pytest.raises(PutUncertain):
        submit(driver, document(), SystemClock(), lambda _tries: None)
