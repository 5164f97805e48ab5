"""Two manifests of one lineage in one: the files of the second beside those of the first. Pure.

Perdure's own checkpoints for kept values hold the last save as it was, and the files that were
declared since. Where both have a path the first one's version stays: the save's state belongs to
it.
"""

from dataclasses import replace
from typing import TypeVar

from perdure.store.layout import PackId
from perdure.store.manifest import NO_PACK, Entry, Manifest, Root

_T = TypeVar("_T")


def merge(first: Manifest, second: Manifest) -> Manifest:
    """``first``'s state, file and entries, and those of ``second`` that it does not have."""
    roots = _union(first.roots, second.roots)
    packs = _union(first.packs, second.packs)
    taken = {_where(first, entry) for entry in first.entries}
    added = [
        _moved(entry, second, roots, packs)
        for entry in second.entries
        if _where(second, entry) not in taken
    ]
    entries = sorted([*first.entries, *added], key=lambda entry: (entry.root, entry.path))
    return replace(
        second,
        save=first.save,
        state=first.state,
        file=first.file,
        roots=roots,
        packs=packs,
        entries=tuple(entries),
    )


def _where(manifest: Manifest, entry: Entry) -> tuple[Root, str]:
    return manifest.roots[entry.root], entry.path


def _moved(
    entry: Entry, manifest: Manifest, roots: tuple[Root, ...], packs: tuple[PackId, ...]
) -> Entry:
    """The entry with the indexes that it has in the union."""
    return replace(
        entry,
        root=roots.index(manifest.roots[entry.root]),
        blocks=tuple(
            block
            if block.pack == NO_PACK
            else replace(block, pack=packs.index(manifest.packs[block.pack]))
            for block in entry.blocks
        ),
    )


def _union(first: tuple[_T, ...], second: tuple[_T, ...]) -> tuple[_T, ...]:
    return (*first, *(one for one in second if one not in first))
