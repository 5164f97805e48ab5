"""What every engine of job arrays does: name the launches of an array, and write its elements file.

The file lies beside the logs, in the home, which every host of the cluster must see.
"""

import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

from perdure.engines.base import LaunchRequest
from perdure.engines.tokens import Token, element_lines, parse_token
from perdure.errors import EngineRefused

#: Before the array's token in the name of its job.
NAME = "perdure-"


def tokens_of(requests: Sequence[LaunchRequest]) -> list[Token]:
    """The requests' tokens.

    Raises:
        EngineRefused: one was made for another engine.
    """
    return [token_of(request) for request in requests]


def token_of(request: LaunchRequest) -> Token:
    """A request's token.

    Raises:
        EngineRefused: it was made for another engine.
    """
    token = parse_token(request.token)
    if token is None:
        raise EngineRefused(
            f"launch {request.launch} was to be started by another engine",
            hint="Resume the job with the engine that it was submitted for.",
        )
    return token


def write_elements(requests: Sequence[LaunchRequest], tokens: Sequence[Token]) -> Path:
    """Write the array's elements file; returns its path, which no other submission has.

    Raises:
        EngineRefused: it cannot be written.
    """
    path = requests[0].logs / f"{tokens[0].array}-{secrets.token_hex(4)}.elements"
    launches = [request.launch for request in requests]
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(element_lines([*zip(launches, tokens, strict=True)]), encoding="utf-8")
    except OSError as error:
        raise EngineRefused(
            f"{path} cannot be written: {error.strerror}",
            hint="The home must lie where the cluster's hosts can read it: --home DIR.",
        ) from error
    return path


def worker_command(request: LaunchRequest) -> list[str]:
    """The command that starts a worker, up to its launch and token."""
    return [
        *(sys.executable, "-P", "-m", "perdure.cli.work"),
        *("--store", request.store),
        *("--job", request.job),
        *("--logs", str(request.logs)),
        *("--sessions", str(request.sessions)),
    ]
