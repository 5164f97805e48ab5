"""What is sent to Google and to Azure, and how their answers to a create are taken.

There is no server of either here: this holds obstore to the conditional headers that the clouds'
manuals ask for, and us to the answers that they list.
"""

import json
import socket
import threading
from contextlib import contextmanager

import pytest

from perdure.store.drivers.driver import PutUncertain
from perdure.store.drivers.object_clients import Clients, parse_place
from perdure.store.drivers.objects import ObjectDriver


@contextmanager
def recording(answers):
    """The port of a server that gives these answers in turn, and what it was asked."""
    listener = socket.create_server(("127.0.0.1", 0))
    asked = []

    def serve():
        for status in answers:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(30)
                asked.append(connection.recv(65536).decode("latin-1").lower())
                etag = "" if status >= 400 else 'ETag: "x"\r\n'
                connection.sendall(
                    f"HTTP/1.1 {status} X\r\n{etag}Content-Length: 0\r\n"
                    f"Connection: close\r\n\r\n".encode()
                )

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1], asked
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(30)


def google(port, monkeypatch):
    account = {
        "gcs_base_url": f"http://127.0.0.1:{port}",
        "disable_oauth": True,
        "client_email": "",
        "private_key": "",
        "private_key_id": "",
    }
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(account))
    monkeypatch.setenv("GOOGLE_ALLOW_HTTP", "true")
    return "gs://bucket/p"


def azure(port, monkeypatch):
    monkeypatch.setenv("AZURE_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    monkeypatch.setenv("AZURE_ALLOW_HTTP", "true")
    return "az://account/bucket/p"


CLOUDS = {
    "google": (google, "x-goog-if-generation-match: 0"),
    "azure": (azure, "if-none-match: *"),
}


@pytest.fixture(params=CLOUDS)
def cloud(request, monkeypatch):
    made, header = CLOUDS[request.param]

    def driver(port):
        url = made(port, monkeypatch)
        return ObjectDriver(Clients(parse_place(url)), url=url, sleep=lambda _seconds: None)

    return driver, header


def created(answers, cloud):
    made, header = cloud
    with recording(answers) as (port, asked):
        driver = made(port)
        try:
            return driver.put_if_absent("a", b"x")
        finally:
            puts = [one for one in asked if one.startswith("put /bucket/p")]
            assert puts
            assert all(header in one for one in puts)
            assert len(asked) == len(answers)


def test_a_create_carries_the_clouds_condition(cloud):
    assert created([200], cloud) is True


def test_what_exists_is_refused(cloud):
    assert created([412], cloud) is False


def test_a_conflict_is_looked_into(cloud):
    assert created([409, 404, 201], cloud) is True
    assert created([409, 503, 404, 429, 200], cloud) is True


def test_a_failure_in_between_leaves_it_open(cloud):
    with pytest.raises(PutUncertain):
        created([503, 412], cloud)
    assert created([503, 200], cloud) is True
