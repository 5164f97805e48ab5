import io
import json
import tarfile

import pytest

from looking_kit import FRAMES, HandMade
from perdure.cli.naming import find_task
from perdure.errors import (
    CheckpointConflict,
    CheckpointCorrupt,
    HomeBusy,
    PerdureError,
    UsageError,
)
from perdure.journal.journal_format import Kind
from perdure.manager.exporting import ABOUT, RECORD, Export, export
from perdure.manager.importing import import_checkpoint
from perdure.manager.lineages import read_lineage
from perdure.manager.native_files import native_files
from perdure.store import layout
from perdure.store.files.roots import Roots
from perdure.store.manifests.manifest_format import encode_manifest
from perdure.store.restore.planning import RestoreRequest
from perdure.store.restore.restore import restore
from perdure.store.restore.verify import verify_checkpoint
from store_kit import FUTURE_NS, Task

NAME = "Render[Frame=1,Camera=left,top]"
VALUES = {"Frame": "1", "Camera": "left,top"}


class Lineage:
    """A task whose launch ended; `saved` commits what lies in its session folder."""

    def __init__(self, folder, template=FRAMES, **document):
        self.made = HandMade(template=template, document=document or None)
        self.key = self.made.key(0)
        self.session = folder / "session"
        self.session.mkdir(parents=True)
        self.made.launch()
        self.made.share(0, 0)
        self.made.begun(self.key, VALUES)
        self.saves = 0

    def end(self):
        self.made.ended(self.key, "SUSPENDED", by="user")
        self.made.journal(Kind.CLOSED)
        self.made.record("suspend", scope={}, by="user")

    def saved(self, *files, outside=(), state="here", file=None, folders=()):
        self.saves += 1
        packs = layout.packs(self.made.job, 1, self.key)
        task = Task(
            self.session,
            outside=outside,
            driver=self.made.driver,
            attempt=self.saves,
            packs=packs,
        )
        save = task.save(*files, state=state, file=file, folders=folders, line_at_ns=FUTURE_NS)
        header, payload = encode_manifest(save.manifest)
        log = self.made.log(layout.lineage_log(self.made.job, 1, self.key))
        return log.append({"kind": "save", "claim": 0, **header}, payload).number

    def at(self):
        view = self.made.view()
        found = find_task(view, None, NAME)
        return view, found, read_lineage(view, found.step, found.ref)

    def exported(self, number, path):
        _, _, stored = self.at()
        record = self.made.driver.get(stored.log.key(number))
        manifest = stored.manifest(stored.save(number))
        about = {"state": manifest.state}
        export(
            Export(
                driver=self.made.driver,
                packs=stored.packs,
                manifest=manifest,
                record=record,
                about=about,
            ),
            path,
        )
        return path

    def imported(self, path):
        view, found, _ = self.at()
        return import_checkpoint(view, found.step, found.ref, path)


@pytest.fixture
def source(tmp_path):
    """A checkpoint of a file of two blocks, zeros, a folder and a link, exported."""
    lineage = Lineage(tmp_path / "source")
    run = lineage.session / "run"
    run.mkdir()
    (run / "big").write_bytes(bytes(range(256)) * (5 << 12))
    (run / "zeros").write_bytes(bytes(5 << 20))
    (run / "link").symlink_to("big")
    number = lineage.saved(folders=[run], file=run / "big")
    lineage.end()
    lineage.path = lineage.exported(number, tmp_path / "checkpoint.tar")
    return lineage


@pytest.fixture
def target(tmp_path):
    lineage = Lineage(tmp_path / "target")
    lineage.end()
    return lineage


def test_what_is_imported_is_what_the_next_attempt_starts_from(source, target, tmp_path):
    done = target.imported(source.path)
    _, _, stored = target.at()
    assert stored.lineage.point == done.sequence
    manifest = stored.manifest(stored.save(done.sequence))
    assert manifest.state == "here"
    assert verify_checkpoint(target.made.driver, stored.packs, manifest) == ()
    folder = tmp_path / "there"
    folder.mkdir()
    restored = restore(
        RestoreRequest(
            driver=target.made.driver,
            packs=stored.packs,
            manifest=manifest,
            name="x",
            roots=Roots(folder),
        )
    )
    assert restored.file == folder / "run/big"
    for name in ("big", "zeros"):
        assert (folder / "run" / name).read_bytes() == (source.session / "run" / name).read_bytes()
    assert (folder / "run/link").is_symlink()
    view, found, _ = target.at()
    decision = view.steps[1].watched[found.ref.task].decision
    assert decision.answer.base == done.sequence


def test_the_file_is_a_plain_tar_that_says_what_it_is(source):
    with tarfile.open(source.path) as tar:
        names = tar.getnames()
        about = json.load(tar.extractfile(ABOUT))
        big = tar.extractfile("files/session/run/big").read()
    assert names[:2] == [ABOUT, RECORD]
    assert (about["format"], about["state"]) == (1, "here")
    assert big == (source.session / "run/big").read_bytes()


def test_an_export_overwrites_nothing_and_leaves_nothing_behind(source, tmp_path):
    before = source.path.read_bytes()
    with pytest.raises(UsageError, match="is there already"):
        source.exported(1, source.path)
    assert source.path.read_bytes() == before
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_a_damaged_checkpoint_is_not_exported(source, tmp_path):
    _, _, stored = source.at()
    (pack,) = source.made.driver.list(stored.packs)
    data = bytearray(source.made.driver.get(pack))
    data[5000] ^= 1
    source.made.driver.put(pack, bytes(data))
    with pytest.raises(CheckpointCorrupt):
        source.exported(1, tmp_path / "other.tar")
    assert not (tmp_path / "other.tar").exists()


def rewritten(path, change):
    """The file with each member changed: ``change(info, data)`` gives a list of both."""
    out = path.with_name("hostile.tar")
    with tarfile.open(path) as old, tarfile.open(out, "w") as new:
        for info in old:
            data = old.extractfile(info).read() if info.isreg() else b""
            for other, content in change(info, data):
                other.size = len(content) if other.isreg() else 0
                new.addfile(other, io.BytesIO(content))
    return out


def flipped(info, data):
    return [(info, bytes([data[0] ^ 1]) + data[1:] if info.name.endswith("big") else data)]


def without(name):
    return lambda info, data: [] if info.name.endswith(name) else [(info, data)]


def twice(info, data):
    return [(info, data)] * (2 if info.name.endswith("big") else 1)


def cut(info, data):
    return [(info, data[:-1] if info.name.endswith("big") else data)]


def as_link(info, data):
    if info.name.endswith("big"):
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return [(info, data)]


def damaged_record(info, data):
    return [(info, data.replace(b"run", b"../", 1) if info.name == RECORD else data)]


@pytest.mark.parametrize(
    "change",
    [flipped, without("big"), without("record"), twice, cut, as_link, damaged_record],
)
def test_what_does_not_agree_with_its_digests_is_refused(source, target, change):
    before = list(target.made.driver.list(""))
    with pytest.raises((CheckpointCorrupt, UsageError)):
        target.imported(rewritten(source.path, change))
    assert list(target.made.driver.list("")) == before


def test_members_that_the_record_does_not_name_are_passed_over(source, target, tmp_path):
    def more(info, data):
        evil = tarfile.TarInfo("../../evil")
        return [(info, data), (evil, b"evil")]

    target.imported(rewritten(source.path, more))
    assert not list(tmp_path.parent.rglob("evil"))


@pytest.mark.parametrize("data", [b"", b"x" * 5000, bytes(10240)])
def test_what_is_no_export_is_refused_in_one_sentence(target, tmp_path, data):
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(UsageError, match="no exported checkpoint"):
        target.imported(path)


def test_a_file_that_is_not_there_is_said(target, tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        target.imported(tmp_path / "nothing")


def test_a_task_that_a_worker_holds_takes_nothing(source, tmp_path):
    held = Lineage(tmp_path / "held")
    with pytest.raises(HomeBusy, match="is held by launch"):
        held.imported(source.path)


def test_a_task_that_succeeded_takes_nothing(source, tmp_path):
    done = Lineage(tmp_path / "done")
    done.made.ended(done.key, "SUCCEEDED")
    with pytest.raises(UsageError, match="has succeeded"):
        done.imported(source.path)


def test_a_step_that_never_resumes_takes_nothing(source, tmp_path):
    template = FRAMES.replace('      onCheckpointResume: {command: "true"}\n', "")
    plain = Lineage(tmp_path / "plain", template=template)
    plain.end()
    with pytest.raises(UsageError, match="no onCheckpointResume"):
        plain.imported(source.path)


@pytest.fixture
def outside(tmp_path):
    """A checkpoint with a file outside of the session folder."""
    lineage = Lineage(tmp_path / "outer")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    inner = lineage.session / "inner"
    inner.write_text("inner")
    (folder / "result").write_text("result")
    lineage.folder = folder
    lineage.number = lineage.saved(inner, folder / "result", outside=(folder,), file=inner)
    lineage.end()
    return lineage


def test_files_outside_are_not_taken_and_that_is_said(outside, target, tmp_path):
    done = target.imported(outside.exported(outside.number, tmp_path / "x.tar"))
    assert len(done.left_out) == 1
    assert "result" in done.left_out[0]
    _, _, stored = target.at()
    assert {root.path for root in stored.manifest(stored.save(stored.lineage.point)).roots} == {""}


def test_a_save_whose_file_lay_outside_cannot_be_imported(outside, target, tmp_path):
    number = outside.saved(
        outside.folder / "result", outside=(outside.folder,), file=outside.folder / "result"
    )
    path = outside.exported(number, tmp_path / "y.tar")
    with pytest.raises(CheckpointConflict, match="outside of the session folder"):
        target.imported(path)


def test_native_files_have_a_place_for_what_lay_elsewhere(outside):
    _, _, stored = outside.at()
    native = native_files(stored.manifest(stored.save(outside.number)))
    paths = {entry.path for entry in native.manifest.entries}
    assert paths == {"inner", f"outside{outside.folder}/result"}
    assert native.left_out == ()


def test_killed_after_the_record_it_is_a_side_branch_that_nobody_starts_from(
    source, target, monkeypatch
):
    def killed(*_args):
        raise PerdureError("killed")

    monkeypatch.setattr("perdure.manager.importing.branch", killed)
    with pytest.raises(PerdureError):
        target.imported(source.path)
    _, _, stored = target.at()
    (save,) = stored.lineage.saves
    assert save.is_void
    assert stored.lineage.point is None
