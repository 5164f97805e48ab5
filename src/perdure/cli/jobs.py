"""One job of the command line: found, opened, loaded, viewed."""

from dataclasses import dataclass

from perdure.cli.managed import Managed, view_of, without_terminal
from perdure.cli.naming import find_job
from perdure.cli.places import Places
from perdure.engines.local import LocalEngine
from perdure.manager.job_view import JobView


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenJob:
    """A job that a command works on."""

    managed: Managed
    view: JobView
    engine: LocalEngine


def open_job(where: Places, name: str, *, write: bool) -> OpenJob:
    """The job that ``name`` means, read.

    Raises:
        JobMissing, HomeError: there is no such job or no store.
    """
    store = where.open(write=write)
    managed = without_terminal(where, store, find_job(store, name))
    engine = LocalEngine()
    view = view_of(managed, engine)
    view.refresh()
    return OpenJob(managed=managed, view=view, engine=engine)
