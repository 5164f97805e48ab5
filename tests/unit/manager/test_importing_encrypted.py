"""A checkpoint of an encrypted job, exported plain, and into jobs with and without a key."""

import json
import tarfile

import pytest
from msgspec.structs import replace

from looking_kit import FRAMES, HandMade
from perdure.cli.naming import find_task
from perdure.errors import CheckpointCorrupt, CheckpointError
from perdure.journal.journal_format import Kind
from perdure.manager.exporting import ABOUT, RECORD, Export, export
from perdure.manager.importing import import_checkpoint
from perdure.manager.lineages import read_lineage
from perdure.store import layout
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.manifests.manifest_reading import decode_manifest
from perdure.store.packs.sealing import PLAIN, Key
from perdure.store.records.record_format import decode_record
from perdure.store.restore.verify import verify_checkpoint
from store_kit import FUTURE_NS, Task

ONE, OTHER = Key(b"1" * 32), Key(b"2" * 32)
NAME = "Render[Frame=1,Camera=left,top]"


class Job:
    """A task at rest, of a job with this key."""

    def __init__(self, sealing):
        self.sealing = sealing
        self.made = HandMade(template=FRAMES)
        self.key = self.made.key(0)
        self.made.launch()
        self.made.share(0, 0)
        self.made.begun(self.key, {"Frame": "1", "Camera": "left,top"})
        self.packs = layout.packs(self.made.job, 1, self.key)

    def save(self, session):
        """Save what lies there; the task ends."""
        task = Task(session, driver=self.made.driver, packs=self.packs, sealing=self.sealing)
        save = task.save(state="here", folders=[session / "run"], line_at_ns=FUTURE_NS)
        header, payload = encode_manifest(save.manifest)
        log = self.made.log(layout.lineage_log(self.made.job, 1, self.key))
        log.append({"kind": "save", "claim": 0, **header}, payload)
        return self.end()

    def end(self):
        self.made.ended(self.key, "SUSPENDED", by="user")
        self.made.journal(Kind.CLOSED)
        self.made.record("suspend", scope={}, by="user")
        return self

    def at(self):
        view = self.made.view()
        found = find_task(view, None, NAME)
        return view, found, read_lineage(view, found.step, found.ref)

    def exported(self, path, **how):
        _view, _found, stored = self.at()
        order = Export(
            driver=self.made.driver,
            packs=stored.packs,
            manifest=stored.manifest(stored.save(1)),
            record=self.made.driver.get(stored.log.key(1)),
            about={"content": "as it is in the store"},
            sealing=self.sealing,
        )
        export(replace(order, **how), path)
        return path

    def imported(self, path, **how):
        """Import it, and read it back with the job's key."""
        view, found, _stored = self.at()
        done = import_checkpoint(view, found.step, found.ref, path, self.sealing, **how)
        _view, _found, stored = self.at()
        manifest = stored.manifest(stored.save(done.sequence))
        assert manifest.key_id == self.sealing.key_id
        assert verify_checkpoint(self.made.driver, stored.packs, manifest, self.sealing) == ()
        return manifest


@pytest.fixture
def session(tmp_path):
    run = tmp_path / "session" / "run"
    run.mkdir(parents=True)
    (run / "big").write_bytes(bytes(range(256)) * (5 << 12))
    (run / "zeros").write_bytes(bytes(5 << 20))
    (run / "small").write_bytes(b"small")
    return run.parent


@pytest.fixture
def plain_tar(session, tmp_path):
    return Job(ONE).save(session).exported(tmp_path / "plain.tar")


@pytest.fixture
def keyed_tar(plain_tar, tmp_path):
    """As perdure exported it before: plain bytes with the store's own record."""
    job = Job(ONE).save(tmp_path / "session")
    _view, _found, stored = job.at()
    record = job.made.driver.get(stored.log.key(1))
    path = tmp_path / "keyed.tar"
    with tarfile.open(plain_tar) as old, tarfile.open(path, "w") as new:
        for info in old:
            data = old.extractfile(info)
            if info.name == RECORD:
                info.size = len(record)
                (tmp_path / "record").write_bytes(record)
                with (tmp_path / "record").open("rb") as file:
                    new.addfile(info, file)
            else:
                new.addfile(info, data)
    return path


@pytest.mark.parametrize("sealing", [PLAIN, ONE, OTHER], ids=["none", "its key", "another key"])
def test_a_plain_export_is_imported_into_a_job_with_any_key(plain_tar, sealing):
    manifest = Job(sealing).end().imported(plain_tar)
    assert manifest.state == "here"
    assert {entry.path for entry in manifest.entries} >= {"run/big", "run/zeros", "run/small"}


def test_what_is_exported_says_nothing_of_a_key(plain_tar, session):
    with tarfile.open(plain_tar) as tar:
        record = decode_record(tar.extractfile(RECORD).read(), key=RECORD)
        about = json.load(tar.extractfile(ABOUT))
        big = tar.extractfile("files/session/run/big").read()
    manifest = decode_manifest(record.header, record.payload, name="x")
    assert (manifest.key_id, about["content"]) == ("", manifest.content)
    assert big == (session / "run/big").read_bytes()


def test_bytes_that_were_changed_in_a_plain_export_are_refused(plain_tar):
    data = bytearray(plain_tar.read_bytes())
    data[data.rindex(b"small")] ^= 1
    plain_tar.write_bytes(data)
    with pytest.raises(CheckpointCorrupt, match="not those that were saved"):
        Job(PLAIN).end().imported(plain_tar)


@pytest.mark.parametrize("sealing", [PLAIN, ONE, OTHER], ids=["none", "its key", "another key"])
def test_an_export_of_before_is_imported_with_the_key_that_its_digests_need(keyed_tar, sealing):
    assert Job(sealing).end().imported(keyed_tar, proof=ONE).state == "here"


@pytest.mark.parametrize("sealing", [PLAIN, OTHER], ids=["none", "another key"])
def test_an_export_of_before_without_its_key_is_refused_with_both_ways_out(keyed_tar, sealing):
    with pytest.raises(CheckpointError) as caught:
        Job(sealing).end().imported(keyed_tar)
    assert str(keyed_tar) in caught.value.message
    assert ONE.key_id in caught.value.message
    assert "PERDURE_KEY_FILE=FILE; or export the checkpoint again" in caught.value.hint
