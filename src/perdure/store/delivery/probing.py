"""Whether files can be delivered to a place: a small file is put there, read back, and removed.

Source: docs/decisions/148.
"""

import secrets
import time

from perdure.errors import StoreDamaged
from perdure.store.delivery.delivery import Whose
from perdure.store.delivery.delivery_places import opener_of
from perdure.store.files.gathering import OWN_PREFIX
from perdure.store.layout import JobId, StepKey, TaskKey

_PROBE = b"perdure tries whether files can be delivered here, and removes this one\n"
_NOBODY = (StepKey(0), TaskKey("probe"))


def probe_place(place: str, job: JobId) -> None:
    """Make the folder, or ask the bucket, and write there. Blocks: a bucket may take some seconds.

    Args:
        place: as `delivery_place` gives it.
        job: who will deliver there.

    Raises:
        PerdureError: as a delivery would fail there; nothing is left but the folder.
    """
    step, task = _NOBODY
    whose = Whose(job=job, step=step, task=task, attempt=0)
    target = opener_of(place)(whose, lambda: None, time.sleep)
    name = f"{OWN_PREFIX}{secrets.token_hex(16)}"
    target.open()
    try:
        target.put_record(name, _PROBE)
        found = target.get_record(name, len(_PROBE))
    finally:
        target.remove_record(name)
    if found != _PROBE:
        raise StoreDamaged(
            f"a file that was written to {place} is another one when it is read back",
            hint="Check the disk or the service, or deliver to another place.",
        )
