"""What the store's tests share: a task's folders, and a capture and a restore that look at them."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from perdure.store.capture.capture import Capture
from perdure.store.capture.save_values import Announcement, CapturedSave, CaptureSettings, Frozen
from perdure.store.drivers.driver import Driver
from perdure.store.drivers.memory import MemoryDriver
from perdure.store.files.ownership import Ownership
from perdure.store.files.roots import Roots
from perdure.store.layout import LaunchId
from perdure.store.manifests.manifest import Manifest
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.manifests.manifest_reading import decode_manifest
from perdure.store.packs.blocks import BlockIndex
from perdure.store.packs.pack_writing import PackWriter
from perdure.store.packs.sealing import PLAIN, Sealing
from perdure.store.restore.planning import RestoreRequest
from perdure.store.restore.restore import Restored, restore

LAUNCH = LaunchId("01jdxyz0000000000000000001")
PACKS = "lineages/01jdxyz0000000000000000000/0001/0123456789abcdef/packs"
FUTURE_NS = 4_000_000_000_000_000_000


@dataclass
class Task:
    """A task that saves: its session folder, what it may use outside, and its lineage's blocks."""

    session: Path
    outside: tuple[Path, ...] = ()
    driver: Driver = field(default_factory=MemoryDriver)
    first_claim_at_ns: int = 0
    attempt_began_at_ns: int = 0
    recorded: frozenset[str] = frozenset()
    elsewhere: frozenset[str] = frozenset()
    attempt: int = 1
    packs: str = PACKS
    sealing: Sealing = PLAIN
    saves: int = 0
    options: dict = field(default_factory=dict)
    settings: dict = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.index = BlockIndex()
        self.writer = PackWriter(
            self.driver,
            self.packs,
            launch=LAUNCH,
            attempt=self.attempt,
            index=self.index,
            sealing=self.sealing,
        )
        self.capture = Capture(
            Roots(self.session, self.outside),
            self.writer,
            CaptureSettings(attempt=self.attempt, launch=LAUNCH, **self.settings),
            ownership=Ownership(
                first_claim_at_ns=self.first_claim_at_ns,
                attempt_began_at_ns=self.attempt_began_at_ns,
                recorded=self.recorded,
                is_declared_elsewhere=lambda path: path in self.elsewhere,
            ),
            **self.options,
        )

    def freeze(self, *files, file=None, folders=(), state=None, line_at_ns=None) -> Frozen:
        self.saves += 1
        return self.capture.freeze(
            Announcement(
                save=self.saves,
                line_at_ns=time.time_ns() if line_at_ns is None else line_at_ns,
                state=state,
                file=None if file is None else str(file),
                files=tuple(map(str, files)),
                folders=tuple(map(str, folders)),
            )
        )

    def save(self, *files, **announced) -> CapturedSave:
        return self.capture.take(self.freeze(*files, **announced))

    def manifest(self, *files, **announced) -> Manifest:
        """A save, written and read as its record would be."""
        header, payload = encode_manifest(self.save(*files, **announced).manifest)
        return decode_manifest(header, payload, name="@1")

    def restore(self, manifest: Manifest, session: Path, **how) -> Restored:
        outside = how.pop("outside", self.outside)
        return restore(
            RestoreRequest(
                driver=how.pop("driver", self.driver),
                packs=PACKS,
                manifest=manifest,
                name="Step[Frame=1]@1",
                roots=Roots(session, outside),
                **how,
            )
        )


def tree(folder: Path) -> dict[str, object]:
    """All that is in a folder, comparable."""
    return dict(_tree(folder, folder))


def _tree(folder: Path, top: Path) -> Iterator[tuple[str, object]]:
    for path in sorted(folder.iterdir()):
        name = str(path.relative_to(top))
        if path.is_symlink():
            yield name, ("link", str(path.readlink()))
        elif path.is_dir():
            yield name, ("folder", path.stat().st_mode & 0o777)
            yield from _tree(path, top)
        else:
            about = path.stat()
            yield name, (path.read_bytes(), about.st_mode & 0o777, about.st_mtime_ns)
