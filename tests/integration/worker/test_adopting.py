"""``--files adopt``: the program's own checkpoint files are the checkpoints; nothing is copied."""

import os
from pathlib import Path

import pytest

from perdure.clock import SystemClock
from perdure.manager.removing import release_adopted
from perdure.manager.usage import usage
from perdure.store.files.adopting import adopted
from perdure.store.manifests.manifest import Kept
from support.task_words import interrupted, job_of
from support.worker_runs import wait_until

# Writes step after step, each under a new name, and waits until each is committed.
PROGRAM = """
    import pathlib
    folder = pathlib.Path({folder!r})
    start = int(sys.argv[1]) if resumed else 0
    if resumed:
        print("file", sys.argv[2], open(sys.argv[2]).read(5), flush=True)
    for n in range(1, {saves} + 1):
        path = folder / f"step-{{start + n}}.bin"
        path.write_bytes(b"%05d" % (start + n) * 20_000)
        save(str(start + n), str(path))
        committed(n)
    print("all committed", flush=True)
    wait()
"""


class Adopting:
    """A job that adopts, and what lies in its folder."""

    def __init__(self, ground, saves=5, **options):
        self.folder = ground.root / "outside"
        self.folder.mkdir()
        code = PROGRAM.format(folder=str(self.folder), saves=saves)
        roots = (str(self.folder),)
        options = {"files": "adopt", "allow_roots": roots, **options}
        self.job = job_of(ground, code, **options)

    def own(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.name[0] != ".")

    def held(self) -> list[Path]:
        return [path for path in self.folder.iterdir() if path.name.startswith(".perdure-")]

    def point(self):
        lineage = self.job.lineage()
        return self.job.manifest(lineage.point)


@pytest.fixture
def adopting(ground):
    return Adopting(ground)


def test_not_one_byte_is_stored(adopting):
    interrupted(adopting.job, "all committed")
    packs = [key for key in adopting.job.driver.list("lineages") if "/packs/" in key]
    assert packs == []
    manifest = adopting.point()
    assert [entry.kept for entry in manifest.entries] == [Kept.ADOPTED]
    assert manifest.size_bytes == 100_000
    assert manifest.new_bytes == 0


def test_old_ones_are_retired_by_retention(adopting):
    interrupted(adopting.job, "all committed")
    assert adopting.own() == ["step-3.bin", "step-4.bin", "step-5.bin"]
    assert len(adopting.held()) == 3
    files = {path.stat().st_ino for path in adopting.held()}
    assert files == {(adopting.folder / name).stat().st_ino for name in adopting.own()}


def test_what_is_held_outside_is_counted_once_a_version(adopting):
    interrupted(adopting.job, "all committed")
    where = (adopting.job.driver, adopting.job.document.job)
    found = usage(*where, adopts=True, clock=SystemClock(), pause=lambda _tries: None)
    assert found.adopted_bytes == sum(path.stat().st_size for path in adopting.held()) == 300_000


def test_it_goes_on_from_the_file_where_it_is(adopting):
    interrupted(adopting.job, "all committed")
    before = (adopting.folder / "step-5.bin").stat().st_ino
    interrupted(adopting.job, "all committed")
    text = adopting.job.text(adopting.job.workers[-1])
    assert f"file {adopting.folder / 'step-5.bin'} 00005" in text
    assert adopting.own() == ["step-10.bin", "step-5.bin", "step-8.bin", "step-9.bin"]
    assert (adopting.folder / "step-5.bin").stat().st_ino == before  # it is a base


def test_a_file_that_the_program_removed_comes_back_by_its_second_name(adopting):
    interrupted(adopting.job, "all committed")
    (adopting.folder / "step-5.bin").unlink()
    interrupted(adopting.job, "all committed")
    assert "00005" in adopting.job.text(adopting.job.workers[-1])
    assert (adopting.folder / "step-5.bin").read_bytes() == b"00005" * 20_000


def test_a_file_that_was_written_again_is_not_resumed_from(adopting):
    interrupted(adopting.job, "all committed")
    with (adopting.folder / "step-5.bin").open("r+b") as file:
        file.write(b"other")  # in place: both names have it
    adopting.job.run()
    reason = adopting.job.outcome()["reason"]
    assert "step-5.bin" in reason
    assert "is not there as it was" in reason


def test_each_new_file_is_read_once_in_the_background(adopting):
    worker = adopting.job.start()
    adopting.job.wait_for("all committed")

    def digests():
        lineage = adopting.job.lineage()
        return lineage.save(lineage.point).digests

    wait_until("the newest one has its digest", digests)
    worker.signal(15)
    assert worker.wait() == 0
    lineage = adopting.job.lineage()
    [entry] = adopted(adopting.job.manifest(lineage.point))
    assert entry.digest == b""  # the manifest is never changed
    assert len(lineage.save(lineage.point).digests[0]) == 32


def test_a_changed_byte_is_found_where_the_digest_is_known(adopting):
    worker = adopting.job.start()
    adopting.job.wait_for("all committed")
    lineage = adopting.job.lineage
    wait_until("its digest", lambda: lineage().save(lineage().point).digests)
    worker.signal(15)
    assert worker.wait() == 0
    path = adopting.folder / "step-5.bin"
    about = path.stat()
    with path.open("r+b") as file:
        file.seek(50_000)
        file.write(b"!")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))  # size and time are the same
    adopting.job.run()
    assert "is not there as it was" in adopting.job.outcome()["reason"]


def test_what_others_wrote_beside_is_left_alone(adopting):
    (adopting.folder / "mine.txt").write_text("a person's")
    interrupted(adopting.job, "all committed")
    assert (adopting.folder / "mine.txt").read_text() == "a person's"
    assert "mine.txt" in adopting.own()


def test_rm_leaves_the_files_and_removes_the_second_names(adopting):
    interrupted(adopting.job, "all committed")
    (adopting.folder / (".perdure-" + "0" * 32)).write_text("not ours")
    release_adopted(adopting.job.driver, adopting.job.id)
    assert adopting.own() == ["step-3.bin", "step-4.bin", "step-5.bin"]
    assert [path.name for path in adopting.held()] == [".perdure-" + "0" * 32]


def test_files_of_the_session_folder_are_copied_as_always(ground):
    job = job_of(
        ground,
        """
    if not resumed:
        write("model.bin", "M" * 1000)
        save("1", "model.bin")
        wait()
    print("has", open(sys.argv[2]).read(1))
    """,
        files="adopt",
    )
    interrupted(job).run()
    assert job.outcome()["state"] == "SUCCEEDED"
