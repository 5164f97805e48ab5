"""What a dead launch left on this host: its processes, and the session folders that they worked in.

Only of launches that are sealed and fenced: nothing that they still write counts, and whatever is
left of them is ended before anything new starts. A launch keeps its session folders in a folder of
its own name, so that a successor on the same host finds them.
"""

import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from perdure.store.layout import LaunchId
from perdure.store.records.job_log import JobLogState
from perdure.worker.keeper import end_launch
from perdure.worker.led_sessions import forget_led


def end_leftovers(
    state: JobLogState, launches: Iterable[LaunchId], sessions: Path, *, preserve: bool
) -> None:
    """End what is left of fenced launches here, and remove their session folders. Blocks.

    Args:
        state: of the job's log.
        launches: which; those that are not fenced are passed over.
        sessions: the folder in which launches of this host have theirs.
        preserve: session folders are kept.
    """
    for launch in launches:
        intent = state.launches.get(launch)
        if launch not in state.fences or intent is None:
            continue
        end_launch(intent.token, folder=sessions / launch)
        forget_led(sessions / launch)
        if not preserve:
            shutil.rmtree(sessions / launch, ignore_errors=True)


def left_here(state: JobLogState, sessions: Path) -> tuple[LaunchId, ...]:
    """Fenced launches that have a folder on this host."""
    with suppress(OSError):
        names = {path.name for path in sessions.iterdir()}
        return tuple(launch for launch in state.fences if launch in names)
    return ()
