import os
import shutil
import stat
import struct
from pathlib import Path

import pytest

from perdure.errors import FormatTooNew, HomeError, StoreDamaged, UsageError
from perdure.store.delivery.delivery_places import delivery_place
from perdure.store.drivers.driver import PutUncertain
from perdure.store.drivers.memory import Call, LoseReply, MemoryDriver
from perdure.store.opening import open_store, prove, refuse_half_url
from perdure.store.records.record_format import encode_record


def test_a_store_is_made_once_and_keeps_its_id(tmp_path):
    path = tmp_path / "a" / "store"
    made = open_store(str(path), write=True, create=True)
    again = open_store(f"file://{path}", write=True, create=True)
    read = open_store(str(path), write=False)
    assert made.store_id == again.store_id == read.store_id
    assert len(made.store_id) == 32
    assert (made.is_writable, read.is_writable) == (True, False)
    assert [p.name for p in path.iterdir()] == ["format"]


def test_what_is_made_is_its_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        store = open_store(str(tmp_path / "home" / "store"), write=True, create=True)
        store.driver.put_if_absent("jobs/a/job", b"x")
        store.driver.append("jobs/a/journal", b"x")
    finally:
        os.umask(before)
    modes = {
        path.relative_to(tmp_path).as_posix(): path.stat().st_mode & 0o7777
        for path in tmp_path.rglob("*")
    }
    assert modes == {
        "home": 0o700,
        "home/store": 0o700,
        "home/store/format": 0o600,
        "home/store/jobs": 0o700,
        "home/store/jobs/a": 0o700,
        "home/store/jobs/a/job": 0o600,
        "home/store/jobs/a/journal": 0o600,
    }


@pytest.fixture
def project(tmp_path):
    """A folder that the group gets into."""
    folder = tmp_path / "project"
    folder.mkdir()
    folder.chmod(0o755)
    return folder


@pytest.fixture(params=[0o077, 0o022, 0o007, 0o000])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def changed_folders(monkeypatch):
    """Folders whose mode was changed after they were made, but for the scaffold of a new store."""
    found = []
    real_chmod, real_fchmod = os.chmod, os.fchmod

    def chmod(path, mode, **more):
        if Path(path).is_dir() and not Path(path).name.startswith(".tmp-"):
            found.append(path)
        real_chmod(path, mode, **more)

    def fchmod(fd, mode):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            found.append(fd)
        real_fchmod(fd, mode)

    monkeypatch.setattr(os, "chmod", chmod)
    monkeypatch.setattr(os, "fchmod", fchmod)
    return found


def modes(folder):
    """The modes of folders and of files."""
    paths = list(folder.rglob("*"))
    return (
        {path.stat().st_mode & 0o7777 for path in paths if path.is_dir()},
        {path.stat().st_mode & 0o7777 for path in paths if path.is_file()},
    )


def fill(path):
    store = open_store(str(path), write=True)
    assert store.is_shared
    store.driver.put_if_absent("jobs/a/job", b"x")
    store.driver.append("jobs/a/journal", b"x")
    store.driver.put("jobs/a/heartbeat", b"x")
    upload = store.driver.upload("lineages/a/packs/p")
    upload.write(b"x" * 9000)
    upload.commit()


@pytest.mark.parametrize("is_setgid", [False, True])
def test_a_store_for_a_group_is_the_groups_whatever_the_umask(
    project, umask, changed_folders, is_setgid
):
    if is_setgid:
        project.chmod(0o2775)
        changed_folders.clear()
    made = open_store(str(project / "s"), write=True, create=True, share_with_group=True)
    assert made.is_shared
    fill(project / "s")
    assert modes(project) == ({0o2770}, {0o660})
    assert changed_folders == []
    assert [path.name for path in project.iterdir()] == ["s"]


@pytest.mark.root
def test_all_that_is_made_is_of_the_stores_group(project, umask):
    os.chown(project, 0, 12345)
    project.chmod(0o2770)
    open_store(str(project / "s"), write=True, create=True, share_with_group=True)
    fill(project / "s")
    assert {path.stat().st_gid for path in project.rglob("*")} == {12345}


def acl(*entries):
    """An access control list as the kernel keeps it: tag, permissions, id."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


USER, NAMED, OF_GROUP, MASK, OTHER = 0x01, 0x02, 0x04, 0x10, 0x20
NOBODY = 0xFFFFFFFF


def default_acl(folder, group, mask):
    entries = (
        (USER, 7, NOBODY),
        (NAMED, 7, 4321),
        (OF_GROUP, group, NOBODY),
        (MASK, mask, NOBODY),
        (OTHER, 0, NOBODY),
    )
    try:
        os.setxattr(folder, "system.posix_acl_default", acl(*entries))
    except OSError as error:
        pytest.skip(f"no ACLs here: {error}")
    return os.getxattr(folder, "system.posix_acl_default")


def test_a_default_acl_goes_on_to_all_that_is_made(project, umask, changed_folders):
    expected = default_acl(project, 5, 7)
    open_store(str(project / "s"), write=True, create=True, share_with_group=True)
    fill(project / "s")
    folders = [path for path in project.rglob("*") if path.is_dir()]
    assert {os.getxattr(path, "system.posix_acl_default") for path in folders} == {expected}
    assert modes(project) == ({0o2770}, {0o660})  # with an ACL the group's bits are the mask's
    for path in project.rglob("*"):
        access = os.getxattr(path, "system.posix_acl_access")
        assert struct.pack("<HHI", NAMED, 7, 4321) in access
        assert struct.pack("<HHI", OF_GROUP, 5, NOBODY) in access
    assert changed_folders == []


def test_an_acl_that_gives_the_group_less_is_not_overruled(project, umask):
    open_store(str(project / "s"), write=True, create=True, share_with_group=True)
    default_acl(project / "s", 5, 5)
    fill(project / "s")
    folders, files = modes(project / "s")
    assert folders == {0o2750}
    assert files == {0o640, 0o660}  # `format` was made before


def test_a_store_for_a_group_that_cannot_get_to_it_is_refused(project):
    project.chmod(0o700)
    with pytest.raises(HomeError, match="nobody but its owner gets into"):
        open_store(str(project / "s"), write=True, create=True, share_with_group=True)
    with pytest.raises(HomeError, match="is not there, and made for you alone"):
        open_store(str(project / "a/s"), write=True, create=True, share_with_group=True)
    assert list(project.iterdir()) == []
    with pytest.raises(UsageError, match="in folders"):
        open_store("memory://shared", write=True, create=True, share_with_group=True)


def test_without_a_mkdir_the_umask_is_the_cure(project, monkeypatch):
    before = os.umask(0o022)
    try:
        monkeypatch.setenv("PATH", str(project))
        with pytest.raises(HomeError, match="no program `mkdir`") as caught:
            open_store(str(project / "s"), write=True, create=True, share_with_group=True)
        assert "umask 007" in caught.value.hint
        assert list(project.iterdir()) == []
        os.umask(0o007)
        open_store(str(project / "s"), write=True, create=True, share_with_group=True)
    finally:
        os.umask(before)


def test_one_that_is_there_keeps_what_it_is(project):
    open_store(str(project / "s"), write=True, create=True)
    again = open_store(str(project / "s"), write=True, create=True, share_with_group=True)
    assert not again.is_shared
    assert modes(project) == ({0o700}, {0o600})


def test_reading_makes_nothing(tmp_path):
    with pytest.raises(HomeError, match="there is no store"):
        open_store(str(tmp_path / "none"), write=False, create=True)
    with pytest.raises(HomeError, match="there is no store"):
        open_store(str(tmp_path / "none"), write=True)
    with pytest.raises(HomeError, match="there is no store"):
        open_store(str(tmp_path), write=True)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_cannot_write(tmp_path):
    open_store(str(tmp_path / "s"), write=True, create=True)
    driver = open_store(str(tmp_path / "s"), write=False).driver
    for call in (
        lambda: driver.put_if_absent("a", b""),
        lambda: driver.put("a", b""),
        lambda: driver.delete("format"),
        lambda: driver.append("a", b""),
        lambda: driver.upload("a"),
        lambda: driver.sweep("", older_than_seconds=0),
    ):
        with pytest.raises(HomeError, match="reading only"):
            call()


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(HomeError, match=r"holds other things \(thesis.tex\)"):
        open_store(str(tmp_path), write=True, create=True)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_no_store(tmp_path):
    (tmp_path / "s").write_text("x")
    with pytest.raises(HomeError, match="is no folder"):
        open_store(str(tmp_path / "s"), write=True, create=True)


def test_a_later_store_is_left_untouched(tmp_path):
    later = encode_record({"kind": "store", "id": "1", "at": "", "number": 2, "store": "0" * 32})
    (tmp_path / "format").write_bytes(later)
    for write in (True, False):
        with pytest.raises(FormatTooNew, match="format 2"):
            open_store(str(tmp_path), write=write, create=write)
    assert [path.name for path in tmp_path.iterdir()] == ["format"]
    assert (tmp_path / "format").read_bytes() == later


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage",
        encode_record({"kind": "store", "id": "1", "number": 1, "store": "0" * 32})[:-3],
        encode_record({"kind": "job", "id": "1"}),
        encode_record({"kind": "store", "id": "1", "number": "1", "store": "0" * 32}),
        encode_record({"kind": "store", "id": "1", "number": 1}),
    ],
)
def test_a_damaged_marker_is_said(tmp_path, data):
    (tmp_path / "format").write_bytes(data)
    with pytest.raises(StoreDamaged, match="format"):
        open_store(str(tmp_path), write=True, create=True)
    assert (tmp_path / "format").read_bytes() == data


@pytest.mark.root
def test_a_store_of_somebody_else_is_not_written(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can make a store of somebody else")
    open_store(str(tmp_path / "s"), write=True, create=True)
    shutil.chown(tmp_path / "s", user=65534)
    with pytest.raises(HomeError, match="belongs to nobody"):
        open_store(str(tmp_path / "s"), write=True)
    assert open_store(str(tmp_path / "s"), write=False).store_id


def test_a_store_that_anybody_may_write_is_not_trusted(tmp_path):
    open_store(str(tmp_path / "s"), write=True, create=True)
    (tmp_path / "s").chmod(0o777)
    with pytest.raises(HomeError, match="everybody may write"):
        open_store(str(tmp_path / "s"), write=True)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("s3://", "no place in an object store"),
        ("az://account", "no place in an object store"),
        ("s3://key:secret@bucket", "must hold no secret"),
        ("s3a://bucket", "no kind of store"),
        ("https://host/x", "no kind of store"),
        ("ftp://host/x", "ftp:// is no kind of store"),
        ("file://otherhost/x", "no path of this host"),
    ],
)
def test_what_cannot_be_a_store_is_said_in_one_sentence(url, text):
    with pytest.raises(UsageError, match=text) as caught:
        open_store(url, write=True, create=True)
    assert caught.value.hint
    assert "\n" not in caught.value.message


def test_memory_stores_have_names(request):
    name = request.node.nodeid.replace("/", "-")
    made = open_store(f"memory://{name}", write=True, create=True)
    made.driver.put("a", b"x")
    again = open_store(f"memory://{name}", write=True)
    assert again.driver.get("a") == b"x"
    with pytest.raises(HomeError, match="there is no store"):
        open_store(f"memory://{name}-other", write=False)


def test_a_store_that_creates_twice_is_refused():
    class SaysCreatedTwice(MemoryDriver):
        def put_if_absent(self, key, data):
            super().put_if_absent(key, data)
            return True

    with pytest.raises(StoreDamaged, match="creates an object that exists already"):
        prove(SaysCreatedTwice(), "format", b"x")
    kept = MemoryDriver()
    kept.put("format", b"x")
    prove(kept, "format", b"x")
    assert kept.get("format") == b"x"


def test_a_lost_reply_is_asked_again():
    lost = iter([LoseReply(applied=True), LoseReply(applied=False)])

    def before(call, _key):
        if call is Call.PUT_IF_ABSENT and (fault := next(lost, None)):
            raise fault

    prove(MemoryDriver(before=before), "format", b"x")
    assert next(lost, None) is None

    def always(call, _key):
        raise LoseReply(applied=False)

    with pytest.raises(PutUncertain):
        prove(MemoryDriver(before=always), "format", b"x")


@pytest.mark.parametrize("given", ["s3:/bucket/x", "s3:bucket", "gs:/b", "https:/host/x", "az:a/c"])
def test_half_a_url_is_no_folder(given):
    with pytest.raises(UsageError, match="two slashes are missing") as caught:
        refuse_half_url(given)
    assert "://" in caught.value.hint
    with pytest.raises(UsageError, match="two slashes"):
        delivery_place(given)


@pytest.mark.parametrize("given", ["/a/s3:/x", "./s3:/x", "s3://b/x", "c:folder", "a", "file:///x"])
def test_folders_and_urls_are_no_half_ones(given):
    refuse_half_url(given)
