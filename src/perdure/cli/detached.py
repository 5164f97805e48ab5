"""The manager without a terminal that `submit` and `resume` leave behind on this host.

``python -m perdure.cli.detached`` manages one job until nothing goes on by itself. What it says
goes into ``manager.out`` beside the job's logs.
"""

import argparse
import os
import subprocess
import sys

from perdure.cli.places import Places, places
from perdure.store.layout import JobId


def start_manager(where: Places, job: JobId, *, resume: bool) -> None:
    """Start it; returns at once. With another manager at work it says so and leaves."""
    logs = where.logs(job)
    logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    command = [sys.executable, "-P", "-m", "perdure.cli.detached", "--job", job]
    command += ["--home", str(where.home), "--store", where.store_url]
    with (logs / "manager.out").open("ab") as output:
        subprocess.Popen(
            [*command, "--resume"] if resume else command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, "PERDURE_CACHE": str(where.cache)},
        )


def main() -> int:
    """Manage the job that the command line names."""
    from msgspec.structs import replace

    from perdure.cli.failing import show
    from perdure.cli.looking import cache_of, keep_outline
    from perdure.cli.managed import (
        LEAVING_SECONDS,
        listening,
        manage,
        managed_job,
        resume_all,
    )
    from perdure.errors import PerdureError
    from perdure.manager.managing import Orders
    from perdure.manager.stored_jobs import read_job
    from perdure.worker.loading import load

    options = _parser().parse_args()
    where = places(options.home, options.store)
    orders = Orders()

    try:
        store = where.open(write=True)
        document = read_job(store, JobId(options.job))
        job = load(document)
        keep_outline(cache_of(where), store, document, job)
        managed = replace(
            managed_job(where, store, document, job), patience_seconds=LEAVING_SECONDS
        )
        view = managed.view

        def prepare() -> None:
            if options.resume and view.settled(None) is None:
                resume_all(view)

        with listening(orders):
            manage(managed, prepare=prepare, between=managed.engine.wait, orders=orders)
    except PerdureError as error:
        show(error)
        return error.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="perdure-manager")
    parser.add_argument("--job", required=True)
    parser.add_argument("--home", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--resume", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
