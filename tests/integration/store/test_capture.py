import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perdure.errors import (
    CheckpointTorn,
    OutOfSpace,
    SaveFileMissing,
    SaveRefused,
    StoreDamaged,
    StoreUnavailable,
)
from perdure.store.capture import capture as capture_module
from perdure.store.drivers.memory import Call, LoseReply, MemoryDriver
from perdure.store.files import gathering
from perdure.store.manifests.manifest import BLOCK_BYTES, EntryType, Kept
from perdure.store.packs.blocks import listed_packs
from store_kit import FUTURE_NS, LAUNCH, PACKS, Task, tree

MIB = 1 << 20


def entries(manifest):
    return {manifest.shown_path(entry): entry for entry in manifest.entries}


class TestWhatASaveHolds:
    def test_a_state_alone_costs_no_object(self, session):
        task = Task(session)
        saved = task.save(state="7")
        assert saved.manifest.state == "7"
        assert (saved.manifest.entries, saved.manifest.packs) == ((), ())
        assert task.driver.children("") == ()

    def test_a_save_of_nothing_is_one(self, session):
        manifest = Task(session).save().manifest
        assert (manifest.state, manifest.file, manifest.entries) == (None, None, ())

    def test_everything_comes_back(self, session, fresh):
        (session / "data" / "deep" / "empty").mkdir(parents=True)
        (session / "data" / "big").write_bytes(os.urandom(9 * MIB + 17))
        (session / "data" / "holes").write_bytes(bytes(9 * MIB) + b"end")
        (session / "data" / "none").write_bytes(b"")
        (session / "data" / "deep" / "tool").write_bytes(b"#!/bin/sh\n")
        (session / "data" / "deep" / "tool").chmod(0o4755)
        (session / "data" / "deep" / "tool2").write_bytes(b"#!/bin/sh\n")
        (session / "data" / "deep").chmod(0o2750)
        (session / "data" / os.fsdecode(b"na\xefve")).write_bytes(b"not utf-8")
        (session / "data" / "latest").symlink_to("deep/tool")
        (session / "data" / "absolute").symlink_to(session / "data" / "big")
        (session / "data" / "dangling").symlink_to("nowhere")
        (session / "restart").write_bytes(b"state")
        os.utime(session / "data" / "none", ns=(1, 1_234_567_890_123_456_789))
        task = Task(session)
        manifest = task.manifest(
            session / "missing", file=session / "restart", folders=[session / "data"], state="s"
        )
        restored = task.restore(manifest, fresh)
        assert restored.state == "s"
        assert restored.file == fresh / "restart"
        assert restored.notes == ()
        expected = tree(session)
        content, _mode, mtime = expected["data/deep/tool"]
        expected["data/deep/tool"] = (content, 0o755, mtime)
        expected["data/deep"] = ("folder", 0o750)
        expected["data/absolute"] = ("link", "big")
        assert tree(fresh) == expected
        assert (fresh / "data" / "holes").stat().st_blocks * 512 < 2 * MIB
        assert entries(manifest)["missing"].type is EntryType.ABSENT

    def test_a_second_save_stores_only_what_changed(self, session):
        task = Task(session)
        data = bytearray(os.urandom(4 * BLOCK_BYTES))
        (session / "a").write_bytes(data)
        first = task.save(session / "a").manifest
        assert first.new_bytes == 4 * BLOCK_BYTES
        again = task.save(session / "a").manifest
        assert (again.new_bytes, again.content) == (0, first.content)
        data[BLOCK_BYTES] ^= 1
        (session / "a").write_bytes(data)
        third = task.save(session / "a").manifest
        assert third.new_bytes == BLOCK_BYTES
        assert third.content != first.content
        assert len(listed_packs(task.driver, PACKS)) == 2

    def test_packs_are_rolled_at_the_drivers_limit(self, session, fresh):
        task = Task(session, driver=MemoryDriver(pack_limit_bytes=6 * MIB))
        (session / "a").write_bytes(os.urandom(3 * BLOCK_BYTES + 5))
        (session / "b").write_bytes(os.urandom(100))
        manifest = task.manifest(session / "a", session / "b")
        assert len(manifest.packs) == 3
        assert set(listed_packs(task.driver, PACKS)) == set(manifest.packs)
        assert all(task.driver.head(f"{PACKS}/{pack}") <= 6 * MIB for pack in manifest.packs)
        task.restore(manifest, fresh)
        assert tree(fresh) == tree(session)

    def test_large_blocks_are_aligned_and_small_ones_are_not(self, session):
        (session / "a").write_bytes(b"x" * 10)
        (session / "b").write_bytes(b"y" * 10)
        (session / "c").write_bytes(os.urandom(BLOCK_BYTES))
        found = entries(Task(session).save(folders=[session]).manifest)
        assert [found[name].blocks[0].offset for name in "abc"] == [4096, 4106, 8192]

    def test_perdures_own_files_are_no_part_of_a_save(self, session):
        for name in ("checkpoint_committed.json", "cancel_info.json", ".perdure-restore"):
            (session / name).write_text("{}")
        (session / "d").mkdir()
        (session / "d" / (".perdure-" + "0" * 32)).write_text("left by a killed restore")
        (session / "d" / ".perdure-notes").write_text("a name that somebody chose")
        found = set(entries(Task(session).save(folders=[session]).manifest))
        assert found == {"d", "d/.perdure-notes"}


class TestWhatIsRefused:
    def test_a_missing_file_refuses_the_save(self, session):
        with pytest.raises(SaveFileMissing, match="not there") as caught:
            Task(session).save(file=session / "restart")
        assert caught.value.fields["path"] == str(session / "restart")

    @pytest.mark.parametrize("path", ["/etc/passwd", "/", "{session}/../x", "{session}x", "a"])
    def test_paths_outside_of_the_jobs_folders(self, session, path):
        with pytest.raises(SaveRefused):
            Task(session).save(path.format(session=session))

    def test_a_named_link_that_leads_outside(self, session):
        (session / "a").symlink_to("/etc/passwd")
        with pytest.raises(SaveRefused, match="leads out"):
            Task(session).save(session / "a")

    def test_a_path_through_a_link_that_leads_outside(self, session):
        (session / "etc").symlink_to("/etc")
        with pytest.raises(SaveRefused, match="outside of the job's folders"):
            Task(session).save(session / "etc" / "passwd")

    def test_pipes_and_sockets_never_block(self, session):
        os.mkfifo(session / "pipe")
        with pytest.raises(SaveRefused, match="no regular file"):
            Task(session).save(session / "pipe")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(session / "s"))
            (session / "a").write_text("x")
            saved = Task(session).save(folders=[session])
        assert set(entries(saved.manifest)) == {"a"}
        assert len(saved.notes) == 2
        assert "pipe is not part of the checkpoint" in saved.notes[0]

    def test_met_links_that_lead_outside_are_left_out_and_told(self, session):
        (session / "python").symlink_to("/usr/bin/python3")
        (session / "up").symlink_to("../x")
        (session / "sideways").symlink_to("up/../../etc")
        saved = Task(session).save(folders=[session])
        assert saved.manifest.entries == ()
        assert len(saved.notes) == 3

    def test_a_named_link_takes_what_it_leads_to_along(self, session, fresh):
        (session / "v5").write_text("five")
        (session / "latest").symlink_to("v5")
        task = Task(session)
        manifest = task.manifest(file=session / "latest")
        assert task.restore(manifest, fresh).file == fresh / "latest"
        assert (fresh / "latest").read_text() == "five"
        assert (fresh / "latest").is_symlink()

    def test_too_much(self, session, monkeypatch):
        monkeypatch.setattr(gathering, "ENTRY_LIMIT", 10)
        for number in range(11):
            (session / str(number)).write_text("")
        with pytest.raises(SaveRefused, match="more than a checkpoint may have"):
            Task(session).save(folders=[session])


class TestTornFiles:
    def test_a_change_after_the_line(self, session):
        (session / "a").write_text("first")
        task = Task(session)
        frozen = task.freeze(session / "a")
        (session / "a").write_text("other")
        with pytest.raises(CheckpointTorn, match="a changed after its save") as caught:
            task.capture.take(frozen)
        assert caught.value.hint
        assert listed_packs(task.driver, PACKS) == ()
        assert task.save(session / "a").manifest

    def test_a_change_before_the_first_stamp_and_after_the_line(self, session):
        """A program announces, begins its next save in place, and dies: stamps alone agree."""
        (session / "a").write_bytes(b"A" * 2 * MIB)
        line_at_ns = time.time_ns()
        deadline = time.monotonic() + 10
        while (session / "a").stat().st_ctime_ns <= line_at_ns:
            with (session / "a").open("r+b") as file:
                file.write(b"B" * MIB)
            assert time.monotonic() < deadline
        with pytest.raises(CheckpointTorn):
            Task(session).save(session / "a", line_at_ns=line_at_ns)

    def test_a_file_replaced_by_rename(self, session):
        (session / "a").write_text("first")
        task = Task(session)
        frozen = task.freeze(session / "a")
        (session / "b").write_text("first")
        stat = (session / "a").stat()
        os.utime(session / "b", ns=(stat.st_atime_ns, stat.st_mtime_ns))
        (session / "b").rename(session / "a")
        with pytest.raises(CheckpointTorn):
            task.capture.take(frozen)

    def test_a_file_that_has_gone(self, session):
        (session / "a").write_text("first")
        task = Task(session)
        frozen = task.freeze(session / "a")
        (session / "a").unlink()
        with pytest.raises(CheckpointTorn):
            task.capture.take(frozen)

    def test_a_file_that_was_missing_at_the_line_stays_absent(self, session):
        task = Task(session)
        frozen = task.freeze(session / "a")
        (session / "a").write_text("late")
        manifest = task.capture.take(frozen).manifest
        assert entries(manifest)["a"].type is EntryType.ABSENT

    def test_a_name_that_went_from_a_folder(self, session):
        (session / "d").mkdir()
        (session / "d" / "a").write_text("x")
        (session / "d" / "b").write_text("x")
        line_at_ns = time.time_ns()
        task = Task(session)
        frozen = task.freeze(folders=[session / "d"], line_at_ns=line_at_ns)
        (session / "d" / "a").unlink()
        (session / "d" / "c").write_text("later than the line on any clock")
        with pytest.raises(CheckpointTorn):
            task.capture.take(frozen)

    def test_a_change_while_it_is_read(self, session):
        (session / "a").write_bytes(os.urandom(3 * BLOCK_BYTES))
        task = Task(session)
        real = task.writer.add
        added = []

        def add(data, codec):
            added.append(real(data, codec))
            if len(added) == 2:
                with (session / "a").open("r+b") as file:
                    file.write(b"!")
            return added[-1]

        task.writer.add = add
        with pytest.raises(CheckpointTorn):
            task.save(session / "a")
        assert listed_packs(task.driver, PACKS) == ()

    def test_early_bytes_of_that_version_save_the_save(self, session, fresh):
        (session / "a").write_text("first")
        task = Task(session)
        task.capture.announce((str(session / "a"),))
        frozen = task.freeze(session / "a", state="1")
        (session / "a").write_text("other")
        manifest = task.capture.take(frozen).manifest
        task.restore(manifest, fresh)
        assert (fresh / "a").read_text() == "first"

    def test_early_bytes_of_a_file_that_has_gone(self, session, fresh):
        (session / "a").write_text("first")
        task = Task(session)
        task.capture.announce((str(session / "a"),))
        frozen = task.freeze(session / "a")
        (session / "a").unlink()
        task.restore(task.capture.take(frozen).manifest, fresh)
        assert (fresh / "a").read_text() == "first"

    def test_early_bytes_of_another_version_do_not(self, session, fresh):
        (session / "a").write_text("first")
        task = Task(session)
        task.capture.announce((str(session / "a"),))
        (session / "a").write_text("other")
        frozen = task.freeze(session / "a")
        task.restore(task.capture.take(frozen).manifest, fresh)
        assert (fresh / "a").read_text() == "other"

    def test_early_bytes_are_not_read_twice(self, session, monkeypatch):
        (session / "d").mkdir()
        (session / "d" / "a").write_bytes(os.urandom(9 * MIB))
        task = Task(session)
        task.capture.announce((str(session / "d"),))
        monkeypatch.setattr(os, "pread", None)
        manifest = task.save(folders=[session / "d"]).manifest
        assert manifest.new_bytes == 9 * MIB

    def test_what_cannot_be_read_early_is_left_to_the_save(self, session):
        os.mkfifo(session / "pipe")
        task = Task(session)
        task.capture.announce(
            (str(session / "none"), str(session / "pipe"), "/etc/passwd", "nonsense")
        )
        assert task.save(state="s").manifest.packs == ()

    def test_a_young_file_is_given_a_tick_where_stamps_are_coarse(self, session, monkeypatch):
        slept = []
        monkeypatch.setattr(capture_module.time, "sleep", slept.append)
        (session / "a").write_text("x")
        task = Task(session, settings={"tick_ns": 10**9})
        task.capture.announce((str(session / "a"),))
        assert len(slept) == 1
        assert 0 < slept[0] <= 1

    def test_a_file_systems_clock_that_runs_ahead_tears_nothing(self, session):
        (session / "a").write_text("x")
        ctime = (session / "a").stat().st_ctime_ns
        task = Task(session, options={"wall_ns": lambda: ctime - 5_000_000_000})
        assert task.save(session / "a", line_at_ns=ctime - 5_000_000_000).manifest.entries

    def test_a_growing_file_is_taken_as_long_as_it_was(self, session, fresh):
        log = session / "run.log"
        log.write_bytes(b"x" * (BLOCK_BYTES + 10))
        task = Task(session, settings={"append_globs": (f"{session}/*.log",)})
        frozen = task.freeze(log)
        with log.open("ab") as file:
            file.write(b"later\n")
        manifest = task.capture.take(frozen).manifest
        task.restore(manifest, fresh)
        assert (fresh / "run.log").read_bytes() == b"x" * (BLOCK_BYTES + 10)

    @pytest.mark.parametrize("how", ["shorter", "replaced"])
    def test_a_growing_file_that_did_not_grow_is_torn(self, session, how):
        log = session / "run.log"
        log.write_bytes(b"x" * 100)
        task = Task(session, settings={"append_globs": (f"{session}/*.log",)})
        frozen = task.freeze(log)
        if how == "shorter":
            os.truncate(log, 50)
        else:
            log.rename(session / "run.1")
            log.write_bytes(b"y" * 200)
        with pytest.raises(CheckpointTorn):
            task.capture.take(frozen)

    def test_many_named_files_are_stamped_by_the_second_thread(self, session, monkeypatch):
        monkeypatch.setattr(capture_module, "FROZEN_AT_ONCE", 3)
        paths = [session / str(number) for number in range(6)]
        for path in paths:
            path.write_text("x")
        task = Task(session)
        frozen = task.freeze(*paths)
        assert len(frozen.stamps) == 3
        task.capture.complete(frozen)
        task.capture.complete(frozen)
        assert len(frozen.stamps) == 6
        assert len(task.capture.take(frozen).manifest.entries) == 6


class TestFreezing:
    def frozen_task(self, session, events, **settings):
        @contextlib.contextmanager
        def freezer():
            events.append("stop")
            try:
                yield
            finally:
                events.append("go")

        return Task(session, options={"freezer": freezer}, settings=settings)

    def tear(self, task, path):
        frozen = task.freeze(path)
        path.write_text(f"{time.monotonic_ns()}")
        with pytest.raises(CheckpointTorn):
            task.capture.take(frozen)

    def test_after_two_torn_saves_the_session_stands_still(self, session):
        (session / "a").write_text("x")
        events: list[str] = []
        task = self.frozen_task(session, events)
        self.tear(task, session / "a")
        self.tear(task, session / "a")
        assert events == []
        frozen = task.freeze(session / "a")
        assert events == ["stop"]
        task.capture.take(frozen)
        assert events == ["stop", "go"]
        task.save(session / "a")
        assert events == ["stop", "go"]

    def test_what_was_taken_or_refused_between_them_does_not_count(self, session):
        (session / "a").write_text("x")
        events: list[str] = []
        task = self.frozen_task(session, events)
        self.tear(task, session / "a")
        task.save(session / "a")
        (session / "a").write_text("not taken yet")
        self.tear(task, session / "a")
        with pytest.raises(SaveRefused):
            task.save("/etc/passwd")
        task.save(session / "a")
        assert events == []

    def test_it_goes_on_when_the_save_fails_or_is_superseded(self, session):
        (session / "a").write_text("x")
        events: list[str] = []
        task = self.frozen_task(session, events)
        self.tear(task, session / "a")
        self.tear(task, session / "a")
        self.tear(task, session / "a")
        assert events == ["stop", "go"]
        task.capture.drop(task.freeze(session / "a"))
        assert events == ["stop", "go"] * 2

    def test_it_stands_still_no_longer_than_allowed(self, session):
        (session / "a").write_bytes(os.urandom(BLOCK_BYTES * 6))
        events: list[str] = []
        task = self.frozen_task(session, events, freeze_limit_seconds=0.0)
        self.tear(task, session / "a")
        self.tear(task, session / "a")
        (session / "a").write_bytes(os.urandom(BLOCK_BYTES * 6))
        frozen = task.freeze(session / "a")
        real = task.writer.add

        def add(data, codec):
            events.append("block")
            return real(data, codec)

        task.writer.add = add
        task.capture.take(frozen)
        assert events[0] == "stop"
        assert events.count("block") == 6
        # Each of the two threads may have begun one more block.
        assert events.index("go") <= 3

    def test_a_real_writer_is_caught_between_two_saves(self, session, fresh):
        """A program that overwrites its only file for ever is saved whole once it stands still."""
        program = Path(session, "program.py")
        program.write_text(
            "import os, sys\n"
            "n = 0\n"
            "while True:\n"
            "    n += 1\n"
            "    with open(sys.argv[1], 'r+b') as f:\n"
            "        f.write(bytes([n % 251]) * 6_000_000)\n"
            "    print(n, flush=True)\n"
            "    sys.stdin.readline()\n"
        )
        target = session / "state.bin"
        target.write_bytes(bytes(6_000_000))
        child = subprocess.Popen(
            [sys.executable, program, target], stdout=subprocess.PIPE, stdin=subprocess.PIPE
        )

        @contextlib.contextmanager
        def freezer():
            child.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED)
            try:
                yield
            finally:
                child.send_signal(signal.SIGCONT)

        try:
            task = Task(session, options={"freezer": freezer})
            outcomes = []
            for _ in range(3):
                number = int(child.stdout.readline())
                frozen = task.freeze(target)
                child.stdin.write(b"\n")
                child.stdin.flush()
                if not frozen.guard._exit_callbacks:
                    assert int(child.stdout.readline()) == number + 1
                    child.stdin.write(b"\n")
                    child.stdin.flush()
                    with pytest.raises(CheckpointTorn):
                        task.capture.take(frozen)
                    outcomes.append("torn")
                else:
                    manifest = task.capture.take(frozen).manifest
                    outcomes.append("taken")
            assert outcomes == ["torn", "torn", "taken"]
            task.restore(manifest, fresh)
            data = (fresh / "state.bin").read_bytes()
            assert data == bytes([number % 251]) * 6_000_000
        finally:
            child.kill()
            child.wait(timeout=30)
            child.stdout.close()
            child.stdin.close()


class TestOutside:
    def test_an_input_is_recorded_and_not_taken(self, session, outside):
        (outside / "in.dat").write_bytes(b"x" * 1000)
        task = Task(session, (outside,), first_claim_at_ns=FUTURE_NS)
        manifest = task.manifest(outside / "in.dat")
        [entry] = manifest.entries
        assert (entry.kept, entry.size, len(entry.blocks)) == (Kept.INPUT, 1000, 0)
        assert entry.digest
        assert manifest.packs == ()
        assert manifest.shown_path(entry) == str(outside / "in.dat")

    def test_an_output_is_taken(self, session, outside):
        (outside / "out.dat").write_bytes(b"x" * 1000)
        manifest = Task(session, (outside,)).manifest(outside / "out.dat")
        assert manifest.entries[0].kept is Kept.BYTES
        assert len(manifest.packs) == 1

    def test_a_root_may_be_a_file_that_is_not_there_yet(self, session, outside):
        target = outside / "deep" / "out.dat"
        task = Task(session, (target,))
        assert task.manifest(target).entries[0].type is EntryType.ABSENT
        target.parent.mkdir()
        target.write_text("x")
        assert entries(task.manifest(target))[str(target)].size == 1
        with pytest.raises(SaveRefused):
            task.save(outside / "deep" / "other.dat")

    def test_walking_finds_only_what_the_task_wrote(self, session, outside):
        for name in ("old", "recorded", "theirs"):
            (outside / name).write_text(name)
        began = time.time_ns()
        deadline = time.monotonic() + 10
        while not (outside / "new").exists() or (outside / "new").stat().st_ctime_ns < began:
            (outside / "new").write_text("new")
            assert time.monotonic() < deadline
        (outside / "theirs").write_text("theirs, now")
        task = Task(
            session,
            (outside,),
            attempt_began_at_ns=began,
            recorded=frozenset({str(outside / "recorded")}),
            elsewhere=frozenset({str(outside / "theirs")}),
        )
        found = entries(task.manifest(folders=[outside]))
        files = {name for name, entry in found.items() if entry.type is EntryType.FILE}
        assert files == {str(outside / "recorded"), str(outside / "new")}

    def test_the_shared_policy_leaves_bytes_where_they_are(self, session, outside, monkeypatch):
        monkeypatch.setattr(capture_module, "_RECORDED_DIGEST_BYTES", 2000)
        (outside / "a").write_bytes(b"x" * 2000)
        (outside / "b").write_bytes(b"x" * 2001)
        (session / "c").write_bytes(b"x")
        task = Task(session, (outside,), settings={"outside": Kept.RECORD})
        found = entries(task.manifest(outside / "a", outside / "b", session / "c"))
        assert [entry.kept for entry in found.values()] == [Kept.BYTES, Kept.RECORD, Kept.RECORD]
        assert found[str(outside / "a")].digest
        assert not found[str(outside / "b")].digest


class TestPrunedPacks:
    """A save must not rest on packs that went with an older one."""

    @pytest.mark.parametrize("is_told", [True, False])
    def test_bytes_of_a_pruned_pack_are_stored_again(self, session, fresh, is_told):
        (session / "a").write_bytes(b"a" * 1000)
        task = Task(session)
        first = task.save(session / "a").manifest
        task.capture.announce((str(session / "a"),))
        for pack in first.packs:
            task.driver.delete(f"{PACKS}/{pack}")
        if is_told:
            task.capture.forget(first.packs)
        manifest = task.manifest(session / "a")
        assert manifest.content == first.content
        assert set(manifest.packs).isdisjoint(first.packs)
        task.restore(manifest, fresh)
        assert (fresh / "a").read_bytes() == b"a" * 1000

    def test_a_pack_that_a_record_names_is_not_rested_on_while_it_is_there(self, session):
        (session / "a").write_bytes(b"a" * 1000)
        task = Task(session)
        first = task.save(session / "a").manifest
        task.capture.forget(first.packs)
        assert set(task.manifest(session / "a").packs).isdisjoint(first.packs)

    def test_a_store_that_loses_every_pack_is_said(self, session):
        class Loses(MemoryDriver):
            def head(self, key):
                return None

        (session / "a").write_bytes(b"a" * 1000)
        with pytest.raises(StoreDamaged, match="packs vanish"):
            Task(session, driver=Loses()).save(session / "a")


class TestTheStoreFails:
    @pytest.mark.parametrize("call", [Call.PUT_IF_ABSENT])
    def test_nothing_of_a_failed_save_is_used_later(self, session, fresh, call):
        (session / "a").write_bytes(os.urandom(100))
        troubles = [OutOfSpace("no space left")]

        def before(now, _key):
            if now is call and troubles:
                raise troubles.pop()

        task = Task(session, driver=MemoryDriver(before=before))
        with pytest.raises(OutOfSpace):
            task.save(session / "a")
        manifest = task.manifest(session / "a")
        assert manifest.new_bytes == 100
        task.restore(manifest, fresh)
        assert (fresh / "a").read_bytes() == (session / "a").read_bytes()

    @pytest.mark.parametrize("applied", [True, False])
    def test_a_lost_reply_is_asked_again(self, session, applied):
        (session / "a").write_bytes(b"x")
        troubles = [LoseReply(applied=applied)]

        def before(_call, _key):
            if troubles:
                raise troubles.pop()

        task = Task(session, driver=MemoryDriver(before=before))
        assert task.manifest(session / "a").packs == (f"{LAUNCH}-1-1",)

    def test_a_store_that_is_away_is_said(self, session):
        (session / "a").write_bytes(b"x")

        def before(_call, _key):
            raise StoreUnavailable("away")

        task = Task(session, driver=MemoryDriver(before=before))
        with pytest.raises(StoreUnavailable):
            task.save(session / "a")
