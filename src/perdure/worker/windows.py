"""When a lineage's attempts ran: what was written outside in that time may be theirs. Pure.

An attempt ran until its outcome was written. Where nobody saw its end it ran until its launch was
sealed, because what it had started was ended only then; what somebody else wrote between its death
and the seal cannot be told apart, so that nothing is cut off a file for such a window.

Source: docs/decisions/048.
"""

from collections.abc import Callable

from perdure.clock import MILLISECOND_NS, to_ns
from perdure.store.files.outside_decision import Window
from perdure.store.layout import LaunchId
from perdure.worker.claiming import LineageView


def windows(view: LineageView, sealed_at: Callable[[LaunchId], str]) -> tuple[Window, ...]:
    """When the lineage's attempts ran.

    Args:
        view: the lineage with what counts of its attempts, all of them over.
        sealed_at: when a launch was sealed; "" where it was not.
    """
    found: list[Window] = []
    for past in view.past:
        begun, outcome = past.account.begun, past.account.outcome
        if begun is None:
            continue
        began_at_ns = to_ns(str(begun["at"]))
        seen = str((outcome or {}).get("at", ""))
        end = seen or sealed_at(past.claim.launch)
        # Moments are written in whole milliseconds, rounded down.
        ended_at_ns = to_ns(end) + MILLISECOND_NS if end else began_at_ns
        found.append(
            Window(began_at_ns=began_at_ns, ended_at_ns=ended_at_ns, is_end_known=bool(seen))
        )
    return tuple(found)
