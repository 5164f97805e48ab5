"""``perdure logs``: what tasks printed, all attempts in order.

On standard output stands what the tasks printed and nothing else. Where it is a terminal, a line
above each attempt says whose it is (``--titles`` for the same in a file). What is missing is said
on standard error.
"""

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.places import places, where_options
from perdure.cli.pointing import pointed

if TYPE_CHECKING:
    from perdure.cli.looking import Looked
    from perdure.manager.job_view import JobView
    from perdure.manager.log_reading import LoggedAttempt, LogReader, Output, Wanted
    from perdure.store.records.job_document import JobDocument

_FOLLOW_SECONDS = 0.2


@click.command()
@click.argument("job")
@click.argument("task", required=False)
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Only attempt N.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job rests.")
@click.option(
    "--titles/--no-titles",
    default=None,
    help="A line above each attempt; default: on a terminal.",
)
@where_options
def logs(**given: Any) -> int:
    """Show what the tasks of JOB (or its TASK) printed, all attempts in order."""
    from perdure.cli.looking import look_into
    from perdure.cli.naming import find_task
    from perdure.errors import UsageError
    from perdure.manager.log_reading import LogReader, Wanted, logged_attempts

    where = places(given["home"], given["store"])
    looked = look_into(where)
    document = looked.job(given["job"])
    view = looked.view(document)
    view.refresh()
    lineage = None
    if given["task"] is not None:
        found = find_task(view, None, given["task"])
        lineage = (int(found.step.key), str(found.ref.task))
    wanted = Wanted(lineage=lineage, number=given["attempt"])
    attempts = logged_attempts(view, wanted)
    if given["attempt"] is not None and not attempts and not given["follow"]:
        raise UsageError(
            f"there is no attempt {given['attempt']}", hint=f"See: perdure why {document.job}"
        )
    titles = given["titles"] if given["titles"] is not None else sys.stdout.isatty()
    shown = _Shown(LogReader(view, where.logs(document.job)), titles=titles)
    if given["follow"]:
        _follow(looked, document, view, wanted, shown)
    else:
        for attempt in attempts:
            shown.whole(attempt)
    sys.stdout.flush()
    return 0


class _Shown:
    """Prints outputs."""

    def __init__(self, reader: "LogReader", *, titles: bool) -> None:
        self._reader = reader
        self._titles = titles
        self._last: tuple[str, int] | None = None

    def whole(self, attempt: "LoggedAttempt") -> None:
        """All of an attempt's output."""
        for output in self._reader.output(attempt):
            self._print(attempt, output)

    def new(self, attempt: "LoggedAttempt") -> None:
        """What of it was not shown yet."""
        for output in self._reader.follow(attempt):
            self._print(attempt, output)
        sys.stdout.flush()

    def _print(self, attempt: "LoggedAttempt", output: "Output") -> None:
        source = (attempt.launch, attempt.start)
        if self._titles and source != self._last:
            sys.stdout.buffer.write(f"--- {attempt.title} ---\n".encode())
        self._last = source
        if output.lost:
            sys.stdout.flush()
            print(f"perdure: {attempt.title}: {output.lost}", file=sys.stderr, flush=True)
        sys.stdout.buffer.write(output.data)


def _follow(
    looked: "Looked",
    document: "JobDocument",
    view: "JobView",
    wanted: "Wanted",
    shown: _Shown,
) -> None:
    """Show what is new until the job rests."""
    from perdure.cli.looking import Watching
    from perdure.manager.log_reading import logged_attempts

    watching = Watching(looked, document, view=view)
    was_told = False
    look_at = 0.0
    while True:
        # The outputs are files of this host; a look at the store may be a request.
        now = time.monotonic()
        if now >= look_at:
            look_at = now + watching.look_seconds
            found = watching.status()
        for attempt in logged_attempts(view, wanted):
            shown.new(attempt)
        if found.status.state.is_final or found.status.state.value == "SUSPENDED":
            return
        if not found.is_worked_on and not was_told:
            was_told = True
            print(f"perdure: {pointed(found.status.reason)}", file=sys.stderr, flush=True)
        time.sleep(_FOLLOW_SECONDS)
