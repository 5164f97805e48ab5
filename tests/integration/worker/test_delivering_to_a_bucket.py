"""``--deliver s3://…``: the same as into a folder, over a line that does what lines do."""

import itertools
import json
import os
import random
import signal
import threading

import pytest
from blake3 import blake3

from perdure.store.drivers.object_clients import Clients, parse_place
from support.faulty_proxy import Fault, answer, proxy_before
from support.object_store import BUCKET, environment_for, s3_in_this_process
from support.task_words import job_of
from support.worker_runs import wait_until

numbers = itertools.count()


@pytest.fixture(scope="module")
def s3():
    with s3_in_this_process() as port:
        yield port


@pytest.fixture
def proxy(s3):
    with proxy_before(s3) as made:
        yield made


@pytest.fixture
def url():
    return f"s3://{BUCKET}/delivered/{next(numbers)}"


@pytest.fixture
def bucket(s3, url, monkeypatch):
    """The client of the target, past the proxy."""
    for name, value in environment_for(s3).items():
        monkeypatch.setenv(name, value)
    return Clients(parse_place(url)).of(60.0)


def start(job, proxy):
    return job.start(environment=environment_for(proxy.port))


def run(job, proxy):
    worker = start(job, proxy)
    assert worker.wait() == 0, worker.said()
    return job.outcome()


def there(bucket):
    """What was delivered, but for records."""
    paths = [about["path"] for part in bucket.list() for about in part]
    return {
        path: bucket.get(path).bytes().to_bytes()
        for path in paths
        if not path.startswith("perdure/")
    }


def own(job, name):
    return f"1-{job.key()}/{name}"


def record(job, bucket):
    data = bucket.get(f"perdure/{job.id}/1-{job.key()}.json").bytes().to_bytes()
    return {one["path"]: one["blake3"] for one in json.loads(data)["files"]}


def records(bucket):
    return [a["path"] for part in bucket.list("perdure") for a in part]


ONE = """
    write("result", os.environ["TEXT"]); files("result")
"""


def one_file(ground, url, text="mine", code=ONE, **how):
    return job_of(ground, code, deliver=url, variables={"TEXT": text}, **how)


def test_files_of_every_size_and_name_are_there_with_a_record(ground, proxy, bucket, url):
    code = r"""
    os.makedirs("odd")
    for name in (b"\xff.txt", "ü #1?".encode(), b"new\nline", b"50%", b"a+b=c&d", b" x "):
        open(b"odd/" + name, "wb").write(b"odd")
    write("empty", ""); write("middle", "m" * 5_000_000)
    block = os.urandom(1 << 20)
    with open("large", "wb") as file:
        for n in range(40):
            file.write(bytes([n]) + block[1:])
    files("empty", "middle", "large", dirs=["odd"])
    """
    job = job_of(ground, code, deliver=url)
    assert run(job, proxy)["state"] == "SUCCEEDED"
    found = there(bucket)
    odd = ["%FF.txt", "ü #1?", "new%0Aline", "50%", "a+b=c&d", " x "]
    assert set(found) == {own(job, n) for n in ("empty", "middle", "large")} | {
        own(job, f"odd/{name}") for name in odd
    }
    assert len(found[own(job, "large")]) == 40 << 20
    assert any("?uploads" in request.path for request in proxy.seen)  # it came in parts
    digests = record(job, bucket)
    assert digests[own(job, "large")] == blake3(found[own(job, "large")]).hexdigest()
    assert len(digests) == len(found)
    assert records(bucket) == [f"perdure/{job.id}/1-{job.key()}.json"]


def test_what_is_somebody_elses_is_left_and_named(ground, proxy, bucket, url):
    job = one_file(ground, url)
    bucket.put(own(job, "result"), b"a person's")
    outcome = run(job, proxy)
    assert (outcome["state"], outcome["cause"]) == ("FAILED", "delivery")
    assert (
        f"could not be delivered to {url}: {url} has another content already" in (outcome["reason"])
    )
    assert there(bucket) == {own(job, "result"): b"a person's"}


def test_an_equal_object_is_left_as_it_is(ground, proxy, bucket, url):
    job = one_file(ground, url)
    bucket.put(own(job, "result"), b"mine")
    assert run(job, proxy)["state"] == "SUCCEEDED"
    assert not [r for r in proxy.puts() if r.path.endswith("/result")]


@pytest.mark.parametrize("size", [4, 34 << 20])
def test_what_a_dead_attempt_delivered_is_replaced(size, ground, proxy, bucket, url):
    """The worker is killed when the object is there and no record yet; the next makes others."""
    code = f"""
    with open("result", "wb") as file:
        file.write(os.urandom(4) * ({size} // 4))
    print("made", open("result", "rb").read(4).hex(), flush=True)
    files("result")
    """
    job = job_of(ground, code, deliver=url)
    is_there, killed = threading.Event(), threading.Event()

    def fault(request):
        if not killed.is_set() and request.method == "PUT" and request.path.endswith(".json"):
            if ".plan" in request.path:
                return Fault.NONE
            is_there.set()
            killed.wait(60)
            return Fault.LOSE_REQUEST
        return Fault.NONE

    proxy.fault = fault
    worker = start(job, proxy)
    assert is_there.wait(60)
    before = there(bucket)[own(job, "result")]
    assert [path for path in records(bucket) if path.endswith(".1.plan.json")]
    os.kill(worker.worker_pid, signal.SIGKILL)
    killed.set()
    worker.wait()
    assert run(job, proxy)["state"] == "SUCCEEDED"
    after = there(bucket)[own(job, "result")]
    assert len(after) == size
    assert after != before
    assert record(job, bucket) == {own(job, "result"): blake3(after).hexdigest()}
    assert records(bucket) == [f"perdure/{job.id}/1-{job.key()}.json"]


def out_of_reach(proxy):
    """From now on, until it is lifted, nothing gets through."""
    proxy.fault = lambda _request: answer(503, "SlowDown")


def waits(job):
    return any("not delivered yet" in note for note in job.notes())


def test_a_bucket_out_of_reach_is_waited_for(ground, proxy, bucket, url):
    job = one_file(ground, url)
    out_of_reach(proxy)
    worker = start(job, proxy)
    wait_until("the note", lambda: job.attempts() and waits(job))
    proxy.fault = lambda _request: Fault.NONE
    assert worker.wait() == 0, worker.said()
    assert job.outcome()["state"] == "SUCCEEDED"
    assert there(bucket) == {own(job, "result"): b"mine"}
    assert [note for note in job.notes() if "out of reach" in note and url in note]


SAVING = """
    print("at work")
    write("result", "r"); files("result")
    if not resumed:
        save("1"); committed(1)
"""


def test_a_host_that_goes_while_a_bucket_is_waited_for_takes_no_work_along(
    ground, proxy, bucket, url
):
    job = one_file(ground, url, code=SAVING)
    out_of_reach(proxy)
    worker = start(job, proxy)
    wait_until("the note", lambda: job.attempts() and waits(job))
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.said()
    outcome = job.outcome()
    assert (outcome["state"], outcome["by"]) == ("SUSPENDED", "host")
    assert outcome["reason"].startswith(f"stopped while its files were being delivered to {url}")
    proxy.fault = lambda _request: Fault.NONE
    assert run(job, proxy)["state"] == "SUCCEEDED"
    assert job.attempts()[-1].begun["base"] == 2  # its end, behind the save
    assert job.log_text().count("at work") == 1
    assert there(bucket) == {own(job, "result"): b"r"}


def test_a_cancel_ends_a_delivery(ground, proxy, url):
    job = one_file(ground, url)
    out_of_reach(proxy)
    worker = start(job, proxy)
    wait_until("the note", lambda: job.attempts() and waits(job))
    job.cancel()
    assert worker.wait() == 0, worker.said()
    assert job.outcome()["state"] == "CANCELED"


def test_a_bucket_that_is_not_there_is_a_failure(ground, proxy):
    job = one_file(ground, "s3://no-such-bucket/x")
    outcome = run(job, proxy)
    assert (outcome["state"], outcome["cause"]) == ("FAILED", "delivery")
    assert "names a bucket or container that is not there" in outcome["reason"]


def test_over_a_bad_line_all_of_it_comes(ground, proxy, bucket, url):
    """One request in four is lost, cut, refused for now, or done without an answer."""
    chance, lock = random.Random(7), threading.Lock()
    bad = [Fault.LOSE_REPLY, Fault.LOSE_REQUEST, Fault.CUT, answer(500, "InternalError")]

    def fault(_request):
        with lock:
            return chance.choice(bad) if chance.random() < 0.25 else Fault.NONE

    code = """
    for n in range(12):
        write(f"out/{n}", f"{n}" * 1000)
    with open("out/large", "wb") as file:
        file.write(os.urandom(36 << 20))
    files(dirs=["out"])
    """
    job = job_of(ground, code, deliver=url)
    proxy.fault = fault
    assert run(job, proxy)["state"] == "SUCCEEDED"
    found = there(bucket)
    assert len(found) == 13
    assert {path: blake3(data).hexdigest() for path, data in found.items()} == record(job, bucket)
