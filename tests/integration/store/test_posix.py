import ctypes
import errno
import os
import subprocess
from pathlib import Path

import pytest

from perdure.errors import HomeError, OutOfSpace, StoreDamaged, StoreUnavailable
from perdure.store.drivers import posix, posix_files, posix_upload
from perdure.store.drivers.driver import PutUncertain
from perdure.store.drivers.posix import PosixDriver
from perdure.store.opening import open_store


@pytest.fixture
def driver(tmp_path):
    made = PosixDriver(tmp_path)
    yield made
    made.close()


@pytest.fixture
def small_disk(tmp_path_factory):
    """A file system of 1 MiB, where one may be mounted."""
    folder = tmp_path_factory.mktemp("small")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=1m,mode=700") != 0:
        pytest.skip("no file system can be mounted here")
    yield folder
    libc.umount2(os.fsencode(folder), 2)


@pytest.fixture
def small_ext4(tmp_path_factory):
    """An ext4 of 8 MiB in a file, where one may be mounted."""
    image = tmp_path_factory.mktemp("image") / "disk"
    folder = tmp_path_factory.mktemp("ext4")
    with image.open("wb") as file:
        file.truncate(8 << 20)
    try:
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=True)
        subprocess.run(["mount", "-o", "loop", image, folder], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: Path) -> Path:
    """Use up all the room there."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    return filler


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def failing(monkeypatch, name: str, number: int, *, module=os, times: int = 1):
    """Let the next calls of ``os.NAME`` fail."""
    real = getattr(module, name)
    left = [times]

    def call(*args, **kwargs):
        if left[0]:
            left[0] -= 1
            raise OSError(number, os.strerror(number))
        return real(*args, **kwargs)

    monkeypatch.setattr(module, name, call)


def test_a_put_syncs_the_file_and_then_its_folder(driver, tmp_path, monkeypatch):
    driver.put_if_absent("log/1", b"x")
    synced = []
    real = os.fsync

    def fsync(fd):
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    driver.put_if_absent("log/2", b"x")
    assert len(synced) == 2
    assert synced[0].startswith(".tmp-")
    assert synced[1] == "log"
    synced.clear()
    driver.put_if_absent("other/a/1", b"x")
    assert sorted(synced) == sorted([tmp_path.name, "other", synced[2], "a"])
    synced.clear()
    driver.put("heartbeat", b"1")
    synced.clear()
    driver.put("heartbeat", b"2", in_place=True)
    assert synced == []


def test_a_full_disk_is_said_and_leaves_nothing(small_disk):
    driver = PosixDriver(small_disk)
    driver.put_if_absent("a/first", b"x" * 1000)
    filler = fill(small_disk)
    with pytest.raises(OutOfSpace, match="No space left") as caught:
        driver.put_if_absent("a/second", b"y" * 100_000)
    assert caught.value.hint
    with pytest.raises(OutOfSpace):
        driver.put("a/first", b"z" * 100_000)
    upload = driver.upload("a/third")
    with pytest.raises(OutOfSpace):
        upload.write(b"y" * 100_000, aligned=True)
    upload.abort()
    upload = driver.upload("a/third")
    upload.write(b"y" * 100_000)
    with pytest.raises(OutOfSpace):
        upload.commit()
    upload.abort()
    assert names(small_disk) == ["filler", "first"]
    assert driver.get("a/first") == b"x" * 1000
    filler.unlink()
    assert driver.put_if_absent("a/second", b"y" * 100_000)


def test_a_full_store_can_be_opened_and_emptied(small_disk):
    store = open_store(str(small_disk), write=True, create=True)
    store.driver.put_if_absent("a", b"x" * 500_000)
    fill(small_disk)
    again = open_store(str(small_disk), write=True)
    again.driver.delete("a")
    assert again.driver.put_if_absent("b", b"x" * 100_000)


def test_last_words_and_heartbeats_fit_on_a_full_disk(small_ext4):
    driver = PosixDriver(small_ext4)
    driver.append("j/journal", b"begun\n")
    driver.put("j/heartbeat", b"%010d" % 1, in_place=True)
    filler = fill(small_ext4)
    os.sync()
    line = b"x" * 199 + b"\n"
    for _ in range(100):
        driver.append("j/journal", line)
        driver.sync("j/journal")
    driver.put("j/heartbeat", b"%010d" % 2, in_place=True)
    assert driver.get("j/journal") == b"begun\n" + line * 100
    assert driver.get("j/heartbeat") == b"%010d" % 2
    with pytest.raises(OutOfSpace):
        driver.append("j/journal", bytes(4 << 20))
    assert driver.head("j/journal") == 6 + 200 * 100
    filler.unlink()
    driver.append("j/journal", b"on\n")
    driver.sync("j/journal")
    driver.close()
    assert PosixDriver(small_ext4).get("j/journal").endswith(line + b"on\n")


def test_a_journal_is_never_half_written_on_a_disk_without_kept_room(small_disk, monkeypatch):
    monkeypatch.setattr(posix, "keep_room", lambda *_args: False)
    driver = PosixDriver(small_disk)
    driver.append("journal", b"begun\n")
    fill(small_disk)
    with pytest.raises(OutOfSpace):
        driver.append("journal", b"x" * 100_000)
    assert driver.get("journal") == b"begun\n"


def test_a_failed_sync_of_a_journal_is_made_good_by_the_next(driver, tmp_path, monkeypatch):
    driver.append("journal", b"one\n")
    driver.sync("journal")
    driver.append("journal", b"two\n")
    failing(monkeypatch, "fdatasync", errno.EIO)
    with pytest.raises(StoreDamaged):
        driver.sync("journal")
    # The kernel has dropped the pages that it could not write.
    os.truncate(tmp_path / "journal", 4)
    driver.append("journal", b"three\n")
    driver.sync("journal")
    assert driver.get("journal") == b"one\ntwo\nthree\n"


def test_a_failed_sync_of_an_object_is_final(driver, tmp_path, monkeypatch):
    upload = driver.upload("a")
    upload.write(b"x")
    failing(monkeypatch, "fsync", errno.EIO)
    with pytest.raises(StoreDamaged, match="Input/output"):
        upload.commit()
    with pytest.raises(StoreUnavailable, match="given up"):
        upload.commit()
    assert names(tmp_path) == []


def test_a_put_whose_folder_could_not_be_synced_is_uncertain(driver, monkeypatch):
    driver.put_if_absent("first", b"")
    failing(monkeypatch, "sync_folder", errno.EIO, module=posix_upload)
    with pytest.raises(PutUncertain):
        driver.put_if_absent("a", b"x")
    synced = []
    real = posix_files.sync_folder
    monkeypatch.setattr(posix_upload, "sync_folder", lambda path: (synced.append(path), real(path)))
    assert driver.put_if_absent("a", b"x") is False
    assert len(synced) == 1


def test_a_link_whose_reply_was_lost_is_known_again(driver, monkeypatch):
    real = os.link

    def link(*args, **kwargs):
        real(*args, **kwargs)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", link)
    assert driver.put_if_absent("a", b"x") is True
    assert driver.put_if_absent("a", b"x") is False


@pytest.mark.parametrize("number", [errno.ESTALE, errno.ETIMEDOUT, errno.EIO])
def test_a_link_of_unknown_outcome_is_uncertain(driver, monkeypatch, number):
    failing(monkeypatch, "link", number)
    with pytest.raises(PutUncertain):
        driver.put_if_absent("a", b"x")
    assert driver.put_if_absent("a", b"x") is True


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_hard_links_is_refused(tmp_path, monkeypatch, number):
    failing(monkeypatch, "link", number)
    with pytest.raises(HomeError, match="no hard links") as caught:
        open_store(str(tmp_path / "s"), write=True, create=True)
    assert "\n" not in caught.value.message
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, OutOfSpace),
        (errno.EDQUOT, OutOfSpace),
        (errno.EROFS, HomeError),
        (errno.EACCES, HomeError),
        (errno.EPERM, HomeError),
        (errno.EIO, StoreDamaged),
        (errno.ESTALE, StoreUnavailable),
        (errno.ETIMEDOUT, StoreUnavailable),
        (errno.ENOTCONN, StoreUnavailable),
    ],
)
def test_every_error_has_its_word(driver, tmp_path, monkeypatch, number, expected):
    driver.put_if_absent("a/b", b"x")
    for name, call in {
        "pwrite": lambda: driver.put_if_absent("a/c", b"x"),
        "open": lambda: driver.get("a/b"),
        "scandir": lambda: list(driver.list("a")),
        "fsync": lambda: driver.put("a/b", b"y"),
    }.items():
        with monkeypatch.context() as patch:
            failing(patch, name, number)
            with pytest.raises(expected) as caught:
                call()
        assert caught.value.hint
        assert "tried again" not in caught.value.hint  # nobody knows who shows it
        if number == errno.EACCES:
            assert "belongs to" in caught.value.message
        if number == errno.EROFS:
            assert "mounted read-only" in caught.value.message
            assert "belongs to" not in caught.value.message
    assert names(tmp_path) == ["b"]


@pytest.mark.root
def test_a_read_only_store_is_read(small_disk):
    made = open_store(str(small_disk), write=True, create=True)
    made.driver.put_if_absent("a", b"x")
    libc = ctypes.CDLL(None, use_errno=True)
    read_only = 1 | 32  # MS_RDONLY, MS_REMOUNT
    assert libc.mount(b"tmpfs", os.fsencode(small_disk), b"tmpfs", read_only, None) == 0
    assert open_store(str(small_disk), write=False).driver.get("a") == b"x"
    with pytest.raises(HomeError, match="Read-only"):
        open_store(str(small_disk), write=True)


def test_only_what_was_left_long_ago_is_swept(driver, tmp_path):
    upload = driver.upload("packs/a")
    upload.write(b"x")
    [left] = (tmp_path / "packs").iterdir()
    assert driver.sweep("packs", older_than_seconds=3600) == 0
    os.utime(left, (1, 1))
    assert driver.sweep("packs", older_than_seconds=3600) == 1
    with pytest.raises(StoreUnavailable, match="removed"):
        upload.commit()


def test_every_place_is_swept_but_those_to_be_left_alone(driver, tmp_path):
    places = ("", "keys/k/log", "jobs/a", "jobs/a/launches/l", "jobs/a/shares/0001", "jobs/b")
    for place in (*places, "lineages/a/0001/t/log", "lineages/a/0001/t/packs"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / ".tmp-0123456789abcdef").write_bytes(b"x")
        os.utime(tmp_path / place / ".tmp-0123456789abcdef", (1, 1))
    assert driver.sweep("", older_than_seconds=3600, skip={"jobs/a", "lineages/a"}) == 3
    assert len(list(tmp_path.rglob(".tmp-*"))) == 5
    assert driver.sweep("", older_than_seconds=3600) == 5
    assert list(tmp_path.rglob(".tmp-*")) == []


def test_empty_folders_are_swept_once_nobody_can_be_making_something_in_them(driver, tmp_path):
    (tmp_path / "jobs/a/launches").mkdir(parents=True)
    driver.put("jobs/b/job", b"x")
    driver.sweep("", older_than_seconds=3600)
    assert (tmp_path / "jobs/a/launches").exists()
    driver.sweep("jobs", older_than_seconds=0)
    assert [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")] == ["jobs", *_SEEN]


_SEEN = ("jobs/b", "jobs/b/job")


def test_a_folder_that_was_just_emptied_is_made_again(driver, tmp_path, monkeypatch):
    driver.put_if_absent("a/b/c", b"x")
    driver.delete("a/b/c")
    assert list(tmp_path.iterdir()) == []
    real = posix_upload.create_file
    vanished = []

    def create_file(path, access):
        if len(vanished) < 2:
            vanished.append(path)
            raise FileNotFoundError(errno.ENOENT, "gone")
        return real(path, access)

    monkeypatch.setattr(posix_upload, "create_file", create_file)
    assert driver.put_if_absent("a/b/c", b"x")


def test_a_big_object_is_written_and_read_in_pieces(driver):
    piece = os.urandom(1 << 20)
    assert driver.put_if_absent("big", (piece for _ in range(32)))
    assert driver.head("big") == 32 << 20
    assert driver.get("big", (7 << 20) + 5, 100) == piece[5:105]


def test_objects_are_files_that_can_be_watched(driver, tmp_path):
    assert driver.local_path("jobs/a/log") == tmp_path / "jobs" / "a" / "log"
