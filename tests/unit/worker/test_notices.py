"""Notices of the host: EC2's metadata service on the loopback, and commands."""

import http.server
import json
import threading
from datetime import UTC, datetime

import pytest

from perdure.worker.notices import (
    CommandNotices,
    Ec2Notices,
    HostNotice,
    InBackground,
    is_ec2,
    notice_source,
)

SPOT = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
DEADLINE = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
HEADER = "X-aws-ec2-metadata-token"


class Metadata(http.server.ThreadingHTTPServer):
    """IMDSv2: a token first; 404 until there is something to say."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages = {}
        self.tokens = 0
        self.asked = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    @property
    def token(self):
        return f"token-{self.tokens}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Metadata

    def do_PUT(self):
        assert self.path == "/latest/api/token"
        assert self.headers[f"{HEADER}-ttl-seconds"] == "21600"
        self.server.tokens += 1
        self._answer(200, self.server.token)

    def do_GET(self):
        self.server.asked.append(self.path)
        if self.headers[HEADER] != self.server.token:
            self._answer(401, "")
        elif self.path in self.server.pages:
            self._answer(*self.server.pages[self.path])
        else:
            self._answer(404, "")

    def _answer(self, code, text):
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_arguments):
        pass


@pytest.fixture
def metadata():
    with Metadata() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_nothing_until_there_is_a_notice(metadata):
    ask = Ec2Notices(metadata.url)
    assert ask() is None
    assert ask() is None
    assert metadata.tokens == 1
    assert metadata.asked == [SPOT, REBALANCE] * 2


@pytest.mark.parametrize("action", ["terminate", "stop", "hibernate"])
def test_an_interruption_has_its_absolute_deadline(metadata, action):
    said = {"action": action, "time": "2026-01-31T12:00:00Z"}
    metadata.pages = {SPOT: (200, json.dumps(said)), REBALANCE: (200, "{}")}
    assert Ec2Notices(metadata.url)() == HostNotice(action=action, deadline_at=DEADLINE)


def test_a_rebalance_recommendation_has_none(metadata):
    metadata.pages = {REBALANCE: (200, '{"noticeTime": "2026-01-31T12:00:00Z"}')}
    assert Ec2Notices(metadata.url)() == HostNotice(action="rebalance", deadline_at=None)


def test_a_token_that_ran_out_is_asked_for_once_more(metadata):
    ask = Ec2Notices(metadata.url)
    ask()
    metadata.tokens += 1
    said = {"action": "stop", "time": "2026-01-31T12:00:00Z"}
    metadata.pages = {SPOT: (200, json.dumps(said))}
    assert ask().action == "stop"


@pytest.mark.parametrize(
    "page",
    [(200, "no json"), (200, "[]"), (200, "{}"), (500, ""), (200, '{"action":"stop","time":"x"}')],
)
def test_a_service_that_is_out_of_order_says_nothing_and_is_asked_again(metadata, page):
    metadata.pages = {SPOT: page}
    ask = Ec2Notices(metadata.url)
    assert ask() is None
    metadata.pages = {REBALANCE: (200, "{}")}
    assert ask().action == "rebalance"


def test_no_service_at_all():
    assert Ec2Notices("http://127.0.0.1:9")() is None


@pytest.mark.parametrize(
    ("command", "notice"),
    [
        ("true", None),
        ("echo; echo", None),
        ("echo stop 2026-01-31T12:00:00Z", HostNotice(action="stop", deadline_at=DEADLINE)),
        (
            "echo note; echo terminate 2026-01-31T13:00:00+01:00 and more; echo",
            HostNotice(action="terminate", deadline_at=DEADLINE),
        ),
        ("echo leave", HostNotice(action="leave", deadline_at=None)),
        ("echo leave; exit 3", HostNotice(action="leave", deadline_at=None)),
        ("echo noise >&2; exit 1", None),
    ],
)
def test_what_a_command_prints_last_counts(command, notice):
    ask = CommandNotices(command)
    assert ask() == notice
    assert ask.problem == ""


@pytest.mark.parametrize("text", ["stop tomorrow", "stop 2026-01-31T12:00:00"])
def test_a_deadline_that_is_none_is_said_and_the_action_holds(text):
    ask = CommandNotices(f"echo {text}")
    assert ask() == HostNotice(action="stop", deadline_at=None)
    assert "expected ACTION DEADLINE" in ask.problem


def test_a_command_that_hangs_is_killed_with_all_of_it():
    ask = CommandNotices("sleep 600 & sleep 600", timeout_seconds=0.2)
    assert ask() is None
    assert "did not answer" in ask.problem


def test_a_slow_source_holds_up_nobody():
    go_on = threading.Event()
    notice = HostNotice(action="stop", deadline_at=None)
    asked = []

    def slow():
        asked.append(1)
        assert go_on.wait(30)
        return notice

    ask = InBackground(slow)
    assert ask() is None
    assert ask() is None
    go_on.set()
    ask.wait(30)
    assert len(asked) == 1
    assert ask() == notice
    ask.wait(30)


def test_which_source_an_option_names(metadata, tmp_path, monkeypatch):
    assert notice_source("none") is None
    monkeypatch.setattr("perdure.worker.notices.is_ec2", lambda: False)
    assert notice_source("auto") is None
    for ask in (notice_source("auto", imds_url=metadata.url), notice_source("echo go")):
        ask()
        ask.wait(30)
    assert ask() == HostNotice(action="go", deadline_at=None)
    ask.wait(30)


def test_the_firmware_says_whether_this_is_ec2(tmp_path):
    assert not is_ec2(tmp_path)
    vendor = tmp_path / "devices/virtual/dmi/id/sys_vendor"
    vendor.parent.mkdir(parents=True)
    vendor.write_text("QEMU\n")
    assert not is_ec2(tmp_path)
    vendor.write_text("Amazon EC2\n")
    assert is_ec2(tmp_path)
    vendor.unlink()
    uuid = tmp_path / "hypervisor/uuid"
    uuid.parent.mkdir()
    uuid.write_text("ec2e1916-9099\n")
    assert is_ec2(tmp_path)
