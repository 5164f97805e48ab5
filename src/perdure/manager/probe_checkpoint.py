"""A checkpoint that is written in one place and read back in another, to see that both reach it.

It is a checkpoint like any other: blocks in packs, a manifest, a save record. It lies in the room
of a job that is marked as removed before anything is written there: no command shows it, and what a
killed probe leaves is taken away by the next `perdure repair`.

Blocks while the store is written or read.
"""

from collections.abc import Callable

from msgspec import Struct
from ulid import ULID

from perdure.clock import Clock
from perdure.errors import CheckpointCorrupt, CheckpointMissing
from perdure.store import layout
from perdure.store.deleting import begin_removal, remove_job
from perdure.store.drivers.driver import Driver
from perdure.store.layout import JobId, LaunchId, StepKey, TaskKey
from perdure.store.manifests.manifest import (
    BLOCK_BYTES,
    Entry,
    EntryType,
    Manifest,
    file_digest,
)
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.manifests.manifest_reading import decode_manifest
from perdure.store.packs.blocks import BlockIndex, number_packs, to_block
from perdure.store.packs.pack_writing import PackWriter
from perdure.store.records.log import Log
from perdure.store.restore.verify import verify_checkpoint

#: Of the file in the checkpoint.
PROBE_BYTES = 1 << 20
_STEP, _TASK = StepKey(1), TaskKey("0" * 16)
_PATH = "probe"
_PACKS_ATTEMPT = 1


class Probe(Struct, frozen=True, kw_only=True):
    """A probe of one store.

    Attributes:
        job: whose room is used: an id that no job has.
    """

    driver: Driver
    job: JobId
    clock: Clock
    pause: Callable[[int], None]

    def write(self, data: bytes) -> str:
        """Write ``data`` as a checkpoint; its content id. At most one block (4 MiB).

        Raises:
            HomeError, OutOfSpace: the store does not take it.
        """
        assert len(data) <= BLOCK_BYTES
        begin_removal(self.driver, self.job)
        launch = LaunchId(str(ULID()).lower())
        writer = PackWriter(
            self.driver, self._packs, launch=launch, attempt=_PACKS_ATTEMPT, index=BlockIndex()
        )
        try:
            stored = writer.add(data)
            writer.finish()
        except BaseException:
            writer.abandon()
            raise
        packs = number_packs([(stored,)])
        block = to_block(stored, packs)
        entry = Entry(
            root=0,
            path=_PATH,
            type=EntryType.FILE,
            mode=0o600,
            size=len(data),
            digest=file_digest([block.digest]),
            blocks=(block,),
        )
        manifest = Manifest(attempt=1, launch=launch, save=1, packs=tuple(packs), entries=(entry,))
        header, payload = encode_manifest(manifest)
        log = self._log()
        log.read()
        log.append({"kind": "save", "claim": -1, **header}, payload)
        return manifest.content

    def read(self) -> str:
        """Read the checkpoint back, every byte; its content id.

        Raises:
            CheckpointMissing: there is none.
            CheckpointCorrupt, StoreDamaged: it is not what was written.
        """
        log = self._log()
        log.read()
        if not log.entries:
            raise CheckpointMissing("the probe's checkpoint is not in the store")
        record = log.fetch(log.last)
        manifest = decode_manifest(record.header, record.payload, name="of the probe")
        for damage in verify_checkpoint(self.driver, self._packs, manifest):
            raise CheckpointCorrupt(f"the probe's checkpoint is damaged: {damage.reason}")
        return manifest.content

    def remove(self) -> None:
        """Take away all that the probe wrote; may be repeated."""
        remove_job(self.driver, self.job)

    @property
    def _packs(self) -> str:
        return layout.packs(self.job, _STEP, _TASK)

    def _log(self) -> Log:
        return Log(
            self.driver,
            layout.lineage_log(self.job, _STEP, _TASK),
            clock=self.clock,
            pause=self.pause,
        )
