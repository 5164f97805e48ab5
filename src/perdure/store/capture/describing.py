"""From the files that were taken to the description of a save. Pure.

Source: docs/store-format.md "Manifests".
"""

from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from perdure.store.capture.dataset_reading import Version
from perdure.store.capture.save_values import Announcement, CaptureSettings
from perdure.store.files.gathering import Found, Gathered
from perdure.store.layout import PackId
from perdure.store.manifests.manifest import (
    SESSION_ROOT,
    Block,
    Entry,
    EntryType,
    FileRef,
    Kept,
    Manifest,
)
from perdure.store.packs.blocks import number_packs, to_block

# Asked for each of many thousand files: an enum's member takes longer to find than to compare.
_FILE, _BYTES = EntryType.FILE, Kept.BYTES


class Taken(Struct, kw_only=True, gc=False):
    """One file, and the version of it that was taken; None where only what it was is recorded."""

    found: Found
    kept: Kept
    version: Version | None
    hold: str = ""


def describe(
    announcement: Announcement,
    settings: CaptureSettings,
    gathered: Gathered,
    taken: list[Taken],
    new_bytes: int,
    key_id: str,
) -> Manifest:
    """The description of what was taken, with roots and packs numbered.

    Args:
        announcement: what the task said.
        settings: of the attempt.
        gathered: what was found.
        taken: its files.
        new_bytes: how many were stored for it.
        key_id: of the key that sealed them; "" where they are not encrypted.
    """
    others = {place: one for place, one in gathered.others.items() if place not in gathered.files}
    file = gathered.file
    used = {one.found.place.root for one in taken} | {place.root for place in others}
    used |= {file.root} if file else set()
    roots = (SESSION_ROOT, *sorted(used - {SESSION_ROOT}, key=lambda root: root.path))
    numbers = {root: number for number, root in enumerate(roots)}
    packs = number_packs(one.version.blocks for one in taken if one.version)
    entries = [_entry(one, numbers[one.found.place.root], packs) for one in taken]
    absent = [place for place, one in others.items() if one.type is EntryType.ABSENT]
    if absent:
        leaves = {one.found.place for one in taken}
        leaves |= {place for place, one in others.items() if one.type is not EntryType.FOLDER}
        others = {
            place: one
            for place, one in others.items()
            if one.type is not EntryType.ABSENT or leaves.isdisjoint(place.parents())
        }
    entries += [replace(one, root=numbers[place.root]) for place, one in others.items()]
    return Manifest(
        attempt=settings.attempt,
        launch=settings.launch,
        save=announcement.save,
        state=announcement.state,
        file=None if file is None else FileRef(root=numbers[file.root], path=file.path),
        roots=roots,
        packs=tuple(packs),
        entries=tuple(sorted(entries, key=attrgetter("root", "path"))),
        new_bytes=new_bytes,
        key_id=key_id,
    )


def _entry(one: Taken, root: int, packs: dict[PackId, int]) -> Entry:
    found, version = one.found, one.version
    stamp = found.stamp
    blocks: tuple[Block, ...] = ()
    if version is not None and one.kept is _BYTES:
        if len(version.blocks) == 1:  # half the time of a loop, for each of many thousand files
            blocks = (to_block(version.blocks[0], packs),)
        else:
            blocks = tuple([to_block(block, packs) for block in version.blocks])
    return Entry(
        root=root,
        path=found.place.path,
        type=_FILE,
        mode=version.mode if version else found.mode,
        mtime_ns=stamp.mtime_ns,
        size=stamp.size,
        digest=version.digest if version else b"",
        blocks=blocks,
        kept=one.kept,
        hold=one.hold,
    )
