"""Putting a checkpoint back: verified before anything is changed, and repeatable when it is killed.

Theory of operation. First everything is decided: for each entry where it goes on this host, and
for outside files whether they may be written (`perdure.store.outside_decision`); all conflicts
are told at once, and nothing has been touched. Then every file that is needed is written beside
its place under a temporary name, each block checked as it is read; a damaged checkpoint ends
here, and nothing has been touched but temporary names. Only then the files get their names, what
they replace outside being renamed first. A restore that is killed anywhere is simply done again:
what is in place is found equal.

The store is only read. A file that is equal already is left as it is.

Source: design "Resuming"; docs/decisions/048, 049.
"""

from collections.abc import Iterator, Mapping
from os import stat_result
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG

from msgspec import Struct, field

from perdure.errors import CheckpointConflict
from perdure.store.driver import Driver
from perdure.store.manifest import Entry, EntryType, Kept, Manifest, RootKind
from perdure.store.outside_decision import (
    Action,
    Choice,
    Content,
    Present,
    Window,
    by_choice,
    outside_decision,
)
from perdure.store.packs import StoredBlock, read_block, stored_block
from perdure.store.placing import (
    check_unchanged,
    cleaning,
    content_of,
    cut_back,
    drop_staged,
    finish_folder,
    make_folder,
    put_in_place,
    put_link,
    write_staged,
)
from perdure.store.posix_files import in_our_words
from perdure.store.roots import Place, Roots, Stamp, look

_SHOWN_CONFLICTS = 5


class RestoreRequest(Struct, frozen=True, kw_only=True):
    """What is restored, and where to.

    Attributes:
        driver: of the store.
        packs: the lineage's packs prefix.
        manifest: the checkpoint's.
        name: how the checkpoint is called, for errors.
        roots: where the job's files may lie on this host, its new session folder first.
        recorded: by outside path, every content that the lineage recorded.
        windows: when the lineage's attempts ran.
        choice: what a person said about conflicts.
        session_only: True for an imported checkpoint: nothing outside is written.
    """

    driver: Driver
    packs: str
    manifest: Manifest
    name: str
    roots: Roots
    recorded: Mapping[str, frozenset[Content]] = field(default_factory=dict)
    windows: tuple[Window, ...] = ()
    choice: Choice = Choice.ASK
    session_only: bool = False


class Displaced(Struct, frozen=True, kw_only=True):
    """What was there, and what it is called now, in the same folder."""

    path: str
    name: str


class Restored(Struct, frozen=True, kw_only=True):
    """A checkpoint in place.

    Attributes:
        state: the save's text; None when it had none.
        file: where the save's file is now; None when it had none.
        displaced: what was renamed.
        input_changes: inputs that are not what they were at the save, a sentence each.
        notes: what else people should know, a sentence each.
    """

    state: str | None
    file: Path | None
    displaced: tuple[Displaced, ...] = ()
    input_changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class _Step(Struct, frozen=True, kw_only=True):
    """What is done with one entry; ``found`` is what was there when that was decided."""

    entry: Entry
    place: Place
    action: Action
    found: Stamp | None = None


def restore(request: RestoreRequest) -> Restored:
    """Put a checkpoint back; blocks while files are read and written.

    Raises:
        CheckpointCorrupt: saved bytes are damaged; nothing was changed.
        CheckpointConflict: outside files are in the way; nothing was changed.
        OutOfSpace: and the like: it does not fit; nothing was changed, unless the error came while
            files got their names. The restore may be done again in any case.
    """
    with in_our_words("restore into", request.roots.session):
        return _Restore(request).run()


class _Restore:
    """One restore on its way."""

    def __init__(self, request: RestoreRequest) -> None:
        self._request = request
        self._manifest = request.manifest
        self._steps: list[_Step] = []
        self._places: set[Path] = set()
        self._conflicts: list[str] = []
        self._displaced: list[Displaced] = []
        self._input_changes: list[str] = []
        self._notes: list[str] = []

    def run(self) -> Restored:
        file = self._file()
        for entry in self._manifest.entries:
            self._decide(entry)
        self._refuse_conflicts()
        with cleaning(self._drop_staged):
            for step in self._files():
                self._stage(step)
            self._place_all()
        return Restored(
            state=self._manifest.state,
            file=file,
            displaced=tuple(self._displaced),
            input_changes=tuple(self._input_changes),
            notes=tuple(self._notes),
        )

    def _file(self) -> Path | None:
        """Where the save's file will be."""
        ref = self._manifest.file
        if ref is None:
            return None
        root = self._manifest.roots[ref.root]
        is_left_out = self._request.session_only and root.kind is RootKind.OUTSIDE
        place = None if is_left_out else self._request.roots.find(root, ref.path)
        if place is None:
            raise self._not_here(self._manifest.shown_path(ref))
        return place.absolute

    def _decide(self, entry: Entry) -> None:
        root = self._manifest.roots[entry.root]
        shown = self._manifest.shown_path(entry)
        if self._request.session_only and root.kind is RootKind.OUTSIDE:
            self._notes.append(f"{shown} lies outside of the session folder and was not restored")
            return
        place = self._request.roots.find(root, entry.path)
        if entry.kept is not Kept.BYTES or entry.type is EntryType.ABSENT:
            if place is not None:
                self._compare(entry, place)
            return
        if place is None:
            raise self._not_here(shown)
        if place.absolute in self._places:
            raise self._twice(shown)
        self._places.add(place.absolute)
        found = look(place)
        if found is None:
            action = Action.CREATE
        elif root.kind is RootKind.SESSION:
            action = self._session_action(entry, place, found)
        else:
            action = self._outside_action(entry, place, found)
        stamp = None if found is None else Stamp.of(found)
        step = _Step(entry=entry, place=place, action=action, found=stamp)
        match action:
            case Action.CONFLICT:
                self._conflicts.append(shown)
            case Action.KEEP:
                self._notes.append(f"{shown} was kept as it is, not as it was saved")
            case Action.LEAVE:
                if entry.type is EntryType.FOLDER and root.kind is RootKind.SESSION:
                    self._steps.append(step)
            case _:
                self._steps.append(step)

    def _session_action(self, entry: Entry, place: Place, found: stat_result) -> Action:
        """In the session folder everything is the task's."""
        mode = found.st_mode
        if entry.type is EntryType.FOLDER:
            return Action.LEAVE if S_ISDIR(mode) else Action.REPLACE
        if entry.type is EntryType.FILE and S_ISREG(mode) and found.st_size == entry.size:
            is_equal = content_of(place, entry.size) == _content(entry)
            return Action.LEAVE if is_equal else Action.REPLACE
        return Action.REPLACE

    def _outside_action(self, entry: Entry, place: Place, found: stat_result) -> Action:
        mode = found.st_mode
        if entry.type is EntryType.FOLDER and S_ISDIR(mode):
            return Action.LEAVE
        if entry.type is EntryType.LINK and S_ISLNK(mode):
            is_equal = str(place.absolute.readlink()) == entry.target
            return Action.LEAVE if is_equal else by_choice(self._request.choice)
        if entry.type is not EntryType.FILE:
            return by_choice(self._request.choice)
        saved = _content(entry)
        recorded = self._request.recorded.get(place.shown, frozenset()) | {saved}
        return outside_decision(
            saved,
            _present(place, found, saved, {content.size for content in recorded}),
            recorded=recorded,
            windows=self._request.windows,
            choice=self._request.choice,
        )

    def _compare(self, entry: Entry, place: Place) -> None:
        """Say whether what is not restored is as it was."""
        found = look(place)
        if entry.type is EntryType.ABSENT:
            if found is not None:
                self._notes.append(f"{place.shown} was not there at the save, and is left alone")
            return
        change = _change(entry, place, found)
        if change and entry.kept is Kept.INPUT:
            self._input_changes.append(f"the input {place.shown} {change}")
        elif change:
            self._notes.append(f"{place.shown}, which is not kept in the store, {change}")

    def _refuse_conflicts(self) -> None:
        if not self._conflicts:
            return
        shown = ", ".join(self._conflicts[:_SHOWN_CONFLICTS])
        more = len(self._conflicts) - _SHOWN_CONFLICTS
        others = f" and {more} more" if more > 0 else ""
        raise CheckpointConflict(
            f"checkpoint {self._request.name} holds {shown}{others}, and what is there now was"
            " not written by this task",
            hint="Resume with --overwrite (what is there is renamed) or with --keep.",
            paths=tuple(self._conflicts),
        )

    def _not_here(self, shown: str) -> CheckpointConflict:
        hint = (
            "An imported checkpoint is restored into the session folder only."
            if self._request.session_only
            else f"If the job may use it, say so: --allow-root {Path(shown).parent}"
        )
        return CheckpointConflict(
            f"checkpoint {self._request.name} holds {shown}, which lies outside of the job's"
            " folders on this host",
            hint=hint,
            path=shown,
        )

    def _twice(self, shown: str) -> CheckpointConflict:
        return CheckpointConflict(
            f"checkpoint {self._request.name} holds two files that are both {shown} on this host",
            hint="Two of its folders are one here: give them different places.",
            path=shown,
        )

    def _files(self) -> Iterator[_Step]:
        """The steps that write a file."""
        for step in self._steps:
            is_written = step.action in (Action.CREATE, Action.REPLACE)
            if step.entry.type is EntryType.FILE and is_written:
                yield step

    def _stage(self, step: _Step) -> None:
        self._make_parents(step.place)
        write_staged(step.place, step.entry, self._blocks(step.entry))

    def _blocks(self, entry: Entry) -> Iterator[tuple[StoredBlock, bytes]]:
        shown = self._manifest.shown_path(entry)
        for block in entry.blocks:
            stored = stored_block(self._manifest, block)
            yield stored, read_block(self._request.driver, self._request.packs, stored, of=shown)

    def _drop_staged(self) -> None:
        for step in self._files():
            drop_staged(step.place)

    def _make_parents(self, place: Place) -> None:
        parent = next(place.parents(), None) or place.top()
        self._tell(parent, make_folder(parent, makes_way=self._may_make_way(place)))

    def _may_make_way(self, place: Place) -> bool:
        is_session = place.root.kind is RootKind.SESSION
        return is_session or self._request.choice is Choice.OVERWRITE

    def _place_all(self) -> None:
        for step in self._steps:
            match step.entry.type:
                case EntryType.FILE:
                    self._place_file(step)
                case EntryType.LINK:
                    self._make_parents(step.place)
                    self._tell(step.place, put_link(step.place, step.entry.target))
                case EntryType.FOLDER:
                    makes_way = self._may_make_way(step.place)
                    self._tell(step.place, make_folder(step.place, makes_way=makes_way))
                case EntryType.ABSENT:
                    pass
        # From the inside out: a folder without the right to write would refuse what is in it.
        for step in reversed(self._steps):
            if step.entry.type is EntryType.FOLDER:
                finish_folder(step.place, step.entry)

    def _place_file(self, step: _Step) -> None:
        is_outside = step.place.root.kind is RootKind.OUTSIDE
        if step.action is Action.CUT_BACK:
            assert step.found is not None
            cut_back(step.place, step.entry.size, expected=step.found)
            self._notes.append(f"{step.place.shown} was cut back to {step.entry.size} bytes")
            return
        if is_outside:
            check_unchanged(step.place, step.found)
        self._tell(step.place, put_in_place(step.place, keep=is_outside))

    def _tell(self, place: Place, name: str | None) -> None:
        if name is not None:
            self._displaced.append(Displaced(path=place.shown, name=name))


def _change(entry: Entry, place: Place, found: stat_result | None) -> str:
    """What is different from the save about a file that is only recorded; "" for nothing."""
    if found is None:
        return "is not there any more"
    if found.st_size != entry.size:
        return f"has {found.st_size} bytes; it had {entry.size} at the save"
    # Told, not decided on: the time is enough to spare the reading.
    is_same = found.st_mtime_ns == entry.mtime_ns or not entry.digest
    if is_same or content_of(place, entry.size) == _content(entry):
        return ""
    return "has another content than at the save"


def _content(entry: Entry) -> Content:
    return Content(size=entry.size, digest=entry.digest)


def _present(place: Place, found: stat_result, saved: Content, sizes: set[int]) -> Present:
    """What is there, read only as far as the decision needs it."""
    is_file = S_ISREG(found.st_mode)
    size = found.st_size
    return Present(
        is_file=is_file,
        content=content_of(place, size) if is_file and size in sizes else None,
        begins_with_saved=is_file and size > saved.size and content_of(place, saved.size) == saved,
        changed_at_ns=found.st_ctime_ns,
    )
