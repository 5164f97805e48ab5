"""A turn by a command that stops something: it records what follows, and starts nothing."""

import os

from perdure.cli.managed import Managed, maker_of
from perdure.manager.presence import has_live_manager


def turn_if_unmanaged(managed: Managed) -> bool:
    """Make one turn unless a manager is alive; whether it was made."""
    if has_live_manager(managed.store.driver, managed.view.document.job):
        return False
    maker_of(managed, f"process {os.getpid()}", starts=False).make()
    return True
