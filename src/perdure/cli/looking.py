"""Looking at a job: its facts from the cache where nothing grew since, else read anew.

Nothing is written but the cache, and that only where it can be: these commands work on a store that
one may only read. The job's template is loaded only where its outline was not kept.
"""

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct, ValidationError

from perdure.cli.naming import find_job
from perdure.cli.places import Places
from perdure.clock import Clock, SystemClock, pause
from perdure.database.cache import Cache, CachedFacts
from perdure.errors import PerdureError
from perdure.manager.facts import FACTS_VERSION, JobFacts, from_json
from perdure.manager.job_status import JobStatus, status_now
from perdure.manager.positions import Positions, is_current, positions_from_json
from perdure.store.opening import Store
from perdure.store.records.job_document import JobDocument

if TYPE_CHECKING:
    from perdure.manager.job_view import JobView
    from perdure.template.outline import JobOutline


class Looked(Struct, frozen=True, kw_only=True):
    """A store to look into."""

    places: Places
    store: Store
    cache: Cache
    clock: Clock

    def job(self, name: str) -> JobDocument:
        """The job that ``name`` means.

        Raises:
            JobMissing, UsageError: there is none, or there are several.
        """
        return find_job(self.store, name)

    def status(self, document: JobDocument, *, every_attempt: bool = False) -> JobStatus:
        """The job's status now."""
        facts = self.facts(document, every_attempt=every_attempt)
        return status_now(self.store.driver, document, facts, self.clock.now())

    def facts(self, document: JobDocument, *, every_attempt: bool = False) -> JobFacts:
        """What the store says about the job."""
        known = self._cached(document)
        if known is not None and not (every_attempt and known.attempts_left_out):
            return known
        from perdure.manager.facts_reading import read_facts

        view = self.view(document)
        facts, positions = read_facts(view, every_attempt=every_attempt)
        if not every_attempt:
            self._keep(document, facts, positions)
        return facts

    def view(self, document: JobDocument) -> "JobView":
        """The job's view for reading, not yet read."""
        from perdure.manager.job_view import JobView, ViewParts

        return JobView(
            ViewParts(
                driver=self.store.driver,
                document=document,
                job=self._outline(document),
                clock=self.clock,
                pause=pause,
            )
        )

    def _outline(self, document: JobDocument) -> "JobOutline":
        """The job's outline, as it was kept; the template is loaded where none was."""
        from perdure.template.outline import decode_outline

        known = self.cache.find_outline(self.store.store_id, document.job)
        if known is not None:
            with suppress(ValueError):
                return decode_outline(known)
        from perdure.worker.loading import load

        job = load(document)
        keep_outline(self.cache, self.store, document, job)
        return job

    def _cached(self, document: JobDocument) -> JobFacts | None:
        """The facts as they were kept, if nothing grew since."""
        found = self.cache.find(self.store.store_id, document.job)
        if found is None:
            return None
        try:
            positions = positions_from_json(found.positions)
            facts = from_json(found.facts)
        except (KeyError, TypeError, ValueError, ValidationError):
            return None
        return facts if is_current(self.store.driver, document.job, positions) else None

    def _keep(self, document: JobDocument, facts: JobFacts, positions: Positions) -> None:
        kept = CachedFacts(positions=positions.to_json(), facts=facts.to_json())
        self.cache.keep(self.store.store_id, document.job, kept)


class Watching:
    """Looks at one job again and again; reads only what is new. For one thread.

    Once the job was seen, a store that is out of reach for a while is waited for: that is said on
    standard error, and the status stays what it was.

    Attributes:
        look_seconds: how long to wait between two looks, at least.
    """

    def __init__(
        self, looked: Looked, document: JobDocument, *, view: "JobView | None" = None
    ) -> None:
        self._looked = looked
        self._document = document
        self._view = view if view is not None else looked.view(document)
        self._known: tuple[JobFacts, Positions] | None = None
        self._last: JobStatus | None = None
        self._is_away = False
        self.look_seconds = looked.store.driver.look_seconds

    def status(self) -> JobStatus:
        """The status now, as far as the store can be reached."""
        try:
            self._last = self._look()
        except PerdureError as error:
            if self._last is None or error.is_permanent:
                raise
            if not self._is_away:
                print(f"perdure: {error.message}; it is waited for", file=sys.stderr, flush=True)
            self._is_away = True
        else:
            self._is_away = False
        return self._last

    def _look(self) -> JobStatus:
        from perdure.manager.facts_reading import read_facts

        driver, document = self._looked.store.driver, self._document
        if self._known is None or not is_current(driver, document.job, self._known[1]):
            self._known = read_facts(self._view)
        return status_now(driver, document, self._known[0], self._looked.clock.now())


def look_into(places: Places, *, write: bool = False) -> Looked:
    """The store of these places, opened for looking.

    Args:
        places: where it is.
        write: open it for writing: for commands that change something.

    Raises:
        HomeError, FormatTooNew, StoreDamaged: it cannot be used.
    """
    return Looked(
        places=places,
        store=places.open(write=write),
        cache=cache_of(places),
        clock=SystemClock(),
    )


def keep_outline(cache: Cache, store: Store, document: JobDocument, job: "JobOutline") -> None:
    """Let those who look at the job do without loading its template."""
    from perdure.template.outline import encode_outline

    cache.keep_outline(store.store_id, document.job, encode_outline(job))


def cache_of(places: Places) -> Cache:
    """The cache of this user on this host."""
    return Cache(places.cache, version=FACTS_VERSION)
