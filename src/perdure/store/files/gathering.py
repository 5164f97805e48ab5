"""What belongs to a save: from the paths that a task named to every file, folder and link.

Named paths were stamped when the save's line was read; what is met by walking a named folder is
stamped here. A folder whose ctime is later than the line is torn like a file: a name may have
gone from it. Links are kept where they lead nowhere outside; what cannot be kept is refused where
it was named, and left out with a note where it was met.

Source: docs/decisions/045 (stamps), 046 (links), 047 (outside files).
"""

import os
import re
import stat
from collections.abc import Callable

from msgspec import Struct, field

from perdure.errors import CheckpointTorn, SaveFileMissing, SaveRefused
from perdure.store.files.ownership import Owner, Ownership
from perdure.store.files.roots import Place, Roots, Stamp, link_target, look, not_regular, walk
from perdure.store.manifests.manifest import Entry, EntryType, RootKind

#: So many things may lie in the folders of one save.
ENTRY_LIMIT = 100_000
#: perdure's own files in a session folder; they belong to no save.
OWN_NAMES = frozenset({"checkpoint_committed.json", "cancel_info.json"})
OWN_PREFIX = ".perdure-"
_STAGED_NAME = re.compile(r"\.perdure-[0-9a-f]{32}")
_NOTE_LIMIT = 20
# Asked for each of many thousand files: an enum's member takes longer to find than to compare.
_SESSION, _TASK, _OTHER = RootKind.SESSION, Owner.TASK, Owner.OTHER


def is_staged_name(name: str) -> bool:
    """Whether it is one under which a restore stages a file; one that was killed leaves some."""
    return _STAGED_NAME.fullmatch(name) is not None


class Line(Struct, frozen=True, kw_only=True):
    """When a save's line was read, and when its files were stamped, by the wall clock."""

    read_at_ns: int
    stamped_at_ns: int

    def has_passed(self, changed_at_ns: int, stamped_at_ns: int) -> bool:
        """Whether what changed last at ``changed_at_ns`` changed after the line.

        A time later than our clock when the stamp was taken is another clock's: it tells nothing.
        """
        return self.read_at_ns < changed_at_ns <= stamped_at_ns


class Found(Struct, frozen=True, kw_only=True, gc=False):
    """A file of the dataset, before its bytes are taken.

    Attributes:
        place: where.
        stamp: the version that is wanted.
        mode: its permission bits; 0 where it has vanished.
        owner: whose it is.
        is_late: whether this version is later than the save's line.
    """

    place: Place
    stamp: Stamp
    mode: int
    owner: Owner
    is_late: bool


class Gathered(Struct, kw_only=True):
    """All that belongs to a save.

    Attributes:
        files: by place.
        others: folders, links and what is absent, by place.
        file: where the save's file is.
        notes: what was left out, and why.
    """

    files: dict[Place, Found] = field(default_factory=dict)
    others: dict[Place, Entry] = field(default_factory=dict)
    file: Place | None = None
    notes: list[str] = field(default_factory=list)
    left_out: int = 0


class Gatherer:
    """Finds what belongs to one save; for one thread.

    Args:
        roots: where the job's files may lie.
        ownership: whose outside files are.
        line: the save's.
        wall_ns: the wall clock.
        is_made_anew: whether a path in the session folder is none of the task's: made anew in each
            session, under another name.
        told_as: what things are left out of, for notes.
    """

    def __init__(
        self,
        roots: Roots,
        ownership: Ownership,
        line: Line,
        wall_ns: Callable[[], int],
        is_made_anew: Callable[[str], bool] = lambda _path: False,
        *,
        told_as: str = "part of the checkpoint",
    ) -> None:
        self._roots = roots
        self._ownership = ownership
        self._line = line
        self._wall_ns = wall_ns
        self._is_made_anew = is_made_anew
        self._told_as = told_as
        self._walked = 0
        self._result = Gathered()

    def gather(self, stamps: dict[str, Stamp | None], *, file: str | None) -> Gathered:
        """All that belongs to a save.

        Args:
            stamps: the named paths, as they were when the line was read; None: not there.
            file: which of them is the save's file.

        Raises:
            SaveFileMissing: the save's file was not there.
            SaveRefused: a named path may not be saved, or there is too much.
            CheckpointTorn: a folder has changed since the line.
        """
        for path, stamp in stamps.items():
            place = self._roots.place(path)
            if place.path and self._is_own(place):
                if path == file:
                    raise SaveRefused(
                        f"the save's file {path} belongs to the session, which is made anew",
                        hint="Save into a file of the task's own, in PERDURE_CHECKPOINT_DIR, say.",
                        path=path,
                    )
                self._leave_out(place, "the session or perdure makes it anew")
                continue
            if path == file:
                self._result.file = place
                if stamp is None:
                    raise SaveFileMissing(
                        f"the save's file {path} is not there",
                        hint="Write the file before announcing the save; the last save stays.",
                        path=path,
                    )
            if stamp is None:
                self._add_missing(place)
            else:
                self._add_named(place, stamp)
        result = self._result
        if result.left_out > len(result.notes):
            result.notes.append(f"{result.left_out} things were left out in all")
        return result

    def _add_named(self, place: Place, stamp: Stamp) -> None:
        about = look(place)
        if about is None:  # it has vanished; early bytes may have it
            self._add_file(place, stamp, 0, is_named=True)
        elif stat.S_ISLNK(about.st_mode):
            self._add_named_link(place, stamp)
        elif stat.S_ISDIR(about.st_mode):
            self._add_folder(place, about)
        elif stat.S_ISREG(about.st_mode):
            self._add_file(place, stamp, about.st_mode, is_named=True)
        else:
            raise not_regular(place)

    def _add_missing(self, place: Place) -> None:
        """Record that nothing was there, or a link that leads to nothing yet."""
        about = look(place)
        is_link = about is not None and stat.S_ISLNK(about.st_mode)
        target = link_target(place, self._roots) if is_link else None
        if target is None:
            self._add_other(place, EntryType.ABSENT)
        else:
            self._add_other(place, EntryType.LINK, target=target)

    def _add_named_link(self, place: Place, stamp: Stamp) -> None:
        """Keep the link and what it leads to."""
        target = link_target(place, self._roots)
        if target is None:
            raise SaveRefused(
                f"{place.shown} is a link that leads out of the job's folders",
                hint="Declare the file that it leads to, and allow its folder with --allow-root.",
                path=place.shown,
            )
        self._add_other(place, EntryType.LINK, target=target)
        end = self._roots.place(os.path.realpath(place.absolute))
        about = look(end)
        if about is not None and stat.S_ISLNK(about.st_mode):
            raise CheckpointTorn(f"the link {place.shown} changed while it was saved")
        self._add_named(end, stamp)

    def _add_folder(self, place: Place, about: os.stat_result) -> None:
        if place.path:
            self._add_met_folder(place, about, is_named=True)
        for below, found in walk(place, limit=ENTRY_LIMIT - self._walked):
            self._walked += 1
            if self._is_own(below):
                continue
            if stat.S_ISDIR(found.st_mode):
                self._add_met_folder(below, found, is_named=False)
            elif stat.S_ISREG(found.st_mode):
                self._add_file(below, Stamp.of(found), found.st_mode, is_named=False)
            elif stat.S_ISLNK(found.st_mode):
                self._add_met_link(below, found)
            else:
                self._leave_out(below, "it is no regular file")

    def _is_own(self, place: Place) -> bool:
        """Whether perdure wrote it: what a killed restore left, or its own in a session folder."""
        path = place.path
        if OWN_PREFIX in path and is_staged_name(path.rpartition("/")[2]):
            return True
        if place.root.kind is not _SESSION:
            return False
        is_ours = path in OWN_NAMES or path.startswith(OWN_PREFIX)
        return is_ours or self._is_made_anew(path)

    def _add_met_folder(self, place: Place, about: os.stat_result, *, is_named: bool) -> None:
        if self._line.has_passed(about.st_ctime_ns, self._wall_ns()):
            raise torn(place)
        if self._owner(place, about.st_ctime_ns, is_named=is_named) is Owner.TASK:
            self._add_other(place, EntryType.FOLDER, about=about)

    def _add_met_link(self, place: Place, about: os.stat_result) -> None:
        if self._owner(place, about.st_ctime_ns, is_named=False) is not Owner.TASK:
            return
        try:
            target = link_target(place, self._roots)
        except OSError:
            raise torn(place) from None
        if target is None:
            self._leave_out(place, "the link leads outside")
        else:
            self._add_other(place, EntryType.LINK, target=target)

    def _add_file(self, place: Place, stamp: Stamp, mode: int, *, is_named: bool) -> None:
        owner = self._owner(place, stamp.ctime_ns, is_named=is_named)
        if owner is _OTHER:
            return
        is_late = stamp.ctime_ns > self._line.read_at_ns  # few are: a look at the clock saved
        if is_late:
            stamped_at_ns = self._line.stamped_at_ns if is_named else self._wall_ns()
            is_late = self._line.has_passed(stamp.ctime_ns, stamped_at_ns)
        found = Found(
            place=place,
            stamp=stamp,
            mode=mode & 0o777,
            owner=owner,
            is_late=is_late,
        )
        if is_named:
            self._result.files[place] = found
        else:  # what was stamped as the line was read stays
            self._result.files.setdefault(place, found)

    def _owner(self, place: Place, changed_at_ns: int, *, is_named: bool) -> Owner:
        if place.root.kind is _SESSION:
            return _TASK
        return self._ownership.judge(place.shown, changed_at_ns, is_named=is_named)

    def _add_other(
        self,
        place: Place,
        kind: EntryType,
        *,
        target: str = "",
        about: os.stat_result | None = None,
    ) -> None:
        self._result.others[place] = Entry(
            root=0,
            path=place.path,
            type=kind,
            target=target,
            mode=about.st_mode & 0o777 if about else 0,
            mtime_ns=about.st_mtime_ns if about else 0,
        )

    def _leave_out(self, place: Place, why: str) -> None:
        self._result.left_out += 1
        if len(self._result.notes) < _NOTE_LIMIT:
            self._result.notes.append(f"{place.shown} is not {self._told_as}: {why}")


def torn(place: Place) -> CheckpointTorn:
    """The error for what changed after its save's line."""
    return CheckpointTorn(
        f"{place.shown} changed after its save was announced and before it could be read",
        hint="Write a new file and rename it, or wait for checkpoint_committed.json.",
        path=place.shown,
    )
