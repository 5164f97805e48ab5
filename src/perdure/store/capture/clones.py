"""The clones of one attempt's large files: made at each save, and compared with those of the last.

Rules: a clone counts only if the file's stamp is the save's both before and after it was made. Only
files of the session folder's own file system are cloned: there perdure has a folder for it. What
cannot be cloned is read where it is.

Crash behaviour: see `perdure.store.files.cloning`.
"""

import os
from collections.abc import Container, Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from perdure.store.files.cloning import CannotClone, Extent, clone, extents, unchanged_blocks
from perdure.store.files.file_systems import may_clone
from perdure.store.files.roots import Place, Stamp, open_regular
from perdure.store.layout import PackId
from perdure.store.manifests.manifest import BLOCK_BYTES
from perdure.store.packs.blocks import StoredBlock

#: Smaller files are read as fast as they are cloned.
CLONED_FROM_BYTES = 8 << 20


class Clone(Struct, frozen=True, kw_only=True):
    """A version of a file that nobody writes to.

    Attributes:
        path: where.
        known: its blocks that the version before has, too, by index; empty for none.
        extents: where it lies on the disk; None where nobody can tell.
        blocks: of it, once they were taken.
    """

    path: str
    known: tuple[StoredBlock | None, ...] = ()
    extents: list[Extent] | None = None
    blocks: tuple[StoredBlock, ...] = ()


class Clones:
    """See the module; for one thread.

    Args:
        folder: where clones are made; None: nowhere.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._number = 0
        self._last: dict[Place, Clone] = {}
        self._new: dict[Place, Clone] = {}

    def of(self, place: Place, stamp: Stamp) -> Clone | None:
        """A clone of that version of the file; None where it cannot be had.

        Blocks while what the task wrote is written back.
        """
        if self._folder is None or stamp.size < CLONED_FROM_BYTES or not may_clone(stamp.device):
            return None
        known = self._new.get(place)
        if known is not None:
            return known
        try:
            made = self._make(place, stamp)
        except CannotClone:
            self._folder = None
            return None
        except OSError:
            return None
        if made is not None:
            self._new[place] = made
        return made

    def _make(self, place: Place, stamp: Stamp) -> Clone | None:
        assert self._folder is not None
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._number += 1
        path = self._folder / str(self._number)
        with open_regular(place) as fd:
            is_before = Stamp.of(os.fstat(fd)) == stamp
            if is_before:
                clone(fd, path)
            if not is_before or Stamp.of(os.fstat(fd)) != stamp:
                path.unlink(missing_ok=True)
                return None
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            where = extents(fd)
        finally:
            os.close(fd)
        return Clone(path=str(path), extents=where, known=self._unchanged(place, where, stamp.size))

    def _unchanged(
        self, place: Place, where: list[Extent] | None, size: int
    ) -> tuple[StoredBlock | None, ...]:
        """The last version's blocks where they lie at the same place of the disk."""
        last = self._last.get(place)
        count = -(-size // BLOCK_BYTES)
        if last is None or last.extents is None or where is None:
            return ()
        same = unchanged_blocks(last.extents, where, size, BLOCK_BYTES)
        return tuple(
            last.blocks[index]
            if same[index]
            and index < len(last.blocks)
            and last.blocks[index].length == min(BLOCK_BYTES, size - index * BLOCK_BYTES)
            else None
            for index in range(count)
        )

    def keep(self, taken: Iterable[tuple[Place, tuple[StoredBlock, ...]]]) -> None:
        """The save was taken: its clones are what the next ones are compared with."""
        blocks = dict(taken) if self._new else {}
        new = {
            place: Clone(path=one.path, extents=one.extents, blocks=blocks.get(place, ()))
            for place, one in self._new.items()
        }
        self._remove(self._last)
        self._last, self._new = new, {}

    def drop(self) -> None:
        """The save was not taken: neither these nor the last ones tell anything any more."""
        self._remove(self._new)
        self._remove(self._last)
        self._new, self._last = {}, {}

    def forget(self, packs: Container[PackId]) -> None:
        """Rest on no block in ``packs`` any more."""
        for place, one in tuple(self._last.items()):
            if any(block.pack in packs for block in one.blocks):
                self._remove({place: self._last.pop(place)})

    def _remove(self, clones: dict[Place, Clone]) -> None:
        for one in clones.values():
            with suppress(OSError):
                Path(one.path).unlink()
