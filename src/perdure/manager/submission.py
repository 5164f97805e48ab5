"""From a template to a job in the store; and from a key to the job that has it.

Everything is checked before anything is written: the template, its parameters, the selection, and
whether this host could ever run it. A key is claimed in a log of its own: of two that submit under
one key at once, one has it, and the other goes on with that one's job.

Source: docs/store-format.md, "Keys"; design 4 (the store alone is enough).
"""

import secrets
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace
from ulid import ULID

from perdure.clock import Clock, to_text
from perdure.errors import EngineRefused, StoreDamaged, UsageError
from perdure.manager.job_view import requirements
from perdure.manager.selection import selected_steps, selected_tasks
from perdure.manager.stored_jobs import key_holder
from perdure.policy.resources import Host, unsatisfiable
from perdure.store import layout
from perdure.store.drivers.driver import Driver, PutUncertain
from perdure.store.layout import JobId
from perdure.store.records.job_document import JobDocument
from perdure.store.records.log import Entry, Log
from perdure.store.records.record_format import encode_record
from perdure.template.outline import JobOutline

#: How many jobs may have had one key.
_KEY_LOG_LIMIT = 100_000
_PUT_TRIES = 5


class Submitted(Struct, frozen=True, kw_only=True):
    """A job that is in the store.

    Attributes:
        is_new: it was submitted now; else the job of its key or line was found.
        before: the job of the same key or line that has ended, or None.
    """

    document: JobDocument
    is_new: bool
    before: JobDocument | None = None


def new_job_id() -> JobId:
    """An id that no other job has; later ones sort later."""
    return JobId(str(ULID()).lower())


def check_runnable(document: JobDocument, job: JobOutline, host: Host | None) -> None:
    """Refuse what could never run.

    Raises:
        UsageError: the selection names what is not there.
        EngineRefused: a step asks for more than the host has.
    """
    chosen = selected_steps(document.selection, job)
    for name in document.options.step_limits:
        if job.step_named(name) is None:
            known = ", ".join(step.name for step in job.steps)
            raise UsageError(f"--limit: the job has no step {name!r}", hint=f"It has {known}.")
    for step in job.steps:
        try:
            selected_tasks(document.selection, step)
        except ValueError as error:
            raise UsageError(f"step {step.name!r}: {error}") from error
        if host is None or step.index not in chosen:
            continue
        reasons = unsatisfiable(requirements(step.requirements), host)
        if reasons:
            raise EngineRefused(
                f"step {step.name!r} can never run on this host: {'; '.join(reasons)}",
                hint="Run it on a host that has what its hostRequirements ask for.",
                step=step.name,
            )


def submit(
    driver: Driver,
    document: JobDocument,
    clock: Clock,
    pause: Callable[[int], None],
    *,
    again: bool = False,
    probe: Callable[[], None] = lambda: None,
    is_same: Callable[[JobDocument, JobDocument], bool] = lambda _document, _known: False,
) -> Submitted:
    """Put the job, unless its key or its command line has one already.

    A key's job is found whatever became of it, but for ``again``: then a settled one is left
    alone. A command line's job is found while it is not settled, or if ``is_same`` says of the new
    and the known one that they are one all the same.

    Args:
        driver: of the store.
        document: the job.
        clock: for the moment of the submission.
        pause: waits before the next try of a put.
        again: see above.
        probe: tries what a new job needs beside the store; what it raises keeps it from being put.
        is_same: whether the new job and the known one of its line are one all the same.

    Raises:
        HomeError, OutOfSpace: the store does not take it.
    """
    document = replace(document, submitted_at=to_text(clock.now()))
    name = _name(document)
    if name is None:
        probe()
        _put(driver, document, pause)
        return Submitted(document=document, is_new=True)
    log = Log(driver, layout.name_log(name), clock=clock, pause=pause)
    only_open = again or document.key is None
    while True:
        log.read()
        known = _job_of(driver, log)
        if known is not None and (
            not only_open
            or is_same(document, known)
            or not is_settled(driver, known.job, clock, pause)
        ):
            _check_same(document, known)
            return Submitted(document=known, is_new=False)
        probe()
        _put(driver, document, pause)
        record = {"kind": "key", "name": document.key, "job": document.job}
        if isinstance(log.append(record), Entry):
            return Submitted(document=document, is_new=True, before=known)
        driver.delete(layout.job_record(document.job))


def open_job_of_line(
    driver: Driver, document: JobDocument, clock: Clock, pause: Callable[[int], None]
) -> JobDocument | None:
    """The job that `perdure run` would go on with for this line; None where it has ended."""
    name = _name(document)
    if name is None or document.key is not None:
        return None
    log = Log(driver, layout.name_log(name), clock=clock, pause=pause)
    log.read()
    known = _job_of(driver, log)
    return None if known is None or is_settled(driver, known.job, clock, pause) else known


def _check_same(document: JobDocument, known: JobDocument) -> None:
    """A key means one result: another template or other parameters are another job.

    Raises:
        UsageError: they differ.
    """
    differing = [
        what
        for what, one, other in (
            ("template", document.template.text, known.template.text),
            ("command", document.command, known.command),
            (
                "environments",
                [e.text for e in document.environments],
                [e.text for e in known.environments],
            ),
            ("parameters", dict(document.parameters), dict(known.parameters)),
            ("tasks", document.selection, known.selection),
        )
        if one != other
    ]
    if differing:
        raise UsageError(
            f"the key {known.key!r} has job {known.job}, which differs in its"
            f" {' and '.join(differing)}",
            hint="Take another --key; or --again, once that job is done; `perdure rm` frees it.",
            job=known.job,
        )


def _name(document: JobDocument) -> str | None:
    """What the job is recognised by: its key, or its command line."""
    if document.key is not None:
        return document.key
    return f"\0line\0{document.line}" if document.line is not None else None


def is_settled(driver: Driver, job: JobId, clock: Clock, pause: Callable[[int], None]) -> bool:
    """Whether the job has ended (and no person resumed it since)."""
    log = Log(driver, layout.job_log(job), clock=clock, pause=pause)
    log.read()
    settled = [e.number for e in log.entries if e.kind == "settled" and e.header["step"] is None]
    resumed = [e.number for e in log.entries if e.kind == "resume"]
    return bool(settled) and max(resumed, default=0) < settled[-1]


def _job_of(driver: Driver, log: Log) -> JobDocument | None:
    """The last job that took the key and is still there (`perdure rm` frees a key)."""
    if log.last > _KEY_LOG_LIMIT:
        raise StoreDamaged(f"the log {log.key(1)} is longer than it can be")
    return key_holder(driver, log)


def _put(driver: Driver, document: JobDocument, pause: Callable[[int], None]) -> None:
    """Put the job's record, whose id is this submission's alone: refused, it is there already."""
    header = {
        **document.to_header(),
        "id": secrets.token_hex(16),
        "at": document.submitted_at,
    }
    data = encode_record(header)
    for tries in range(1, _PUT_TRIES + 1):
        try:
            driver.put_if_absent(layout.job_record(document.job), data)
        except PutUncertain:
            if tries == _PUT_TRIES:
                raise
            pause(tries)
        else:
            return
