"""Putting files, folders and links into place without following a link and without losing anything.

A file is written whole under a temporary name in its own folder, and gets its name by a rename.
What stands there already and must not be lost is renamed first: ``NAME.displaced-<n>``. Temporary
names are the same each time, so that a restore which was killed is repeated without leaving
anything.

Every folder on the way is opened without following links (`perdure.store.files.roots`).

Source: openat(2), renameat(2), linkat(2).
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from blake3 import blake3

from perdure.errors import CheckpointConflict, SaveRefused
from perdure.store.drivers.posix_files import in_our_words
from perdure.store.files.file_blocks import is_whole, read_blocks
from perdure.store.files.gathering import OWN_PREFIX
from perdure.store.files.outside_decision import Content
from perdure.store.files.roots import Place, Stamp, look, open_parent, open_regular
from perdure.store.manifests.manifest import Entry, file_digest
from perdure.store.packs.sealing import PLAIN, Sealing
from perdure.store.restore.small_files import finish

_DISPLACED_MOST = 100_000
_NEW_FOLDER_MODE = 0o777


def staged_name(place: Place) -> str:
    """The temporary name for ``place``, in its own folder; the same each time."""
    return f"{OWN_PREFIX}{blake3(os.fsencode(place.shown)).hexdigest()[:32]}"


def drop_staged(place: Place) -> None:
    """Remove what was staged beside ``place``, if anything."""
    with suppress(OSError), open_parent(place) as (folder, _name):
        os.unlink(staged_name(place), dir_fd=folder)


def put_in_place(place: Place, *, keep: bool) -> str | None:
    """Give the staged file its name.

    Args:
        place: where.
        keep: whether a file that is there is to be kept beside; a folder or link always is.

    Returns:
        The name that was given to what was there, or None.
    """
    with in_our_words("write", place.where), open_parent(place) as (folder, name):
        displaced = _make_way(folder, name, keep=keep)
        os.rename(staged_name(place), name, src_dir_fd=folder, dst_dir_fd=folder)
        return displaced


def put_link(place: Place, target: str) -> str | None:
    """Make a link, unless it is there; returns what `put_in_place` returns."""
    with in_our_words("write", place.where), open_parent(place) as (folder, name):
        with suppress(OSError):
            if os.readlink(name, dir_fd=folder) == target:
                return None
        temporary = staged_name(place)
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        os.symlink(target, temporary, dir_fd=folder)
        displaced = _make_way(folder, name, keep=True)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        return displaced


def make_folder(place: Place, *, makes_way: bool) -> str | None:
    """Make the folder ``place`` and those above it, unless they are there.

    Args:
        place: where.
        makes_way: whether what stands there and is no folder is renamed; else it is a conflict.

    Returns:
        The name that was given to what was there, or None.
    """
    displaced = None
    place.base.mkdir(parents=True, exist_ok=True)
    for above in (*reversed(list(place.parents())), place):
        if not above.path:
            continue
        with in_our_words("make", above.where), open_parent(above) as (folder, name):
            try:
                os.mkdir(name, _NEW_FOLDER_MODE, dir_fd=folder)
            except FileExistsError:
                if _is_folder(folder, name):
                    continue
                if not makes_way:
                    raise no_folder(above) from None
                displaced = _displace(folder, name)
                os.mkdir(name, _NEW_FOLDER_MODE, dir_fd=folder)
    return displaced


def finish_folder(place: Place, entry: Entry) -> None:
    """Give a folder its mode and time, once nothing more is put into it."""
    # A folder that its owner may not read cannot be opened for this; it stays as it is.
    with suppress(PermissionError), _opened_folder(place) as fd:
        finish(fd, entry.mode, entry.mtime_ns)


@contextmanager
def _opened_folder(place: Place) -> Iterator[int]:
    with open_parent(place) as (folder, name):
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(name, flags, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


def cut_back(place: Place, size: int, *, expected: Stamp) -> None:
    """Cut the file at ``size``, if it is still the one that was looked at."""
    with in_our_words("cut back", place.where), open_parent(place) as (folder, name):
        fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            if Stamp.of(os.fstat(fd)) != expected:
                raise changed_meanwhile(place)
            os.ftruncate(fd, size)
        finally:
            os.close(fd)


def check_unchanged(place: Place, expected: Stamp | None) -> None:
    """Refuse to go on if something else is at ``place`` than was looked at.

    Raises:
        CheckpointConflict: so it is.
    """
    found = look(place)
    if (None if found is None else Stamp.of(found)) != expected:
        raise changed_meanwhile(place)


def content_of(place: Place, size: int, sealing: Sealing = PLAIN) -> Content | None:
    """The first ``size`` bytes of the file at ``place``; None if they cannot be read."""
    try:
        with open_regular(place) as fd:
            digests = [sealing.digest(data) for data in read_blocks(fd, size)]
            if not is_whole(digests, size):
                return None
            return Content(size=size, digest=file_digest(digests))
    except (OSError, SaveRefused):
        return None


@contextmanager
def cleaning(undo: Callable[[], None]) -> Iterator[None]:
    """Run ``undo`` if the block fails."""
    try:
        yield
    except BaseException:
        undo()
        raise


def changed_meanwhile(place: Place) -> CheckpointConflict:
    """The error for a file that somebody changed during the restore."""
    return CheckpointConflict(
        f"{place.shown} changed while the checkpoint was being restored",
        hint="End what writes to it, then resume again.",
        path=place.shown,
    )


def no_folder(place: Place) -> CheckpointConflict:
    """The error for what stands where a folder must be."""
    return CheckpointConflict(
        f"{place.shown} must be a folder for the checkpoint, and is something else",
        hint="Rename it, or resume with --overwrite.",
        path=place.shown,
    )


def _is_folder(folder: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _make_way(folder: int, name: str, *, keep: bool) -> str | None:
    """Free ``name``, or make it safe to rename something over it."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return _displace(folder, name)
    if not keep:
        return None
    return _link_beside(folder, name, found)


def _link_beside(folder: int, name: str, found: os.stat_result) -> str:
    """A second name for the file, so that there is one at ``name`` at every moment."""
    for displaced in _displaced_names(name):
        try:
            os.link(name, displaced, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            there = os.stat(displaced, dir_fd=folder, follow_symlinks=False)
            if os.path.samestat(there, found):  # by a restore that was killed
                return displaced
        except OSError:  # no hard links here
            return _displace(folder, name)
        else:
            return displaced
    raise AssertionError(name)


def _displace(folder: int, name: str) -> str:
    """Rename what is at ``name`` beside itself."""
    for displaced in _displaced_names(name):
        try:
            os.stat(displaced, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(name, displaced, src_dir_fd=folder, dst_dir_fd=folder)
            return displaced
    raise AssertionError(name)


def _displaced_names(name: str) -> Iterator[str]:
    for number in range(1, _DISPLACED_MOST):
        ending = f".displaced-{number}"
        # A name has at most 255 bytes.
        stem = os.fsencode(name)[: 255 - len(ending)]
        yield os.fsdecode(stem) + ending
