"""Setting damaged objects aside, so that the rest of a job can be used again.

A damaged record makes its whole log unreadable, since nobody may guess what it said. Its bytes are
copied into the home's ``damaged/``; then a record of the kind ``damaged`` takes its number, which
everybody passes over (a number is never used twice, and none is skipped); the number of one that is
missing, with later ones behind it, is taken in the same way. What is lost with it: a
save is one checkpoint less; a claim is known again by its saves, but not what they were made on.

Rules: only where nothing of the job runs, and only records whose loss harms no rule: a job's record
and shares are told and left alone, as are journals (what stands before the damage counts) and packs
(a restore finds out which checkpoints need the damaged block, and goes on from an older one).
Nothing is ever deleted.

Source: docs/journal-format.md; docs/decisions/074.
"""

import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from perdure.clock import Clock, to_text
from perdure.errors import HomeError
from perdure.manager.checking import Finding
from perdure.store.drivers.driver import Driver, KeyMissing
from perdure.store.drivers.posix_files import in_our_words
from perdure.store.records.record_format import encode_record

#: The kind of the record that stands where a damaged one stood.
DAMAGED = "damaged"


class Repaired(Struct, frozen=True, kw_only=True):
    """What was done about a finding.

    Attributes:
        aside: where its bytes are now; None: it was left alone.
        advice: one sentence.
        is_mended: whether the job can be used again as far as this was in its way.
    """

    finding: Finding
    aside: Path | None
    advice: str
    is_mended: bool = False


def repair(
    driver: Driver, findings: Iterable[Finding], folder: Path, clock: Clock
) -> Iterator[Repaired]:
    """Set aside what can be; ``folder`` is where damaged objects go. May be repeated.

    The caller has made sure that nothing of the job runs.
    """
    for finding in findings:
        if finding.kind == "record" and _is_log_record(finding.key):
            aside = _set_aside(driver, finding.key, folder, clock)
            advice = "set aside; the records behind it count again"
            is_mended = aside is not None
            yield Repaired(finding=finding, aside=aside, advice=advice, is_mended=is_mended)
        elif finding.kind == "missing" and _is_log_record(finding.key):
            driver.put_if_absent(finding.key, encode_record(_stand_in(clock, 0)))
            advice = "what it said is lost; the records behind it count again"
            yield Repaired(finding=finding, aside=None, advice=advice, is_mended=True)
        else:
            yield Repaired(finding=finding, aside=None, advice=_advice(finding))


def _is_log_record(key: str) -> bool:
    """Whether it is a record of the job's log or of a lineage's."""
    return "/log/" in key


def _advice(finding: Finding) -> str:
    match finding.kind:
        case "journal":
            return "left as it is: what stands before the damage counts, the rest is done again"
        case "checkpoint":
            return "left as it is: the task goes on from an older whole one, if there is one"
        case "missing":
            return "put it back from a copy of the store"
        case _:
            return "left as it is: without it the job cannot be told; put back a copy of it"


def _set_aside(driver: Driver, key: str, folder: Path, clock: Clock) -> Path | None:
    """Copy the object into the home, durably, then put the record that stands in for it."""
    try:
        data = driver.get(key)
    except KeyMissing:
        return None
    path = _free_path(folder / key)
    try:
        with in_our_words("write", path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        raise HomeError(f"cannot write {path}: {error.strerror}") from error
    driver.put(key, encode_record(_stand_in(clock, len(data))))
    return path


def _stand_in(clock: Clock, size: int) -> dict[str, object]:
    """The record that takes the number of one that is lost."""
    identity = secrets.token_hex(16)
    return {"kind": DAMAGED, "id": identity, "at": to_text(clock.now()), "size": size}


def _free_path(path: Path) -> Path:
    """A name in the home that is not taken: what was set aside before stays."""
    number = 1
    found = path
    while found.exists():
        found = path.with_name(f"{path.name}-{number}")
        number += 1
    return found
