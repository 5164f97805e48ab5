import itertools
from collections.abc import Iterator

import pytest
from obstore.store import MemoryStore

from contract.store.driver_contract import CHECKS
from perdure.store.driver import Data, Driver
from perdure.store.memory import MemoryDriver
from perdure.store.object_clients import Clients, ObjectPlace, parse_place
from perdure.store.objects import ObjectDriver
from perdure.store.posix import PosixDriver
from perdure.store.posix_files import GROUP
from support.object_store import BUCKET, environment_for, s3_in_this_process

KINDS = ["posix", "posix for a group", "memory", "memory without append", "s3", "obstore's memory"]
prefixes = itertools.count()


@pytest.fixture(scope="session")
def s3():
    with s3_in_this_process() as port:
        yield port


@pytest.fixture
def s3_driver(s3, monkeypatch) -> ObjectDriver:
    for name, value in environment_for(s3).items():
        monkeypatch.setenv(name, value)
    url = f"s3://{BUCKET}/contract/{next(prefixes)}"
    return ObjectDriver(Clients(parse_place(url)), url=url)


def in_obstores_memory() -> ObjectDriver:
    store = MemoryStore()
    place = ObjectPlace(scheme="s3", account="", bucket="b", prefix="")
    return ObjectDriver(Clients(place, lambda *_: store), url="memory")


@pytest.fixture(params=KINDS)
def driver(request, tmp_path) -> Iterator[Driver]:
    match request.param:
        case "posix":
            made: Driver = PosixDriver(tmp_path)
        case "posix for a group":
            made = PosixDriver(tmp_path, access=GROUP)
        case "memory":
            made = MemoryDriver()
        case "s3":
            made = request.getfixturevalue("s3_driver")
        case "obstore's memory":
            made = in_obstores_memory()
        case _:
            made = MemoryDriver(appends=False)
    yield made
    made.close()


@pytest.mark.parametrize("name", CHECKS)
def test_driver_keeps(name, driver):
    CHECKS[name](driver)


class Overwrites(MemoryDriver):
    """The second put wins."""

    def put_if_absent(self, key: str, data: Data) -> bool:
        is_new = self.head(key) is None
        self.put(key, data)
        return is_new


class SaysCreatedTwice(MemoryDriver):
    """Nothing is overwritten, but everybody is told that it was theirs."""

    def put_if_absent(self, key: str, data: Data) -> bool:
        super().put_if_absent(key, data)
        return True


class ListsUnsorted(MemoryDriver):
    """As a file system lists."""

    def list(self, prefix: str) -> Iterator[str]:
        return iter(sorted(super().list(prefix), key=lambda key: key[::-1], reverse=True))


class ReadsShort(MemoryDriver):
    """A range is one byte short."""

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        data = super().get(key, start, length)
        return data if length is None else data[: length - 1]


class ListsByText(MemoryDriver):
    """A prefix that is compared as text: "a" finds "ab"."""

    def list(self, prefix: str) -> Iterator[str]:
        return iter(sorted(key for key in super().list("") if key.startswith(prefix)))


class ShowsUploads(MemoryDriver):
    """Uploads are written under their own name."""

    def upload(self, key: str):
        self.put(key, b"")
        return super().upload(key)


@pytest.mark.parametrize(
    "broken",
    [Overwrites, SaysCreatedTwice, ListsUnsorted, ReadsShort, ListsByText, ShowsUploads],
)
def test_a_broken_driver_does_not_pass(broken):
    failed = []
    for name, check in CHECKS.items():
        try:
            check(broken())
        except (AssertionError, pytest.fail.Exception):
            failed.append(name)
    assert failed
