"""A finished task's files on their way to ``--deliver``: tried until they are there, or a stop.

What may pass by itself (a bucket that is out of reach, credentials that expired) is tried again
with doubling waits for as long as nobody stops the task. A stop ends the waiting at once; what is
under way may go on until the notice period is over, or 10 s: a task should not lose its last hour
because a file of a few bytes was not there yet. A second stop, at once, and a cancel end it between
two blocks; a request that is under way is waited for (a minute at most).

What does not come there at the first try is kept in a checkpoint, the *end* of the task: the next
attempt, after whatever interruption, delivers from that, and the work is not done again.

Like the task before it the delivery is held while nobody knows whether this worker still owns the
task (a host that stood still, a store out of reach), and ends when another one does.

Source: design 6, 8; docs/decisions/116.
"""

from collections.abc import Callable
from threading import Event, Lock

from msgspec import Struct

from perdure.clock import to_text
from perdure.errors import CheckpointTorn, PerdureError, StoreUnavailable
from perdure.policy.notice import Capturing
from perdure.policy.outcome import By, DeliveryEnd, Undelivered
from perdure.store.delivery.delivering import Delivery, sources_of
from perdure.store.delivery.delivery import Whose
from perdure.store.delivery.delivery_places import Opener
from perdure.store.delivery.delivery_target import Target
from perdure.store.files.gathering import Gathered
from perdure.store.files.roots import Roots
from perdure.template import ResolvedAction
from perdure.worker.actions import interrupt_for
from perdure.worker.context import LaunchContext
from perdure.worker.job_records import LineageId
from perdure.worker.machine import Intent
from perdure.worker.stops import Stop

_FIRST_WAIT_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 30.0
#: A source that changes is met so often: nothing of the task runs, so that it is somebody else's.
_SOURCE_TRIES = 4
#: How often a delivery that is held looks whether its time is over.
_LOOK_SECONDS = 0.5
#: How long a delivery may go on after a stop with notice, at least.
_GRACE_SECONDS = 10.0


class DeliveryOrder(Struct, frozen=True, kw_only=True):
    """What is to be delivered.

    Attributes:
        attempt: which one of the lineage.
        gather: finds the files, as they are now.
        roots: where they may lie.
        resolved: the task's action: how it would be interrupted.
        told: called with what people may want to know.
        warned: called with what they should know at once.
        keep: commits the files as the end of the task; the checkpoint, or None where they cannot
            be kept. Called once at most, when they do not come to the target at once.
    """

    lineage: LineageId
    attempt: int
    gather: Callable[[], Gathered]
    roots: Roots
    resolved: ResolvedAction
    told: Callable[[str], None]
    warned: Callable[[str], None]
    keep: Callable[[], int | None] = lambda: None


class _Ended(Exception):
    """A stop ends the delivery; never leaves this module."""


class Deliverer:
    """Delivers the files of one attempt; used once."""

    def __init__(self, context: LaunchContext, opener: Opener, order: DeliveryOrder) -> None:
        self._context = context
        self._order = order
        self._whose = Whose(
            job=context.job_id,
            step=order.lineage.step,
            task=order.lineage.task,
            attempt=order.attempt,
        )
        self._target: Target = opener(self._whose, self._check, self._sleep)
        self._lock = Lock()
        self._stop: Stop | None = None
        self._ends_at: float | None = None
        self._asked = Event()
        self._is_free = Event()
        self._is_free.set()
        self._noted: set[str] = set()
        self._kept: int | None = None
        self._was_kept = False

    def hold(self) -> None:
        """Change nothing from now on, from the next block or file: nobody knows whose the task is.

        From any thread.
        """
        self._is_free.clear()

    def release(self) -> None:
        """Go on: the task is still ours."""
        self._is_free.set()

    def run(self) -> Undelivered | None:
        """Deliver; None: all is there. Blocks.

        No error leaves it that a disk, a bucket or a task can be the cause of.
        """
        board, lineage = self._context.board, self._order.lineage
        board.subscribe(lineage.step, lineage.task, self._stopped)
        try:
            return self._try()
        except _Ended:
            return self._ended()
        finally:
            board.unsubscribe()

    def _try(self) -> Undelivered | None:
        wait, tries = _FIRST_WAIT_SECONDS, 0
        while True:
            try:
                self._check()
                self._deliver()
            except StoreUnavailable as error:
                self._warn(f"its files are not delivered yet: {error.message}; it is tried again")
                if (kept := self._keep()) is not None:
                    self._warn(f"its work is done, and its files are kept in checkpoint {kept}")
                self._rest(wait)
            except CheckpointTorn as error:
                tries += 1
                if tries == _SOURCE_TRIES:
                    return self._failed(
                        f"{error.fields.get('path', 'a file')} changes while it is being delivered",
                        "end what writes to it",
                    )
                self._rest(wait)
            except PerdureError as error:
                return self._failed(error.message, error.hint)
            except OSError as error:
                where = f"{error.filename}: " if error.filename else ""
                return self._failed(f"{where}{error.strerror}", "see that the files can be read")
            else:
                return None
            wait = min(_LONGEST_WAIT_SECONDS, 2 * wait)

    def _deliver(self) -> None:
        gathered = self._order.gather()
        sources, notes = sources_of(gathered, self._order.roots, self._whose, self._target)
        for note in (*gathered.notes, *notes):
            self._warn(note)
        delivery = Delivery(
            self._target,
            self._whose,
            now=lambda: to_text(self._context.clock.now()),
            check=self._check,
        )
        done = delivery.deliver(sources)
        what = "1 file is" if done.files == 1 else f"{done.files} files are"
        self._order.told(_printable(f"{what} delivered to {self._target.called}"))

    def _keep(self) -> int | None:
        """Keep the files, once: whatever comes, the work is not done again."""
        if not self._was_kept:
            self._was_kept = True
            self._kept = self._order.keep()
        return self._kept

    def _warn(self, text: str) -> None:
        """Each sentence once: what is tried again and again is said once."""
        if text not in self._noted:
            self._noted.add(text)
            self._order.warned(_printable(text))

    def _stopped(self, stop: Stop) -> None:
        """A stop that covers the task; from any thread."""
        now = self._context.clock.monotonic()
        ends_at = now
        if stop.intent is Intent.SUSPEND and not stop.is_now:
            interrupt = interrupt_for(stop, self._order.resolved, now=now, capturing=Capturing())
            ends_at = now + max(interrupt.notice_seconds, _GRACE_SECONDS)
            if stop.deadline is not None:
                ends_at = min(ends_at, stop.deadline)
        with self._lock:
            if self._stop is None or stop.intent is Intent.CANCEL:
                self._stop = stop
            self._ends_at = ends_at if self._ends_at is None else min(ends_at, self._ends_at)
        self._asked.set()

    def _check(self) -> None:
        """Raise if the time is over, wait while it is held; for any thread."""
        while True:
            with self._lock:
                ends_at = self._ends_at
            if ends_at is not None and self._context.clock.monotonic() >= ends_at:
                raise _Ended
            if self._is_free.wait(_LOOK_SECONDS):
                return

    def _sleep(self, seconds: float) -> None:
        """Wait between two requests of one call: a stop does not end that, but its end does."""
        self._check()
        if self._asked.is_set():
            raise _Ended  # whatever failed may fail for long
        self._rest(seconds)

    def _rest(self, seconds: float) -> None:
        """Wait for a further try; a stop ends it."""
        if self._asked.wait(seconds):
            raise _Ended

    def _ended(self) -> Undelivered:
        stop = self._stop
        assert stop is not None
        if stop.intent is Intent.CANCEL:
            return Undelivered(end=DeliveryEnd.CANCELED, reason="canceled")
        if not stop.is_now and (stop.deadline is None or self._now() < stop.deadline):
            self._keep()
        return Undelivered(
            end=DeliveryEnd.STOPPED,
            reason=f"stopped while its files were being delivered to {self._target.called}",
            by=By(stop.by),
            kept=self._kept,
        )

    def _now(self) -> float:
        return self._context.clock.monotonic()

    def _failed(self, why: str, hint: str) -> Undelivered:
        what_to_do = f" ({hint.rstrip('.')})" if hint else ""
        reason = f"its files could not be delivered to {self._target.called}: {why}{what_to_do}"
        kept = self._keep()
        return Undelivered(end=DeliveryEnd.FAILED, reason=_printable(reason), kept=kept)


def _printable(text: str) -> str:
    r"""``text`` as it can be recorded: bytes of names that are no text as ``\udcNN``."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
