"""LSF's commands, given from here.

A master daemon that does not answer is no refusal: jobs go on running without it, and it is asked
again later. LSF's commands wait for it for ever, so every one has a time limit here.

LSF sends what it sends a job to all of the job's processes. A command that a worker gives while its
job is being ended, and `brequeue` is what begins that, would die of it: so they ignore these
signals, and one that is killed all the same has given no answer.

Blocks: for as long as the command takes, a minute at most.
"""

import subprocess
from collections.abc import Sequence

from perdure.errors import EngineRefused, EngineUnavailable

_LONGEST_SECONDS = 60.0
#: Starts the command that follows, without those signals.
_UNDISTURBED = ("/bin/sh", "-c", 'trap "" INT TERM USR2; exec "$@"', "sh")
#: What a shell ends with where there is no such command, or it may not be run.
_NOT_RUN = {126: "it may not be run", 127: "it is not on PATH"}
#: What LSF's commands say where nobody answers.
_SILENT = (
    "cannot connect to lsf",
    "lsf is down",
    "not responding",
    "still trying",
    "communication time out",
    "connection refused",
    "connection reset",
    "mbatchd is being reconfigured",
    "please wait",
    "timeout in communication",
)
#: What bjobs says, with a code other than 0, where there is nothing to show.
NOTHING_FOUND = ("no unfinished job found", "no matching job found", "is not found", "no job found")


def lsf(command: Sequence[str], *, text: str | None = None) -> str:
    """What one of LSF's commands prints.

    Args:
        command: with its arguments.
        text: for its standard input.

    Raises:
        EngineUnavailable: nobody answers now.
        EngineRefused: it said no, or is not installed.
    """
    try:
        done = subprocess.run(
            [*_UNDISTURBED, *command],
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
            f"{command[0]} did not answer within {_LONGEST_SECONDS:.0f} s",
            hint="LSF's master may be down: jobs that run go on, and it is asked again.",
        ) from error
    if (why := _NOT_RUN.get(done.returncode)) is not None:
        raise EngineRefused(
            f"{command[0]} cannot be run: {why}",
            hint="--engine lsf needs LSF's commands on PATH: source its profile.lsf first.",
        )
    if done.returncode < 0:
        raise EngineUnavailable(
            f"{command[0]} was killed by signal {-done.returncode}",
            hint="Give the command again.",
        )
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.strip() or done.stdout.strip()
    if any(words in said.lower() for words in _SILENT):
        raise EngineUnavailable(
            f"LSF does not answer: {said}",
            hint="Jobs that run go on without it; it is asked again.",
        )
    raise EngineRefused(
        f"{command[0]} refused: {said}",
        hint='Change what was asked of LSF (--lsf "…"), then give the command again.',
    )
