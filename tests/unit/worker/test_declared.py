"""Which outside files are a neighbour's: by what launches say in the store."""

import pytest

from perdure.protocol.dataset import Dataset
from perdure.store import layout
from perdure.store.drivers.memory import MemoryDriver
from perdure.store.layout import JobId, LaunchId, StepKey, TaskKey
from perdure.worker.declared import DeclaredFile, Neighbours
from perdure.worker.job_records import LineageId

JOB = JobId("01jdxyz0000000000000000000")
ME = LaunchId("01jdxyz0000000000000000001")
OTHER = LaunchId("01jdxyz0000000000000000002")
MINE = LineageId(step=StepKey(1), task=TaskKey("a" * 16))
THEIRS = LineageId(step=StepKey(1), task=TaskKey("b" * 16))
BEGAN_NS = 1_000_000_000_000_000_000
MINUTE_NS = 60 * 10**9


@pytest.fixture(params=[True, False], ids=["appends", "segments"])
def driver(request):
    return MemoryDriver(appends=request.param)


def said(driver, launch=OTHER, lineage=THEIRS, *, files=(), dirs=(), ended=None):
    file = DeclaredFile(driver, layout.declared(JOB, launch))
    file.add(lineage, 1, Dataset(files=tuple(files), dirs=tuple(dirs)))
    if ended is not None:
        file.end(lineage, 1, at_ns=ended)


def owner(driver, path, *, ours=(), over=frozenset()):
    neighbours = Neighbours(driver, JOB, ME)
    neighbours.refresh(over=over)
    found = neighbours.owner_of(path, MINE, BEGAN_NS, ours=set(ours), over=over)
    return None if found is None else found.task


def test_a_file_that_another_names_is_its_own(driver):
    said(driver, files=["/out/b.txt"])
    assert owner(driver, "/out/b.txt", ours=["/out"]) == THEIRS.task
    assert owner(driver, "/out/a.txt", ours=["/out"]) is None


@pytest.mark.parametrize(
    ("theirs", "ours", "is_theirs"),
    [
        ("/out/b", "/out", True),
        ("/out", "/out/a", False),
        ("/out", "/out", True),  # equally near: nobody's
        ("/out/", "/out", True),
        ("/", "/out", False),
        ("/ou", "/out", False),
    ],
)
def test_the_nearest_folder_decides(driver, theirs, ours, is_theirs):
    said(driver, dirs=[theirs])
    path = f"{max(theirs.rstrip('/'), ours, key=len)}/file"
    assert (owner(driver, path, ours=[ours]) is not None) is is_theirs


def test_what_was_over_before_we_began_does_not_count(driver):
    said(driver, dirs=["/out"], ended=BEGAN_NS - 2 * MINUTE_NS)
    assert owner(driver, "/out/x", ours=["/out"]) is None


def test_clocks_of_two_hosts_may_differ_by_a_minute(driver):
    said(driver, dirs=["/out"], ended=BEGAN_NS - MINUTE_NS // 2)
    assert owner(driver, "/out/x", ours=["/out"]) is not None


def test_launches_that_were_over_and_our_own_do_not_count(driver):
    said(driver, dirs=["/out"])
    assert owner(driver, "/out/x", ours=["/out"], over={OTHER}) is None
    said(driver, ME, files=["/out/mine"])
    assert owner(driver, "/out/mine", ours=["/out"], over={OTHER}) is None


def test_an_earlier_attempt_of_our_own_lineage_is_no_neighbour(driver):
    said(driver, lineage=MINE, files=["/out/x"])
    assert owner(driver, "/out/x") is None


def test_it_is_read_on_and_a_cut_line_waits():
    driver = MemoryDriver()
    key = layout.declared(JOB, OTHER)
    neighbours = Neighbours(driver, JOB, ME)
    line = b'{"step":1,"task":"bbbbbbbbbbbbbbbb","attempt":1,"files":["/x"]}\n'

    def found():
        neighbours.refresh(over=())
        return neighbours.owner_of("/x", MINE, BEGAN_NS, ours=(), over=())

    driver.append(key, line[:20])
    assert found() is None
    driver.append(key, line[20:])
    assert found() is not None
    driver.append(key, b"no json\n[]\n")
    assert found() is not None


def test_each_path_is_said_once_an_attempt():
    driver = MemoryDriver()
    file = DeclaredFile(driver, layout.declared(JOB, ME))
    file.add(MINE, 1, Dataset(files=("/a", "/b")))
    size = driver.head(layout.declared(JOB, ME))
    file.add(MINE, 1, Dataset(files=("/a", "/b")))
    assert driver.head(layout.declared(JOB, ME)) == size
    file.add(MINE, 2, Dataset(files=("/a",)))
    assert driver.head(layout.declared(JOB, ME)) > size


def test_an_attempt_that_declared_nothing_writes_nothing():
    driver = MemoryDriver()
    file = DeclaredFile(driver, layout.declared(JOB, ME))
    file.end(MINE, 1, at_ns=1)
    assert driver.head(layout.declared(JOB, ME)) is None
