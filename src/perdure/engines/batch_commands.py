"""Commands of a batch system, given from here: how long they may take, and what they say.

A server that does not answer is no refusal: jobs go on running without it, and it is asked again
later. Some commands wait for it for ever, and whoever asks would hang with them: so each has a time
limit here.
"""

import subprocess
from collections.abc import Mapping, Sequence

from msgspec import Struct

from perdure.errors import EngineRefused, EngineUnavailable

_LONGEST_SECONDS = 60.0


class BatchSystem(Struct, frozen=True, kw_only=True):
    """How people know a batch system, and what its commands say where nobody answers.

    Attributes:
        name: as it is called.
        server: what answers its commands.
        option: by which options are handed on to it.
        silent: parts of such texts, in lower case; exit codes do not tell.
    """

    name: str
    server: str
    option: str
    silent: tuple[str, ...]


def give(
    command: Sequence[str],
    system: BatchSystem,
    *,
    called: str,
    text: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Give a command; blocks until it has ended, a minute at most.

    Args:
        command: with its arguments, as it is started.
        system: whose it is.
        called: its name, for people.
        text: for its standard input.
        environment: of it; None: this process's.

    Raises:
        EngineUnavailable: it did not end in time.
        OSError: it cannot be started.
    """
    try:
        return subprocess.run(
            command,
            env=environment,
            input=text,
            stdin=None if text is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EngineUnavailable(
            f"{called} did not answer within {_LONGEST_SECONDS:.0f} s",
            hint=f"{system.server} may be down: jobs that run go on, and it is asked again.",
        ) from error


def printed(done: subprocess.CompletedProcess[str], system: BatchSystem, *, called: str) -> str:
    """What a command printed that has ended.

    Raises:
        EngineUnavailable: nobody answers now.
        EngineRefused: it said no.
    """
    if done.returncode == 0:
        return done.stdout
    said = (done.stderr.strip() or done.stdout.strip()).removeprefix(f"{called}: ")
    if any(words in said.lower() for words in system.silent):
        raise EngineUnavailable(
            f"{system.name} does not answer: {said}",
            hint="Jobs that run go on without it; it is asked again.",
        )
    raise EngineRefused(
        f"{called} refused: {said}",
        hint=f'Change what was asked of {system.name} ({system.option} "…"), then give the command'
        " again.",
    )
