"""Notices of the host: it will be gone at a moment, or may be soon.

``auto`` asks EC2's instance metadata (IMDSv2) for a spot interruption or a rebalance
recommendation; a command of the user's prints ``ACTION DEADLINE`` (RFC 3339) when the host is to
go, else nothing. A source that fails is asked again later and never stops the work; one that is
slow holds up nobody: it is asked in a thread of its own (`InBackground`), and what it said last
counts.

Source: EC2 user guide, "Spot Instance interruption notices" (``spot/instance-action``: 404 until
there is one, then ``{"action": …, "time": …}``, two minutes ahead) and "rebalance recommendations"
(``events/recommendations/rebalance``: ``{"noticeTime": …}``; no deadline is given with it).
"""

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from threading import Thread

from msgspec import Struct

from perdure.clock import from_text

IMDS_URL = "http://169.254.169.254"
_TOKEN_SECONDS = "21600"  # noqa: S105 - the token's lifetime, the longest allowed
_TIMEOUT_SECONDS = 1.0
_COMMAND_TIMEOUT_SECONDS = 10.0
#: The action of an allocation whose time is over.
TIME_LIMIT = "time limit"
#: How often a source is asked; EC2 advises every five seconds.
POLL_SECONDS = 5.0


class HostNotice(Struct, frozen=True, kw_only=True):
    """The host is to go.

    Attributes:
        action: what will happen: ``terminate``, ``stop``, ``hibernate``, ``rebalance`` or a word of
            the user's command.
        deadline_at: the absolute moment, or None where none was given.
        is_of_allocation: whether only this worker's place on the host ends: the job goes on.
    """

    action: str
    deadline_at: datetime | None
    is_of_allocation: bool = False


Source = Callable[[], HostNotice | None]


def notice_source(option: str, *, imds_url: str = IMDS_URL) -> Source | None:
    """The source that ``--notice auto|none|CMD`` names; None for none.

    ``auto`` on a host that is not EC2 is none: its metadata service is asked only where the
    firmware says that this is an EC2 instance (or another address was given).
    """
    match option:
        case "none":
            return None
        case "auto":
            is_asked = imds_url != IMDS_URL or is_ec2()
            return InBackground(Ec2Notices(imds_url)) if is_asked else None
        case command:
            return InBackground(CommandNotices(command))


def is_ec2(sys: Path = Path("/sys")) -> bool:
    """Whether the firmware says that this is an EC2 instance."""
    for name in ("devices/virtual/dmi/id/sys_vendor", "hypervisor/uuid"):
        try:
            text = (sys / name).read_text(encoding="utf-8", errors="replace").lower()
        except OSError:
            continue
        if text.startswith(("amazon ec2", "ec2")):
            return True
    return False


class InBackground:
    """Asks a slow source without waiting for it: whoever calls must keep a heartbeat going.

    Each call returns what the source said last, and asks it anew unless it is still being asked.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._said: HostNotice | None = None
        self._thread: Thread | None = None

    def __call__(self) -> HostNotice | None:
        """What the source said last."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = Thread(target=self._ask, name="perdure-notices", daemon=True)
            self._thread.start()
        return self._said

    def wait(self, seconds: float) -> None:
        """Wait until the source has answered, at most so long."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _ask(self) -> None:
        self._said = self._source()


class Ec2Notices:
    """Asks IMDSv2; call it every `POLL_SECONDS`."""

    def __init__(self, url: str = IMDS_URL) -> None:
        self._url = url
        self._token: str | None = None

    def __call__(self) -> HostNotice | None:
        """The notice, if there is one; None also where the service does not answer."""
        try:
            return self._spot() or self._rebalance()
        except (OSError, ValueError, KeyError, TypeError):
            self._token = None
            return None

    def _spot(self) -> HostNotice | None:
        text = self._get("/latest/meta-data/spot/instance-action")
        if text is None:
            return None
        said = json.loads(text)
        return HostNotice(action=str(said["action"]), deadline_at=from_text(said["time"]))

    def _rebalance(self) -> HostNotice | None:
        text = self._get("/latest/meta-data/events/recommendations/rebalance")
        return None if text is None else HostNotice(action="rebalance", deadline_at=None)

    def _get(self, path: str) -> str | None:
        """What is at ``path``; None for 404. A token that ran out is asked for once more."""
        for _ in range(2):
            if self._token is None:
                self._token = self._ask_for_token()
            request = urllib.request.Request(  # noqa: S310 - the address is not the task's to choose
                self._url + path, headers={"X-aws-ec2-metadata-token": self._token}
            )
            try:
                with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
                    return str(answer.read().decode("utf-8"))
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == 404:
                    return None
                self._token = None
                if error.code != 401:
                    raise
        return None

    def _ask_for_token(self) -> str:
        request = urllib.request.Request(  # noqa: S310 - as above
            self._url + "/latest/api/token",
            method="PUT",
            headers={"X-aws-ec2-metadata-token-ttl-seconds": _TOKEN_SECONDS},
        )
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310
            return str(answer.read().decode("utf-8"))


class CommandNotices:
    """Runs the user's command in a shell; what it prints last counts."""

    def __init__(self, command: str, *, timeout_seconds: float = _COMMAND_TIMEOUT_SECONDS) -> None:
        self._command = command
        self._timeout_seconds = timeout_seconds
        self.problem = ""

    def __call__(self) -> HostNotice | None:
        """The notice, if the command printed one; `problem` says what was wrong otherwise."""
        try:
            said = self._run()
        except (OSError, subprocess.TimeoutExpired) as error:
            self.problem = f"--notice {self._command!r} did not answer: {error}"
            return None
        lines = said.decode("utf-8", "replace").split("\n")
        words = next((line.split() for line in reversed(lines) if line.strip()), [])
        return self._read(words) if words else None

    def _run(self) -> bytes:
        """What the command prints; all of it is killed when it takes too long."""
        with subprocess.Popen(
            ["/bin/sh", "-c", self._command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                return process.communicate(timeout=self._timeout_seconds)[0]
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise

    def _read(self, words: list[str]) -> HostNotice | None:
        try:
            deadline = from_text(words[1]) if len(words) > 1 else None
        except ValueError:
            self.problem = (
                f"--notice {self._command!r} printed {' '.join(words)!r}; expected ACTION DEADLINE "
                "with a deadline such as 2026-01-31T12:00:00Z"
            )
            return HostNotice(action=words[0], deadline_at=None)
        return HostNotice(action=words[0], deadline_at=deadline)
