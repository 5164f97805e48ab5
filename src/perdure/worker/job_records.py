"""One reader's view of a job: its log, its shares, its lineages, and what its launches did.

Everything is read on, never anew, but for what a fence cuts off. One object belongs to one thread.

Source: docs/journal-format.md. ``counts(launch)`` is `JobRecords.account`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from perdure.clock import Clock
from perdure.errors import StoreUnavailable
from perdure.journal.account import AttemptAccount, AttemptKey, LaunchAccount
from perdure.journal.journal_format import JournalRecord
from perdure.store import layout
from perdure.store.drivers.driver import Driver
from perdure.store.layout import JobId, LaunchId, StepKey, TaskKey
from perdure.store.records.job_log import UNKNOWN_STEP, JobLogState, TaskRef
from perdure.store.records.lineage import SHARE, Claim, Lineage, fold_lineage, share_claim
from perdure.store.records.log import MAX_STALE_READS, Entry, Log
from perdure.worker.holders import holders


class LineageId(Struct, frozen=True, kw_only=True):
    """Which lineage of the job."""

    step: StepKey
    task: TaskKey


class PastClaim(Struct, frozen=True, kw_only=True):
    """A claim on a lineage, with what its launch's journal says about it (what counts of it)."""

    claim: Claim
    account: AttemptAccount
    is_ended: bool


class Share(Struct, frozen=True, kw_only=True):
    """What one share record gives its launch.

    Attributes:
        ranges: inclusive ranges of task indexes.
        values: parameter values of the chunks formed (adaptive chunking).
        cursor: where the next chunk is cut.
    """

    number: int
    launch: LaunchId
    at: str
    ranges: tuple[tuple[int, int], ...]
    values: tuple[dict[str, str], ...]
    cursor: tuple[int, int] | None = None


class JobRecords:
    """The view.

    Args:
        driver: of the store.
        job: the job's id.
        clock: for the moments that people read.
        pause: see `perdure.store.records.log.Log`.
    """

    def __init__(
        self, driver: Driver, job: JobId, *, clock: Clock, pause: Callable[[int], None]
    ) -> None:
        self.driver = driver
        self.job = job
        self._clock = clock
        self._pause = pause
        self.log = self._log(layout.job_log(job))
        self.state = JobLogState()
        self._shares: dict[StepKey, tuple[Log, list[Share]]] = {}
        self._accounts: dict[LaunchId, LaunchAccount] = {}
        #: Whom shares and claims name; looked for when so many records were found damaged.
        self._holders: dict[LaunchId, StepKey] = {}
        self._damages_seen = 0

    def refresh(self) -> list[Entry]:
        """Read the job's log on; returns what is new."""
        new = self.log.read()
        self.state.read(new)
        if new and self.state.damaged:
            if len(self.state.damaged) > self._damages_seen:
                self._damages_seen = len(self.state.damaged)
                new = [*new, *self._read_holders()]
            self._recover_launches()
        return new

    def _read_holders(self) -> list[Entry]:
        """Find whom shares and claims name; returns what the log says by then.

        An intent stands before all that its launch holds: whom the log does not know now, it lost.
        """
        self._holders = holders(self.driver, self.job)
        new = self.log.read()
        self.state.read(new)
        return new

    def _recover_launches(self) -> None:
        """Find launches whose intents were damaged: by their journals, or by what they hold.

        A listing may be stale, but these are launches of before the repair; one that starts after
        it is named by its ``started``.
        """
        names = self.driver.children(layout.launches(self.job))
        named = (*(LaunchId(name) for name in names), *self.state.started, *self._holders)
        for launch in named:
            if launch in self.state.launches or not layout.is_ulid(launch):
                continue
            account = LaunchAccount()  # its own: a view has to see every record of a journal once
            account.read_on(self.driver, layout.journal(self.job, launch))
            opened = account.opened or self.state.started.get(launch)
            held_of = self._holders.get(launch)
            if opened is not None or held_of is not None or account.damaged_at is not None:
                known = opened or {}
                step = StepKey(known.get("step", held_of or UNKNOWN_STEP))
                self.state.recover_launch(launch, step, str(known.get("token", "")))

    def append(self, header: dict[str, Any]) -> bool:
        """Put a record at one past what was read; False: read on meanwhile, decide again."""
        result = self.log.append(header)
        is_ours = isinstance(result, Entry)
        self.state.read([result if isinstance(result, Entry) else result.by])
        return is_ours

    def shares(self, step: StepKey) -> list[Share]:
        """The shares of a step, read on."""
        log, shares = self._share_log(step)
        shares.extend(_share(entry) for entry in log.read())
        return shares

    def shares_read(self, step: StepKey) -> list[Share]:
        """The shares of a step as far as they were read."""
        return self._share_log(step)[1]

    def take_share(self, step: StepKey, fields: dict[str, Any]) -> bool:
        """Put a share record at one past those read; False: somebody else took it."""
        log, shares = self._share_log(step)
        result = log.append({"kind": "share", **fields})
        shares.append(_share(result if isinstance(result, Entry) else result.by))
        return isinstance(result, Entry)

    def lineage_log(self, lineage: LineageId) -> Log:
        """The log of a lineage, not yet read."""
        return self._log(layout.lineage_log(self.job, lineage.step, lineage.task))

    def last_save(self, lineage: LineageId) -> int:
        """The sequence of a lineage's last checkpoint, 0 for none; reads its log.

        Raises:
            HomeError: it cannot be read.
        """
        entries = self.lineage_log(lineage).read()
        return max((entry.number for entry in entries if entry.kind == "save"), default=0)

    def account(self, launch: LaunchId) -> LaunchAccount:
        """What counts of a launch's journal, read on, as far as the job's log was read.

        The caller has put the fence of a sealed launch first.
        """
        self.read_account(launch)
        return self._accounts[launch]

    def read_account(self, launch: LaunchId) -> list[JournalRecord]:
        """Read a launch's journal on; returns what is new (all, where a fence cut it)."""
        return list(self.news_of(launch))

    def news_of(self, launch: LaunchId) -> Iterator[JournalRecord]:
        """The same, record by record as they are read."""
        fence = self.state.fences.get(launch)
        account = self._accounts.get(launch)
        if account is None or (fence is not None and account.length > fence):
            account = self._accounts[launch] = LaunchAccount()
        return account.news(self.driver, layout.journal(self.job, launch), fence=fence)

    def known_account(self, launch: LaunchId) -> LaunchAccount:
        """What counts of a launch's journal as far as it was read; nothing is read."""
        return self._accounts.get(launch) or LaunchAccount()

    def attempt(
        self, launch: LaunchId, step: StepKey, task: TaskKey, attempt: int
    ) -> AttemptAccount:
        """What was read about one attempt."""
        key = AttemptKey(step, task, attempt)
        return self.known_account(launch).attempts.get(key) or AttemptAccount()

    def past_claims(self, lineage: LineageId, claims: Sequence[Claim]) -> tuple[PastClaim, ...]:
        """Claims with what counts of their launches' journals about them, read on."""
        for claim in claims:
            self.account(claim.launch)
        return self.known_past_claims(lineage, claims)

    def known_past_claims(
        self, lineage: LineageId, claims: Sequence[Claim]
    ) -> tuple[PastClaim, ...]:
        """The same as far as the journals were read.

        For whoever has to see every record of a journal once (`news_of`): nothing is read past it.
        """
        own = {(claim.launch, claim.attempt) for claim in claims if claim.number != SHARE}

        def is_begun(claim: Claim) -> bool:
            return claim.number != SHARE or (claim.launch, claim.attempt) not in own

        return tuple(self._past_claim(lineage, claim, is_begun=is_begun(claim)) for claim in claims)

    def _past_claim(self, lineage: LineageId, claim: Claim, *, is_begun: bool) -> PastClaim:
        """One of them.

        Where a launch finds that the log of a task in its share has records, it claims it there,
        with the number of the attempt that the share never began: that attempt is the claim's.
        """
        account = self.known_account(claim.launch)
        key = AttemptKey(lineage.step, lineage.task, claim.attempt)
        found = account.attempts.get(key) if is_begun else None
        return PastClaim(
            claim=claim,
            account=found or AttemptAccount(),
            is_ended=claim.launch in self.state.fences or account.has_released(key),
        )

    def fold(self, log: Log, *, share: Share | None) -> Lineage:
        """The lineage as far as its log was read, its first attempt taken by ``share``."""
        claim = share_claim(share.launch, share.at) if share is not None else None
        return fold_lineage(log.entries, share=claim)

    def share_of(self, step: StepKey, ref: TaskRef) -> Share | None:
        """The share that took the lineage's first attempt, among those read so far.

        Raises:
            StoreUnavailable: the share that the intent's author saw is not shown here.
        """
        _, shares = self._share_log(step)
        tries = 0
        while ref.share is not None and len(shares) < ref.share:
            tries += 1
            if tries > MAX_STALE_READS:
                raise StoreUnavailable(
                    f"the store does not show share {ref.share} of step {step}, which is there",
                    hint="Try again in a minute; if it stays so, run `perdure repair`.",
                )
            self._pause(tries)
            self.shares(step)
        return next((share for share in shares if _holds(share, ref)), None)

    def named(self, step: StepKey, ref: TaskRef) -> TaskRef:
        """The reference as an intent must carry it: with the share that took the first attempt."""
        share = self.share_of(step, ref)
        return ref if share is None else replace(ref, share=share.number)

    def _log(self, prefix: str) -> Log:
        return Log(self.driver, prefix, clock=self._clock, pause=self._pause)

    def _share_log(self, step: StepKey) -> tuple[Log, list[Share]]:
        if step not in self._shares:
            self._shares[step] = (self._log(layout.shares(self.job, step)), [])
        return self._shares[step]


def _share(entry: Entry) -> Share:
    fields = entry.header
    cursor = fields.get("cursor")
    return Share(
        number=entry.number,
        launch=LaunchId(fields["launch"]),
        at=str(fields.get("at", "")),
        ranges=tuple((int(first), int(last)) for first, last in fields.get("tasks", ())),
        values=tuple(dict(values) for values in fields.get("values", ())),
        cursor=(cursor[0], cursor[1]) if cursor else None,
    )


def _holds(share: Share, ref: TaskRef) -> bool:
    """Whether the share took that lineage."""
    if ref.index is not None:
        return any(first <= ref.index <= last for first, last in share.ranges)
    return ref.values is not None and dict(ref.values) in share.values
