"""One job of the command line: found, opened, loaded, viewed."""

from perdure.cli.engines import engine_of
from perdure.cli.managed import Managed, view_of
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
    engine = engine_of(where, document.job, document.options, local)
    view = view_of(store, document, load(document), engine)
    view.refresh()
    return Managed(places=where, store=store, view=view, engine=engine)
