"""A save on its way, as values: what was announced, how it is taken, what it was, what came of it.

Source: docs/decisions/045.
"""

import math
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct, field

from perdure.store.files.roots import Stamp
from perdure.store.layout import LaunchId
from perdure.store.manifests.manifest import Kept, Manifest


class Announcement(Struct, frozen=True, kw_only=True):
    """What a task announced.

    Attributes:
        save: the how-manieth save of the attempt, from 1.
        line_at_ns: the wall clock when its line had been read.
        state: its text, or None.
        file: its file, absolute, or None.
        files, folders: the dataset that was declared until then, absolute.
    """

    save: int
    line_at_ns: int
    state: str | None = None
    file: str | None = None
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[str, ...]:
        """Every path that is named, each once, the save's file first."""
        first = () if self.file is None else (self.file,)
        return tuple(dict.fromkeys((*first, *self.files, *self.folders)))


class CaptureSettings(Struct, frozen=True, kw_only=True):
    """How an attempt's saves are taken.

    Attributes:
        attempt, launch: whose they are.
        append_globs: absolute paths of files that only ever grow.
        outside: how much of outside files is taken.
        lineage: by which the second names of adopted files are told apart.
        freeze_limit_seconds: no longer is a session frozen for one save.
        is_made_anew: whether a path in the session folder is the session's, not the task's.
        tick_ns: how long two versions of a file may carry one stamp; None: by its file system.
        clones: the folder for clones of large files, made when one is needed; None: none are made.
    """

    attempt: int
    launch: LaunchId
    append_globs: tuple[str, ...] = ()
    outside: Kept = Kept.BYTES
    lineage: str = ""
    freeze_limit_seconds: float = 60.0
    is_made_anew: Callable[[str], bool] = lambda _path: False
    tick_ns: int | None = None
    clones: Path | None = None


class Frozen(Struct, kw_only=True):
    """A save whose files are stamped; made by `Capture.freeze`, used up by `take` or `drop`.

    Attributes:
        announcement: what it is of.
        stamps: of the named paths; None where nothing was.
        stamped_at_ns: the wall clock after they were stamped.
        mapped: inodes of files that the task may change through memory.
        guard: what holds the session still.
        stop_until: until when it may, by the monotonic clock.
        unseen: why a named path could not be looked at; it may well be there.
    """

    announcement: Announcement
    stamps: dict[str, Stamp | None] = field(default_factory=dict)
    stamped_at_ns: int = 0
    mapped: frozenset[int] = frozenset()
    guard: ExitStack = field(default_factory=ExitStack)
    stop_until: float = math.inf
    unseen: OSError | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class CapturedSave(Struct, frozen=True, kw_only=True):
    """A save whose bytes are durable, and which nobody sees before its record is put.

    Attributes:
        manifest: what the record is to say.
        notes: what people should know: what was left out, and why.
    """

    manifest: Manifest
    notes: tuple[str, ...] = ()
