"""What obstore really says when a store answers so, and what we make of it."""

import socket
import threading
from contextlib import contextmanager

import pytest
from obstore.store import MemoryStore, S3Store

from perdure.store.drivers.object_faults import Fault, understand

PUT, GET, HEAD, DELETE = "put", "get", "head", "delete"


@contextmanager
def answering(answer):
    """The endpoint of a server that gives this answer to whatever is asked."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(30)
                connection.recv(65536)
                connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(timeout=30)


def response(status, code="", message=""):
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>" if code else ""
    return (
        f"HTTP/1.1 {status} X\r\nContent-Type: application/xml\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
    ).encode()


def store_at(endpoint):
    return S3Store(
        "bucket",
        prefix="p",
        endpoint=endpoint,
        region="us-east-1",
        access_key_id="key",
        secret_access_key="hidden",
        client_options={"allow_http": True, "timeout": "20s", "connect_timeout": "5s"},
        retry_config={"max_retries": 0},
    )


def answer_to(call, store):
    calls = {
        PUT: lambda: store.put("a", b"x", mode="create", use_multipart=False),
        GET: lambda: store.get("a", options={"range": (0, 10)}),
        HEAD: lambda: store.head("a"),
        DELETE: lambda: store.delete(["a"]),
    }
    with pytest.raises(Exception, match=r".") as caught:
        calls[call]()
    found = understand(caught.value)
    assert "hidden" not in found.said
    assert "http:" not in found.said
    return found


@pytest.mark.parametrize(
    ("call", "status", "code", "fault"),
    [
        (PUT, 412, "PreconditionFailed", Fault.EXISTS),
        (PUT, 409, "BlobAlreadyExists", Fault.EXISTS),
        (PUT, 409, "ConditionalRequestConflict", Fault.NOT_DONE),
        (PUT, 409, "", Fault.EXISTS),
        (PUT, 409, "BlobBeingRehydrated", Fault.EXISTS),
        (PUT, 429, "TooManyRequests", Fault.NOT_DONE),
        (PUT, 400, "RequestTimeout", Fault.NOT_DONE),
        (PUT, 503, "SlowDown", Fault.UNKNOWN),
        (PUT, 500, "InternalError", Fault.UNKNOWN),
        (PUT, 502, "", Fault.UNKNOWN),
        (PUT, 507, "XMinioStorageFull", Fault.FULL),
        (PUT, 403, "QuotaExceeded", Fault.FULL),
        (PUT, 403, "AccessDenied", Fault.CREDENTIALS),
        (PUT, 401, "", Fault.CREDENTIALS),
        (PUT, 400, "ExpiredToken", Fault.CREDENTIALS),
        (HEAD, 400, "", Fault.CREDENTIALS),
        (PUT, 400, "InvalidRequest", Fault.REFUSED),
        (PUT, 501, "NotImplemented", Fault.REFUSED),
        (PUT, 301, "PermanentRedirect", Fault.REFUSED),
        (GET, 404, "NoSuchKey", Fault.MISSING),
        (GET, 404, "NoSuchBucket", Fault.NO_BUCKET),
        (GET, 416, "InvalidRange", Fault.RANGE),
        (GET, 503, "SlowDown", Fault.UNKNOWN),
        (HEAD, 404, "", Fault.MISSING),
        (HEAD, 503, "", Fault.UNKNOWN),
        (DELETE, 403, "AccessDenied", Fault.CREDENTIALS),
        (DELETE, 503, "SlowDown", Fault.UNKNOWN),
    ],
)
def test_an_answer_is_understood(call, status, code, fault):
    with answering(response(status, code, "what it means")) as endpoint:
        found = answer_to(call, store_at(endpoint))
    assert found.fault is fault
    assert not found.is_timeout
    assert found.is_doubtful is (status == 409 and code != "BlobAlreadyExists")
    assert str(status) in found.said or status == 301


def test_a_connection_that_is_cut_leaves_the_outcome_open():
    with answering(b"") as endpoint:
        found = answer_to(PUT, store_at(endpoint))
    assert (found.fault, found.said) == (Fault.UNKNOWN, "the connection broke")


def test_a_connection_that_is_not_made_does_nothing():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    found = answer_to(PUT, store_at(f"http://127.0.0.1:{port}"))
    assert (found.fault, found.said) == (Fault.NOT_DONE, "no connection could be made")


def test_no_answer_in_time_leaves_the_outcome_open():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = S3Store(
            "bucket",
            endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}",
            skip_signature=True,
            client_options={"allow_http": True, "timeout": "200ms"},
            retry_config={"max_retries": 0},
        )
        found = answer_to(PUT, store)
    assert found.fault is Fault.UNKNOWN
    assert found.is_timeout
    assert found.said == "it did not answer in time"


def test_an_endpoint_that_must_not_be_used_is_refused():
    store = S3Store(
        "bucket",
        endpoint="http://127.0.0.1:9",
        skip_signature=True,
        retry_config={"max_retries": 0},
    )
    assert answer_to(PUT, store).fault is Fault.REFUSED


def test_credentials_that_cannot_be_had_are_no_fault_of_the_store():
    def none():
        raise ValueError("hidden")

    store = S3Store("bucket", credential_provider=none, retry_config={"max_retries": 0})
    found = answer_to(PUT, store)
    assert (found.fault, found.said) == (Fault.CREDENTIALS, "no valid credentials were found")


def test_obstores_memory_says_the_same():
    store = MemoryStore()
    store.put("a", b"")
    assert answer_to(PUT, store).fault is Fault.EXISTS
    assert answer_to(GET, store).fault is Fault.RANGE
    store.delete("a")
    assert answer_to(GET, store).fault is Fault.MISSING
