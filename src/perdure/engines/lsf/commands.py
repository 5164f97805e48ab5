"""LSF's commands, given from here.

LSF sends what it sends a job to all of the job's processes. A command that a worker gives while its
job is being ended, and `brequeue` is what begins that, would die of it: so they ignore these
signals, and one that is killed all the same has given no answer.

Blocks: for as long as the command takes, a minute at most.
"""

from collections.abc import Sequence

from perdure.engines.batch_commands import BatchSystem, give, printed
from perdure.errors import EngineRefused, EngineUnavailable

#: Starts the command that follows, without those signals.
_UNDISTURBED = ("/bin/sh", "-c", 'trap "" INT TERM USR2; exec "$@"', "sh")
#: What a shell ends with where there is no such command, or it may not be run.
_NOT_RUN = {126: "it may not be run", 127: "it is not on PATH"}
_LSF = BatchSystem(
    name="LSF",
    server="LSF's master",
    option="--lsf",
    silent=(
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
    ),
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
    name = command[0]
    done = give([*_UNDISTURBED, *command], _LSF, called=name, text=text)
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
    return printed(done, _LSF, called=name)
