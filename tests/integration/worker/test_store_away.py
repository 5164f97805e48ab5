"""A save that comes while the store is out of reach: it waits, since the task may wait for it."""

import json
import threading

import pytest

from perdure.clock import SystemClock
from perdure.errors import StoreUnavailable
from perdure.protocol.attempt_messages import SaveAnnounced
from perdure.protocol.dataset import Dataset
from perdure.store.capture.capture import Capture
from perdure.store.capture.save_values import CaptureSettings
from perdure.store.drivers.memory import Call, MemoryDriver
from perdure.store.files.ownership import Ownership
from perdure.store.files.roots import Roots
from perdure.store.layout import LaunchId
from perdure.store.packs.blocks import BlockIndex
from perdure.store.packs.pack_writing import PackWriter
from perdure.worker import committing
from perdure.worker.committing import COMMIT_FILE, Committing
from perdure.worker.saves import Saves
from store_kit import PACKS
from support.worker_runs import wait_until

LAUNCH = LaunchId("01jdxyz0000000000000000001")


class Attempt:
    """The saves of one attempt, without its task, over a store that may be away."""

    def __init__(self, folder):
        self.session = folder
        self.is_away = threading.Event()
        self.asked = 0
        self.notes, self.committed = [], []
        self.number = 0
        driver = MemoryDriver(before=self._ask)
        capture = Capture(
            Roots(folder),
            PackWriter(driver, PACKS, launch=LAUNCH, attempt=1, index=BlockIndex()),
            CaptureSettings(attempt=1, launch=LAUNCH),
            ownership=Ownership(first_claim_at_ns=0, attempt_began_at_ns=0),
        )
        self.saves = Saves(
            Committing(
                capture=lambda: capture,
                put=self.put,
                note=lambda kind, fields, durable: self.notes.append(fields["text"]) or True,
                make_room=lambda manifest: False,
                declare=lambda dataset: None,
                after_commit=lambda sequence, manifest: self.committed.append(manifest.state),
                lost=lambda: None,
                session_dir=folder,
            ),
            SystemClock(),
        )

    def _ask(self, call, _key):
        if call is not Call.HEAD:
            self._refuse()

    def _refuse(self):
        if self.is_away.is_set():
            self.asked += 1
            raise StoreUnavailable("the store is away", hint="Bring it back.")

    def put(self, header, payload):
        self._refuse()
        return len(self.committed) + 1

    def save(self, text):
        self.number += 1
        (self.session / "state").write_text(text)
        self.saves.hear(
            SaveAnnounced(
                line_number=self.number,
                n=self.number,
                state=text,
                file=str(self.session / "state"),
                dataset=Dataset(),
            )
        )

    def acknowledged(self):
        try:
            return json.loads((self.session / COMMIT_FILE).read_text())["save"]
        except OSError:
            return 0


@pytest.fixture
def attempt(session, monkeypatch):
    monkeypatch.setattr(committing, "_FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(committing, "_LONGEST_PAUSE_SECONDS", 0.02)
    return Attempt(session)


@pytest.fixture
def session(tmp_path):
    return tmp_path


def test_it_is_committed_once_the_store_is_back(attempt):
    attempt.is_away.set()
    attempt.save("one")
    wait_until("several tries", lambda: attempt.asked > 3)
    assert attempt.acknowledged() == 0
    attempt.is_away.clear()
    wait_until("the acknowledgement", lambda: attempt.acknowledged() == 1)
    attempt.saves.finish(drop=False)
    assert attempt.committed == ["one"]
    assert sum("waits for the store: the store is away" in note for note in attempt.notes) == 1


def test_a_newer_one_takes_its_place(attempt):
    attempt.is_away.set()
    attempt.save("one")
    wait_until("a try", lambda: attempt.asked > 0)
    attempt.save("two")
    wait_until("the end of the first", lambda: any("not taken" in n for n in attempt.notes))
    attempt.is_away.clear()
    attempt.saves.finish(drop=False)
    assert attempt.committed == ["two"]


def test_nobody_waits_for_one_that_is_not_wanted(attempt):
    attempt.is_away.set()
    attempt.save("one")
    wait_until("a try", lambda: attempt.asked > 0)
    attempt.saves.finish(drop=True)
    assert attempt.committed == []


def test_when_the_task_is_over_it_waits_no_longer_than_it_may(attempt, monkeypatch):
    monkeypatch.setattr(committing, "_LAST_WAIT_SECONDS", 0.05)
    attempt.is_away.set()
    attempt.save("one")
    attempt.saves.finish(drop=False)
    assert attempt.committed == []
    assert attempt.saves.facts.problem == "the store is away"
