"""A store that takes no records while a job is managed: what people are told, and the waiting.

Each thing is said once: that it began, that nothing runs any more and only the records are waited
for, and that it is over. It is tried again less and less often.

Source: docs/decisions/143.
"""

from collections.abc import Callable

from perdure.errors import PerdureError
from perdure.store.layout import JobId

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0


class Trouble:
    """What was said about a store that does not answer or takes nothing.

    Args:
        told: called with what people should know.
        troubled: called with why nothing is recorded, and with "" once something is.
    """

    def __init__(self, told: Callable[[str], None], troubled: Callable[[str], None]) -> None:
        self._told = told
        self._troubled = troubled
        self._pause = _FIRST_PAUSE_SECONDS
        self._said: set[str] = set()
        self._left_above: int | None = None

    def go_on(
        self,
        error: PerdureError,
        *,
        suspends: int,
        is_suspension: bool,
        were_told: bool,
        is_idle: bool,
    ) -> float:
        """Say what is new about it; how long to wait before it is tried again.

        Args:
            error: of the last try.
            suspends: how often a person said that the job is to be suspended.
            is_suspension: it is that wish which is not recorded.
            were_told: workers on this host were told of it.
            is_idle: no worker lives on this host.
        """
        what = "the suspension cannot be recorded" if is_suspension else "nothing can be recorded"
        then = "; the workers on this host were told" if is_suspension and were_told else ""
        if is_idle:
            then = "; no worker of the job runs here, only this is waited for, and Ctrl-C ends that"
            self._left_above = suspends if self._left_above is None else self._left_above
        if what + then not in self._said:
            self._said.add(what + then)
            self._told(f"{what}: {error.message}{then}. It is tried again. {error.hint}".rstrip())
            self._troubled(error.message)
        pause = self._pause
        self._pause = min(_LONGEST_PAUSE_SECONDS, 2 * pause)
        return pause

    def may_be_left(self, suspends: int) -> bool:
        """Whether a person said so since that was offered."""
        return self._left_above is not None and suspends > self._left_above

    def is_over(self) -> None:
        """The store takes records again."""
        if self._said:
            self._told("the store takes records again: the job goes on")
            self._troubled("")
        self._said.clear()
        self._left_above = None
        self._pause = _FIRST_PAUSE_SECONDS


def not_recorded(job: JobId, error: PerdureError) -> PerdureError:
    """The end of a command that was not to wait any longer: of the same kind, and what to do."""
    return type(error)(
        f"job {job} is left as it is; nothing more of it is recorded: {error.message}",
        hint=f"{error.hint} Then: perdure resume {job}".lstrip(),
        **error.fields,
    )
