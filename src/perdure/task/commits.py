"""Learn when a save is committed: from then on its files may be overwritten.

The scheduler replaces a small file, named by PERDURE_COMMIT_FILE, after each commit.
"""

from __future__ import annotations

import json
import os
import time
from collections import namedtuple  # typing would take a third of the import

_COMMIT_VARIABLE = "PERDURE_COMMIT_FILE"
_SHORTEST_PAUSE_SECONDS = 0.005
_LONGEST_PAUSE_SECONDS = 0.5


class Commit(namedtuple("Commit", ("save", "tier", "sequence"))):  # noqa: PYI024 - see its import
    """The last save that was committed.

    Attributes:
        save: the how-manieth of this attempt.
        tier: ``durable``, or ``local`` while it is only on this host.
        sequence: the checkpoint's number; None while it is only on this host.
    """

    __slots__ = ()
    save: int
    tier: str
    sequence: int | None


def wait_committed(save: int = 1, timeout: float = 300.0) -> Commit | None:
    """Wait until a save, or a later one, is committed.

    Args:
        save: what `perdure.task.save` returned.
        timeout: in seconds. A save can be refused (`perdure why` says so), so waiting always ends.

    Returns:
        The last commit; None when the time is over, or at once when perdure does not run this.
    """
    path = os.environ.get(_COMMIT_VARIABLE)
    if not path:
        return None
    deadline = time.monotonic() + timeout
    pause = _SHORTEST_PAUSE_SECONDS
    while True:
        commit = _read(path)
        if commit is not None and commit.save >= save:
            return commit
        left = deadline - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)


def _read(path: str) -> Commit | None:
    """What the file says; None while it is not there or says nothing that we know."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - the name is text
            body = json.load(file)
        return Commit(int(body["save"]), str(body["tier"]), body.get("sequence"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
