"""One job of the command line: found, opened, loaded, viewed."""

from perdure.cli.managed import Managed, managed_job
from perdure.cli.naming import find_job
from perdure.cli.places import Places
from perdure.engines.local import LocalEngine
from perdure.worker.loading import load


def open_job(where: Places, name: str, *, write: bool, local: LocalEngine | None = None) -> Managed:
    """The job that ``name`` means, read.

    Raises:
        JobMissing, HomeError: there is no such job or no store.
    """
    store = where.open(write=write)
    document = find_job(store, name)
    managed = managed_job(where, store, document, load(document), local)
    managed.view.refresh()
    return managed
