"""Notices of the host: a command's and EC2's, with their absolute deadlines."""

import json
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.counting import COUNTING, numbers


class Metadata(BaseHTTPRequestHandler):
    """IMDSv2 as far as it is asked; says nothing until the server has a notice."""

    def do_PUT(self):
        self.answer(200, "a-token")

    def do_GET(self):
        known = self.headers.get("X-aws-ec2-metadata-token") == "a-token"
        if not known:
            self.answer(401, "")
        elif self.path.endswith("spot/instance-action") and self.server.notice is not None:
            self.answer(200, json.dumps(self.server.notice))
        else:
            self.answer(404, "")

    def answer(self, code, text):
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


@contextmanager
def metadata():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    server.notice = None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def soon(seconds):
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_spot_interruption_saves_before_its_deadline_and_the_line_goes_on_elsewhere(perdure):
    template = perdure.template(COUNTING)
    with metadata() as server:
        perdure.environment["PERDURE_IMDS_URL"] = f"http://127.0.0.1:{server.server_port}"
        with perdure.running("run", template, "-p", "N=40") as run:
            run.until(r"number 1")
            server.notice = {"action": "terminate", "time": soon(60)}
            said = run.end(expect=143)
        assert "State: PENDING" in said
        server.notice = None
        again = perdure("run", template, "-p", "N=40").stdout
    assert numbers(said) + numbers(again) == list(range(40))
    attempts = perdure.json("status", "last")["attempts"]
    assert [(a["outcome"], a["by"]) for a in attempts] == [
        ("SUSPENDED", "host"),
        ("SUCCEEDED", None),
    ]


def test_a_command_gives_notice(perdure):
    template = perdure.template(COUNTING)
    notice = perdure.work / "notice"
    line = ["run", template, "-p", "N=40", "--notice", f"cat {notice} 2>/dev/null"]
    with perdure.running(*line) as run:
        run.until(r"number 1")
        notice.write_text(f"maintenance {soon(60)}\n")
        said = run.end(expect=143)
    notice.unlink()
    again = perdure(*line).stdout
    assert numbers(said) + numbers(again) == list(range(40))
