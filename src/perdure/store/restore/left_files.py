"""Files that a checkpoint left where the task wrote them (``--files adopt``): found and checked.

They are the program's own, so that anything may have become of them. Each is known by its size and
digest; by its size and time, as long as nobody has read it yet.

Source: design 6, "Files policy"; docs/decisions/107.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG

from perdure.errors import CheckpointCorrupt
from perdure.store.drivers.posix_files import in_our_words, write_all
from perdure.store.files.adopting import adopted, hold_of
from perdure.store.files.file_blocks import is_whole, read_blocks
from perdure.store.files.outside_decision import Content
from perdure.store.files.roots import Place, look, open_regular
from perdure.store.manifests.manifest import Entry, Manifest, file_digest
from perdure.store.packs.blocks import damaged_file
from perdure.store.packs.sealing import PLAIN, Sealing
from perdure.store.restore.placing import content_of

_LOST = "it was left where it was (--files adopt), and is not there as it was"


def lost(shown: str) -> CheckpointCorrupt:
    """The error for an adopted file that is gone, or another."""
    return damaged_file(shown, _LOST)


def is_adopted_version(
    entry: Entry, place: Place, found: os.stat_result, sealing: Sealing = PLAIN
) -> bool:
    """Whether what was ``found`` at ``place`` is the adopted file; blocks while it is read."""
    if not S_ISREG(found.st_mode) or found.st_size != entry.size:
        return False
    if not entry.digest:
        return found.st_mtime_ns == entry.mtime_ns
    saved = Content(size=entry.size, digest=entry.digest)
    return content_of(place, entry.size, sealing) == saved


def adopted_at(manifest: Manifest, entry: Entry, sealing: Sealing = PLAIN) -> Place:
    """Where an adopted file is as it was saved, by its own name or by its second one.

    Raises:
        CheckpointCorrupt: on this host it is not.
    """
    root = manifest.roots[entry.root]
    own = Place(root=root, base=Path(root.path), path=entry.path)
    for place in (own, hold_of(own, entry)):
        if place is None:
            continue
        try:
            found = look(place)
        except OSError:
            continue
        if found is not None and is_adopted_version(entry, place, found, sealing):
            return place
    raise lost(manifest.shown_path(entry))


def read_adopted(manifest: Manifest, entry: Entry, sealing: Sealing = PLAIN) -> Iterator[bytes]:
    """An adopted file's bytes, block by block; whoever takes them all knows that they are right.

    Raises:
        CheckpointCorrupt: on this host it is not there as it was; perhaps behind the last block.
    """
    place = adopted_at(manifest, entry, sealing)
    digests: list[bytes] = []
    with open_regular(place) as fd:
        for data in read_blocks(fd, entry.size):
            digests.append(sealing.digest(data))
            yield data
    is_right = not entry.digest or file_digest(digests) == entry.digest
    if not is_whole(digests, entry.size) or not is_right:
        raise lost(manifest.shown_path(entry))


def copy_adopted(manifest: Manifest, entry: Entry, target: Path, sealing: Sealing = PLAIN) -> None:
    """Write an adopted file to ``target``, which is not there, with its mode and time.

    Raises:
        CheckpointCorrupt: on this host it is not there as it was.
        OutOfSpace: and the like: it cannot be written.
    """
    with in_our_words("write", target):
        target.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            start = 0
            for data in read_adopted(manifest, entry, sealing):
                write_all(fd, data, start)
                start += len(data)
            os.fchmod(fd, entry.mode & 0o777)
            os.utime(fd, ns=(entry.mtime_ns, entry.mtime_ns))
        finally:
            os.close(fd)


def lost_adopted(manifest: Manifest, sealing: Sealing = PLAIN) -> Iterator[CheckpointCorrupt]:
    """The adopted files of a checkpoint that are lost on this host; blocks while all are read."""
    for entry in adopted(manifest):
        try:
            adopted_at(manifest, entry, sealing)
        except CheckpointCorrupt as error:
            yield error
