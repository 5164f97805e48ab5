"""What a person must know who submits to a cluster whose jobs may not submit jobs.

Source: docs/engines.md "Where jobs may not submit jobs"; docs/decisions/151.
"""

from collections.abc import Iterator

from perdure.store.records.job_document import JobDocument
from perdure.template.outline import JobOutline


def told_of_turns(document: JobDocument, job: JobOutline) -> str | None:
    """Which cases will need a command later; None where jobs may submit jobs, as far as is known.

    Blocks for a query of Slurm's settings.
    """
    if document.options.engine != "slurm":
        return None
    from perdure.engines.slurm.submit_hosts import restriction

    where = restriction(document.options.slurm)
    if not where:
        return None
    cases = ", and ".join(cases_by_hand(document, job))
    return (
        f"{where}: if its jobs may not submit jobs, somebody must, by `perdure resume"
        f" {document.job}` from such a host: {cases}; `perdure why {document.job}` says when"
    )


def cases_by_hand(document: JobDocument, job: JobOutline) -> Iterator[str]:
    """What the worker's own job cannot do without submitting one."""
    yield "when a task that failed is to be tried again"
    behind = [step.name for step in job.steps if step.dependencies]
    if behind:
        names = ", ".join(repr(name) for name in behind)
        yield f"before {names} can begin"
    if "--no-requeue" in document.options.slurm:
        yield "after each time limit (--no-requeue)"
