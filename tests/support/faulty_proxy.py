"""A proxy before an object store that can do to a request what networks do.

One connection carries one request. For each the test's ``fault`` is asked; it returns what is to
happen (`Fault`), or bytes: an answer in the store's stead. A fault may block: then the request is
held as long.
"""

import re
import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum

_BUFFER = 1 << 16
_PATIENCE_SECONDS = 60


class Fault(Enum):
    """What happens to a request."""

    #: it is done and answered
    NONE = "none"
    #: it is done, and the answer is lost
    LOSE_REPLY = "lose reply"
    #: the connection breaks before the store has seen anything of it
    LOSE_REQUEST = "lose request"
    #: the connection breaks when half of it has been sent on
    CUT = "cut"


@dataclass(frozen=True)
class Request:
    """What is asked for."""

    method: str
    path: str
    headers: str
    body: bytes

    @property
    def access_key(self):
        """Whose signature it carries."""
        found = re.search(r"Credential=([^/]+)/", self.headers)
        return found.group(1) if found else None


def answer(status, code, message="as the test wants it"):
    """A store's error."""
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return (
        f"HTTP/1.1 {status} X\r\nContent-Type: application/xml\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
    ).encode()


class Proxy:
    """Serves until it is closed; `seen` are the requests in the order they came."""

    def __init__(self, port):
        self._store = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.fault = lambda _request: Fault.NONE
        self.seen = []
        self._threads = []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(_PATIENCE_SECONDS)
        for thread in self._threads:
            thread.join(_PATIENCE_SECONDS)

    def puts(self):
        """The creations and overwrites that came."""
        return [request for request in self.seen if request.method == "PUT"]

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection):
        with connection, suppress(OSError):
            connection.settimeout(_PATIENCE_SECONDS)
            request = _read_request(connection)
            if request is None:
                return
            self.seen.append(request)
            what = self.fault(request)
            if isinstance(what, bytes):
                connection.sendall(what)
            elif what is not Fault.LOSE_REQUEST:
                reply = self._pass_on(request, is_cut=what is Fault.CUT)
                if what is Fault.NONE:
                    connection.sendall(reply)

    def _pass_on(self, request, *, is_cut):
        """The store's answer; nothing where the request was cut."""
        head = re.sub(r"(?im)^connection:.*\r\n", "", request.headers)
        text = f"{request.method} {request.path} HTTP/1.1\r\nConnection: close\r\n{head}\r\n"
        with socket.create_connection(self._store, _PATIENCE_SECONDS) as store:
            body = request.body[: len(request.body) // 2] if is_cut else request.body
            store.sendall(text.encode("latin-1") + body)
            if is_cut:
                return b""
            reply = b"".join(iter(lambda: store.recv(_BUFFER), b""))
        head, _, rest = reply.partition(b"\r\n\r\n")
        head = re.sub(rb"(?im)^connection:.*\r\n?", b"", head).rstrip(b"\r\n")
        return head + b"\r\nConnection: close\r\n\r\n" + rest


def _read_request(connection):
    """The whole request; None where the connection was closed without one."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(_BUFFER)
        if not part:
            return None
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    first, _, headers = head.decode("latin-1").partition("\r\n")
    method, path, _ = first.split(" ")
    found = re.search(r"(?im)^content-length: *(\d+)", headers)
    length = int(found.group(1)) if found else 0
    while len(body) < length:
        part = connection.recv(_BUFFER)
        if not part:
            return None
        body += part
    return Request(method, path, headers + "\r\n", body)


@contextmanager
def proxy_before(port):
    """A proxy before the store at ``port``."""
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
