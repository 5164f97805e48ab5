"""Deciding what a restore does with each entry of a checkpoint; nothing is changed here.

For each entry: where it goes on this host, what is there, and for outside files whether they may be
written (`perdure.store.files.outside_decision`). All conflicts are told at once.

Source: design "Resuming"; docs/decisions/048, 049.
"""

from collections.abc import Mapping
from os import stat_result
from pathlib import Path
from stat import S_IMODE, S_ISDIR, S_ISLNK, S_ISREG

from msgspec import Struct, field

from perdure.errors import CheckpointConflict
from perdure.store.drivers.driver import Driver
from perdure.store.files.adopting import hold_of
from perdure.store.files.outside_decision import (
    Action,
    Choice,
    Content,
    Present,
    Window,
    by_choice,
    outside_decision,
)
from perdure.store.files.roots import Place, Roots, Stamp, link_target, look
from perdure.store.manifests.manifest import Entry, EntryType, Kept, Manifest, Root, RootKind
from perdure.store.packs.sealing import PLAIN, Sealing
from perdure.store.restore.left_files import is_adopted_version, lost
from perdure.store.restore.placing import content_of
from perdure.store.restore.staging import FreshTop

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
        sealing: how the lineage's blocks are encrypted.
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
    sealing: Sealing = PLAIN


# Asked for each of many thousand files: an enum's member takes longer to find than to compare.
_FILE, _ABSENT, _OUTSIDE = EntryType.FILE, EntryType.ABSENT, RootKind.OUTSIDE
_BYTES, _CREATE = Kept.BYTES, Action.CREATE
_WRITTEN = (Action.CREATE, Action.REPLACE)


class Step(Struct, frozen=True, kw_only=True, gc=False):
    """What is done with one entry.

    Attributes:
        found: what was there when that was decided.
        top: what is renamed as a whole for it: nothing of that name was in the session folder.
        held: the second name of an adopted file, which gets its own name back.
    """

    entry: Entry
    place: Place
    action: Action
    found: Stamp | None = None
    top: FreshTop | None = None
    held: Place | None = None

    @property
    def is_written(self) -> bool:
        """Whether it is a file whose bytes are needed."""
        return self.entry.type is _FILE and self.action in _WRITTEN


class Plan(Struct, frozen=True, kw_only=True):
    """What a restore does.

    Attributes:
        steps: what is done, in the order of the manifest.
        tops: what gets its name as a whole.
        file: where the save's file will be; None when it had none.
        input_changes: inputs that are not what they were at the save, a sentence each.
        notes: what else people should know, a sentence each.
    """

    steps: tuple[Step, ...]
    tops: tuple[FreshTop, ...]
    file: Path | None
    input_changes: tuple[str, ...]
    notes: tuple[str, ...]


def plan(request: RestoreRequest) -> Plan:
    """What putting the checkpoint back does; blocks while files that are in the way are read.

    Raises:
        CheckpointCorrupt: a file that was left where it was is lost.
        CheckpointConflict: outside files are in the way.
    """
    return _Planning(request).run()


class _Planning:
    """One plan on its way."""

    def __init__(self, request: RestoreRequest) -> None:
        self._request = request
        self._manifest = request.manifest
        self._steps: list[Step] = []
        self._places: set[str] = set()
        self._tops: dict[str, FreshTop | None] = {}
        self._conflicts: list[str] = []
        self._input_changes: list[str] = []
        self._notes: list[str] = []
        self._links: dict[tuple[str, str], str | None] = {}

    def run(self) -> Plan:
        file = self._file()
        for entry in self._manifest.entries:
            self._decide(entry)
        self._refuse_conflicts()
        return Plan(
            steps=tuple(self._steps),
            tops=tuple(top for top in self._tops.values() if top is not None),
            file=file,
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
        is_outside = root.kind is _OUTSIDE
        if is_outside and self._request.session_only:
            shown = self._manifest.shown_path(entry)
            self._notes.append(f"{shown} lies outside of the session folder and was not restored")
            return
        place = self._request.roots.find(root, entry.path)
        if entry.kept is not _BYTES or entry.type is _ABSENT:
            if entry.kept is Kept.ADOPTED:
                self._decide_adopted(entry, place)
            elif place is not None:
                self._compare(entry, place)
            return
        if place is None:
            raise self._not_here(self._manifest.shown_path(entry))
        if is_outside:
            self._refuse_link(root, entry, self._manifest.shown_path(entry))
        where = place.where
        if where in self._places:
            raise self._twice(self._manifest.shown_path(entry))
        self._places.add(where)
        top = self._fresh_top(place)
        found = None if top is not None else look(place)
        if found is None:
            self._steps.append(Step(entry=entry, place=place, action=_CREATE, top=top))
            return
        if is_outside:
            action = self._outside_action(entry, place, found)
        else:
            action = self._session_action(entry, place, found)
        self._decided(Step(entry=entry, place=place, action=action, found=Stamp.of(found)), found)

    def _decided(self, step: Step, found: stat_result) -> None:
        """Something is there already."""
        entry = step.entry
        shown = self._manifest.shown_path(entry)
        match step.action:
            case Action.CONFLICT:
                self._conflicts.append(shown)
            case Action.KEEP:
                self._notes.append(f"{shown} was kept as it is, not as it was saved")
            case Action.LEAVE:
                if entry.type is EntryType.FOLDER and step.place.root.kind is RootKind.SESSION:
                    self._steps.append(step)
                elif entry.type is EntryType.FILE:
                    self._tell_mode(shown, entry.mode, S_IMODE(found.st_mode))
            case _:
                self._steps.append(step)

    def _tell_mode(self, shown: str, saved: int, now: int) -> None:
        """A file with the saved content is not touched: somebody may have meant its mode."""
        if now & 0o777 != saved:
            self._notes.append(
                f"{shown} has the saved content, and was left as it is with mode {now:03o}: it was"
                f" saved with {saved:03o}"
            )

    def _decide_adopted(self, entry: Entry, place: Place | None) -> None:
        """A program's own file: it is there as it was, or its second name is, or it is lost."""
        shown = self._manifest.shown_path(entry)
        if place is None:
            raise self._not_here(shown)
        found = look(place)
        sealing = self._request.sealing
        if found is not None and is_adopted_version(entry, place, found, sealing):
            return
        held = hold_of(place, entry)
        kept = look(held) if held is not None else None
        if held is None or kept is None or not is_adopted_version(entry, held, kept, sealing):
            raise lost(shown)
        action = Action.CREATE if found is None else self._outside_action(entry, place, found)
        if action is Action.CONFLICT:
            self._conflicts.append(shown)
        elif action is Action.KEEP:
            self._notes.append(f"{shown} was kept as it is, not as it was saved")
        else:
            action = Action.CREATE if action is Action.CREATE else Action.REPLACE
            stamp = None if found is None else Stamp.of(found)
            self._steps.append(
                Step(entry=entry, place=place, action=action, found=stamp, held=held)
            )

    def _fresh_top(self, place: Place) -> FreshTop | None:
        """The first component of a session path, if nothing of that name is there."""
        if place.root.kind is _OUTSIDE or not place.path:
            return None
        name = place.path.partition("/")[0]
        if name not in self._tops:
            top = FreshTop.of(place)
            self._tops[name] = top if look(top.place) is None else None
        return self._tops[name]

    def _session_action(self, entry: Entry, place: Place, found: stat_result) -> Action:
        """In the session folder everything is the task's."""
        mode = found.st_mode
        if entry.type is EntryType.FOLDER:
            return Action.LEAVE if S_ISDIR(mode) else Action.REPLACE
        if entry.type is EntryType.FILE and S_ISREG(mode) and found.st_size == entry.size:
            if S_IMODE(mode) & 0o777 != entry.mode:
                return Action.REPLACE
            is_equal = content_of(place, entry.size, self._request.sealing) == _content(entry)
            return Action.LEAVE if is_equal else Action.REPLACE
        return Action.REPLACE

    def _outside_action(self, entry: Entry, place: Place, found: stat_result) -> Action:
        mode = found.st_mode
        if entry.type is EntryType.FOLDER and S_ISDIR(mode):
            return Action.LEAVE
        if entry.type is EntryType.LINK and S_ISLNK(mode):
            is_equal = link_target(place, self._request.roots) == entry.target
            return Action.LEAVE if is_equal else by_choice(self._request.choice)
        if entry.type is not EntryType.FILE:
            return by_choice(self._request.choice)
        saved = _content(entry)
        sealing = self._request.sealing
        recorded = self._request.recorded.get(place.shown, frozenset()) | {saved}
        return outside_decision(
            saved,
            _present(place, found, saved, {content.size for content in recorded}, sealing),
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
        change = _change(entry, place, found, self._request.sealing)
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

    def _refuse_link(self, root: Root, entry: Entry, shown: str) -> None:
        """Nothing is written through a link that was put where a folder was.

        Whatever was chosen: neither what the link leads to nor the link is the task's.
        """
        folder = entry.path.rpartition("/")[0]
        key = (root.path, folder)
        if key not in self._links:
            self._links[key] = self._request.roots.link_on_the_way(root, entry.path)
        link = self._links[key]
        if link is not None:
            raise CheckpointConflict(
                f"checkpoint {self._request.name} holds {shown}, and {link} is a link now",
                hint="Put the folder back in the link's place, or move the link away.",
                path=link,
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


def _change(entry: Entry, place: Place, found: stat_result | None, sealing: Sealing) -> str:
    """What is different from the save about a file that is only recorded; "" for nothing."""
    if found is None:
        return "is not there any more"
    if found.st_size != entry.size:
        return f"has {found.st_size} bytes; it had {entry.size} at the save"
    # Told, not decided on: the time is enough to spare the reading.
    is_same = found.st_mtime_ns == entry.mtime_ns or not entry.digest
    if is_same or content_of(place, entry.size, sealing) == _content(entry):
        return ""
    return "has another content than at the save"


def _content(entry: Entry) -> Content:
    return Content(size=entry.size, digest=entry.digest)


def _present(
    place: Place, found: stat_result, saved: Content, sizes: set[int], sealing: Sealing
) -> Present:
    """What is there, read only as far as the decision needs it."""
    is_file = S_ISREG(found.st_mode)
    size = found.st_size
    is_longer = is_file and size > saved.size
    return Present(
        is_file=is_file,
        content=content_of(place, size, sealing) if is_file and size in sizes else None,
        begins_with_saved=is_longer and content_of(place, saved.size, sealing) == saved,
        changed_at_ns=found.st_ctime_ns,
    )
