"""What became of the last request about each job or step: `scontrol checkpoint error` shows it.

Beside the home's logs, for people: without it nothing is lost.
"""

import json
import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from perdure.cli.old_slurm.real import slurm_folder

_FINE = "No error"


class LastRequest(Struct, frozen=True, kw_only=True):
    """The last request.

    Attributes:
        began_at: seconds since the epoch; it has no end after ``until``.
        number: Slurm's; 0: it was carried out, or is under way.
        is_over: whether it has ended.
    """

    began_at: float = 0.0
    until: float = 0.0
    number: int = 0
    text: str = _FINE
    is_over: bool = True

    @property
    def is_under_way(self) -> bool:
        """Whether somebody waits for it now."""
        return not self.is_over and time.time() < self.until


def last_request(name: str) -> LastRequest:
    """Of a job or a step; without one, one that went well."""
    with suppress(OSError, ValueError, TypeError):
        return LastRequest(**json.loads(_path(name).read_text(encoding="utf-8")))
    return LastRequest()


def note_request(name: str, request: LastRequest) -> None:
    """Keep it in place of the one before."""
    described = {field: getattr(request, field) for field in LastRequest.__struct_fields__}
    path = _path(name)
    beside = path.with_name(f".{path.name}.perdure-partial")
    beside.write_text(json.dumps(described), encoding="utf-8")
    beside.replace(path)


def _path(name: str) -> Path:
    return slurm_folder("requests") / name
