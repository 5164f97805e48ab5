"""Taking a save: from what a task announced to a manifest whose bytes are durable.

Theory of operation. Two threads use a `Capture`. The *reader*, as it reads a save's line, calls
`freeze`: the named files are stamped at once, so that the save is what the files were then. The
*capture thread* calls `announce` as files are declared (their bytes are taken early, while the
task still runs), and `take` for a frozen save: every file is read as the version that it had when
it was frozen (`perdure.store.capture.dataset_reading`), from the early bytes if those are of that
very version. A file that has changed since the line is *torn*, and the save is not taken: the one
before it stays. After two torn saves in a row the session is frozen (``freezer``) from the moment
a line is read until its bytes are taken.

A save costs the sync of its pack and of the pack's folder, here, and of its record, by the
caller. A save without files costs nothing here.

Outside of the session folder only what this lineage wrote is taken
(`perdure.store.files.ownership`).

Crash behaviour: whatever was taken is invisible until the caller puts the record.

Source: design decisions in docs/decisions/045 to 048.
"""

import math
import os
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from fnmatch import fnmatchcase

from msgspec.structs import replace

from perdure.errors import CheckpointTorn, PerdureError, SaveRefused, StoreDamaged
from perdure.store.capture.clones import CLONED_FROM_BYTES, Clones
from perdure.store.capture.dataset_reading import DatasetReader, Reading, Version, Wanted
from perdure.store.capture.describing import Taken, describe
from perdure.store.capture.save_values import Announcement, CapturedSave, CaptureSettings, Frozen
from perdure.store.files.adopting import adopt, hold_name
from perdure.store.files.file_systems import kind_of, tick_ns
from perdure.store.files.gathering import Found, Gathered, Gatherer, Line, torn
from perdure.store.files.mapped_files import mapped_inodes
from perdure.store.files.ownership import Owner, Ownership
from perdure.store.files.roots import Place, Roots, Stamp, stamp_of
from perdure.store.layout import PackId
from perdure.store.manifests.manifest import (
    Kept,
    RootKind,
)
from perdure.store.packs.block_threads import BlockThreads
from perdure.store.packs.pack_writing import PackWriter

#: So many named files are stamped by the reader itself: some milliseconds at most.
FROZEN_AT_ONCE = 256
#: After so many torn saves in a row the session is frozen for the next one.
TORN_BEFORE_FREEZING = 2
# Bytes of a smaller file are taken over by its stamp; a larger one is read again for each save.
_TRUSTED_BY_STAMP_BYTES = 8 << 20
# A recorded file that is larger is known by size and time only.
_RECORDED_DIGEST_BYTES = 64 << 20

# No longer is waited for a tick; where stamps are coarser still a version is read again.
_LONGEST_TICK_NS = 1_000_000_000
#: File systems that write nothing back, so that no store through memory is ever seen.
_NEVER_WRITTEN_BACK = frozenset({"tmpfs", "ramfs", "hugetlbfs", ""})

# Packs are deleted by this lineage's owner only; more than once a save is somebody else's doing.
_LOST_PACK_TRIES = 3

# Asked for each of many thousand files: an enum's member takes longer to find than to compare.
_INPUT, _OUTSIDE, _BYTES, _ADOPTED = Owner.INPUT, RootKind.OUTSIDE, Kept.BYTES, Kept.ADOPTED

Freezer = Callable[[], AbstractContextManager[None]]


class Capture:
    """Takes the saves of one attempt.

    Args:
        roots: where its files may lie.
        writer: where their bytes go.
        settings: see `CaptureSettings`.
        ownership: whose outside files are.
        freezer: stops the session while its context is entered; None where that cannot be done.
        pids: the processes of the task, as far as they are known.
        wall_ns: the wall clock.
    """

    def __init__(
        self,
        roots: Roots,
        writer: PackWriter,
        settings: CaptureSettings,
        *,
        ownership: Ownership,
        freezer: Freezer | None = None,
        pids: Callable[[], Iterable[int]] = tuple,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._roots = roots
        self._writer = writer
        self._settings = settings
        self._ownership = ownership
        self._freezer = freezer
        self._pids = pids
        self._wall_ns = wall_ns
        self._reader = DatasetReader(writer, BlockThreads())
        self._clones = Clones(settings.clones)
        self._versions: dict[Place, Version] = {}
        self._adopted_digests: dict[str, bytes] = {}
        self._torn_in_a_row = 0
        self._is_urgent = False

    def hurry(self) -> None:
        """From now on nothing is more important than the capture; may come from any thread."""
        self._is_urgent = True

    def announce(self, paths: tuple[str, ...]) -> None:
        """Take the bytes of declared files now; a save that finds them unchanged needs no others.

        Blocks while reading. What cannot be read now is left to the save, which says so; only the
        store's own errors are raised.
        """
        now = self._wall_ns()
        line = Line(read_at_ns=now, stamped_at_ns=now)
        mapped = mapped_inodes(self._pids())
        early: list[Found] = []
        for path in paths:
            with suppress(OSError, SaveRefused, CheckpointTorn):
                gatherer = self._gatherer(line)
                gathered = gatherer.gather({path: Stamp.of(os.stat(path))}, file=None)  # noqa: PTH116 - as `freeze` does
                early += gathered.files.values()
        wanted = [found for found in early if self._is_worth_it(found, mapped)]
        self._wait_for_tick(wanted)
        try:
            self._take_early(wanted)
        except PerdureError:
            self._forget()
            raise

    def _gatherer(self, line: Line) -> Gatherer:
        return Gatherer(
            self._roots, self._ownership, line, self._wall_ns, self._settings.is_made_anew
        )

    def _is_worth_it(self, found: Found, mapped: frozenset[int]) -> bool:
        """Whether a save could use bytes of the file that are taken now."""
        known = self._versions.get(found.place)
        is_same = known is not None and known.stamp == found.stamp
        is_mapped = found.stamp.inode in mapped
        return not is_same and not is_mapped and self._kept(found) is Kept.BYTES

    def _wait_for_tick(self, early: list[Found]) -> None:
        """Wait until a new version of what was written just now would carry another stamp."""
        now = self._wall_ns()
        waits = [
            tick - (now - found.stamp.ctime_ns)
            for found in early
            if 0 <= now - found.stamp.ctime_ns < (tick := self._tick_ns(found.stamp))
            and tick <= _LONGEST_TICK_NS
        ]
        if waits:
            time.sleep(max(waits) / 1e9)

    def _take_early(self, early: list[Found]) -> None:
        reading = self._reading(None, frozenset())
        for one in early:
            # Each for itself: one that cannot be read does not keep the others from being taken.
            with suppress(OSError, SaveRefused):
                for wanted, version in self._reader.read([self._wanted(one, Kept.BYTES)], reading):
                    if version is not None:
                        self._versions[wanted.place] = version

    def freeze(self, announcement: Announcement) -> Frozen:
        """Stamp a save's files, now; for the reader, as it has read the line.

        Never blocks for long: at most `FROZEN_AT_ONCE` files are looked at; `complete` stamps the
        others, and belongs to another thread. Files that the task maps into memory are frozen with
        it until they are written back.
        """
        frozen = Frozen(announcement=announcement, mapped=mapped_inodes(self._pids()))
        if self._torn_in_a_row >= TORN_BEFORE_FREEZING:
            self._hold(frozen)
        self._stamp(frozen, announcement.named[:FROZEN_AT_ONCE])
        if self._mapped(frozen):
            self._hold(frozen)
        return frozen

    def _hold(self, frozen: Frozen) -> None:
        """Hold the session still, unless it is."""
        if self._freezer is not None and frozen.stop_until == math.inf:
            frozen.guard.enter_context(self._freezer())
            frozen.stop_until = time.monotonic() + self._settings.freeze_limit_seconds

    def _mapped(self, frozen: Frozen) -> list[str]:
        """The named files that the task may change through memory."""
        return [
            path
            for path, stamp in frozen.stamps.items()
            if stamp is not None and stamp.inode in frozen.mapped
        ]

    def complete(self, frozen: Frozen) -> None:
        """Stamp the named files beyond `FROZEN_AT_ONCE`; done once, by any thread."""
        with frozen.lock:
            self._stamp(frozen, frozen.announcement.named[len(frozen.stamps) :])

    def _stamp(self, frozen: Frozen, paths: tuple[str, ...]) -> None:
        for path in paths:
            try:
                frozen.stamps[path] = stamp_of(path)
            except OSError as error:
                frozen.stamps[path] = None
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
        self._write_back(frozen)
        announcement = frozen.announcement
        line = Line(read_at_ns=announcement.line_at_ns, stamped_at_ns=frozen.stamped_at_ns)
        gatherer = self._gatherer(line)
        gathered = gatherer.gather(frozen.stamps, file=announcement.file)
        taken, new_bytes = self._take_files(gathered, frozen)
        frozen.guard.close()
        self._torn_in_a_row = 0
        self._keep_versions(taken)
        key_id = self._writer.sealing.key_id
        manifest = describe(announcement, self._settings, gathered, taken, new_bytes, key_id)
        return CapturedSave(manifest=manifest, notes=tuple(gathered.notes))

    def _write_back(self, frozen: Frozen) -> None:
        """Make every later store through memory move the file's times."""
        for path in self._mapped(frozen):
            with suppress(OSError):
                fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
                try:
                    os.fsync(fd)
                finally:
                    os.close(fd)
        if self._torn_in_a_row < TORN_BEFORE_FREEZING:
            frozen.guard.close()

    def _keep_versions(self, taken: list[Taken]) -> None:
        """A large file is read again for each save, unless its clone tells what changed."""
        large = [
            place
            for place, version in self._versions.items()
            if version.stamp.size > _TRUSTED_BY_STAMP_BYTES
        ]
        for place in large:
            del self._versions[place]
        self._clones.keep(
            (one.found.place, one.version.blocks) for one in taken if one.version is not None
        )

    def _take_files(self, gathered: Gathered, frozen: Frozen) -> tuple[list[Taken], int]:
        """The files with all their bytes durable, and how many bytes were stored for them."""
        new_bytes = 0
        for _ in range(_LOST_PACK_TRIES):
            taken = self._take_all(gathered, frozen)
            new_bytes += self._writer.new_bytes
            self._writer.finish()
            lost = self._writer.lost_packs(
                block for one in taken if one.version for block in one.version.blocks
            )
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
        self._clones.forget(packs)
        self._versions = {
            place: version
            for place, version in self._versions.items()
            if all(block.pack not in packs for block in version.blocks)
        }

    def _kept(self, found: Found) -> Kept:
        """How much of a file is taken."""
        if found.owner is _INPUT:
            return Kept.INPUT
        return self._settings.outside if found.place.root.kind is _OUTSIDE else _BYTES

    def _take_all(self, gathered: Gathered, frozen: Frozen) -> list[Taken]:
        """Every file's version that it had when the line was read.

        Raises:
            CheckpointTorn: nobody has the bytes of one of them any more.
        """
        taken: list[Taken] = []
        wanted: list[Wanted] = []
        for number, found in enumerate(gathered.files.values()):
            kept = self._kept(found)
            known = self._known(found, kept, frozen)
            if known is None and kept is _ADOPTED:
                taken.append(self._adopt(found, frozen))
                continue
            taken.append(Taken(found=found, kept=kept, version=known))
            if known is not None:
                continue
            if found.is_late and not self._grows(found.place):
                raise torn(found.place)
            if found.stamp.size <= _RECORDED_DIGEST_BYTES or kept is not Kept.RECORD:
                wanted.append(self._wanted(found, kept, frozen, number))
        for one, version in self._read(wanted, self._reading(frozen, frozen.mapped)):
            if version is None:
                raise torn(one.place)
            if one.stamp.inode not in frozen.mapped:
                self._versions[one.place] = version
            taken[one.number].version = version
        self._read_twice([one for one in wanted if one.stamp.inode in frozen.mapped], taken)
        return taken

    def _adopt(self, found: Found, frozen: Frozen) -> Taken:
        """A file that stays where it is, made durable and held; its digest is known later.

        Whether it is late is told by its mtime: our own links move its ctime.
        """
        line_ns = frozen.announcement.line_at_ns
        is_late = line_ns < found.stamp.mtime_ns <= frozen.stamped_at_ns
        name = hold_name(self._settings.lineage, found.place, found.stamp)
        held = None if is_late else adopt(found.place, found.stamp, name)
        if held is None:
            raise torn(found.place)
        digest = self._adopted_digests.get(name, b"")
        version = Version(
            stamp=found.stamp, mode=found.mode, blocks=(), digest=digest, is_kept=False
        )
        return Taken(found=found, kept=Kept.ADOPTED, version=version, hold=held)

    def learn(self, digests: Mapping[str, bytes]) -> None:
        """Digests of adopted files, by their second names; for the capture thread."""
        self._adopted_digests.update(digests)

    def _known(self, found: Found, kept: Kept, frozen: Frozen) -> Version | None:
        """The wanted version, if its bytes were taken before."""
        known = self._versions.get(found.place) if self._versions else None
        if known is None or known.stamp != found.stamp or known.is_kept != (kept is _BYTES):
            return None
        if known.is_racy or found.stamp.inode in frozen.mapped:
            return None
        return known

    def _wanted(
        self, found: Found, kept: Kept, frozen: Frozen | None = None, number: int = 0
    ) -> Wanted:
        is_kept = kept is _BYTES
        clone = None
        grows = self._grows(found.place)
        is_large = found.stamp.size >= CLONED_FROM_BYTES
        if is_large and frozen is not None and is_kept and not grows:
            clone = self._clones.of(found.place, found.stamp)
        return Wanted(
            number=number,
            place=found.place,
            stamp=found.stamp,
            grows=grows,
            is_kept=is_kept,
            clone=clone.path if clone else None,
            known=clone.known if clone else (),
        )

    def _reading(self, frozen: Frozen | None, mapped: frozenset[int]) -> Reading:
        """How files are read now."""
        began = self._wall_ns()
        ticks: dict[int, int] = {}

        def is_racy(stamp: Stamp) -> bool:
            tick = ticks.get(stamp.device)
            if tick is None:
                tick = ticks[stamp.device] = self._tick_ns(stamp)
            return 0 <= began - stamp.ctime_ns < tick

        def pause() -> None:
            if frozen is not None and time.monotonic() > frozen.stop_until:
                frozen.guard.close()

        return Reading(
            mapped=mapped,
            pause=pause,
            is_racy=is_racy,
            in_background=not self._is_urgent,
            only_clones_left=lambda: frozen.guard.close() if frozen is not None else None,
        )

    def _tick_ns(self, stamp: Stamp) -> int:
        tick = self._settings.tick_ns
        return tick_ns(stamp.device) if tick is None else tick

    def _read(
        self, wanted: list[Wanted], reading: Reading
    ) -> Iterator[tuple[Wanted, Version | None]]:
        try:
            yield from self._reader.read(wanted, reading)
        except PermissionError as error:
            raise SaveRefused(
                f"{error.filename or 'a file of the save'} cannot be read",
                hint="The task's user must be able to read what it declares.",
            ) from error

    def _read_twice(self, mapped: list[Wanted], taken: list[Taken]) -> None:
        """Where no time tells of stores through memory, two equal readings do."""
        again = [
            replace(one, is_kept=False, clone=None, known=())
            for one in mapped
            if kind_of(one.stamp.device) in _NEVER_WRITTEN_BACK
        ]
        if not again:
            return
        for one, version in self._read(again, self._reading(None, frozenset())):
            first = taken[one.number].version
            if version is None or first is None or version.digest != first.digest:
                raise torn(one.place)

    def _grows(self, place: Place) -> bool:
        patterns = self._settings.append_globs
        return bool(patterns) and any(fnmatchcase(str(place.absolute), one) for one in patterns)

    def _forget(self) -> None:
        self._writer.abandon()
        self._versions.clear()
        self._clones.drop()


def _unreadable(error: OSError) -> SaveRefused:
    return SaveRefused(
        f"a file of the save cannot be read: {error.filename or ''}: {error.strerror}",
        hint="The task's user must be able to read what it declares.",
    )
