"""What a task may put into its folders, and what becomes of it in a checkpoint."""

import contextlib
import os
import socket
import stat

import pytest

from perdure.errors import CheckpointTorn, SaveRefused
from perdure.store.files import gathering, roots
from perdure.store.files.gathering import ENTRY_LIMIT
from perdure.store.manifests.manifest import BLOCK_BYTES, EntryType
from store_kit import Task, tree

LONGEST_NAME = "n" * 255


def entries(manifest):
    return {manifest.shown_path(entry): entry for entry in manifest.entries}


class TestNames:
    @pytest.mark.parametrize(
        "name",
        [
            "a\nb",
            "a\tb\rc",
            " ",
            "-rf",
            "a\\b",
            "quotes \"'`$(x)",
            "ä",
            "a\u0308",
            "\U0001f600",
            os.fsdecode(b"\xff\xfe invalid"),
            os.fsdecode(b"\xed\xa0\x80"),  # a surrogate in UTF-8
            "\x01\x7f",
            LONGEST_NAME,
            os.fsdecode(b"\xff" * 255),
            "...",
            ".hidden",
        ],
    )
    @pytest.mark.parametrize("is_named", [True, False])
    def test_a_file_of_any_name_comes_back(self, session, fresh, name, is_named):
        (session / "d").mkdir()
        (session / "d" / name).write_bytes(b"content")
        task = Task(session)
        manifest = (
            task.manifest(session / "d" / name) if is_named else task.manifest(folders=[session])
        )
        task.restore(manifest, fresh)
        assert [path.name for path in (fresh / "d").iterdir()] == [name]
        assert (fresh / "d" / name).read_bytes() == b"content"

    def test_names_that_differ_in_form_only_are_two(self, session, fresh):
        (session / "\u00e9").write_text("one")
        (session / "e\u0301").write_text("two")
        task = Task(session)
        task.restore(task.manifest(folders=[session]), fresh)
        assert tree(fresh) == tree(session)

    def test_the_longest_name_makes_way_for_its_saved_one(self, session, outside, fresh):
        path = outside / LONGEST_NAME
        path.write_bytes(b"saved")
        task = Task(session, (outside,))
        first = task.manifest(path)
        path.write_bytes(b"later")
        second = task.manifest(path)
        from perdure.store.files.ownership import recorded_contents

        task.restore(first, fresh, recorded=recorded_contents([first, second]))
        assert path.read_bytes() == b"saved"
        [beside] = [other for other in outside.iterdir() if other != path]
        assert beside.read_bytes() == b"later"

    def test_a_deep_path_comes_back(self, session, fresh):
        deep = session
        for number in range(60):
            deep = deep / f"{number:050d}"
        deep.mkdir(parents=True)
        (deep / "a").write_text("x")
        task = Task(session)
        task.restore(task.manifest(folders=[session]), fresh)
        assert tree(fresh) == tree(session)


class TestLinksAndModes:
    def test_hard_links_come_back_as_files_of_their_own(self, session, fresh):
        """Recorded as two files with the same blocks, stored once; see decision 122."""
        (session / "a").write_bytes(os.urandom(100_000))
        os.link(session / "a", session / "b")
        task = Task(session)
        manifest = task.manifest(folders=[session])
        assert manifest.new_bytes == 100_000
        task.restore(manifest, fresh)
        assert tree(fresh) == tree(session)
        assert (fresh / "a").stat().st_nlink == 1
        assert not (fresh / "a").samefile(fresh / "b")

    def test_a_restore_over_a_hard_link_leaves_its_other_name_alone(self, session, outside, fresh):
        (session / "a").write_bytes(b"saved")
        task = Task(session)
        manifest = task.manifest(session / "a")
        (outside / "other").write_bytes(b"somebody's")
        os.link(outside / "other", fresh / "a")
        task.restore(manifest, fresh)
        assert (fresh / "a").read_bytes() == b"saved"
        assert (outside / "other").read_bytes() == b"somebody's"

    @pytest.mark.parametrize("mode", [0o000, 0o400, 0o444, 0o200, 0o755, 0o777, 0o4755, 0o2755])
    def test_permissions_come_back_without_setuid_and_setgid(self, session, fresh, mode):
        path = session / "a"
        path.write_text("x")
        path.chmod(mode)
        task = Task(session)
        if os.geteuid() != 0 and not mode & 0o400:
            with pytest.raises(SaveRefused, match="cannot be read"):
                task.save(path)
            return
        task.restore(task.manifest(path), fresh)
        assert stat.S_IMODE((fresh / "a").stat().st_mode) == mode & 0o777

    def test_links_to_themselves_and_to_each_other(self, session, fresh):
        (session / "self").symlink_to("self")
        (session / "one").symlink_to("two")
        (session / "two").symlink_to("one")
        task = Task(session)
        task.restore(task.manifest(folders=[session]), fresh)
        assert (fresh / "self").readlink().name == "self"
        assert (fresh / "two").readlink().name == "one"

    def test_a_link_to_a_folder_above_is_not_walked(self, session, fresh):
        (session / "d").mkdir()
        (session / "d" / "up").symlink_to("..")
        (session / "d" / "a").write_text("x")
        task = Task(session)
        manifest = task.manifest(folders=[session])
        assert set(entries(manifest)) == {"d", "d/a", "d/up"}


class TestSparseFiles:
    def test_holes_stay_holes_and_cost_nothing(self, session, fresh):
        path = session / "sparse"
        with path.open("wb") as file:
            file.truncate(10 * BLOCK_BYTES)
            file.seek(3 * BLOCK_BYTES + 17)
            file.write(b"data in the middle")
            file.seek(9 * BLOCK_BYTES)
            file.write(b"and behind")
        task = Task(session)
        manifest = task.manifest(path)
        assert manifest.new_bytes == 2 * BLOCK_BYTES
        task.restore(manifest, fresh)
        assert tree(fresh) == tree(session)
        assert (fresh / "sparse").stat().st_blocks * 512 <= 2 * BLOCK_BYTES + 65536

    def test_nothing_but_a_hole(self, session, fresh):
        with (session / "hole").open("wb") as file:
            file.truncate(3 * BLOCK_BYTES + 1)
        task = Task(session)
        manifest = task.manifest(session / "hole")
        assert (manifest.new_bytes, manifest.packs) == (0, ())
        task.restore(manifest, fresh)
        assert tree(fresh) == tree(session)


class TestWhatIsNoFile:
    def test_a_named_pipe_that_nobody_writes_to_blocks_nothing(self, session):
        os.mkfifo(session / "pipe")
        task = Task(session)
        task.capture.announce((str(session / "pipe"),))
        with pytest.raises(SaveRefused, match="no regular file"):
            task.save(file=session / "pipe")

    def test_a_named_socket_is_refused(self, session):
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(session / "s"))
            with pytest.raises(SaveRefused, match="no regular file"):
                Task(session).save(session / "s")

    def test_a_device_is_refused_and_never_opened(self, session):
        try:
            os.mknod(session / "tty", 0o600 | stat.S_IFCHR, os.makedev(5, 0))
        except PermissionError:
            pytest.skip("no device can be made here")
        with pytest.raises(SaveRefused, match="no regular file"):
            Task(session).save(session / "tty")

    def test_a_file_that_becomes_a_pipe_while_it_is_saved_blocks_nothing(self, session):
        path = session / "a"
        path.write_text("x")
        task = Task(session)
        frozen = task.freeze(path)
        path.unlink()
        os.mkfifo(path)
        with pytest.raises((SaveRefused, CheckpointTorn)):
            task.capture.take(frozen)

    def test_a_pipe_in_the_way_of_a_restore_makes_way(self, session, fresh):
        (session / "a").write_text("saved")
        task = Task(session)
        manifest = task.manifest(session / "a")
        os.mkfifo(fresh / "a")
        task.restore(manifest, fresh)
        assert (fresh / "a").read_text() == "saved"


class TestWhatChangesMeanwhile:
    def hooked(self, monkeypatch, name, after):
        """Do something whenever a file was met in a walk or opened."""
        real = getattr(roots, name)

        def call(*args, **kwargs):
            found = real(*args, **kwargs)
            after()
            return found

        monkeypatch.setattr(roots, name, call)

    def test_a_file_that_vanishes_between_the_walk_and_the_reading(self, session, monkeypatch):
        (session / "d").mkdir()
        for name in "abc":
            (session / "d" / name).write_bytes(b"x" * 1000)
        real = gathering.Gatherer.gather

        def gather(*args, **kwargs):
            found = real(*args, **kwargs)
            (session / "d" / "c").unlink()
            return found

        monkeypatch.setattr(gathering.Gatherer, "gather", gather)
        with pytest.raises(CheckpointTorn, match="c changed"):
            Task(session).save(folders=[session / "d"])

    def test_a_folder_that_vanishes_while_it_is_walked(self, session):
        (session / "d" / "e").mkdir(parents=True)
        (session / "d" / "e" / "a").write_text("x")
        task = Task(session)
        frozen = task.freeze(folders=[session / "d"])
        (session / "d" / "e" / "a").unlink()
        (session / "d" / "e").rmdir()
        (session / "d" / "later").write_text("on any clock")
        with pytest.raises(CheckpointTorn):
            task.capture.take(frozen)

    def test_a_folder_that_grows_while_it_is_walked_comes_to_an_end(self, session, monkeypatch):
        """Somebody adds a folder for each one that is looked into: refused, not walked for ever."""
        monkeypatch.setattr(gathering, "ENTRY_LIMIT", 200)
        deepest = [session / "d"]
        deepest[0].mkdir()

        def grow():
            deepest[0] = deepest[0] / "d"
            with contextlib.suppress(FileExistsError):
                deepest[0].mkdir()

        self.hooked(monkeypatch, "_entries", grow)
        grow()
        task = Task(session, options={"wall_ns": lambda: 0})  # a clock that tears no folder
        with pytest.raises(SaveRefused, match="more than a checkpoint may have"):
            task.save(folders=[session])

    def test_a_folder_with_too_many_names_is_not_read_to_its_end(self, session, monkeypatch):
        """An endless folder: what `scandir` gives never ends."""
        given = []

        class Endless:
            def __init__(self, real):
                with real:
                    self.entry = next(iter(real))

            def __enter__(self):
                return self

            def __exit__(self, *_error):
                pass

            def __iter__(self):
                while True:
                    given.append(1)
                    yield self.entry

        (session / "a").write_text("x")
        real = os.scandir
        monkeypatch.setattr(os, "scandir", lambda where: Endless(real(where)))
        with pytest.raises(SaveRefused, match="more than a checkpoint may have"):
            Task(session).save(folders=[session])
        assert len(given) == ENTRY_LIMIT + 1

    def test_a_file_that_grows_while_it_is_read_is_torn(self, session):
        path = session / "a"
        path.write_bytes(os.urandom(2 * BLOCK_BYTES))
        task = Task(session)
        real = task.writer.add

        def add(data, *how, **named):
            with path.open("ab") as file:
                file.write(b"more")
            return real(data, *how, **named)

        task.writer.add = add
        with pytest.raises(CheckpointTorn, match="a changed"):
            task.save(path)

    def test_a_declared_log_that_grows_without_end_is_taken_up_to_its_size(self, session, fresh):
        path = session / "log"
        saved = os.urandom(2 * BLOCK_BYTES + 5)
        path.write_bytes(saved)
        task = Task(session, settings={"append_globs": (f"{session}/log",)})
        real = task.writer.add

        def add(data, *how, **named):
            with path.open("ab") as file:
                file.write(os.urandom(BLOCK_BYTES))
            return real(data, *how, **named)

        task.writer.add = add
        task.restore(task.manifest(path), fresh)
        assert (fresh / "log").read_bytes() == saved

    def test_a_file_that_shrinks_while_it_is_read_is_torn(self, session):
        path = session / "a"
        path.write_bytes(os.urandom(3 * BLOCK_BYTES))
        task = Task(session, settings={"append_globs": (f"{session}/*",)})
        real = task.writer.add

        def add(data, *how, **named):
            os.truncate(path, BLOCK_BYTES)
            return real(data, *how, **named)

        task.writer.add = add
        with pytest.raises(CheckpointTorn):
            task.save(path)

    def test_a_path_that_cannot_be_looked_at_is_not_taken_for_absent(self, session, monkeypatch):
        """A stat that fails is no answer; a save without that file would look complete."""
        (session / "a").write_text("x")
        task = Task(session)
        real = os.stat

        def failing(path, **how):
            if path == str(session / "a"):
                raise OSError(5, "Input/output error")
            return real(path, **how)

        with monkeypatch.context() as patch:
            patch.setattr(os, "stat", failing)
            frozen = task.freeze(session / "a")
        with pytest.raises(SaveRefused, match="cannot be read"):
            task.capture.take(frozen)
        found = entries(task.save(session / "a").manifest)
        assert found["a"].type is EntryType.FILE
