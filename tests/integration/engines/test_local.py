"""Workers as processes of this host: whom a signal reaches."""

import signal
import subprocess

import pytest

from perdure.engines.local import LocalEngine
from perdure.worker.host import describe_process


@pytest.fixture
def sleeping():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize(("by_person", "number"), [(True, signal.SIGINT), (False, signal.SIGTERM)])
def test_the_worker_is_told(sleeping, by_person, number):
    LocalEngine().interrupt(describe_process(sleeping.pid), by_person=by_person)
    assert sleeping.wait() == -number


@pytest.mark.parametrize(
    "changed",
    [{"host": "another"}, {"boot": "another"}, {"pid_namespace": "x"}, {"pid_started": 1}],
)
def test_a_process_that_only_has_the_pid_of_a_worker_elsewhere_is_spared(sleeping, changed):
    ids = {**describe_process(sleeping.pid), **changed}
    LocalEngine().interrupt(ids, by_person=True)
    LocalEngine().interrupt(ids, by_person=False)
    with pytest.raises(subprocess.TimeoutExpired):
        sleeping.wait(timeout=0.2)
