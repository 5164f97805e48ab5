"""What a delivery is made of: where files go, what may be replaced there, and its record. Pure.

A delivery puts the declared files of a finished task into a folder or bucket of people's own.
Files from outside of the session folder go by their path below the nearest of the job's roots,
those of the session folder below a folder of the task (``1-0123456789abcdef/``). A name that is
there already is never anybody else's to be lost: it is left where it is equal, replaced where an
earlier delivery of the same task put exactly what is there, and a conflict otherwise.

Two records of one form lie below ``perdure/<job>/`` there, as JSON that people can read: the *plan*
(``<step>-<task>.<attempt>.plan.json``), put before the first file has its name, says whose those
are that a delivery which was killed has left; the *record* (``<step>-<task>.json``) is put last:
who sees it knows that all of it is there. Digests are plain BLAKE3, as ``b3sum`` prints them.

Source: design 6, "Files policy"; docs/decisions/116.
"""

import json
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from os import fsencode
from typing import Any

from msgspec import Struct, ValidationError, convert, to_builtins

from perdure.store.files.outside_decision import Content
from perdure.store.layout import JobId, StepKey, TaskKey

FORMAT = 1
#: A record of 100,000 files is some 20 MB; what is larger is none of ours.
RECORD_LIMIT_BYTES = 256 << 20
#: Where records are: files are delivered nowhere in a job's folder there.
_RECORDS = "perdure"
_RECORD_FOLDER = re.compile(rf"{_RECORDS}/[0-9a-z]{{26}}(?:/|$)", re.IGNORECASE)
_MOST_SHOWN = 3

Known = Mapping[str, frozenset[Content]]


class Whose(Struct, frozen=True, kw_only=True):
    """Which attempt delivers."""

    job: JobId
    step: StepKey
    task: TaskKey
    attempt: int

    @property
    def folder(self) -> str:
        """Where the session folder's files go."""
        return f"{self.step}-{self.task}"

    @property
    def records(self) -> str:
        """Where the job's records are."""
        return f"{_RECORDS}/{self.job}"

    @property
    def record(self) -> str:
        """The record's path."""
        return f"{self.records}/{self.folder}.json"

    @property
    def plan(self) -> str:
        """The path of this attempt's plan."""
        return self.plan_of(self.attempt)

    def plan_of(self, attempt: int) -> str:
        """The path of an attempt's plan."""
        return f"{self.records}/{self.folder}.{attempt}.plan.json"


class DeliveredFile(Struct, frozen=True, kw_only=True):
    """A file in a record: ``path`` below the target, ``blake3`` in hex."""

    path: str
    size: int
    blake3: str

    @classmethod
    def of(cls, path: str, content: Content) -> "DeliveredFile":
        """That file with this content."""
        return cls(path=path, size=content.size, blake3=content.digest.hex())


class DeliveryRecord(Struct, frozen=True, kw_only=True):
    """A record or a plan.

    Attributes:
        at: when, for people.
        files: all of the task's, by path.
        earlier: of a plan: what deliveries of this task before it may have put there.
    """

    job: str
    step: int
    task: str
    attempt: int
    at: str
    files: tuple[DeliveredFile, ...]
    earlier: tuple[DeliveredFile, ...] = ()
    format: int = FORMAT
    kind: str = "delivery"


class Act(Enum):
    """What is done with one file."""

    #: what is there is equal
    LEAVE = "leave"
    #: nothing is there
    CREATE = "create"
    #: what is there is an earlier delivery's of this task
    REPLACE = "replace"
    #: it is somebody else's, or somebody changed it
    CONFLICT = "conflict"


def decide(wanted: Content, present: Content | None, known: frozenset[Content]) -> Act:
    """What is done with one file.

    Args:
        wanted: what is to be there.
        present: what is there; None: nothing.
        known: what deliveries of this task have put there before.
    """
    if present is None:
        return Act.CREATE
    if present == wanted:
        return Act.LEAVE
    return Act.REPLACE if present in known else Act.CONFLICT


def is_for_records(path: str) -> bool:
    """Whether ``path`` lies where records do: no task's file may be taken for one."""
    return _RECORD_FOLDER.match(path) is not None


def encode_delivery(record: DeliveryRecord) -> bytes:
    r"""The record as JSON, one file a line; names that are no text as ``\udcNN``."""
    described = to_builtins(record)
    files, earlier = described.pop("files"), described.pop("earlier")
    parts = [json.dumps(described)[:-1], f', "files": [{_rows(files)}]']
    if earlier:
        parts.append(f', "earlier": [{_rows(earlier)}]')
    return "".join([*parts, "}\n"]).encode("ascii")


def _rows(files: Iterable[Mapping[str, Any]]) -> str:
    return ",".join(f"\n {json.dumps(one)}" for one in files)


def decode_delivery(data: bytes, whose: Whose) -> DeliveryRecord | None:
    """The opposite; None for what is no record of this task that this perdure can read.

    It says then nothing about what is there, so that nothing is replaced.
    """
    try:
        record = convert(json.loads(data), DeliveryRecord)
    except (ValueError, RecursionError, ValidationError):
        return None
    is_ours = (record.job, record.step, record.task) == (whose.job, whose.step, whose.task)
    return record if is_ours and record.format == FORMAT else None


def contents_of(records: Iterable[DeliveryRecord]) -> dict[str, frozenset[Content]]:
    """By path, what these records say was put there."""
    found: dict[str, set[Content]] = {}
    for record in records:
        for one in (*record.files, *record.earlier):
            try:
                content = Content(size=one.size, digest=bytes.fromhex(one.blake3))
            except ValueError:
                continue
            found.setdefault(one.path, set()).add(content)
    return {path: frozenset(contents) for path, contents in found.items()}


def listed(known: Known) -> tuple[DeliveredFile, ...]:
    """The same as files of a record, in order."""
    return tuple(
        DeliveredFile.of(path, content)
        for path in sorted(known)
        for content in sorted(known[path], key=lambda one: (one.size, one.digest))
    )


def object_name(path: str) -> str:
    """A path as the name of an object: as it is, where it is text without control characters.

    Else what is not is written as ``%NN``, and ``%`` as ``%25``.
    """
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return _percent_encoded(path)
    return path if not any(_is_control(character) for character in path) else _percent_encoded(path)


def _is_control(character: str) -> bool:
    return character < " " or character == "\x7f"


def _percent_encoded(path: str) -> str:
    encoded: list[str] = []
    for character in path:
        is_plain = not (_is_control(character) or character == "%" or _is_lone(character))
        encoded.append(
            character if is_plain else "".join(f"%{byte:02X}" for byte in fsencode(character))
        )
    return "".join(encoded)


def _is_lone(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


def some(names: Iterable[str]) -> str:
    """A few names, for people."""
    every = [*names]
    shown = ", ".join(every[:_MOST_SHOWN])
    return shown if len(every) <= _MOST_SHOWN else f"{shown} and {len(every) - _MOST_SHOWN} more"
