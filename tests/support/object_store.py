"""An object store of this machine: moto's S3, in this process or in one of its own."""

import logging
import os
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

BUCKET = "bucket"
#: What the real server says of each request is of no interest, and it is not ours to read.
logging.getLogger("werkzeug").setLevel(logging.ERROR)

_SERVER = """\
import logging, sys, threading
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


def environment_for(port):
    """What a process needs in its environment to reach the server."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_CONFIG_FILE": os.devnull,
        "NO_PROXY": "127.0.0.1",
    }


def make_bucket(port, name=BUCKET):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{name}", method="PUT")
    with urllib.request.urlopen(request, timeout=30):
        pass


@contextmanager
def s3_in_this_process():
    """The port of a server in a thread of this process."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        port = server.get_host_and_port()[1]
        make_bucket(port)
        yield port
    finally:
        server.stop()


@contextmanager
def s3_of_its_own():
    """The port of a server in a process of its own, which nobody kills by its surroundings."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={n: t for n, t in os.environ.items() if not n.startswith(("PERDURE_", "AWS_"))},
        text=True,
        start_new_session=True,
    )
    try:
        port = int(process.stdout.readline())
        make_bucket(port)
        yield port
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(timeout=30)
