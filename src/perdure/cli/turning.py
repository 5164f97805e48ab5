"""A turn by a command or by a worker that ends: where no manager is at work."""

import os

from perdure.cli.jobs import OpenJob
from perdure.cli.managed import maker_of
from perdure.manager.presence import has_live_manager


def turn_if_unmanaged(opened: OpenJob) -> bool:
    """Make one turn unless a manager is alive; whether it was made."""
    managed = opened.managed
    if has_live_manager(managed.store.driver, managed.document.job):
        return False
    maker_of(managed, opened.view, opened.engine, f"process {os.getpid()}").make()
    return True
