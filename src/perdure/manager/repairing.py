"""Setting damaged objects aside, so that the rest of a job can be used again.

A damaged record makes its whole log unreadable, since nobody may guess what it said. Its bytes are
copied into the home's ``damaged/``; then a record of the kind ``damaged`` takes its number, which
everybody passes over (a number is never used twice, and none is skipped); the number of one that is
missing, with later ones behind it, is taken in the same way. What is lost with it: a
save is one checkpoint less; a claim is known again by its saves, but not what they were made on.

A share is put back as it must have been (`perdure.manager.lost_shares`).

Rules: only where nothing of the job runs, and only records whose loss harms no rule: a job's record
is told and left alone, as are journals (what stands before the damage counts) and packs (a restore
finds out which checkpoints need the damaged block, and goes on from an older one). Nothing is ever
deleted.

Source: docs/journal-format.md; docs/decisions/074, 142.
"""

import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

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
    driver: Driver,
    findings: Iterable[Finding],
    folder: Path,
    clock: Clock,
    lost_share: Callable[[str], dict[str, Any] | None],
) -> Iterator[Repaired]:
    """Set aside what can be. May be repeated.

    The caller has made sure that nothing of the job runs.

    Args:
        driver: of the store.
        findings: what is damaged.
        folder: where damaged objects go.
        clock: for the moments that people read.
        lost_share: what the share record at a key must have said; None: nobody can tell.
    """
    for finding in findings:
        key, kind = finding.key, finding.kind
        is_share = "/shares/" in key
        said = lost_share(key) if is_share and kind in ("record", "missing") else None
        is_mendable = said is not None if is_share else "/log/" in key
        if kind not in ("record", "missing") or not is_mendable:
            yield Repaired(finding=finding, aside=None, advice=_advice(finding))
        elif kind == "record":
            aside = _set_aside(driver, key, folder, _instead(clock, said))
            advice = "set aside; " + _AGAIN[is_share]
            is_mended = aside is not None
            yield Repaired(finding=finding, aside=aside, advice=advice, is_mended=is_mended)
        else:
            driver.put_if_absent(key, encode_record({**_instead(clock, said), "size": 0}))
            advice = "what it said is lost; " + _AGAIN[is_share]
            yield Repaired(finding=finding, aside=None, advice=advice, is_mended=True)


_AGAIN = {
    False: "the records behind it count again",
    True: "its tasks are known by the shares around it and by the journals",
}


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


def _set_aside(driver: Driver, key: str, folder: Path, instead: dict[str, Any]) -> Path | None:
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
    driver.put(key, encode_record({**instead, "size": len(data)}))
    return path


def _instead(clock: Clock, share: dict[str, Any] | None) -> dict[str, Any]:
    """The record that takes the number of one that is lost."""
    said = {"kind": DAMAGED} if share is None else {"kind": "share", "rebuilt": True, **share}
    return {**said, "id": secrets.token_hex(16), "at": to_text(clock.now())}


def _free_path(path: Path) -> Path:
    """A name in the home that is not taken: what was set aside before stays."""
    number = 1
    found = path
    while found.exists():
        found = path.with_name(f"{path.name}-{number}")
        number += 1
    return found
