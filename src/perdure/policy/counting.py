"""What counts against a task, and what is progress.

Only ends of a task's own making count, against the *point* that the attempt started from (the
content id of its base, or None for the beginning): FAILED, DISCARDED, a checkpoint that did not
verify, LOST once it happened on two hosts, and a time limit that passed whole without a save.
Suspension, preemption and lost hosts do not. Progress forgets what counted before it: a newly kept
value, or new content saved by an attempt that ran at least as long as the last counted one. A
person's resume or branch forgets as well.

Source: design of perdure, "What counts against a task".
"""

from collections.abc import Iterator

from msgspec import Struct, field

from perdure.policy.outcome import AttemptState, Cause

Content = str


class Limits(Struct, frozen=True, kw_only=True):
    """How much is tried; options of ``run`` and ``submit``, and of each step.

    Attributes:
        per_point: counted attempts without progress from one point.
        since_progress: counted attempts since the last progress, from whatever points.
        not_started: attempts in a row that could not start.
        back_off_seconds: before the second try; doubles with each further one.
        back_off_cap_seconds: at most this long.
        quick_seconds: an attempt that ends sooner without progress waits too, whatever its end, so
            that a host that stops everything at once is not met in a hot loop.
    """

    per_point: int = 3
    since_progress: int = 10
    not_started: int = 3
    back_off_seconds: float = 5.0
    back_off_cap_seconds: float = 600.0
    quick_seconds: float = 60.0


DEFAULT_LIMITS = Limits()


class PastAttempt(Struct, frozen=True, kw_only=True):
    """One attempt of a lineage that is over, as the logs tell it.

    Attributes:
        number: from 1.
        launch: who ran it.
        host: where; "" where it never said.
        base: the sequence that it started from; None for the beginning.
        content: that checkpoint's content id.
        state: how it ended; LOST for one that never said and whose launch has ended.
        cause: for FAILED and NOT_STARTED.
        by_user: whether a person suspended it.
        reason: the outcome's sentence.
        kept: how many values it newly kept.
        saved: content ids of its checkpoints, in order.
        ran_seconds: how long its process ran.
        was_discarded: the program said that it did not use the checkpoint.
        limit_without_save: a whole time limit passed in it without a save.
    """

    number: int
    state: AttemptState
    launch: str = ""
    host: str = ""
    base: int | None = None
    content: Content | None = None
    cause: Cause | None = None
    by_user: bool = False
    reason: str = ""
    kept: int = 0
    saved: tuple[Content, ...] = ()
    ran_seconds: float = 0.0
    was_discarded: bool = False
    limit_without_save: bool = False


class History(Struct, frozen=True, kw_only=True):
    """A lineage's attempts that are over.

    Attributes:
        attempts: in order.
        forgiven: attempts up to this number count no more: a person resumed or branched after it.
        branched: attempts up to this number belong to another branch: their success is none here.
    """

    attempts: tuple[PastAttempt, ...] = ()
    forgiven: int = 0
    branched: int = 0


NO_HISTORY = History()


class Tally(Struct, frozen=True, kw_only=True):
    """What the history amounts to.

    Attributes:
        counted: attempts that count, since the last progress.
        by_point: the same by the point that they started from.
        bases: the checkpoints of such a point that they started from: several may have its content.
        used: contents that were started from without progress since.
        not_started: attempts in a row that could not start.
        last: the last attempt that counts or could not start, for the reason.
        tries: attempts since the last progress that make the next one wait.
    """

    counted: int = 0
    by_point: dict[Content | None, int] = field(default_factory=dict)
    bases: dict[Content, frozenset[int]] = field(default_factory=dict)
    used: frozenset[Content] = frozenset()
    not_started: int = 0
    last: PastAttempt | None = None
    tries: int = 0

    def is_exhausted(self, point: Content | None, limits: Limits) -> bool:
        """Whether no further attempt starts from there by itself."""
        return self.by_point.get(point, 0) >= limits.per_point


class Weighed(Struct, frozen=True, kw_only=True):
    """An attempt, and what it amounts to."""

    attempt: PastAttempt
    counts: bool
    is_progress: bool


def tally(history: History, limits: Limits = DEFAULT_LIMITS) -> Tally:
    """Count what counts since the last progress or forgiveness."""
    window: list[Weighed] = []
    for weighed in weigh(history):
        if weighed.is_progress or weighed.attempt.number <= history.forgiven:
            window.clear()
        else:
            window.append(weighed)
    counted = [weighed.attempt for weighed in window if weighed.counts]
    by_point: dict[Content | None, int] = {}
    for attempt in counted:
        by_point[attempt.content] = by_point.get(attempt.content, 0) + 1
    streak = _not_started_streak(window)
    blamed = [*counted, *streak]
    return Tally(
        counted=len(counted),
        by_point=by_point,
        bases=_bases(counted),
        used=frozenset(w.attempt.content for w in window if w.attempt.content is not None),
        not_started=len(streak),
        last=max(blamed, key=lambda attempt: attempt.number, default=None),
        tries=sum(_makes_wait(weighed, limits) for weighed in window),
    )


def _bases(counted: list[PastAttempt]) -> dict[Content, frozenset[int]]:
    """The checkpoints that attempts started from, by their content."""
    found: dict[Content, set[int]] = {}
    for attempt in counted:
        if attempt.content is not None and attempt.base is not None:
            found.setdefault(attempt.content, set()).add(attempt.base)
    return {content: frozenset(bases) for content, bases in found.items()}


def weigh(history: History) -> Iterator[Weighed]:
    """Each attempt with what it amounts to, in order."""
    seen: set[Content] = set()
    lost_hosts: dict[Content | None, set[str]] = {}
    last_counted_seconds = 0.0
    for attempt in history.attempts:
        new_content = any(content not in seen for content in attempt.saved)
        is_progress = attempt.kept > 0 or (
            new_content and attempt.ran_seconds >= last_counted_seconds
        )
        hosts = lost_hosts.setdefault(attempt.content, set())
        counts = _counts(attempt, hosts)
        if attempt.state is AttemptState.LOST:
            hosts.add(attempt.host)
        is_forgiven = attempt.number <= history.forgiven
        if is_progress or is_forgiven:
            lost_hosts.clear()
        if counts:
            last_counted_seconds = 0.0 if is_forgiven else attempt.ran_seconds
        seen.update(attempt.saved)
        yield Weighed(attempt=attempt, counts=counts, is_progress=is_progress)


def _counts(attempt: PastAttempt, lost_hosts: set[str]) -> bool:
    """Whether the end was of the task's own making."""
    if attempt.was_discarded or attempt.limit_without_save:
        return True
    match attempt.state:
        case AttemptState.FAILED:
            return True
        case AttemptState.NOT_STARTED:
            return attempt.cause is Cause.NOT_VERIFIED
        case AttemptState.LOST:
            return bool(lost_hosts - {attempt.host})
        case _:
            return False


def _not_started_streak(window: list[Weighed]) -> list[PastAttempt]:
    """The attempts at the end that could not start, for a reason outside of the task."""
    streak: list[PastAttempt] = []
    for weighed in reversed(window):
        if weighed.counts and weighed.attempt.cause is Cause.NOT_VERIFIED:
            continue
        if weighed.attempt.state is not AttemptState.NOT_STARTED:
            break
        streak.append(weighed.attempt)
    return streak


def _makes_wait(weighed: Weighed, limits: Limits) -> bool:
    """Whether the next attempt waits longer because of this one."""
    attempt = weighed.attempt
    if weighed.counts or attempt.state is AttemptState.NOT_STARTED:
        return True
    return not attempt.by_user and attempt.ran_seconds < limits.quick_seconds


def back_off_seconds(tally: Tally, limits: Limits = DEFAULT_LIMITS) -> float:
    """How long the next attempt waits."""
    if tally.tries == 0:
        return 0.0
    doublings = min(tally.tries - 1, 30)  # beyond that every sensible cap is reached
    return min(limits.back_off_seconds * 2.0**doublings, limits.back_off_cap_seconds)


def possible_error(tally: Tally, content: Content | None) -> bool:
    """Whether starting from ``content`` once more is a possible error, to be reported at once."""
    return content is not None and content in tally.used
