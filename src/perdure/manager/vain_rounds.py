"""Workers on a cluster that end before they begin, where nobody stays who could count them.

Each turn behind an array may be another process, on another host: so what was tried is counted from
the job's log. The launches whose intents stand in a row were started together and are one *round*.
A round is in vain when some of its workers have ended and none of it has begun. After one such
round the next one begins later; after three in a row the step is held: a fourth would end like
them. A person's resume forgets the rounds before it.

Source: design 3 (8, 9); docs/decisions/152.
"""

from collections.abc import Iterator, Sequence

from perdure.manager.job_view import JobView
from perdure.policy.stops import Scope
from perdure.store.layout import StepKey
from perdure.store.records.job_log import LaunchIntent
from perdure.worker.ticker import scope_of

#: So many rounds in a row, and no more are started.
LIMIT = 3
#: Before the second round, and twice as long before each one after that.
FIRST_DELAY_SECONDS = 15.0


def vain_rounds(view: JobView, step: StepKey) -> int:
    """How many rounds of the step's launches, up to the last one, were in vain."""
    since = last_resume(view, Scope(step))
    launches = view.records.state.launches.values()
    mine = [intent for intent in launches if intent.step == step and intent.number > since]
    count = 0
    for members in reversed(list(_rounds(mine))):
        if any(has_begun(view, intent) for intent in members):
            break
        count += any(view.has_ended(intent.launch) for intent in members)
    return count


def delay_seconds(rounds: int) -> float:
    """How much later the next round begins."""
    return FIRST_DELAY_SECONDS * 2.0 ** (rounds - 1) if rounds else 0.0


def has_begun(view: JobView, intent: LaunchIntent) -> bool:
    """Whether the worker came as far as to take tasks, without an error that ended it before."""
    account = view.records.known_account(intent.launch)
    if account.trouble and not account.attempts:
        return False
    return view.has_begun(intent.launch)


def trouble_of(view: JobView, step: StepKey) -> str:
    """What the last of the step's launches left of what ended it; "" where it left nothing."""
    launches = [i.launch for i in view.records.state.launches.values() if i.step == step]
    return view.records.known_account(launches[-1]).trouble or "" if launches else ""


def _rounds(intents: Sequence[LaunchIntent]) -> Iterator[list[LaunchIntent]]:
    """Those whose records stand in a row, together."""
    members: list[LaunchIntent] = []
    for intent in intents:
        if members and intent.number != members[-1].number + 1:
            yield members
            members = []
        members.append(intent)
    if members:
        yield members


def last_resume(view: JobView, scope: Scope) -> int:
    """The number of the last record by which a person resumed all of the scope; 0: none."""
    wishes = (wish for wish in view.records.state.wishes if wish.kind == "resume")
    return max((w.number for w in wishes if scope_of(w).covers(scope)), default=0)
