"""A checkpoint as plain files in one folder, for people and for other programs.

What the task had in its session folder lies at the top; what it had elsewhere lies below
``outside/``, by its whole path. Adopted files are taken from where
they lie. Inputs and files that were only recorded are not in the checkpoint.
"""

from msgspec import Struct
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


class NativeFiles(Struct, frozen=True, kw_only=True):
    """What a checkpoint's files are below one folder.

    Attributes:
        manifest: of those that are in the store, all of them in the session folder.
        adopted: those that lie where the task wrote them, each with its path in the folder.
        file: the path of the save's file there; None when it had none, or it is not in there.
        left_out: what is not in the checkpoint, a sentence each.
    """

    manifest: Manifest
    adopted: tuple[tuple[Entry, str], ...]
    file: str | None
    left_out: tuple[str, ...]


def native_files(manifest: Manifest) -> NativeFiles:
    """The checkpoint with all its files below one folder. Pure.

    Paths that lay outside get a place below ``outside/`` (or ``outside-1/``, where the task has
    that name itself).
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
    adopted = tuple((e, moved(e)) for e in manifest.entries if e.kept is Kept.ADOPTED)
    there = {entry.path for entry in entries} | {path for _entry, path in adopted}
    file = None if manifest.file is None else moved(manifest.file)
    return NativeFiles(
        manifest=replace(manifest, roots=(SESSION_ROOT,), entries=entries, file=None),
        adopted=adopted,
        file=file if file in there else None,
        left_out=tuple(_left_out(manifest)),
    )


def not_importable(manifest: Manifest) -> list[str]:
    """What is lost where the exported checkpoint is imported, a sentence each. Pure."""
    found = _left_out(manifest)
    file = manifest.file
    if file is not None and manifest.roots[file.root].kind is RootKind.OUTSIDE:
        found.append(
            f"its file {manifest.shown_path(file)} lies outside of the session folder: it is in"
            " there, but no task can go on from it by `perdure checkpoint import`"
        )
    return found


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
        elif entry.kept is Kept.RECORD:
            found.append(f"{shown} was recorded, not saved (files policy)")
        elif entry.type is EntryType.ABSENT:
            found.append(f"{shown} was declared and was not there")
    return found
