"""Folders of the user's that must not lie in a store: what is removed there would be the user's."""

import os
from contextlib import suppress
from pathlib import Path

from perdure.errors import UsageError


def check_outside(folder: Path, store: Path, *, called: str) -> None:
    """Refuse a folder in the store, by whatever way it leads there.

    Args:
        folder: or a file; need not exist.
        store: its folder on this host.
        called: what it is, for the error.

    Raises:
        UsageError: it is, or lies in, the store.
    """
    with suppress(FileNotFoundError):
        about = store.stat()
        whole = folder.resolve()
        for path in (whole, *whole.parents):
            with suppress(FileNotFoundError):
                if os.path.samestat(path.stat(), about):
                    raise UsageError(
                        f"{called} {folder} lies in the store {store}",
                        hint="Name a place of its own: the store's folder is perdure's alone.",
                    )
