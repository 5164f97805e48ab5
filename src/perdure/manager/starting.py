"""Workers that end before they begin: a full disk, a broken installation, a job that was removed.

Such a worker leaves nothing but its end, or the error that ended it before its first attempt (a
store that is damaged where only it looks), and the next one would do the same: without a limit the
manager would start workers as fast as they die, for ever.
"""

from perdure.clock import Clock
from perdure.errors import EngineRefused, JobMissing
from perdure.manager.job_view import JobView
from perdure.manager.stored_jobs import stored_job
from perdure.manager.vain_rounds import has_begun
from perdure.store.drivers.driver import Driver
from perdure.store.layout import LaunchId

#: So often in a row, and no more are started.
LIMIT = 3
#: Before the second, and twice as long before each one after that.
FIRST_PAUSE_SECONDS = 1.0


class Starts:
    """The workers that one manager started, in order, by whether they began.

    Those that another manager started do not count: whoever runs the job again has mended it.
    """

    def __init__(self, view: JobView, driver: Driver, clock: Clock) -> None:
        self._view = view
        self._driver = driver
        self._clock = clock
        self._started: list[LaunchId] = []
        self._over: set[LaunchId] = set()
        self._times = 0
        self._not_before = 0.0

    def add(self, launch: LaunchId) -> None:
        """A worker was started."""
        self._started.append(launch)

    def pause(self) -> float:
        """Seconds to wait before another one may be started.

        Raises:
            JobMissing: they end because the job was removed.
            EngineRefused: it happened so often in a row that the next one would end too.
        """
        self._forget_those_before_one_that_began()
        over = {launch for launch in self._started if self._view.has_ended(launch)}
        if over <= self._over:
            return max(0.0, self._not_before - self._clock.monotonic())
        self._over = over
        self._times += 1
        job = self._view.document.job
        if stored_job(self._driver, job) is None:
            raise JobMissing(f"job {job} was removed while it was being run", job=job)
        if self._times >= LIMIT:
            last = max(over)
            trouble = self._view.records.known_account(last).trouble
            raise EngineRefused(
                f"workers ended before they began, {self._times} times in a row"
                + (f": {trouble}" if trouble else ""),
                hint=f"What the last one said is in {last}.out beside the logs; "
                "mend it, then: perdure resume",
                job=job,
            )
        wait = FIRST_PAUSE_SECONDS * 2.0 ** (self._times - 1)
        self._not_before = self._clock.monotonic() + wait
        return wait

    def _forget_those_before_one_that_began(self) -> None:
        for index in reversed(range(len(self._started))):
            intent = self._view.records.state.launches.get(self._started[index])
            if intent is not None and has_begun(self._view, intent):
                self._started = self._started[index + 1 :]
                self._over, self._times, self._not_before = set(), 0, 0.0
                return
