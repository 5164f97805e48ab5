"""Programs that write through memory: no time of the file moves, and no save is torn or stale."""

import os
import subprocess
import sys

import pytest

from perdure.errors import CheckpointTorn
from perdure.store.files.mapped_files import mapped_inodes
from store_kit import Task
from support.disks import mounted

# Writes one byte through a map at each line of its input; the page stays dirty between.
WRITER = """\
import mmap, sys
with open(sys.argv[1], "r+b") as file:
    view = mmap.mmap(file.fileno(), 0)
for line in sys.stdin:
    view[int(line)] = (view[int(line)] + 1) % 256
    print("done", flush=True)
"""


@pytest.fixture(scope="module")
def ext4(tmp_path_factory):
    with mounted("ext4", tmp_path_factory.mktemp("ext4"), 64 << 20) as disk:
        yield disk


class Writer:
    """A process that has ``path`` mapped."""

    def __init__(self, path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def write(self, offset: int) -> None:
        self.process.stdin.write(f"{offset}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()


@pytest.fixture
def written(ext4, request):
    folder = ext4 / request.node.name
    folder.mkdir()
    path = folder / "state"
    path.write_bytes(os.urandom(20_000))
    writer = Writer(path)
    writer.write(0)
    yield path, writer
    writer.close()


def task_of(path, writer) -> Task:
    return Task(path.parent, options={"pids": lambda: [writer.pid]})


def test_mapped_files_are_known_by_their_inodes(written, tmp_path):
    path, writer = written
    assert path.stat().st_ino in mapped_inodes([writer.pid])
    assert path.stat().st_ino not in mapped_inodes([os.getpid(), 999_999_999])


def test_a_change_that_moves_no_time_is_in_the_next_save(written, tmp_path):
    path, writer = written
    task = task_of(path, writer)
    task.save(path)
    for count in range(5):
        writer.write(100 + count)
        manifest = task.manifest(path)
        folder = tmp_path / str(count)
        folder.mkdir()
        task.restore(manifest, folder)
        assert (folder / "state").read_bytes() == path.read_bytes()


def test_without_knowing_the_process_such_a_change_would_be_missed(written):
    """What the rule is for: the file's times do not move, so that its stamp is the old one."""
    path, writer = written
    before = path.stat()
    writer.write(50)
    after = path.stat()
    assert (before.st_mtime_ns, before.st_ctime_ns) == (after.st_mtime_ns, after.st_ctime_ns)


def test_a_change_while_it_is_read_tears_the_save(written):
    path, writer = written
    with path.open("ab") as file:
        file.write(bytes(100_000))  # read in blocks: what comes after is seen
    task = task_of(path, writer)
    real = task.writer.add

    def add(data, codec):
        writer.write(7)
        return real(data, codec)

    task.writer.add = add
    with pytest.raises(CheckpointTorn):
        task.save(path)


def test_the_session_stands_still_until_the_file_is_written_back(written):
    path, writer = written
    events = []

    class Freezer:
        def __enter__(self):
            events.append("stop")

        def __exit__(self, *_):
            events.append("go")

    task = Task(path.parent, options={"pids": lambda: [writer.pid], "freezer": Freezer})
    frozen = task.freeze(path)
    assert events == ["stop"]
    task.capture.take(frozen)
    assert events == ["stop", "go"]


def test_in_memory_file_systems_a_mapped_file_is_read_twice(tmp_path_factory):
    import ctypes

    folder = tmp_path_factory.mktemp("tmpfs")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=4m,mode=700") != 0:
        pytest.skip("no file system can be mounted here")
    try:
        path = folder / "state"
        path.write_bytes(bytes(20_000))
        writer = Writer(path)
        writer.write(0)
        task = task_of(path, writer)
        task.save(path)
        real = task.writer.add_small

        def add_small(data, digest, codec):
            writer.write(9)
            return real(data, digest, codec)

        task.writer.add_small = add_small
        with pytest.raises(CheckpointTorn):
            task.save(path)
        writer.close()
    finally:
        libc.umount2(os.fsencode(folder), 2)
