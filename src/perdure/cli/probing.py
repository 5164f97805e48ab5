"""What a new job needs beside the store is tried before it is put, not when its work is done.

The folders are made and written to, a bucket is asked: what cannot work is refused at once, and
costs nothing. A job that is there already is not probed: its tasks meet what is wrong by
themselves, and lose nothing by it.

Source: docs/decisions/148.
"""

from collections.abc import Callable
from pathlib import Path

from perdure.store.drivers.driver import Driver
from perdure.store.records.job_document import JobDocument


def probe_of(document: JobDocument, driver: Driver) -> Callable[[], None]:
    """What tries the places that the job names, for `submit`.

    It raises what the place's own error is: a `UsageError` for a local tier, and for ``--deliver``
    what a delivery would fail with.
    """

    def probe() -> None:
        options = document.options
        if options.local_store is not None:
            from perdure.store.packs.tiers import probe_tier

            probe_tier(driver, Path(options.local_store))
        if options.deliver is not None:
            from perdure.store.delivery.probing import probe_place

            probe_place(options.deliver, document.job)

    return probe
