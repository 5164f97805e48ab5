"""`perdure run` in a batch script of Slurm or LSF: two words more in the script that people have.

Theory of operation. The script's job is the host: its workers are processes of it. Before the time
limit, or when the job is ended, the workers save; then the job is put back into the queue, and
the command does not return before it has been ended: the lines behind it must not run yet. When
the script begins again, the same line in the same folder is the same job, and goes on.

A job that somebody cancelled, or of which Slurm does not say why it was ended, stays suspended:
the same line goes on with it when it is given again by a person, or `perdure resume`. LSF tells no
job why it is ended: there the job is left as it is, and goes on if the script begins again.

Source: scontrol(1), brequeue(1); docs/engines.md.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from perdure.cli.allocations import found_allocation, is_script
from perdure.engines.allocation import LEAD_PART, LEAD_SECONDS, Allocation, TimeLimit
from perdure.engines.causes import Cause
from perdure.errors import EngineError
from perdure.manager.holding import hold
from perdure.manager.job_view import JobView
from perdure.manager.managing import Orders
from perdure.policy.stops import JOB

_LOOK_SECONDS = 5.0
_FIRST_LOOK_SECONDS = 0.5
#: The manager starts nothing any more a little before the workers are told.
_EARLIER_SECONDS, _EARLIER_PART = 20.0, 0.05


class Script:
    """The job of Slurm or LSF that a command runs in.

    Args:
        allocation: the one that it runs in.
        first: whether a step has begun that is to have the first number; perdure's own step for
            hearing of a preemption begins behind it.

    Attributes:
        is_over: whether its time limit was seen to come.
    """

    def __init__(self, allocation: Allocation, first: Callable[[], bool] = lambda: True) -> None:
        self._allocation = allocation
        self._first = first
        self.is_over = False

    @contextmanager
    def watched(self, orders: Orders) -> Iterator[None]:
        """Ask the manager to leave in time."""
        done = threading.Event()
        limit = TimeLimit(
            self._allocation,
            lead_seconds=LEAD_SECONDS + _EARLIER_SECONDS,
            lead_part=LEAD_PART + _EARLIER_PART,
        )

        def watch() -> None:
            while not done.wait(_LOOK_SECONDS):
                if limit() is not None:
                    self.is_over = True
                    orders.leave = True
                    return

        def told() -> None:
            orders.leave = True

        thread = threading.Thread(target=watch, name="perdure-time-limit", daemon=True)
        thread.start()
        try:
            with self._hearing(told, done):
                yield
        finally:
            done.set()
            thread.join()

    @contextmanager
    def _hearing(self, told: Callable[[], None], done: threading.Event) -> Iterator[None]:
        """Hear at once of a preemption, from when the first step has begun."""
        if self._first():
            with self._allocation.first_word(told):
                yield
            return

        def hear_later() -> None:
            while not done.wait(_FIRST_LOOK_SECONDS):
                if self._first():
                    with self._allocation.first_word(told):
                        done.wait()
                    return

        thread = threading.Thread(target=hear_later, name="perdure-hearing", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def leave(self, view: JobView, told: Callable[[str], None]) -> bool:
        """What follows when the manager was asked to go; blocks until this process is ended.

        Returns whether the job stays suspended: then the command returns.

        Args:
            view: the job's.
            told: called with what people should know.
        """
        cause = Cause.TIME_LIMIT if self.is_over else self._allocation.cause()
        told(f"job {self._allocation.job} of the batch system: {cause.value}")
        if cause in (Cause.CANCELLED, Cause.UNKNOWN):
            hold(view, JOB, cause.value)
            return True
        if cause is Cause.DIED:
            return False
        if cause not in (Cause.REQUEUED, Cause.TOLD_LATER):
            try:
                self._allocation.requeue()
            except EngineError as error:
                told(f"it could not be put back into the queue: {error.message}")
                return False
            told("it is back in the queue, and goes on by itself")
        self._allocation.wait_for_the_end(until_killed=True)
        return False


def script_of(environment: Mapping[str, str], *, is_step: bool = False) -> Script | None:
    """The batch script that this command was started by; None where there is none.

    Args:
        environment: of the command.
        is_step: the command is to be the first step of the job, where there is none before.
    """
    allocation = found_allocation(environment) if is_script(environment) else None
    if allocation is None:
        return None
    if not is_step:
        return Script(allocation)
    from perdure.cli.old_slurm.step_images import has_step

    return Script(allocation, lambda: has_step(environment))
