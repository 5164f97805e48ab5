import errno
import os
import time

import pytest
from msgspec.structs import replace

from perdure.errors import CheckpointConflict, CheckpointCorrupt, OutOfSpace, StoreDamaged
from perdure.store.drivers.memory import MemoryDriver
from perdure.store.files.outside_decision import Choice, Window
from perdure.store.files.ownership import recorded_contents
from perdure.store.manifests.manifest import (
    BLOCK_BYTES,
    Entry,
    EntryType,
    Kept,
    Manifest,
    Root,
    RootKind,
)
from perdure.store.packs.blocks import listed_packs
from perdure.store.restore import small_files
from perdure.store.restore.restore import Displaced
from perdure.store.restore.verify import verify_checkpoint
from store_kit import FUTURE_NS, PACKS, Task, tree
from support.disks import mounted

ALWAYS = (Window(began_at_ns=0, ended_at_ns=FUTURE_NS),)


def damaged(driver, change) -> MemoryDriver:
    """A copy of a store whose one pack is ``change(bytes)``."""
    copy = MemoryDriver()
    for key, data in driver.objects.snapshot().items():
        copy.put(key, change(data))
    return copy


class TestDamage:
    @pytest.fixture
    def saved(self, session):
        (session / "a").write_bytes(os.urandom(BLOCK_BYTES + 70_000))
        (session / "b").write_bytes(os.urandom(500))
        task = Task(session)
        return task, task.manifest(session / "a", session / "b", file=session / "b")

    def stored(self, manifest):
        """The bytes of the pack that belong to a block."""
        used = set()
        for entry in manifest.entries:
            for block in entry.blocks:
                used.update(range(block.offset, block.offset + block.stored))
        return used

    def test_every_region_is_guarded(self, saved, fresh):
        task, manifest = saved
        size = task.driver.head(f"{PACKS}/{manifest.packs[0]}")
        used = self.stored(manifest)
        for at in range(100, size, 50_021):
            flipped = damaged(
                task.driver, lambda d, at=at: d[:at] + bytes([d[at] ^ 4]) + d[at + 1 :]
            )
            damages = verify_checkpoint(flipped, PACKS, manifest)
            assert bool(damages) == (at in used)
            if damages:
                with pytest.raises(CheckpointCorrupt, match=r"saved bytes of [ab] are not"):
                    task.restore(manifest, fresh, driver=flipped)
                assert tree(fresh) == {}

    @pytest.mark.parametrize("left", [0, 10, 4096, 5000, BLOCK_BYTES])
    def test_a_cut_pack(self, saved, fresh, left):
        task, manifest = saved
        cut = damaged(task.driver, lambda data: data[:left])
        assert "too short" in verify_checkpoint(cut, PACKS, manifest)[0].reason
        with pytest.raises(CheckpointCorrupt, match="too short"):
            task.restore(manifest, fresh, driver=cut)
        assert tree(fresh) == {}

    def test_a_lost_pack(self, saved, fresh):
        task, manifest = saved
        damages = verify_checkpoint(MemoryDriver(), PACKS, manifest)
        assert [damage.path for damage in damages] == ["a", "b"]
        assert "is not there" in damages[0].reason
        with pytest.raises(CheckpointCorrupt, match="is not there"):
            task.restore(manifest, fresh, driver=MemoryDriver())

    def test_only_the_damaged_file_is_named(self, saved):
        task, manifest = saved
        at = next(entry for entry in manifest.entries if entry.path == "b").blocks[0].offset
        flipped = damaged(task.driver, lambda d: d[:at] + bytes([d[at] ^ 1]) + d[at + 1 :])
        assert [d.path for d in verify_checkpoint(flipped, PACKS, manifest)] == ["b"]
        assert verify_checkpoint(task.driver, PACKS, manifest) == ()

    def test_the_store_is_only_read(self, saved, fresh):
        task, manifest = saved
        before = task.driver.objects.snapshot()
        task.restore(manifest, fresh)
        task.restore(manifest, fresh)
        assert task.driver.objects.snapshot() == before


class TestSession:
    def test_a_second_restore_touches_nothing(self, session, fresh):
        (session / "a").write_text("x")
        task = Task(session)
        manifest = task.manifest(session / "a")
        task.restore(manifest, fresh)
        before = (fresh / "a").stat()
        task.restore(manifest, fresh)
        after = (fresh / "a").stat()
        assert (after.st_ino, after.st_ctime_ns) == (before.st_ino, before.st_ctime_ns)

    def test_what_an_environment_left_there_gives_way(self, session, fresh):
        (session / "d").mkdir()
        (session / "d" / "a").write_text("saved")
        (session / "link").symlink_to("d")
        task = Task(session)
        manifest = task.manifest(folders=[session])
        (fresh / "elsewhere").mkdir()
        (fresh / "d").symlink_to("elsewhere")
        (fresh / "link").mkdir()
        restored = task.restore(manifest, fresh)
        assert (fresh / "d" / "a").read_text() == "saved"
        assert not (fresh / "d").is_symlink()
        assert (fresh / "link").readlink().as_posix() == "d"
        assert set(restored.displaced) == {
            Displaced(path="d", name="d.displaced-1"),
            Displaced(path="link", name="link.displaced-1"),
        }
        assert list((fresh / "elsewhere").iterdir()) == []

    def test_a_link_there_is_never_followed(self, session, fresh, tmp_path):
        (session / "a").write_text("saved")
        task = Task(session)
        manifest = task.manifest(session / "a")
        (tmp_path / "victim").write_text("precious")
        (fresh / "a").symlink_to(tmp_path / "victim")
        task.restore(manifest, fresh)
        assert (fresh / "a").read_text() == "saved"
        assert (tmp_path / "victim").read_text() == "precious"
        assert (fresh / "a.displaced-1").is_symlink()

    def test_a_folder_that_may_not_be_written(self, session, fresh):
        (session / "d").mkdir()
        (session / "d" / "a").write_text("x")
        (session / "d").chmod(0o500)
        task = Task(session)
        manifest = task.manifest(folders=[session])
        task.restore(manifest, fresh)
        assert (fresh / "d").stat().st_mode & 0o777 == 0o500
        assert (fresh / "d" / "a").read_text() == "x"

    def test_what_was_absent_and_is_there_is_said(self, session, fresh):
        task = Task(session)
        manifest = task.manifest(session / "a")
        (fresh / "a").write_text("new")
        restored = task.restore(manifest, fresh)
        assert restored.notes == ("a was not there at the save, and is left alone",)
        assert (fresh / "a").read_text() == "new"

    def test_a_mode_that_is_not_the_saved_one_is_put_right(self, session, fresh):
        (session / "a").write_text("x")
        (session / "a").chmod(0o750)
        task = Task(session)
        manifest = task.manifest(session / "a")
        task.restore(manifest, fresh)
        (fresh / "a").chmod(0o600)
        task.restore(manifest, fresh)
        assert (fresh / "a").stat().st_mode & 0o777 == 0o750

    def test_no_room_leaves_nothing_half_written(self, session, fresh, monkeypatch):
        (session / "a").write_text("x")
        (session / "b").write_text("x")
        task = Task(session)
        manifest = task.manifest(folders=[session])
        real = small_files.write_all
        written = []

        def write_all(fd, data, start):
            written.append(start)
            if len(written) == 2:
                raise OSError(errno.ENOSPC, "No space left on device")
            real(fd, data, start)

        monkeypatch.setattr(small_files, "write_all", write_all)
        with pytest.raises(OutOfSpace):
            task.restore(manifest, fresh)
        assert tree(fresh) == {}

    def test_a_disk_without_room_is_found_before_anything_is_read(self, tmp_path):
        (tmp_path / "big").write_bytes(os.urandom(6 * BLOCK_BYTES))
        task = Task(tmp_path)
        manifest = task.manifest(tmp_path / "big")
        for pack in listed_packs(task.driver, PACKS):
            task.driver.delete(f"{PACKS}/{pack}")
        with mounted("ext4", tmp_path, 5 * BLOCK_BYTES) as disk:
            fresh = disk / "session"
            fresh.mkdir()
            with pytest.raises(OutOfSpace):  # and not: the pack is lost
                task.restore(manifest, fresh)
            assert tree(fresh) == {}


class TestOutside:
    def saved(self, session, outside, **changes):
        task = Task(session, (outside,), **changes)
        return task, task.manifest(outside / "a")

    def test_nothing_there(self, session, outside, fresh):
        (outside / "a").write_text("saved")
        task, manifest = self.saved(session, outside)
        (outside / "a").unlink()
        outside.rmdir()
        task.restore(manifest, fresh)
        assert (outside / "a").read_text() == "saved"

    def test_equal_is_untouched(self, session, outside, fresh):
        (outside / "a").write_text("saved")
        task, manifest = self.saved(session, outside)
        before = (outside / "a").stat()
        assert task.restore(manifest, fresh).displaced == ()
        assert (outside / "a").stat().st_ctime_ns == before.st_ctime_ns

    def test_what_a_person_wrote_is_a_conflict(self, session, outside, fresh):
        (outside / "a").write_text("saved")
        (session / "s").write_text("state")
        task = Task(session, (outside,))
        manifest = task.manifest(outside / "a", outside / "a", file=session / "s")
        (outside / "a").write_text("corrected by hand")
        with pytest.raises(CheckpointConflict, match=r"Step\[Frame=1\]@1 holds .*/a") as caught:
            task.restore(manifest, fresh)
        assert "--overwrite" in caught.value.hint
        assert "--keep" in caught.value.hint
        assert caught.value.fields["paths"] == (str(outside / "a"),)
        assert (outside / "a").read_text() == "corrected by hand"
        assert tree(fresh) == {}

    def test_all_conflicts_are_told_at_once(self, session, outside, fresh):
        for number in range(8):
            (outside / str(number)).write_text("saved")
        task = Task(session, (outside,))
        manifest = task.manifest(*(outside / str(number) for number in range(8)))
        for number in range(8):
            (outside / str(number)).write_text("other")
        with pytest.raises(CheckpointConflict, match="and 3 more") as caught:
            task.restore(manifest, fresh)
        assert len(caught.value.fields["paths"]) == 8

    def test_overwrite_keeps_what_was_there_beside(self, session, outside, fresh):
        (outside / "a").write_text("saved")
        task, manifest = self.saved(session, outside)
        (outside / "a").write_text("other")
        (outside / "a.displaced-1").write_text("from last time")
        restored = task.restore(manifest, fresh, choice=Choice.OVERWRITE)
        assert (outside / "a").read_text() == "saved"
        assert (outside / "a.displaced-2").read_text() == "other"
        assert (outside / "a.displaced-1").read_text() == "from last time"
        assert restored.displaced == (Displaced(path=str(outside / "a"), name="a.displaced-2"),)

    def test_keep_keeps(self, session, outside, fresh):
        (outside / "a").write_text("saved")
        task, manifest = self.saved(session, outside)
        (outside / "a").write_text("other")
        restored = task.restore(manifest, fresh, choice=Choice.KEEP)
        assert (outside / "a").read_text() == "other"
        assert "was kept as it is" in restored.notes[0]

    def test_what_an_attempt_wrote_is_replaced_and_kept_beside(self, session, outside, fresh):
        (outside / "a").write_text("saved")
        task, manifest = self.saved(session, outside)
        (outside / "a").write_text("half")
        task.restore(manifest, fresh, windows=ALWAYS)
        assert (outside / "a").read_text() == "saved"
        assert (outside / "a.displaced-1").read_text() == "half"

    def test_a_content_of_another_save_is_replaced(self, session, outside, fresh):
        (outside / "a").write_text("saved")
        task, first = self.saved(session, outside)
        (outside / "a").write_text("later save")
        second = task.manifest(outside / "a")
        recorded = recorded_contents([first, second])
        assert len(recorded[str(outside / "a")]) == 2
        task.restore(first, fresh, recorded=recorded)
        assert (outside / "a").read_text() == "saved"
        assert (outside / "a.displaced-1").read_text() == "later save"

    def test_a_log_is_cut_back(self, session, outside, fresh):
        (outside / "a").write_bytes(b"x" * (BLOCK_BYTES + 3))
        task, manifest = self.saved(session, outside)
        with (outside / "a").open("ab") as file:
            file.write(b"lost work\n")
        inode = (outside / "a").stat().st_ino
        restored = task.restore(manifest, fresh, windows=ALWAYS)
        assert (outside / "a").read_bytes() == b"x" * (BLOCK_BYTES + 3)
        assert (outside / "a").stat().st_ino == inode
        assert restored.displaced == ()
        assert "cut back" in restored.notes[0]

    def test_a_log_that_somebody_else_went_on_with_is_kept_beside(self, session, outside, fresh):
        (outside / "a").write_text("saved\n")
        task, manifest = self.saved(session, outside)
        with (outside / "a").open("a") as file:
            file.write("by another program\n")
        task.restore(manifest, fresh)
        assert (outside / "a").read_text() == "saved\n"
        assert (outside / "a.displaced-1").read_text() == "saved\nby another program\n"

    def test_a_folder_in_the_way_is_a_conflict(self, session, outside, fresh):
        (outside / "a").write_text("saved")
        task, manifest = self.saved(session, outside)
        (outside / "a").unlink()
        (outside / "a").mkdir()
        with pytest.raises(CheckpointConflict):
            task.restore(manifest, fresh, windows=ALWAYS)
        task.restore(manifest, fresh, choice=Choice.OVERWRITE)
        assert (outside / "a").read_text() == "saved"
        assert (outside / "a.displaced-1").is_dir()

    def test_extra_files_are_never_deleted(self, session, outside, fresh):
        (outside / "a").write_text("saved")
        task = Task(session, (outside,))
        manifest = task.manifest(folders=[outside])
        (outside / "b").write_text("new")
        task.restore(manifest, fresh, windows=ALWAYS)
        assert (outside / "b").read_text() == "new"

    def test_a_changed_input_is_said_and_left(self, session, outside, fresh):
        (outside / "a").write_text("input")
        (outside / "b").write_text("input")
        (outside / "c").write_text("input")
        task = Task(session, (outside,), first_claim_at_ns=FUTURE_NS)
        manifest = task.manifest(outside / "a", outside / "b", outside / "c")
        (outside / "a").write_text("longer input")
        (outside / "b").write_text("INPUT")
        os.utime(outside / "b", (1, 1))
        os.utime(outside / "c", (1, 1))
        restored = task.restore(manifest, fresh, choice=Choice.OVERWRITE)
        assert restored.input_changes[0].endswith("/a has 12 bytes; it had 5 at the save")
        assert "/b has another content" in restored.input_changes[1]
        assert len(restored.input_changes) == 2
        assert (outside / "a").read_text() == "longer input"
        (outside / "c").unlink()
        assert "is not there any more" in task.restore(manifest, fresh).input_changes[2]
        assert not (outside / "c").exists()

    def test_a_recorded_file_is_compared(self, session, outside, fresh):
        (outside / "a").write_text("saved")
        task, manifest = self.saved(session, outside, settings={"outside": Kept.RECORD})
        assert task.restore(manifest, fresh).notes == ()
        (outside / "a").write_text("x")
        assert "not kept in the store, has 1 bytes" in task.restore(manifest, fresh).notes[0]

    def test_a_file_with_the_saved_content_and_another_mode_is_left_and_told(
        self, session, outside, fresh
    ):
        (outside / "a").write_text("saved")
        (outside / "a").chmod(0o755)
        task, manifest = self.saved(session, outside)
        (outside / "a").chmod(0o600)
        (note,) = task.restore(manifest, fresh, windows=ALWAYS).notes
        assert "was left as it is with mode 600: it was saved with 755" in note
        assert (outside / "a").stat().st_mode & 0o777 == 0o600

    def test_a_file_that_changes_during_the_restore_is_left(
        self, session, outside, fresh, monkeypatch
    ):
        (outside / "a").write_text("saved")
        task, manifest = self.saved(session, outside)
        (outside / "a").write_text("half")
        real = small_files.write_all

        def write_all(fd, data, start):
            (outside / "a").write_text("somebody writes now")
            real(fd, data, start)

        monkeypatch.setattr(small_files, "write_all", write_all)
        with pytest.raises(CheckpointConflict, match="while the checkpoint was being restored"):
            task.restore(manifest, fresh, windows=ALWAYS)
        assert (outside / "a").read_text() == "somebody writes now"
        assert [path.name for path in outside.iterdir()] == ["a"]

    def test_a_killed_restore_leaves_one_name_beside(self, session, outside, fresh, monkeypatch):
        (outside / "a").write_text("saved")
        task, manifest = self.saved(session, outside)
        (outside / "a").write_text("half")
        real = os.rename

        def rename(*_args, **_kwargs):
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "rename", rename)
        with pytest.raises(KeyboardInterrupt):
            task.restore(manifest, fresh, windows=ALWAYS)
        assert (outside / "a").read_text() == "half"
        monkeypatch.setattr(os, "rename", real)
        windows = (Window(began_at_ns=0, ended_at_ns=time.time_ns()),)
        task.restore(manifest, fresh, windows=windows)
        assert (outside / "a").read_text() == "saved"
        assert sorted(path.name for path in outside.iterdir()) == ["a", "a.displaced-1"]

    def test_an_absolute_link_that_nobody_touched_is_no_conflict(self, session, outside, fresh):
        (outside / "d").mkdir()
        (outside / "d" / "ck1").write_text("x")
        (outside / "d" / "latest").symlink_to(outside / "d" / "ck1")
        task = Task(session, (outside,))
        manifest = task.manifest(folders=[outside / "d"])
        before = tree(outside)
        assert task.restore(manifest, fresh).displaced == ()
        assert tree(outside) == before
        (outside / "d" / "latest").unlink()
        (outside / "d" / "latest").symlink_to(outside / "d" / "other")
        with pytest.raises(CheckpointConflict):
            task.restore(manifest, fresh)

    @pytest.mark.parametrize("choice", list(Choice))
    @pytest.mark.parametrize("where", ["d", "d/sub"])
    def test_a_folder_that_became_a_link_is_not_written_through(
        self, session, outside, fresh, choice, where
    ):
        (outside / "d" / "sub").mkdir(parents=True)
        (outside / "d" / "a").write_text("a")
        (outside / "d" / "sub" / "c").write_text("c")
        task = Task(session, (outside,))
        manifest = task.manifest(folders=[outside / "d"])
        (outside / where).rename(outside / "moved")
        (outside / where).symlink_to(outside / "moved")
        (outside / "moved" / "a").write_text("a person's")
        before = tree(outside)
        with pytest.raises(CheckpointConflict, match="is a link now"):
            task.restore(manifest, fresh, choice=choice)
        assert tree(outside) == before

    def test_the_jobs_own_folder_may_have_become_a_link(self, session, outside, fresh, tmp_path):
        (outside / "a").write_text("a")
        task = Task(session, (outside,))
        manifest = task.manifest(outside / "a")
        outside.rename(tmp_path / "larger-disk")
        outside.symlink_to(tmp_path / "larger-disk")
        (tmp_path / "larger-disk" / "a").unlink()
        task.restore(manifest, fresh)
        assert (tmp_path / "larger-disk" / "a").read_text() == "a"


class TestTrust:
    def test_a_root_that_this_job_has_not(self, session, outside, fresh):
        (outside / "a").write_text("saved")
        task = Task(session, (outside,))
        manifest = task.manifest(outside / "a")
        (outside / "a").unlink()
        with pytest.raises(CheckpointConflict, match="outside of the job's folders") as caught:
            task.restore(manifest, fresh, outside=())
        assert f"--allow-root {outside}" in caught.value.hint
        assert list(outside.iterdir()) == []

    def test_an_imported_checkpoint_stays_in_the_session_folder(self, session, outside, fresh):
        (outside / "a").write_text("saved")
        (session / "s").write_text("state")
        task = Task(session, (outside,))
        manifest = task.manifest(outside / "a", file=session / "s")
        (outside / "a").unlink()
        restored = task.restore(manifest, fresh, session_only=True)
        assert restored.file == fresh / "s"
        assert "was not restored" in restored.notes[0]
        assert list(outside.iterdir()) == []
        manifest = task.manifest(file=session / "s", folders=[session])
        elsewhere = replace(manifest.file, root=0)
        moved = replace_root(manifest, elsewhere, outside)
        with pytest.raises(CheckpointConflict) as caught:
            task.restore(moved, fresh, session_only=True)
        assert "session folder only" in caught.value.hint

    def test_two_roots_that_are_one_here(self, session, outside, fresh, tmp_path):
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "a").write_text("one")
        (outside / "a").write_text("two")
        task = Task(session, (outside, tmp_path / "other"))
        manifest = task.manifest(outside / "a", tmp_path / "other" / "a")
        (tmp_path / "other" / "a").unlink()
        (tmp_path / "other").rmdir()
        (tmp_path / "other").symlink_to(outside)
        with pytest.raises(CheckpointConflict, match="both"):
            task.restore(manifest, fresh)
        assert (outside / "a").read_text() == "two"

    def test_a_parent_that_became_a_link_is_not_followed(self, session, outside, fresh, tmp_path):
        (outside / "d").mkdir()
        (outside / "d" / "a").write_text("saved")
        task = Task(session, (outside,))
        manifest = task.manifest(outside / "d" / "a")
        (tmp_path / "victim").mkdir()
        (outside / "d" / "a").unlink()
        (outside / "d").rmdir()
        (outside / "d").symlink_to(tmp_path / "victim")
        with pytest.raises(CheckpointConflict):
            task.restore(manifest, fresh, choice=Choice.OVERWRITE)
        assert list((tmp_path / "victim").iterdir()) == []


def replace_root(manifest: Manifest, file, outside) -> Manifest:
    """The manifest with its file in an outside folder."""
    return Manifest(
        attempt=1,
        launch=manifest.launch,
        save=1,
        file=file,
        roots=(Root(kind=RootKind.OUTSIDE, path=str(outside)),),
        entries=(Entry(root=0, path="x", type=EntryType.ABSENT),),
    )


def test_packs_of_a_failed_save_are_not_listed(session):
    assert listed_packs(Task(session).driver, PACKS) == ()


def test_a_bad_sector_in_a_pack_is_damage_of_the_checkpoint(session, fresh, monkeypatch):
    """Not a host's trouble: the task goes on from an older one."""
    (session / "a").write_text("saved")
    task = Task(session)
    manifest = task.manifest(session / "a")

    def get_into(*_args):
        raise StoreDamaged("cannot read the pack: Input/output error")

    monkeypatch.setattr(task.driver, "get_into", get_into)
    with pytest.raises(CheckpointCorrupt, match="bytes of a are not what was written"):
        task.restore(manifest, fresh)
    assert tree(fresh) == {}
