"""Two manifests of one lineage in one: the files of the second beside those of the first. Pure.

Perdure's own checkpoints for kept values hold the last save as it was, and the files that were
declared since. Where both have a path the first one's version stays: the save's state belongs to
it. What was absent then gives way: a file of a finished value must not be lost because it was
declared before it was written. `changed` says where the two versions differ, so that nothing is
called kept that only the second one holds.
"""

from collections.abc import Iterable
from typing import TypeVar

from msgspec.structs import replace

from perdure.store.manifests.manifest import NO_PACK, Entry, EntryType, Manifest, Root, above

_T = TypeVar("_T")


def merge(first: Manifest, second: Manifest) -> Manifest:
    """``first``'s state, file and entries, and those of ``second`` that it does not have."""
    roots, moved_roots = _union(first.roots, second.roots)
    packs, moved_packs = _union(first.packs, second.packs)
    new = {_where(second, e) for e in second.entries if e.type is not EntryType.ABSENT}
    stays = [
        e for e in first.entries if e.type is not EntryType.ABSENT or _where(first, e) not in new
    ]
    tree = _Tree((_where(first, entry), entry.type) for entry in stays)
    added = [
        _moved(entry, moved_roots, moved_packs)
        for entry in second.entries
        if tree.has_room(_where(second, entry), entry.type)
    ]
    entries = sorted([*stays, *added], key=lambda entry: (entry.root, entry.path))
    return replace(
        second,
        save=first.save,
        state=first.state,
        file=first.file,
        roots=roots,
        packs=packs,
        entries=tuple(entries),
    )


def changed(first: Manifest, second: Manifest) -> tuple[str, ...]:
    """Paths whose content in ``second`` `merge` would leave out, because ``first`` has another."""
    there = {
        _where(first, entry): entry for entry in first.entries if entry.type is not EntryType.ABSENT
    }
    return tuple(
        second.shown_path(entry)
        for entry in second.entries
        if entry.type is not EntryType.ABSENT
        and (before := there.get(_where(second, entry))) is not None
        and _content(before) != _content(entry)
    )


class _Tree:
    """The paths that are taken: a file has nothing below it, and a folder is no file."""

    def __init__(self, taken: Iterable[tuple[tuple[Root, str], EntryType]]) -> None:
        self._types = dict(taken)
        self._above = {
            (root, folder)
            for (root, path), type_ in self._types.items()
            if type_ is not EntryType.ABSENT
            for folder in above(path)
        }

    def has_room(self, where: tuple[Root, str], type_: EntryType) -> bool:
        """Whether an entry can be added."""
        if where in self._types:
            return False
        if type_ is not EntryType.FOLDER and where in self._above:
            return False
        root, path = where
        return all(
            self._types.get((root, folder), EntryType.FOLDER) is EntryType.FOLDER
            for folder in above(path)
        )


def _content(entry: Entry) -> tuple[object, ...]:
    return (entry.type, entry.size, entry.digest, entry.target, entry.hold)


def _where(manifest: Manifest, entry: Entry) -> tuple[Root, str]:
    return manifest.roots[entry.root], entry.path


def _moved(entry: Entry, roots: list[int], packs: list[int]) -> Entry:
    """The entry with the indexes that it has in the union."""
    return replace(
        entry,
        root=roots[entry.root],
        blocks=tuple(
            block if block.pack == NO_PACK else replace(block, pack=packs[block.pack])
            for block in entry.blocks
        ),
    )


def _union(first: tuple[_T, ...], second: tuple[_T, ...]) -> tuple[tuple[_T, ...], list[int]]:
    """``first`` with what is new in ``second``, and where in it each of ``second`` is."""
    known = frozenset(first)
    union = (*first, *(one for one in second if one not in known))
    # What is named twice is found where it stands first.
    indexes = {one: index for index, one in reversed(tuple(enumerate(union)))}
    return union, [indexes[one] for one in second]
