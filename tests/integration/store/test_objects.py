"""A store in a bucket when the network does what networks do: nobody is ever told wrong."""

import itertools
import multiprocessing
import threading
from collections import Counter

import pytest

from perdure.clock import SystemClock
from perdure.errors import HomeError, OutOfSpace, StoreUnavailable, UsageError
from perdure.journal.account import LaunchAccount
from perdure.journal.bounded import BoundedObject
from perdure.journal.journal_format import Kind
from perdure.journal.medium import read_from
from perdure.journal.writer import JournalWriter
from perdure.store.drivers import object_requests
from perdure.store.drivers.driver import PutUncertain
from perdure.store.drivers.object_clients import Clients, parse_place
from perdure.store.drivers.objects import ObjectDriver
from perdure.store.layout import LaunchId
from perdure.store.opening import open_store
from perdure.store.packs.blocks import BlockIndex, read_block
from perdure.store.packs.pack_writing import PackWriter
from perdure.store.records.log import Entry, Log, Refused
from support.faulty_proxy import Fault, answer, proxy_before
from support.object_store import BUCKET, environment_for, s3_in_this_process

PACKS = "lineages/01jdxyz0000000000000000000/0001/0123456789abcdef/packs"
LAUNCH = LaunchId("01jdxyz0000000000000000001")
numbers = itertools.count()


@pytest.fixture(scope="module")
def s3():
    with s3_in_this_process() as port:
        yield port


@pytest.fixture
def proxy(s3, monkeypatch):
    with proxy_before(s3) as proxy:
        for name, value in environment_for(proxy.port).items():
            monkeypatch.setenv(name, value)
        yield proxy


@pytest.fixture
def url():
    return f"s3://{BUCKET}/objects/{next(numbers)}"


@pytest.fixture
def driver(proxy, url):
    return driver_of(url)


@pytest.fixture
def other(driver, s3, url, monkeypatch):
    """Somebody else, who reaches the store without the proxy; made after `driver`."""
    for timeout in (*object_requests.SMALL.timeouts, *object_requests.SENDING.timeouts, 30.0):
        driver._clients.of(timeout)  # made now, it does not look into the environment again
    for name, value in environment_for(s3).items():
        monkeypatch.setenv(name, value)
    made = driver_of(url)
    made.head("x")
    return made


def driver_of(url):
    return ObjectDriver(Clients(parse_place(url)), url=url, sleep=lambda _seconds: None)


def once(*faults, method="PUT"):
    """The first requests of a kind meet these faults, in order; all others none."""
    left = list(faults)
    lock = threading.Lock()

    def fault(request):
        with lock:
            if request.method == method and left:
                return left.pop(0)
        return Fault.NONE

    return fault


NEVER_DONE = [
    Fault.LOSE_REQUEST,
    Fault.CUT,
    answer(500, "InternalError"),
    answer(503, "SlowDown"),
    answer(409, "ConditionalRequestConflict"),
    answer(429, "TooManyRequests"),
    answer(400, "RequestTimeout"),
]


@pytest.mark.parametrize("fault", NEVER_DONE, ids=str)
def test_what_was_never_done_is_done_by_the_next_try(fault, proxy, driver):
    proxy.fault = once(fault)
    assert driver.put_if_absent("a", b"ours") is True
    assert driver.get("a") == b"ours"
    assert len(proxy.puts()) == 2


def test_a_create_whose_answer_is_lost_is_not_taken_for_somebody_elses(proxy, driver):
    proxy.fault = once(Fault.LOSE_REPLY)
    with pytest.raises(PutUncertain):
        driver.put_if_absent("a", b"ours")
    assert driver.put_if_absent("a", b"ours") is False
    assert driver.get("a") == b"ours"


def test_where_somebody_else_came_between_two_tries_nobody_is_told_wrong(proxy, driver, other):
    def fault(request):
        if request.method == "PUT" and len(proxy.puts()) == 1:
            assert other.put_if_absent("a", b"theirs") is True
            return Fault.LOSE_REQUEST
        return Fault.NONE

    proxy.fault = fault
    with pytest.raises(PutUncertain):
        driver.put_if_absent("a", b"ours")
    assert driver.get("a") == b"theirs"


def test_a_conflict_of_creates_is_no_refusal(proxy, driver):
    """S3 says 409 where two creates met and none was done; obstore calls that "exists"."""
    proxy.fault = once(*[answer(409, "ConditionalRequestConflict")] * 3)
    assert driver.put_if_absent("a", b"ours") is True


def test_a_conflict_whose_reason_is_unknown_is_looked_into(proxy, driver):
    proxy.fault = once(answer(409, "SomethingElse"))
    assert driver.put_if_absent("a", b"ours") is True
    proxy.fault = once(answer(409, "SomethingElse"))
    assert driver.put_if_absent("a", b"again") is False
    assert driver.get("a") == b"ours"


def test_a_conflict_that_cannot_be_looked_into_leaves_it_open(proxy, driver):
    """The try before it may have taken effect: no other failure says that it did not."""

    def fault(request):
        if request.method == "HEAD":
            return answer(403, "AccessDenied")
        return Fault.LOSE_REPLY if len(proxy.puts()) == 1 else answer(409, "SomethingElse")

    proxy.fault = fault
    with pytest.raises(PutUncertain):
        driver.put_if_absent("a", b"ours")


def test_a_late_request_does_no_harm(proxy, driver, monkeypatch):
    """The first try is held until the second one was done: then it is refused."""
    second_is_done, first_has_landed = threading.Event(), threading.Event()
    monkeypatch.setattr(
        object_requests, "SMALL", object_requests.Patience(timeouts=(0.3, 30.0), seconds=60.0)
    )

    def fault(request):
        if request.method == "PUT" and len(proxy.puts()) == 1:
            assert second_is_done.wait(30)
            proxy._pass_on(request, is_cut=False)
            first_has_landed.set()
            return Fault.LOSE_REQUEST
        return Fault.NONE

    proxy.fault = fault
    try:
        assert driver.put_if_absent("a", b"ours") is True
    finally:
        second_is_done.set()
    assert first_has_landed.wait(30)
    assert driver.get("a") == b"ours"


def test_a_line_that_is_too_slow_for_one_timeout_is_given_a_longer_one(proxy, driver, monkeypatch):
    given_up = threading.Event()
    monkeypatch.setattr(
        object_requests,
        "SENDING",
        object_requests.Patience(timeouts=(0.3, 60.0), seconds=60.0, is_bulk=True),
    )

    def fault(request):
        if request.method == "PUT" and len(proxy.puts()) == 1:
            assert given_up.wait(30)
            return Fault.LOSE_REQUEST
        given_up.set()
        return Fault.NONE

    proxy.fault = fault
    data = bytes(2 << 20)
    assert driver.put_if_absent("a", data) is True
    assert driver.head("a") == len(data)


def test_tries_end(proxy, driver, monkeypatch):
    now = itertools.count()
    driver = ObjectDriver(
        driver._clients, url="s3://b", sleep=lambda _: None, monotonic=lambda: float(next(now))
    )
    proxy.fault = lambda _request: answer(503, "SlowDown")
    with pytest.raises(PutUncertain):
        driver.put_if_absent("a", b"x")
    with pytest.raises(StoreUnavailable, match="out of reach: it answered 503") as caught:
        driver.get("a")
    assert "tried again" not in caught.value.hint
    assert 4 <= len(proxy.puts()) <= 20


def test_a_heartbeat_is_tried_once(proxy, driver):
    proxy.fault = lambda _request: answer(503, "SlowDown")
    with pytest.raises(PutUncertain):
        driver.put("heartbeat", b"x", in_place=True)
    assert len(proxy.seen) == 1


@pytest.mark.parametrize("fault", [Fault.LOSE_REPLY, Fault.LOSE_REQUEST, answer(500, "X")], ids=str)
def test_what_may_be_repeated_is_repeated(fault, proxy, driver):
    for method, call in (
        ("PUT", lambda: driver.put("a", b"1")),
        ("GET", lambda: driver.get("a") == b"1"),
        ("HEAD", lambda: driver.head("a") == 1),
        ("GET", lambda: list(driver.list("")) == ["a"]),
        ("GET", lambda: driver.children("") == ("a",)),
        ("POST", lambda: driver.delete("a")),
    ):
        proxy.fault = once(fault, method=method)
        assert call() in (True, None)
    assert driver.head("a") is None


def log_of(driver):
    return Log(driver, "jobs/a/log", clock=SystemClock(), pause=lambda _tries: None)


@pytest.mark.parametrize(
    "faults",
    [
        [Fault.LOSE_REPLY],
        [Fault.LOSE_REPLY] * 3,
        [Fault.LOSE_REQUEST, Fault.LOSE_REPLY],
        [Fault.CUT, Fault.LOSE_REQUEST, answer(500, "X"), Fault.LOSE_REPLY],
    ],
    ids=str,
)
def test_an_append_knows_its_own_record_however_often_the_answer_is_lost(faults, proxy, driver):
    proxy.fault = once(*faults)
    log = log_of(driver)
    assert isinstance(log.append({"kind": "claim"}), Entry)
    assert len(log_of(driver).read()) == 1


def test_an_append_that_met_another_one_behind_a_lost_request_is_refused(proxy, driver, other):
    def fault(request):
        if request.method == "PUT" and len(proxy.puts()) == 1:
            assert isinstance(log_of(other).append({"kind": "claim", "mine": False}), Entry)
            return Fault.LOSE_REQUEST
        return Fault.NONE

    proxy.fault = fault
    refused = log_of(driver).append({"kind": "claim", "mine": True})
    assert isinstance(refused, Refused)
    assert refused.by.header["mine"] is False


def test_a_journals_lines_are_there_once_and_in_order_whatever_is_lost(proxy, driver):
    faults = [Fault.LOSE_REPLY, Fault.NONE, Fault.LOSE_REQUEST, Fault.LOSE_REPLY, Fault.CUT]
    proxy.fault = once(*faults * 4)
    writer = JournalWriter(driver, "j")
    for number in range(12):
        fields = {"step": 1, "task": "t", "attempt": 1, "n": number}
        writer.append(Kind.NOTED, fields, durable=True)
    while not writer.sync():
        pass
    records = LaunchAccount().read_on(driver, "j")
    assert [record.fields["n"] for record in records] == list(range(12))


def test_what_is_beside_a_journal_passes_over_a_segment_that_stood(proxy, driver):
    beside = BoundedObject(driver, "ends", limit_bytes=1000)
    proxy.fault = once(Fault.LOSE_REPLY)
    with pytest.raises(PutUncertain):
        beside.append(b"one;")
    beside.append(b"two;")
    assert read_from(driver, "ends", 0) == b"one;two;"


def packs_of(driver):
    return PackWriter(driver, PACKS, launch=LAUNCH, attempt=1, index=BlockIndex())


@pytest.mark.parametrize("fault", [Fault.LOSE_REPLY, Fault.CUT, Fault.LOSE_REQUEST], ids=str)
def test_packs_are_whole_whatever_happens_to_an_upload(fault, proxy, driver, monkeypatch):
    monkeypatch.setattr(ObjectDriver, "pack_limit_bytes", 3 << 20)
    proxy.fault = once(fault, Fault.NONE, fault)
    writer = packs_of(driver)
    data = [bytes([number]) * (1 << 20) for number in range(1, 9)]
    blocks = [writer.add(one) for one in data]
    writer.finish()
    assert [read_block(driver, PACKS, block, of="x") for block in blocks] == data
    assert len({block.pack for block in blocks}) == 4
    assert sorted(driver.children(PACKS)) == sorted({str(block.pack) for block in blocks})


def test_a_pack_that_is_cut_on_its_way_is_not_seen(proxy, driver, other):
    seen = []

    def fault(request):
        if request.method == "PUT":
            seen.append(other.children(PACKS))
            return Fault.CUT if len(seen) == 1 else Fault.NONE
        return Fault.NONE

    proxy.fault = fault
    writer = packs_of(driver)
    writer.add(b"x" * (2 << 20))
    writer.finish()
    assert seen == [(), ()]
    assert len(other.children(PACKS)) == 1


def test_a_pack_whose_answer_was_lost_travels_no_third_time(proxy, driver):
    proxy.fault = once(Fault.LOSE_REPLY)
    writer = packs_of(driver)
    writer.add(b"x" * 100_000)
    writer.finish()
    assert len(proxy.puts()) == 2


CREDENTIALS = """\
[default]
aws_access_key_id = {key}
aws_secret_access_key = secret
aws_session_token = token
"""


@pytest.fixture
def credentials(proxy, tmp_path, monkeypatch):
    """A shared credentials file, and a store that lets in only the ``new`` ones."""
    path = tmp_path / "credentials"
    path.write_text(CREDENTIALS.format(key="old"))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    return path


def lets_in(*keys, refusal=None):
    def fault(request):
        refused = refusal or answer(400, "ExpiredToken", "The provided token has expired.")
        return Fault.NONE if request.access_key in keys else refused

    return fault


@pytest.mark.parametrize(
    "refusal",
    [
        answer(400, "ExpiredToken"),
        answer(403, "InvalidAccessKeyId"),
        answer(401, "Unauthorized"),
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    ],
    ids=["expired", "invalid", "unauthorized", "no body"],
)
def test_expired_credentials_are_read_again(refusal, proxy, driver, credentials):
    proxy.fault = lets_in("old", "new", refusal=refusal)
    driver.put("a", b"1")
    credentials.write_text(CREDENTIALS.format(key="new"))
    proxy.fault = lets_in("new", refusal=refusal)
    assert driver.head("a") == 1
    assert driver.put_if_absent("b", b"2") is True
    assert driver.get("b") == b"2"
    assert list(driver.list("")) == ["a", "b"]


def test_many_threads_whose_credentials_expire_at_once_all_go_on(proxy, driver, credentials):
    proxy.fault = lets_in("old")
    for number in range(8):
        driver.put(f"a/{number}", b"%d" % number)
    credentials.write_text(CREDENTIALS.format(key="new"))
    proxy.fault = lets_in("new")
    found = list(driver.get_many(f"a/{number}" for number in range(8)))
    assert found == [b"%d" % number for number in range(8)]


def test_variables_that_expired_give_way_to_the_file(proxy, driver, credentials, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "by-variable")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    proxy.fault = lets_in("by-variable")
    driver.put("a", b"1")
    credentials.write_text(CREDENTIALS.format(key="new"))
    proxy.fault = lets_in("new")
    assert driver.get("a") == b"1"
    credentials.write_text(CREDENTIALS.format(key="newer"))
    proxy.fault = lets_in("newer")
    assert driver.get("a") == b"1"


def test_credentials_that_nobody_renews_are_said_and_renewed_ones_are_taken(
    proxy, driver, credentials
):
    proxy.fault = lets_in("new")
    with pytest.raises(StoreUnavailable, match="does not let us in: it answered 400") as caught:
        driver.put_if_absent("a", b"1")
    assert "Renew the credentials" in caught.value.hint
    assert not caught.value.is_permanent
    credentials.write_text(CREDENTIALS.format(key="new"))
    assert driver.put_if_absent("a", b"1") is True


def test_an_environment_that_is_broken_while_a_store_is_open_is_no_end(proxy, driver, monkeypatch):
    driver.put("a", b"1")
    proxy.fault = lambda _request: answer(403, "InvalidAccessKeyId")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "no")
    with pytest.raises(StoreUnavailable, match="not encrypted"):
        driver.put_if_absent("b", b"2")
    proxy.fault = lambda _request: Fault.NONE
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert driver.put_if_absent("b", b"2") is True


def test_no_credentials_at_all_are_one_sentence(proxy, driver, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{proxy.port}")
    proxy.fault = lambda _request: answer(404, "Nothing")
    with pytest.raises((StoreUnavailable, HomeError)) as caught:
        driver.get("a")
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("status", "code", "error", "text"),
    [
        (403, "QuotaExceeded", OutOfSpace, "is full"),
        (507, "XMinioStorageFull", OutOfSpace, "is full"),
        (404, "NoSuchBucket", HomeError, "not there"),
        (301, "PermanentRedirect", HomeError, "another region"),
        (501, "NotImplemented", HomeError, "NotImplemented"),
        (400, "InvalidRequest", HomeError, "InvalidRequest"),
    ],
)
def test_what_cannot_be_done_is_said_once_with_the_cure(status, code, error, text, proxy, driver):
    proxy.fault = lambda _request: answer(status, code)
    with pytest.raises(error, match=text) as caught:
        driver.put_if_absent("a", b"x")
    assert caught.value.hint
    assert "\n" not in caught.value.message
    assert len(proxy.seen) == 1


def test_a_bucket_that_is_not_there_is_said_at_opening(proxy):
    with pytest.raises(HomeError, match="names a bucket or container that is not there"):
        open_store("s3://no-such-bucket/x", write=True, create=True)


def test_a_store_is_made_once_and_found_again(proxy, url):
    made = open_store(url, write=True, create=True)
    again = open_store(url, write=True, create=True)
    assert again.store_id == made.store_id
    read = open_store(url, write=False)
    puts = len(proxy.puts())
    with pytest.raises(HomeError, match="for reading only"):
        read.driver.put("a", b"x")
    with pytest.raises(HomeError, match="for reading only"):
        read.driver.delete("format")
    assert len(proxy.puts()) == puts
    with pytest.raises(HomeError, match="there is no store"):
        open_store(f"{url}/nothing", write=False)
    with pytest.raises(UsageError, match="cannot be shared"):
        open_store(url, write=True, create=True, share_with_group=True)


def test_a_prefix_that_holds_other_things_is_not_made_a_store(driver, url):
    driver._clients.of(5.0).put("Readme.txt", b"x")
    with pytest.raises(HomeError, match=r"holds other things \(Readme.txt\)"):
        open_store(url, write=True, create=True)


def test_what_other_programs_put_there_is_no_key(driver):
    driver._clients.of(5.0).put("jobs/a/Not A Key", b"x")
    driver.put("jobs/a/job", b"x")
    assert list(driver.list("jobs")) == ["jobs/a/job"]


def test_a_store_that_overwrites_is_refused_at_opening(proxy, url):
    """One that does not know ``If-None-Match``: a create is an overwrite there."""
    open_store(url, write=True, create=True)

    def fault(request):
        if request.method != "PUT":
            return Fault.NONE
        proxy._pass_on(
            type(request)(request.method, request.path, without_condition(request), request.body),
            is_cut=False,
        )
        return b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'

    proxy.fault = fault
    with pytest.raises(HomeError, match="creates an object that exists already"):
        open_store(url, write=True)


def without_condition(request):
    lines = request.headers.split("\r\n")
    return "\r\n".join(line for line in lines if not line.lower().startswith("if-none-match"))


def test_of_many_threads_one_creates(driver, url):
    drivers = [driver, *(driver_of(url) for _ in range(3))]
    for round_number in range(10):
        start = threading.Barrier(len(drivers) * 2)
        won = []

        def race(driver, me, round_number=round_number, start=start, won=won):
            start.wait(30)
            if driver.put_if_absent(f"race/{round_number}", me):
                won.append(me)

        threads = [
            threading.Thread(target=race, args=(one, b"%d %d" % (n, again)))
            for n, one in enumerate(drivers)
            for again in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert won == [driver.get(f"race/{round_number}")]


def race_alone(url, me, rounds):
    """One process of a race: the keys that it was told to have created."""
    driver = driver_of(url)
    return [n for n in range(rounds) if driver.put_if_absent(f"race/{n}", b"%d" % me)]


def test_of_many_processes_one_creates(driver, url):
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        won = pool.starmap(race_alone, [(url, me, 30) for me in range(3)])
    assert Counter(key for keys in won for key in keys) == Counter(range(30))
    for me, keys in enumerate(won):
        assert all(driver.get(f"race/{key}") == b"%d" % me for key in keys)


def test_of_many_processes_under_lost_answers_at_most_one_is_told_so(proxy, driver, url):
    chance = itertools.cycle([Fault.NONE, Fault.LOSE_REPLY, Fault.LOSE_REQUEST, Fault.NONE])
    proxy.fault = lambda request: next(chance) if request.method == "PUT" else Fault.NONE
    drivers = [driver_of(url) for _ in range(4)]
    outcomes = {}

    def race(me):
        for number in range(15):
            log = Log(
                drivers[me], f"jobs/{number}/log", clock=SystemClock(), pause=lambda _tries: None
            )
            outcomes[me, number] = log.append({"kind": "claim", "who": me})

    threads = [threading.Thread(target=race, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for number in range(15):
        ours = [me for me in range(4) if isinstance(outcomes[me, number], Entry)]
        (record,) = log_of_job(driver, number).read()
        assert ours == [record.header["who"]]


def log_of_job(driver, number):
    return Log(driver, f"jobs/{number}/log", clock=SystemClock(), pause=lambda _tries: None)


def test_uploads_at_once_are_bounded_and_who_is_faster_waits(proxy, driver, monkeypatch):
    """Two packs are held on their way; the third is started only when one has arrived."""
    monkeypatch.setattr(ObjectDriver, "pack_limit_bytes", 2 << 20)
    may_go, two_came = threading.Event(), threading.Event()
    most = []

    def fault(request):
        if request.method == "PUT" and PACKS in request.path:
            most.append(1)
            if len(most) == 2:
                two_came.set()
            assert may_go.wait(30)
        return Fault.NONE

    proxy.fault = fault
    writer = packs_of(driver)
    blocks = []

    def fill():
        blocks.extend(writer.add(bytes([n]) * (1 << 20)) for n in range(1, 7))
        writer.finish()

    filling = threading.Thread(target=fill)
    filling.start()
    assert two_came.wait(30)
    assert len(most) == 2
    may_go.set()
    filling.join(60)
    assert len(blocks) == 6
    assert len(driver.children(PACKS)) == len({block.pack for block in blocks})
