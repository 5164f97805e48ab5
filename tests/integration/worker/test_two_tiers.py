"""``--local-store``: saves are local first, and count when they have come to the store."""

import json
import threading
from pathlib import Path

import pytest

from perdure.cli.job_options import check_places
from perdure.cli.places import Places
from perdure.clock import SystemClock
from perdure.errors import OutOfSpace, PerdureError, StoreUnavailable, UsageError
from perdure.protocol.attempt_messages import SaveAnnounced
from perdure.protocol.dataset import Dataset
from perdure.store.capture.capture import Capture
from perdure.store.capture.save_values import CaptureSettings
from perdure.store.drivers.memory import MemoryDriver
from perdure.store.drivers.posix import PosixDriver
from perdure.store.files.ownership import Ownership
from perdure.store.files.roots import Roots
from perdure.store.layout import LaunchId
from perdure.store.packs.blocks import BlockIndex, listed_packs
from perdure.store.packs.pack_writing import PackWriter
from perdure.store.packs.tiers import LocalTier, forget_job
from perdure.store.records.job_document import Options
from perdure.store.restore.verify import verify_checkpoint
from perdure.worker import draining
from perdure.worker.committing import COMMIT_FILE, Committing
from perdure.worker.draining import Drainer
from perdure.worker.saves import Saves
from support.task_words import interrupted, job_of
from support.worker_runs import wait_until

LAUNCH = LaunchId("01jdxyz0000000000000000001")
PACKS = "lineages/01jdxyz0000000000000000000/0001/0123456789abcdef/packs"


class GatedUpload:
    """An upload whose commit waits for its store's gate."""

    def __init__(self, store, upload):
        self._store = store
        self._upload = upload

    def __getattr__(self, name):
        return getattr(self._upload, name)

    def commit(self):
        self._store.arrived.release()
        assert self._store.gate.wait(60)
        if self._store.failures:
            raise self._store.failures.pop(0)
        return self._upload.commit()


class GatedStore(MemoryDriver):
    """A store that takes packs while its gate is open."""

    def __init__(self):
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.arrived = threading.Semaphore(0)
        self.failures = []

    def upload(self, key):
        return GatedUpload(self, super().upload(key))


class Attempt:
    """The saves of one attempt, without its task."""

    def __init__(self, folder: Path) -> None:
        self.session = folder / "session"
        self.session.mkdir()
        self.local = folder / "local"
        self.store = GatedStore()
        self.tier = LocalTier(self.store, self.local)
        self.drainer = Drainer(self.tier, PACKS)
        self.committed, self.notes, self.in_flight, self.pruned = [], [], [], []
        self.number = 0
        self.capture = Capture(
            Roots(self.session),
            PackWriter(self.tier, PACKS, launch=LAUNCH, attempt=1, index=BlockIndex()),
            CaptureSettings(attempt=1, launch=LAUNCH),
            ownership=Ownership(first_claim_at_ns=0, attempt_began_at_ns=0),
        )
        self.saves = Saves(
            Committing(
                capture=lambda: self.capture,
                put=self.put,
                note=lambda kind, fields, durable: self.notes.append(fields) or True,
                make_room=self.make_room,
                declare=lambda dataset: None,
                after_commit=lambda sequence, manifest: self.committed.append(manifest),
                lost=lambda: None,
                session_dir=self.session,
                drainer=self.drainer,
                in_flight=self.in_flight.append,
            ),
            SystemClock(),
        )

    def put(self, header, payload):
        return len(self.committed) + 1

    def make_room(self, manifest):
        self.pruned.append(manifest)
        return True

    def save(self, text: str) -> None:
        self.number += 1
        path = self.session / "state"
        path.write_text(text)
        self.saves.hear(
            SaveAnnounced(
                line_number=self.number,
                n=self.number,
                state=text,
                file=str(path),
                dataset=Dataset(),
            )
        )

    def acknowledged(self) -> dict:
        try:
            return json.loads((self.session / COMMIT_FILE).read_text())
        except OSError:
            return {}

    def until_acknowledged(self, **expected) -> None:
        def is_there():
            found = self.acknowledged()
            return all(found.get(name) == value for name, value in expected.items())

        wait_until(f"acknowledged {expected}", is_there)

    def states(self):
        return [manifest.state for manifest in self.committed]


@pytest.fixture
def attempt(tmp_path):
    made = Attempt(tmp_path)
    yield made
    made.store.gate.set()
    made.saves.finish(drop=True)


def test_a_save_is_local_first_and_durable_when_it_has_come_to_the_store(attempt):
    attempt.store.gate.clear()
    attempt.save("one")
    attempt.until_acknowledged(save=1, tier="local", sequence=None)
    assert attempt.committed == []
    assert attempt.saves.local()["local_save"] == 1
    attempt.store.gate.set()
    attempt.until_acknowledged(save=1, tier="durable", sequence=1)
    attempt.saves.finish(drop=False)
    assert attempt.states() == ["one"]
    assert attempt.saves.local() == {}
    [manifest] = attempt.committed
    assert verify_checkpoint(attempt.store, PACKS, manifest) == ()
    assert list(attempt.tier.local.list("")) == []


def test_of_those_that_wait_only_the_newest_goes(attempt):
    attempt.store.gate.clear()
    attempt.save("one")
    assert attempt.store.arrived.acquire(timeout=60)  # on its way: it is not given up
    for number, text in enumerate(("two", "three", "four"), start=2):
        attempt.save(text)
        attempt.until_acknowledged(save=number, tier="local")
    attempt.store.gate.set()
    attempt.saves.finish(drop=False)
    assert attempt.states() == ["one", "four"]
    assert attempt.saves.facts.skipped == 2
    for manifest in attempt.committed:
        assert verify_checkpoint(attempt.store, PACKS, manifest) == ()


def test_what_is_on_its_way_is_told_so_that_nothing_of_it_is_pruned(attempt):
    attempt.store.gate.clear()
    attempt.save("one")
    attempt.until_acknowledged(save=1)
    wait_until("told", lambda: attempt.in_flight)
    assert [manifest.state for manifest in attempt.in_flight[-1]] == ["one"]
    attempt.store.gate.set()
    attempt.saves.finish(drop=False)
    assert attempt.in_flight[-1] == ()


def test_when_time_is_short_an_older_save_gives_way(attempt):
    attempt.store.gate.clear()
    attempt.save("one")
    assert attempt.store.arrived.acquire(timeout=60)
    attempt.save("two")
    attempt.until_acknowledged(save=2, tier="local")
    attempt.saves.notice_is_sent()
    attempt.store.gate.set()
    attempt.saves.finish(drop=False)
    assert attempt.states()[-1] == "two"


def test_an_abandoned_attempt_leaves_nothing_local(attempt):
    attempt.store.gate.clear()
    attempt.save("one")
    attempt.until_acknowledged(save=1)
    attempt.store.gate.set()
    attempt.saves.finish(drop=True)
    assert list(attempt.tier.local.list("")) == []


def test_a_store_out_of_reach_is_tried_again(attempt, monkeypatch):
    monkeypatch.setattr(draining, "_FIRST_PAUSE_SECONDS", 0.01)
    attempt.store.failures = [StoreUnavailable("away"), StoreUnavailable("away")]
    attempt.save("one")
    attempt.until_acknowledged(save=1, tier="durable")
    attempt.saves.finish(drop=False)
    assert attempt.states() == ["one"]


def test_a_full_store_is_made_room_in_once(attempt):
    attempt.store.failures = [OutOfSpace("full")]
    attempt.save("one")
    attempt.until_acknowledged(save=1, tier="durable")
    assert [manifest.state for manifest in attempt.pruned] == ["one"]
    (told,) = [note for note in attempt.notes if "older checkpoints were pruned" in note["text"]]
    assert told["what"] == "room"


def test_a_save_that_does_not_get_there_is_said_and_the_next_one_brings_its_blocks(attempt):
    attempt.store.failures = [PermissionRefused("not yours")]
    attempt.save("one")
    wait_until("said", lambda: attempt.saves.facts.problem)
    assert attempt.states() == []
    attempt.save("one")  # the same bytes: it rests on the pack of the save before
    attempt.until_acknowledged(save=2, tier="durable")
    [manifest] = attempt.committed
    assert verify_checkpoint(attempt.store, PACKS, manifest) == ()


class PermissionRefused(PerdureError):
    """An error that no waiting cures."""


def test_a_folder_without_room_is_passed_over(attempt, monkeypatch):
    monkeypatch.setattr("perdure.store.packs.tiers._ROOM_PACKS", 1 << 40)
    attempt.save("one")
    attempt.until_acknowledged(save=1, tier="durable")
    assert len(listed_packs(attempt.store, PACKS)) == 1
    assert not (attempt.local / "lineages").exists()


def test_rm_removes_what_a_dead_launch_left(attempt):
    upload = attempt.tier.local.upload(f"{PACKS}/{LAUNCH}-1-9")
    upload.write(b"x")
    upload.commit()
    attempt.tier.local.upload(f"{PACKS}/{LAUNCH}-1-10").write(b"left")
    forget_job(attempt.local, "01jdxyz0000000000000000000")
    assert list(attempt.local.rglob("*")) == []


def test_a_task_is_resumed_from_what_was_durable(ground):
    """The real worker: it is suspended with a save that had to be drained first."""
    local = ground.root / "local"
    job = job_of(
        ground,
        """
    if not resumed:
        write("model.bin", "M" * 100_000)
        save("17", "model.bin")
        wait()
    print("state", sys.argv[1], "bytes", len(open(sys.argv[2]).read()))
    """,
        local_store=str(local),
    )
    interrupted(job).run()
    assert job.outcome()["state"] == "SUCCEEDED"
    assert "state 17 bytes 100000" in job.text(job.workers[-1])
    assert [path for path in local.rglob("*") if path.is_file()] == []


def test_a_local_store_that_cannot_be_made_is_said_and_saves_go_to_the_store(ground):
    (ground.root / "file").write_text("no folder")
    code = """
        write("data", "x" * 5000)
        save("1", "data")
        wait()
    """
    job = job_of(ground, code, local_store=str(ground.root / "file" / "below"))
    interrupted(job)
    assert any(
        "--local-store" in note and "cannot be used: Not a directory" in note
        for note in job.notes()
    )
    assert job.lineage().point is not None


@pytest.mark.parametrize("way", ["itself", "inside", "by a link", "not there yet"])
def test_a_local_store_in_the_store_is_refused(tmp_path, way):
    """It is emptied of what has come to the store: that would be the store's own packs."""
    store = tmp_path / "store"
    store.mkdir()
    (tmp_path / "link").symlink_to(store)
    folder = {
        "itself": store,
        "inside": store / "jobs",
        "by a link": tmp_path / "link" / "local",
        "not there yet": store / "a" / ".." / "b",
    }[way]
    with pytest.raises(UsageError, match="lies in the store"):
        LocalTier(PosixDriver(store), folder)
    assert list(store.iterdir()) == []
    places = Places(home=tmp_path, store_url=str(store), cache=tmp_path)
    for options in (Options(local_store=str(folder)), Options(temporary_dir=str(folder))):
        with pytest.raises(UsageError, match="lies in the store"):
            check_places(options, places)


def test_a_local_store_beside_or_around_the_store_is_allowed(tmp_path):
    (tmp_path / "store").mkdir()
    for folder in (tmp_path, tmp_path / "store-2", tmp_path / "local"):
        LocalTier(PosixDriver(tmp_path / "store"), folder)
    LocalTier(MemoryDriver(), tmp_path / "store")
