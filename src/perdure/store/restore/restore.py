"""Putting a checkpoint back: verified before anything is changed, and repeatable when it is killed.

Theory of operation. First everything is decided (`perdure.store.restore.planning`), and nothing has
been touched. Then every file that is needed is staged (`perdure.store.restore.staging`), by several
threads, each block checked as it is read; a damaged checkpoint ends here, and nothing has been
touched but temporary names. Only then the files get their names, what they replace outside being
renamed first. A restore that is killed anywhere is simply done again: what is in place is found
equal, and what was staged is not read again.

The store is only read. A file that is equal already is left as it is.

Source: design "Resuming"; docs/decisions/048, 049.
"""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from perdure.store.drivers.posix_files import in_our_words
from perdure.store.files.adopting import link_back
from perdure.store.files.outside_decision import (
    Action,
    Choice,
)
from perdure.store.files.roots import Place
from perdure.store.manifests.manifest import NO_PACK, EntryType, RootKind
from perdure.store.packs.blocks import Damaged, StoredBlock, damaged_file, stored_block
from perdure.store.packs.pack_reading import PackReader
from perdure.store.packs.sealing import check_key
from perdure.store.restore.placing import (
    check_unchanged,
    cleaning,
    cut_back,
    drop_staged,
    finish_folder,
    make_folder,
    put_in_place,
    put_link,
    staged_name,
)
from perdure.store.restore.planning import RestoreRequest, Step, plan
from perdure.store.restore.runs import Runs
from perdure.store.restore.staging import StagedFile, Staging, drop_fresh, staged_beside


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


def restore(request: RestoreRequest) -> Restored:
    """Put a checkpoint back; blocks while files are read and written.

    Raises:
        CheckpointCorrupt: saved bytes are damaged; nothing was changed.
        CheckpointConflict: outside files are in the way; nothing was changed.
        CheckpointError: it is encrypted with another key.
        OutOfSpace: and the like: it does not fit; nothing was changed, unless the error came while
            files got their names. The restore may be done again in any case.
    """
    check_key(request.sealing, request.manifest, request.name)
    with in_our_words("restore into", request.roots.session):
        return _Restore(request).run()


class _Restore:
    """One restore on its way."""

    def __init__(self, request: RestoreRequest) -> None:
        self._request = request
        self._manifest = request.manifest
        self._plan = plan(request)
        self._displaced: list[Displaced] = []
        self._cut_back: list[str] = []

    def run(self) -> Restored:
        with cleaning(self._drop_staged):
            self._stage_all()
            self._place_all()
        return Restored(
            state=self._manifest.state,
            file=self._plan.file,
            displaced=tuple(self._displaced),
            input_changes=self._plan.input_changes,
            notes=(*self._plan.notes, *self._cut_back),
        )

    def _stage_all(self) -> None:
        """Write all files that are needed under temporary names, checked."""
        for top in self._plan.tops:
            drop_fresh(top)
        staging = Staging(self._request.sealing)

        def use(purpose: tuple[StagedFile, int], data: memoryview | Damaged) -> None:
            self._stage(staging, *purpose, data)

        steps = [step for step in self._plan.steps if step.is_written]
        reader = PackReader(self._request.driver, self._request.packs, self._request.sealing)
        small = sum(1 for step in steps if len(step.entry.blocks) == 1) if reader.reads_runs else 0
        runs = Runs(small, self._request.sealing, use)
        try:
            wanted = [item for step in steps for item in self._begin(staging, step)]
            reader.read(wanted, use, runs)
            runs.finish()
        finally:
            runs.close()
            staging.close()

    def _begin(
        self, staging: Staging, step: Step
    ) -> Iterator[tuple[StoredBlock, tuple[StagedFile, int]]]:
        """The blocks of one file that must be read."""
        if step.held is not None:
            link_back(step.held, staged_name(step.place))
            return
        if step.top is None:
            self._make_parents(step.place)
            place = staged_beside(step.place)
        else:
            place = step.top.staged(step.place)
        file = StagedFile(place, step.entry)
        there = staging.begin(file)
        for index, block in enumerate(step.entry.blocks):
            if block.pack != NO_PACK and index not in there:
                yield stored_block(self._manifest, block), (file, index)

    def _stage(
        self, staging: Staging, file: StagedFile, index: int, data: memoryview | Damaged
    ) -> None:
        if isinstance(data, Damaged):
            raise damaged_file(self._manifest.shown_path(file.entry), data.reason)
        staging.write(file, index, data)

    def _drop_staged(self) -> None:
        for top in self._plan.tops:
            drop_fresh(top)
        for step in self._plan.steps:
            if step.is_written and step.top is None:
                drop_staged(step.place)

    def _make_parents(self, place: Place) -> None:
        parent = next(place.parents(), None) or place.top()
        self._tell(parent, make_folder(parent, makes_way=self._may_make_way(place)))

    def _may_make_way(self, place: Place) -> bool:
        is_session = place.root.kind is RootKind.SESSION
        return is_session or self._request.choice is Choice.OVERWRITE

    def _place_all(self) -> None:
        fresh = {step.top: None for step in self._plan.steps if step.is_written and step.top}
        for top in fresh:
            self._tell(top.place, put_in_place(top.place, keep=False))
        for step in self._plan.steps:
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
        folder = EntryType.FOLDER
        for step in reversed(self._plan.steps):
            if step.entry.type is folder:
                finish_folder(step.place, step.entry)

    def _place_file(self, step: Step) -> None:
        if step.top is not None:
            return  # with its folder
        is_outside = step.place.root.kind is RootKind.OUTSIDE
        if step.action is Action.CUT_BACK:
            assert step.found is not None
            cut_back(step.place, step.entry.size, expected=step.found)
            self._cut_back.append(f"{step.place.shown} was cut back to {step.entry.size} bytes")
            return
        if is_outside:
            check_unchanged(step.place, step.found)
        self._tell(step.place, put_in_place(step.place, keep=is_outside))

    def _tell(self, place: Place, name: str | None) -> None:
        if name is not None:
            self._displaced.append(Displaced(path=place.shown, name=name))
