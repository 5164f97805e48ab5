"""A turn by a command or by a worker that ends: where no manager is at work."""

import os

from perdure.cli.jobs import OpenJob
from perdure.cli.managed import maker_of, view_of
from perdure.engines.local import LocalEngine
from perdure.manager.presence import has_live_manager


def turn_if_unmanaged(opened: OpenJob) -> bool:
    """Make one turn unless a manager is alive; whether it was made."""
    managed = opened.managed
    if has_live_manager(managed.store.driver, managed.document.job):
        return False
    engine = LocalEngine()
    view = view_of(managed, engine)
    maker_of(managed, view, engine, f"process {os.getpid()}").make()
    return True
