import itertools
from collections.abc import Iterator

import pytest
from obstore.store import MemoryStore

from contract.store.driver_contract import CHECKS, DURABLE_CHECKS
from perdure.store.drivers.driver import Driver
from perdure.store.drivers.memory import MemoryDriver
from perdure.store.drivers.object_clients import Clients, ObjectPlace, parse_place
from perdure.store.drivers.objects import ObjectDriver
from perdure.store.drivers.posix import PosixDriver
from perdure.store.drivers.posix_files import GROUP
from support import broken_drivers
from support.broken_drivers import StepByStep
from support.meta_contract import BROKEN, BROKEN_IN_A_FOLDER, failed_checks, failed_durable_checks
from support.object_store import BUCKET, environment_for, s3_in_this_process

KINDS = [
    "posix",
    "posix for a group",
    "plain",
    "memory",
    "memory without append",
    "s3",
    "obstore's memory",
]
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
        case "plain":
            made = StepByStep(tmp_path)
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


@pytest.mark.parametrize("kind", [PosixDriver, StepByStep])
@pytest.mark.parametrize("name", DURABLE_CHECKS)
def test_driver_keeps_without_power(name, kind, tmp_path):
    DURABLE_CHECKS[name](kind, tmp_path)


@pytest.mark.parametrize(("broken", "intended"), BROKEN.items())
def test_a_broken_driver_fails_where_it_is_meant_to(broken, intended):
    failed = failed_checks(broken)
    assert intended in failed, f"{broken.__name__} failed {failed} and passes {intended}"


@pytest.mark.parametrize(("broken", "intended"), BROKEN_IN_A_FOLDER.items())
def test_a_driver_that_is_broken_without_power_fails_too(broken, intended, tmp_path):
    failed = failed_durable_checks(broken, tmp_path)
    assert intended in failed, f"{broken.__name__} failed {failed} and passes {intended}"


def test_every_check_fails_for_some_broken_driver():
    """A check that nothing fails shows nothing."""
    found = {name for broken in BROKEN for name in failed_checks(broken)}
    assert set(CHECKS) - found == set()


def test_every_durable_check_fails_for_some_broken_driver(tmp_path):
    found = {
        name
        for broken in BROKEN_IN_A_FOLDER
        for name in failed_durable_checks(broken, tmp_path / broken.__name__)
    }
    assert set(DURABLE_CHECKS) - found == set()


def test_every_broken_driver_is_tried():
    kinds = {
        kind
        for kind in vars(broken_drivers).values()
        if isinstance(kind, type) and issubclass(kind, MemoryDriver | PosixDriver)
    }
    only_with_faults = {broken_drivers.WritesOnce, broken_drivers.CallsFailedSyncsSuccesses}
    whole = {MemoryDriver, PosixDriver, StepByStep}
    assert kinds - whole - only_with_faults == {*BROKEN, *BROKEN_IN_A_FOLDER}
