"""Taking a save: from what a task announced to a manifest whose bytes are durable.

Theory of operation. Two threads use a `Capture`. The *reader*, as it reads a save's line, calls
`freeze`: the named files are stamped at once, so that the save is what the files were then. The
*capture thread* calls `announce` as files are declared (their bytes are taken early, while the
task still runs), and `take` for a frozen save: every file is read as the version that it had when
it was frozen (`perdure.store.dataset_reading`), from the early bytes if those are of that very
version. A file that has changed since the line is *torn*, and the save is not taken: the one
before it stays. After two torn saves in a row the session is frozen (``freezer``) from the moment
a line is read until its bytes are taken.

A save costs the sync of its pack and of the pack's folder, here, and of its record, by the
caller. A save without files costs nothing here.

Outside of the session folder only what this lineage wrote is taken (`perdure.store.ownership`).

Crash behaviour: whatever was taken is invisible until the caller puts the record.

Source: design decisions in docs/decisions/045 to 048.
"""

import errno
import math
import os
import threading
import time
from collections.abc import Callable, Container
from contextlib import AbstractContextManager, ExitStack, suppress
from fnmatch import fnmatchcase

from msgspec import Struct, field
from msgspec.structs import replace

from perdure.errors import CheckpointTorn, PerdureError, SaveRefused, StoreDamaged
from perdure.store.dataset_reading import Reading, Version, read_version, tick_ns
from perdure.store.gathering import Found, Gathered, Gatherer, Line, torn
from perdure.store.layout import LaunchId, PackId
from perdure.store.manifest import (
    SESSION_ROOT,
    Entry,
    EntryType,
    FileRef,
    Kept,
    Manifest,
    RootKind,
)
from perdure.store.ownership import Owner, Ownership
from perdure.store.packs import PackWriter, StoredBlock, number_packs, to_block
from perdure.store.roots import Place, Roots, Stamp

#: So many named files are stamped by the reader itself: some milliseconds at most.
FROZEN_AT_ONCE = 256
#: After so many torn saves in a row the session is frozen for the next one.
TORN_BEFORE_FREEZING = 2
# Bytes of a smaller file are taken over by its stamp; a larger one is read again for each save.
_TRUSTED_BY_STAMP_BYTES = 8 << 20
# A recorded file that is larger is known by size and time only.
_RECORDED_DIGEST_BYTES = 64 << 20

# Packs are deleted by this lineage's owner only; more than once a save is somebody else's doing.
_LOST_PACK_TRIES = 3

# What a stat says of a path that leads to nothing.
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})

Freezer = Callable[[], AbstractContextManager[None]]


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
        records_outside: True: outside files are recorded, their bytes stay where they are.
        freeze_limit_seconds: no longer is a session frozen for one save.
        is_made_anew: whether a path in the session folder is the session's, not the task's.
        tick_ns: how long two versions of a file may carry one stamp here.
    """

    attempt: int
    launch: LaunchId
    append_globs: tuple[str, ...] = ()
    records_outside: bool = False
    freeze_limit_seconds: float = 60.0
    is_made_anew: Callable[[str], bool] = lambda _path: False
    tick_ns: int = tick_ns(os.uname().release)


class Frozen(Struct, kw_only=True):
    """A save whose files are stamped; made by `Capture.freeze`, used up by `take` or `drop`.

    Attributes:
        announcement: what it is of.
        stamps: of the named paths; None where nothing was.
        stamped_at_ns: the wall clock after they were stamped.
        guard: what holds the session still.
        stop_until: until when it may, by the monotonic clock.
        unseen: why a named path could not be looked at; it may well be there.
    """

    announcement: Announcement
    stamps: dict[str, Stamp | None] = field(default_factory=dict)
    stamped_at_ns: int = 0
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


class _Taken(Struct, frozen=True, kw_only=True):
    """One entry and its blocks, whose packs have no numbers yet."""

    place: Place
    entry: Entry
    blocks: tuple[StoredBlock, ...] = ()


class Capture:
    """Takes the saves of one attempt.

    Args:
        roots: where its files may lie.
        writer: where their bytes go.
        settings: see `CaptureSettings`.
        ownership: whose outside files are.
        freezer: stops the session while its context is entered; None where that cannot be done.
        wall_ns: the wall clock.
        settle: called with an open file before it is stamped for reading.
    """

    def __init__(
        self,
        roots: Roots,
        writer: PackWriter,
        settings: CaptureSettings,
        *,
        ownership: Ownership,
        freezer: Freezer | None = None,
        wall_ns: Callable[[], int] = time.time_ns,
        settle: Callable[[int], None] = lambda _fd: None,
    ) -> None:
        self._roots = roots
        self._writer = writer
        self._settings = settings
        self._ownership = ownership
        self._freezer = freezer
        self._wall_ns = wall_ns
        self._settle = settle
        self._versions: dict[Place, Version] = {}
        self._torn_in_a_row = 0

    @property
    def torn_in_a_row(self) -> int:
        """How many saves were torn since the last one that was taken."""
        return self._torn_in_a_row

    def announce(self, paths: tuple[str, ...]) -> None:
        """Take the bytes of declared files now; a save that finds them unchanged needs no others.

        Blocks while reading. What cannot be read now is left to the save, which says so; only the
        store's own errors are raised.
        """
        now = self._wall_ns()
        line = Line(read_at_ns=now, stamped_at_ns=now)
        for path in paths:
            with suppress(OSError, SaveRefused, CheckpointTorn):
                gatherer = self._gatherer(line)
                gathered = gatherer.gather({path: Stamp.of(os.stat(path))}, file=None)  # noqa: PTH116 - as `freeze` does
                for found in gathered.files.values():
                    self._take_early(found)

    def _gatherer(self, line: Line) -> Gatherer:
        return Gatherer(
            self._roots, self._ownership, line, self._wall_ns, self._settings.is_made_anew
        )

    def _take_early(self, found: Found) -> None:
        known = self._versions.get(found.place)
        is_same = known is not None and known.stamp == found.stamp
        if is_same or self._kept(found) is not Kept.BYTES:
            return
        age_ns = self._wall_ns() - found.stamp.ctime_ns
        if 0 <= age_ns < self._settings.tick_ns:
            time.sleep((self._settings.tick_ns - age_ns) / 1e9)
        try:
            version = self._read(found, None, is_kept=True)
        except PerdureError:
            self._forget()
            raise
        if version is not None:
            self._versions[found.place] = version

    def freeze(self, announcement: Announcement) -> Frozen:
        """Stamp a save's files, now; for the reader, as it has read the line.

        Never blocks for long: at most `FROZEN_AT_ONCE` files are looked at; `complete` stamps the
        others, and belongs to another thread.
        """
        frozen = Frozen(announcement=announcement)
        if self._freezer is not None and self._torn_in_a_row >= TORN_BEFORE_FREEZING:
            frozen.guard.enter_context(self._freezer())
            frozen.stop_until = time.monotonic() + self._settings.freeze_limit_seconds
        self._stamp(frozen, announcement.named[:FROZEN_AT_ONCE])
        return frozen

    def complete(self, frozen: Frozen) -> None:
        """Stamp the named files beyond `FROZEN_AT_ONCE`; done once, by any thread."""
        with frozen.lock:
            self._stamp(frozen, frozen.announcement.named[len(frozen.stamps) :])

    def _stamp(self, frozen: Frozen, paths: tuple[str, ...]) -> None:
        for path in paths:
            # By the path as it is: what is read later is known by device and inode.
            try:
                frozen.stamps[path] = Stamp.of(os.stat(path))  # noqa: PTH116 - half the time of Path
            except ValueError:
                frozen.stamps[path] = None
            except OSError as error:
                frozen.stamps[path] = None
                if error.errno not in _NOT_THERE:
                    frozen.unseen = error
        frozen.stamped_at_ns = self._wall_ns()

    def drop(self, frozen: Frozen) -> None:
        """Give up a frozen save that a newer one supersedes."""
        frozen.guard.close()

    def take(self, frozen: Frozen) -> CapturedSave:
        """The save with all its bytes durable; blocks while they are read and written.

        Raises:
            CheckpointTorn: a file changed between the line and the reading.
            SaveFileMissing: the save's ``file`` is not there.
            SaveRefused: it names what may not be saved, or cannot be read.
            OutOfSpace: and the like: the store did not take it.
        """
        try:
            return self._take(frozen)
        except CheckpointTorn:
            self._torn_in_a_row += 1
            self._forget()
            raise
        except OSError as error:
            self._forget()
            raise _unreadable(error) from error
        except BaseException:
            self._forget()
            raise
        finally:
            frozen.guard.close()

    def _take(self, frozen: Frozen) -> CapturedSave:
        self.complete(frozen)
        if frozen.unseen is not None:
            raise frozen.unseen
        announcement = frozen.announcement
        line = Line(read_at_ns=announcement.line_at_ns, stamped_at_ns=frozen.stamped_at_ns)
        gatherer = self._gatherer(line)
        gathered = gatherer.gather(frozen.stamps, file=announcement.file)
        taken, new_bytes = self._take_files(gathered, frozen)
        frozen.guard.close()
        self._torn_in_a_row = 0
        # A large file is read again for each save: a memory map may have changed it unseen.
        self._versions = {
            place: version
            for place, version in self._versions.items()
            if version.stamp.size <= _TRUSTED_BY_STAMP_BYTES
        }
        taken += [
            _Taken(place=place, entry=entry)
            for place, entry in gathered.others.items()
            if place not in gathered.files
        ]
        manifest = _manifest(announcement, self._settings, gathered.file, taken, new_bytes)
        return CapturedSave(manifest=manifest, notes=tuple(gathered.notes))

    def _take_files(self, gathered: Gathered, frozen: Frozen) -> tuple[list[_Taken], int]:
        """The files with all their bytes durable, and how many bytes were stored for them."""
        new_bytes = 0
        for _ in range(_LOST_PACK_TRIES):
            taken = [self._take_file(found, frozen) for found in gathered.files.values()]
            new_bytes += self._writer.new_bytes
            self._writer.finish()
            lost = self._writer.lost_packs(block for one in taken for block in one.blocks)
            if not lost:
                return taken, new_bytes
            self.forget(lost)
        raise StoreDamaged(
            "packs vanish from the store while a save is taken",
            hint="Something else deletes there: keep it away, then run `perdure verify`.",
            packs=tuple(sorted(lost)),
        )

    def forget(self, packs: Container[PackId]) -> None:
        """Rest no save on ``packs`` any more; for the capture thread, after each prune record."""
        self._writer.forget(packs)
        self._versions = {
            place: version
            for place, version in self._versions.items()
            if all(block.pack not in packs for block in version.blocks)
        }

    def _kept(self, found: Found) -> Kept:
        """How much of a file is taken."""
        if found.owner is Owner.INPUT:
            return Kept.INPUT
        is_outside = found.place.root.kind is RootKind.OUTSIDE
        return Kept.RECORD if is_outside and self._settings.records_outside else Kept.BYTES

    def _take_file(self, found: Found, frozen: Frozen) -> _Taken:
        kept = self._kept(found)
        version = None
        if kept is not Kept.RECORD or found.stamp.size <= _RECORDED_DIGEST_BYTES:
            version = self._version(found, frozen, is_kept=kept is Kept.BYTES)
        entry = Entry(
            root=0,
            path=found.place.path,
            type=EntryType.FILE,
            mode=version.mode if version else found.mode,
            mtime_ns=found.stamp.mtime_ns,
            size=found.stamp.size,
            digest=version.digest if version else b"",
            kept=kept,
        )
        return _Taken(place=found.place, entry=entry, blocks=version.blocks if version else ())

    def _version(self, found: Found, frozen: Frozen, *, is_kept: bool) -> Version:
        """The version that the file had when the line was read.

        Raises:
            CheckpointTorn: nobody has its bytes any more.
        """
        if found.is_late and not self._grows(found.place):
            raise torn(found.place)
        known = self._versions.get(found.place)
        if known is not None and known.stamp == found.stamp and known.is_kept == is_kept:
            return known
        version = self._read(found, frozen, is_kept=is_kept)
        if version is None:
            raise torn(found.place)
        self._versions[found.place] = version
        return version

    def _read(self, found: Found, frozen: Frozen | None, *, is_kept: bool) -> Version | None:
        """The version that was found, read now; None if it is there no more."""

        def pause() -> None:
            if frozen is not None and time.monotonic() > frozen.stop_until:
                frozen.guard.close()

        try:
            return read_version(
                found.place,
                found.stamp,
                grows=self._grows(found.place),
                writer=self._writer if is_kept else None,
                how=Reading(settle=self._settle, pause=pause),
            )
        except PermissionError as error:
            raise SaveRefused(
                f"{found.place.shown} cannot be read",
                hint="The task's user must be able to read what it declares.",
                path=found.place.shown,
            ) from error

    def _grows(self, place: Place) -> bool:
        path = str(place.absolute)
        return any(fnmatchcase(path, pattern) for pattern in self._settings.append_globs)

    def _forget(self) -> None:
        self._writer.abandon()
        self._versions.clear()


def _manifest(
    announcement: Announcement,
    settings: CaptureSettings,
    file: Place | None,
    taken: list[_Taken],
    new_bytes: int,
) -> Manifest:
    """The description of what was taken, with roots and packs numbered."""
    used = {one.place.root for one in taken} | ({file.root} if file else set())
    roots = (SESSION_ROOT, *sorted(used - {SESSION_ROOT}, key=lambda root: root.path))
    packs = number_packs(one.blocks for one in taken)
    leaves = {one.place for one in taken if one.entry.type is not EntryType.FOLDER}
    entries = [
        replace(
            one.entry,
            root=roots.index(one.place.root),
            blocks=tuple(to_block(block, packs) for block in one.blocks),
        )
        for one in taken
        if one.entry.type is not EntryType.ABSENT or leaves.isdisjoint(one.place.parents())
    ]
    return Manifest(
        attempt=settings.attempt,
        launch=settings.launch,
        save=announcement.save,
        state=announcement.state,
        file=None if file is None else FileRef(root=roots.index(file.root), path=file.path),
        roots=roots,
        packs=tuple(packs),
        entries=tuple(sorted(entries, key=lambda entry: (entry.root, entry.path))),
        new_bytes=new_bytes,
    )


def _unreadable(error: OSError) -> SaveRefused:
    return SaveRefused(
        f"a file of the save cannot be read: {error.filename or ''}: {error.strerror}",
        hint="The task's user must be able to read what it declares.",
    )
