"""Adopted files: a program's own checkpoint files, kept where they are, without a second copy.

For programs that write each checkpoint under a new name. The file is made durable (fsync), and a
second name is made for it beside it (a hard link), so that neither the program's clean-up nor a
rename over it loses the bytes. Where the file system has no hard links the file is only recorded.
A program that writes into such a file afterwards changes both names: a restore finds that out.

The second name is a function of the lineage, the path and the version: made again, it is found.

Rules: nothing but a second name of perdure's own is ever removed here, and a checkpoint's own file
(the save's ``file``) once no checkpoint names it and it is still the version that was adopted.

Source: design 6, "Files policy"; docs/decisions/107.
"""

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from blake3 import blake3

from perdure.errors import PerdureError
from perdure.store.drivers.posix_files import NO_HARD_LINKS, in_our_words
from perdure.store.files.roots import Place, Roots, Stamp, open_parent
from perdure.store.manifests.entry_paths import is_hold_name
from perdure.store.manifests.manifest import Entry, Kept, Manifest, RootKind

_PREFIX = ".perdure-"


def hold_name(lineage: str, place: Place, stamp: Stamp) -> str:
    """The second name of that version of the file."""
    # Without the ctime, which the second name itself moves.
    text = f"{lineage}\n{place.shown}\n{stamp.inode} {stamp.size} {stamp.mtime_ns}"
    return f"{_PREFIX}{blake3(text.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}"


def adopt(place: Place, stamp: Stamp, name: str) -> str | None:
    """Make that version durable and give it the second name; "" where there are no hard links.

    Blocks while what was written is written back.

    Returns:
        None: the file is another version already.

    Raises:
        OSError: it cannot be done.
    """
    with open_parent(place) as (folder, own):
        fd = os.open(own, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            if not _is_version(os.fstat(fd), stamp):
                return None
            os.fsync(fd)
            held = _link(folder, own, name, os.fstat(fd))
            _sync(folder)
            # The link itself moves the ctime: what must not have changed is what was written.
            found = os.fstat(fd)
            is_same = (found.st_size, found.st_mtime_ns) == (stamp.size, stamp.mtime_ns)
            return held if is_same else None
        finally:
            os.close(fd)


def _is_version(found: os.stat_result, stamp: Stamp) -> bool:
    """Whether this is the version; a link made since may have moved its ctime."""
    return stat.S_ISREG(found.st_mode) and (
        found.st_dev,
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
    ) == (stamp.device, stamp.inode, stamp.size, stamp.mtime_ns)


def _link(folder: int, own: str, name: str, about: os.stat_result) -> str:
    try:
        os.link(own, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return name if os.path.samestat(there, about) else ""
    except OSError as error:
        if error.errno in NO_HARD_LINKS:
            return ""
        raise
    there = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if os.path.samestat(there, about):
        return name
    os.unlink(name, dir_fd=folder)  # something else was renamed there in between
    return ""


def _sync(folder: int) -> None:
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def hold_of(place: Place, entry: Entry) -> Place | None:
    """Where the second name of an adopted file is; None where it has none."""
    if not is_hold_name(entry.hold):
        return None
    folder, slash, _name = place.path.rpartition("/")
    return Place(root=place.root, base=place.base, path=f"{folder}{slash}{entry.hold}")


def link_back(held: Place, name: str) -> None:
    """Give the file at ``held`` the further name ``name`` in its own folder."""
    with in_our_words("link", held.absolute), open_parent(held) as (folder, own):
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        os.link(own, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)


def adopted(manifest: Manifest) -> Iterable[Entry]:
    """The entries that are adopted files."""
    return (entry for entry in manifest.entries if entry.kept is Kept.ADOPTED)


def retire(roots: Roots, gone: Iterable[Manifest], living: Iterable[Manifest]) -> None:
    """Remove what only pruned checkpoints hold: second names, and the checkpoints' own files.

    May be repeated; what cannot be removed is left. Blocks for two system calls a file.

    Args:
        roots: where the job's files may lie on this host.
        gone: checkpoints that prune records name.
        living: all others of the lineage.
    """
    living = tuple(living)
    holds = {entry.hold for manifest in living for entry in adopted(manifest)}
    paths = {m.shown_path(entry) for m in living for entry in m.entries}
    for manifest in gone:
        file = None if manifest.file is None else manifest.shown_path(manifest.file)
        for entry in adopted(manifest):
            shown = manifest.shown_path(entry)
            place = roots.find(manifest.roots[entry.root], entry.path)
            if place is None or not entry.hold or entry.hold in holds:
                continue
            with suppress(OSError, PerdureError):
                _retire(place, entry, is_own=shown == file and shown not in paths)


def _retire(place: Place, entry: Entry, *, is_own: bool) -> None:
    held = hold_of(place, entry)
    if held is None:
        return
    with open_parent(held) as (folder, name):
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
        own = place.path.rpartition("/")[2]
        if is_own:
            with suppress(FileNotFoundError):
                found = os.stat(own, dir_fd=folder, follow_symlinks=False)
                is_version = (found.st_size, found.st_mtime_ns) == (entry.size, entry.mtime_ns)
                if os.path.samestat(found, there) and is_version:
                    os.unlink(own, dir_fd=folder)
        os.unlink(name, dir_fd=folder)


def release(manifest: Manifest, lineage: str) -> None:
    """Remove the second names of a checkpoint whose job is being removed; the files stay.

    The manifest's roots are taken as they are, because the job may not be readable any more: only
    a name is removed that this very lineage, path and version would be given. What cannot be
    removed is left.
    """
    for entry in adopted(manifest):
        root = manifest.roots[entry.root]
        place = Place(root=root, base=Path(root.path), path=entry.path)
        held = hold_of(place, entry)
        if held is None or root.kind is not RootKind.OUTSIDE:
            continue
        with suppress(OSError), open_parent(held) as (folder, name):
            found = Stamp.of(os.stat(name, dir_fd=folder, follow_symlinks=False))
            if hold_name(lineage, place, found) == name:
                os.unlink(name, dir_fd=folder)
