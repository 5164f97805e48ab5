"""Two tiers: packs are written to a fast folder of this host first, and copied to the store later.

Theory of operation. `LocalTier` is where a `PackWriter` writes: a pack goes into the local folder
under the key that it has in the store. `copy_pack` brings it there whole, as any other pack; only
then a checkpoint may rest on it. What is in the store is removed from the folder.

Rules: the local folder serves only the launch that writes it. Nobody restores from it; what a dead
launch left is removed. Where the folder has no room, or is not there any more, packs go to the
store at once.

Source: design 7, "Two tiers"; docs/decisions/106.
"""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from perdure.errors import HomeError, PerdureError, StoreDamaged, UsageError
from perdure.store.drivers.apart import check_outside
from perdure.store.drivers.buffers import aligned_buffer
from perdure.store.drivers.driver import Driver, Upload
from perdure.store.drivers.posix import PosixDriver
from perdure.store.drivers.posix_files import PRIVATE, make_folders
from perdure.store.layout import FORMAT_KEY, JobId, PackId, lineages_prefix, pack_key
from perdure.store.manifests.manifest import BLOCK_BYTES
from perdure.store.packs.block_threads import BUFFER_BYTES
from perdure.store.packs.pack_uploads import commit_surely

#: So many packs must still fit into the folder, or it counts as full.
_ROOM_PACKS = 2


class LocalTier:
    """A store's driver whose packs are written to a local folder first.

    Args:
        durable: of the store.
        folder: on this host; made when it is not there.

    Raises:
        HomeError: it cannot be made.
        UsageError: it lies in the store.
    """

    def __init__(self, durable: Driver, folder: Path) -> None:
        root = durable.local_path(FORMAT_KEY)
        if root is not None:
            check_outside(folder, root.parent, called="--local-store")
        make_folders(folder, PRIVATE)
        self.durable = durable
        self.local = PosixDriver(folder)
        self.pack_limit_bytes = durable.pack_limit_bytes
        # The folder's sync goes on while the next pack is filled; and how fast it is tells nothing.
        self.uploads_at_once = 2

    @property
    def bytes_per_second(self) -> float:
        """Of the store: all bytes have to go there in the end."""
        return self.durable.bytes_per_second

    def upload(self, key: str) -> Upload:
        """Begin a pack: in the folder, or in the store where the folder has no room."""
        with suppress(OSError, PerdureError):
            found = os.statvfs(self.local.root)
            if found.f_bavail * found.f_frsize > _ROOM_PACKS * self.pack_limit_bytes:
                return self.local.upload(key)
        return self.durable.upload(key)

    def head(self, key: str) -> int | None:
        """The pack's size in either tier; None if it is in none."""
        size = self.local.head(key)
        return self.durable.head(key) if size is None else size

    def only_local(self, packs: str, names: tuple[PackId, ...]) -> dict[PackId, int]:
        """Which packs are not in the store yet, with their sizes in bytes."""
        sizes = {name: self.local.head(pack_key(packs, name)) for name in names}
        return {name: size for name, size in sizes.items() if size is not None}

    def forget(self, packs: str, names: tuple[PackId, ...] = ()) -> None:
        """Remove packs from the folder: these, or without names all of the lineage."""
        keys = [pack_key(packs, name) for name in names] or list(self.local.list(packs))
        with suppress(PerdureError):
            for key in keys:
                self.local.delete(key)
            if not names:
                self.local.sweep(packs, older_than_seconds=0)


def copy_pack(
    tier: LocalTier, key: str, *, go_on: Callable[[int], bool] = lambda _bytes: True
) -> bool:
    """Copy a pack into the store and remove it from the folder; whether that was done.

    Blocks while it is read and written. May be repeated.

    Args:
        tier: both tiers.
        key: of the pack.
        go_on: called after each block with its size; False gives up.

    Raises:
        PerdureError: one of the tiers failed.
    """
    size = tier.local.head(key) or 0
    buffer = aligned_buffer(BUFFER_BYTES)[:BLOCK_BYTES]
    upload = tier.durable.upload(key)
    try:
        for start in range(0, size, BLOCK_BYTES):
            got = tier.local.get_into(key, start, buffer)
            if got != min(BLOCK_BYTES, size - start):
                raise StoreDamaged(
                    f"the local copy of pack {key} is too short",
                    hint="Keep other programs out of the folder of --local-store.",
                )
            upload.write(buffer[:got], aligned=True)
            if not go_on(got):
                return False
        commit_surely(upload)  # one that is there already is ours: this copy was begun before
    finally:
        upload.abort()
    tier.local.delete(key)
    return True


def forget_job(folder: Path, job: JobId) -> None:
    """Remove what launches of a job left in a local folder; nothing of the job runs."""
    if not folder.is_dir():
        return
    local = PosixDriver(folder)
    with suppress(PerdureError):
        local.sweep(lineages_prefix(job), older_than_seconds=0)
        for key in list(local.list(lineages_prefix(job))):
            local.delete(key)


def open_tier(durable: Driver, folder: Path) -> LocalTier:
    """The local tier in ``folder``, which is made.

    Raises:
        UsageError: it lies in the store, or cannot be made.
    """
    try:
        return LocalTier(durable, folder)
    except OSError as error:
        raise _unusable(folder, error.strerror or str(error)) from error
    except HomeError as error:
        raise _unusable(folder, error.message) from error


def probe_tier(durable: Driver, folder: Path) -> None:
    """Try whether saves can be taken in ``folder``: it is made, and written to.

    Raises:
        UsageError: they cannot.
    """
    open_tier(durable, folder)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"perdure")
    except OSError as error:
        raise _unusable(folder, error.strerror or str(error)) from error


def _unusable(folder: Path, why: str) -> UsageError:
    return UsageError(
        f"--local-store {folder} cannot be used: {why}",
        hint="Name a folder that can be made and written to, or leave the option out.",
    )
