"""What a worker leaves in the folder of `bsub -k`, so that `echkpnt.perdure` finds it.

One small file a launch, ``perdure.<launch>``: which job of which store it works at. Nothing depends
on it but LSF's own checkpoints; what cannot be read is passed over.

Source: bsub(1) "-k", LSB_CHKPNT_DIR; docs/engines.md.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

_PREFIX = "perdure."
_FORMAT = 1
#: Set by LSF in jobs that were submitted with ``-k``.
FOLDER_VARIABLE = "LSB_CHKPNT_DIR"


class CheckpointNote(Struct, frozen=True, kw_only=True):
    """A worker in a job of LSF.

    Attributes:
        store: URL of the store.
        token: that its processes carry.
        engine: that started the worker.
        index: of the element of an array; "0" in none.
    """

    store: str
    job: str
    launch: str
    token: str
    engine: str
    index: str = "0"
    format: int = _FORMAT


def leave_note(note: CheckpointNote, environment: Mapping[str, str]) -> str:
    """Write the note where LSF's checkpoints go, if anywhere; why it could not be, or ""."""
    folder = environment.get(FOLDER_VARIABLE)
    if not folder:
        return ""
    path = Path(folder) / f"{_PREFIX}{note.launch}"
    new = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.write_bytes(msgspec.json.encode(note))
        new.replace(path)
    except OSError as error:
        return f"bchkpnt will not find this worker: {path}: {error.strerror}"
    return ""


def read_notes(folder: Path) -> tuple[CheckpointNote, ...]:
    """The notes in a folder, the oldest launch first."""
    found = []
    for path in sorted(folder.glob(f"{_PREFIX}*")):
        try:
            note = msgspec.json.decode(path.read_bytes(), type=CheckpointNote)
        except (OSError, msgspec.DecodeError):
            continue
        if note.format == _FORMAT:
            found.append(note)
    return tuple(found)
