"""Launches by what they hold: shares and claims name who took them, whatever else was lost.

Expensive: every record of every share and lineage is looked at. For jobs that are damaged, or go.
"""

from contextlib import suppress

from perdure.errors import PerdureError
from perdure.store import layout
from perdure.store.drivers.driver import Driver
from perdure.store.layout import JobId, LaunchId, StepKey
from perdure.store.records.record_format import decode_record

#: So much of a record is read to see whether it is a claim: descriptions of checkpoints are longer,
#: and cut off they are no records.
_CLAIM_BYTES = 64 << 10


def holders(driver: Driver, job: JobId) -> dict[LaunchId, StepKey]:
    """The launches that the job's shares and claims name, each with the step that it worked for.

    A record that cannot be read names nobody.
    """
    found: dict[LaunchId, StepKey] = {}
    keys = list(driver.list(layout.shares_prefix(job)))
    keys += [key for key in driver.list(layout.lineages_prefix(job)) if "/log/" in key]
    for key in keys:
        with suppress(PerdureError):
            header = decode_record(driver.get(key, 0, _CLAIM_BYTES), key=key).header
            launch = LaunchId(str(header.get("launch")))
            if header.get("kind") in ("share", "claim") and layout.is_ulid(launch):
                found[launch] = layout.step_of(key)
    return found
