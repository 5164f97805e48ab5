"""A checkpoint as plain files in one folder, for people and for other programs.

What the task had in its session folder lies at the top; what it had elsewhere lies below
``outside/``, by its whole path. Inputs and files that were only recorded are not in the checkpoint.
"""

from msgspec.structs import replace

from perdure.store.manifests.manifest import (
    SESSION_ROOT,
    Entry,
    EntryType,
    FileRef,
    Kept,
    Manifest,
    RootKind,
)

_OUTSIDE = "outside"


def session_only(manifest: Manifest) -> tuple[Manifest, tuple[str, ...]]:
    """The checkpoint with all its files below one folder, and what it does not hold, in sentences.

    Pure. Paths that lay outside get a place below ``outside/`` (or ``outside-1/``, where the task
    has that name itself).
    """
    folder = _free_name(manifest)

    def moved(entry: Entry | FileRef) -> str:
        root = manifest.roots[entry.root]
        if root.kind is RootKind.SESSION:
            return entry.path
        return f"{folder}{root.shown(entry.path)}"

    entries = tuple(
        replace(entry, root=0, path=moved(entry))
        for entry in manifest.entries
        if entry.kept is Kept.BYTES and entry.type is not EntryType.ABSENT
    )
    file = None if manifest.file is None else FileRef(root=0, path=moved(manifest.file))
    changed = replace(manifest, roots=(SESSION_ROOT,), entries=entries, file=file)
    return changed, tuple(_left_out(manifest))


def _free_name(manifest: Manifest) -> str:
    taken = {
        entry.path.partition("/")[0]
        for entry in manifest.entries
        if manifest.roots[entry.root].kind is RootKind.SESSION
    }
    names = (_OUTSIDE, *(f"{_OUTSIDE}-{number}" for number in range(1, len(taken) + 2)))
    return next(name for name in names if name not in taken)


def _left_out(manifest: Manifest) -> list[str]:
    found: list[str] = []
    for entry in manifest.entries:
        shown = manifest.shown_path(entry)
        if entry.kept is Kept.INPUT:
            found.append(f"{shown} is an input: it was recorded, not saved")
        elif entry.kept is Kept.ADOPTED:
            found.append(f"{shown} is adopted: it lies where it is, and not in the store")
        elif entry.kept is Kept.RECORD:
            found.append(f"{shown} was recorded, not saved (files policy)")
        elif entry.type is EntryType.ABSENT:
            found.append(f"{shown} was declared and was not there")
    return found
