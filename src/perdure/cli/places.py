"""Where things are: home, store, logs, session folders, cache; read from options and environment.

=================  ==========================================================
``PERDURE_HOME``   the home; else the user data folder; ``--home`` wins
``PERDURE_STORE``  the store's URL; else ``store`` in the home; ``--store`` wins
``PERDURE_CACHE``  the cache; else the user cache folder
=================  ==========================================================
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import platformdirs
from msgspec import Struct

from perdure.cli.pointing import remember
from perdure.errors import HomeError
from perdure.store.drivers.apart import check_outside
from perdure.store.layout import JobId
from perdure.store.opening import Store, open_store, refuse_half_url
from perdure.store.records.job_document import JobDocument

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Places(Struct, frozen=True, kw_only=True):
    """Where things are on this host.

    Attributes:
        shares: a store that is made now is made for the group.
    """

    home: Path
    store_url: str
    cache: Path
    shares: bool = False

    def logs(self, job: JobId) -> Path:
        """The folder of a job's logs."""
        return self.home / "logs" / job

    @staticmethod
    def home_of(logs: Path) -> Path:
        """The home that a job's folder of logs lies in: a worker is told only that one."""
        return logs.parent.parent

    @property
    def locks(self) -> Path:
        """The folder of lock files."""
        return self.cache / "locks"

    def sessions(self, document: JobDocument) -> Path:
        """The folder in which the job's session folders are made."""
        base = document.options.temporary_dir
        root = Path(base) if base else Path(tempfile.gettempdir()) / f"perdure-{os.getuid()}"
        return root / document.job

    def check_outside_store(self, folder: Path, *, called: str) -> None:
        """Refuse a folder of the user's that lies in the store.

        Raises:
            UsageError: it does; ``called`` is the option that names it.
        """
        root = self.store_url.removeprefix("file://")
        if "://" not in root:
            check_outside(folder, Path(root), called=called)

    def open(self, *, write: bool, create: bool = False) -> Store:
        """The store.

        Raises:
            HomeError, FormatTooNew, StoreDamaged: it cannot be used.
        """
        try:
            if create:
                _make_private(self.home)
            store = open_store(
                self.store_url, write=write, create=create, share_with_group=self.shares
            )
        except OSError as error:
            raise HomeError(
                f"the home {self.home} or the store {self.store_url} cannot be used:"
                f" {error.strerror}: {error.filename}",
                hint="Name folders of your own: --home DIR, --store DIR.",
            ) from error
        if self.shares and not store.is_shared:
            click.echo(
                f"perdure: the store {self.store_url} is its owner's alone, and stays so:"
                " --share makes new ones",
                err=True,
            )
        return store


def places(home: str | None, store: str | None, *, share: str | None = None) -> Places:
    """The places that the options and the environment name.

    Raises:
        HomeError: the home is something else than a folder.
        UsageError: the store is no URL.
    """
    named = home or os.environ.get("PERDURE_HOME") or platformdirs.user_data_dir("perdure")
    where = Path(named).expanduser().absolute()
    if where.exists() and not where.is_dir():
        raise HomeError(
            f"the home {where} is no folder",
            hint="Name a folder: --home DIR, or PERDURE_HOME.",
            path=str(where),
        )
    url = store or os.environ.get("PERDURE_STORE") or str(where / "store")
    refuse_half_url(url)
    if "://" not in url:
        url = str(Path(url).expanduser().absolute())
    cache = os.environ.get("PERDURE_CACHE") or platformdirs.user_cache_dir("perdure")
    remember(home=str(where) if home else None, store=url if store else None)
    return Places(
        home=where,
        store_url=url,
        cache=Path(cache).expanduser().absolute(),
        shares=share == "group",
    )


#: The option ``--json`` of commands that print one object.
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def where_options(command: _Command) -> _Command:
    """The options ``--home`` and ``--store``."""
    command = click.option("--store", metavar="URL", help="The store; default: in the home.")(
        command
    )
    return click.option("--home", metavar="DIR", help="The home; default: $PERDURE_HOME.")(command)


def _make_private(path: Path) -> None:
    """Make a folder that only this user can read; one that is there stays as it is."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
