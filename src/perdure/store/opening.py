"""Opening a store: find its driver by its URL, check that it is ours to use, and prove the driver.

A store carries one record, ``format``: its format's number and its id. It is put when the store is
made. Opening for writing puts the very same bytes again, which must be refused: that proves the one
promise on which everything rests, and does no harm where the promise is broken.

Rules: a folder that holds other things is never made a store; one that belongs to somebody else, or
that anybody may write to, is not written to (a job in a store is a command that will be run).

Source: docs/store-format.md "Drivers"; design decisions in docs/decisions/040 to 043 and 110.
"""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from perdure.clock import Clock, SystemClock, to_text
from perdure.errors import FormatTooNew, HomeError, OutOfSpace, StoreDamaged, UsageError
from perdure.store.drivers.driver import Driver, KeyMissing, PutUncertain
from perdure.store.drivers.memory import MemoryDriver, Objects
from perdure.store.drivers.object_clients import SCHEMES, Clients, parse_place
from perdure.store.drivers.objects import ObjectDriver
from perdure.store.drivers.posix import PosixDriver
from perdure.store.drivers.posix_files import (
    GROUP,
    PRIVATE,
    in_our_words,
    is_open_to_all,
    make_folders,
    make_shared_root,
    owner_name,
)
from perdure.store.layout import FORMAT_KEY
from perdure.store.records.record_format import Record, decode_record, encode_record

STORE_FORMAT = 1
#: What people write who mean one of `object_clients.SCHEMES`.
_MEANT = {
    "s3a": "s3://BUCKET/PREFIX",
    "s3n": "s3://BUCKET/PREFIX",
    "gcs": "gs://BUCKET/PREFIX",
    "azure": "az://ACCOUNT/CONTAINER/PREFIX",
    "abfs": "az://ACCOUNT/CONTAINER/PREFIX",
    "abfss": "az://ACCOUNT/CONTAINER/PREFIX",
    "http": "s3://BUCKET/PREFIX and set AWS_ENDPOINT_URL",
    "https": "s3://BUCKET/PREFIX and set AWS_ENDPOINT_URL",
}
_UNCERTAIN_TRIES = 5


class Store(Struct, frozen=True, kw_only=True):
    """An open store.

    Attributes:
        driver: how it is reached.
        url: what people call it.
        store_id: 32 hex digits by which it is known wherever it is moved to.
        is_writable: whether it was opened for writing.
        is_shared: whether it is its folder's group's.
    """

    driver: Driver
    url: str
    store_id: str
    is_writable: bool
    is_shared: bool = False


def open_store(
    url: str,
    *,
    write: bool,
    create: bool = False,
    share_with_group: bool = False,
    clock: Clock | None = None,
) -> Store:
    """The store at ``url``: a path, ``file://PATH``, ``s3://…``, ``gs://…``, ``az://…``.

    ``memory://NAME`` is one that lives as long as this process, for tests.

    Args:
        url: where it is.
        write: whether it is to be changed; without, nothing at all is written.
        create: whether to make it when it is not there (only with ``write``).
        share_with_group: make a new one for all members of the folder's group.
        clock: for the date in a new store's record.

    Raises:
        UsageError: ``url`` is nothing that can be a store.
        HomeError: there is none, it is somebody else's, or its file system cannot hold one.
        StoreUnavailable: it is out of reach, or does not let us in.
        FormatTooNew: a later perdure wrote it; untouched.
        StoreDamaged: its record is not what was written, or its driver breaks its promise.
    """
    driver = _driver_for(url, write=write, create=create and write, share=share_with_group)
    marker = _read_marker(driver)
    if marker is None:
        if not (create and write):
            raise _no_store(url)
        marker = _make(driver, clock or SystemClock())
    store_id = _store_id(decode_record(marker, key=FORMAT_KEY), url)
    if write:
        # A full store can still be read, pruned and emptied: it was proven when it was made.
        with suppress(OutOfSpace):
            prove(driver, FORMAT_KEY, marker)
    is_shared = isinstance(driver, PosixDriver) and driver.is_shared
    if isinstance(driver, PosixDriver):
        driver.rely_on(FORMAT_KEY)
    return Store(driver=driver, url=url, store_id=store_id, is_writable=write, is_shared=is_shared)


def prove(driver: Driver, key: str, data: bytes) -> None:
    """Put ``key``, which is there with ``data``, again.

    Raises:
        StoreDamaged: it was not refused.
    """
    if _put_until_known(driver, key, data):
        raise StoreDamaged(
            f"the store {driver.url} creates an object that exists already, so that two workers"
            " could both own a task there",
            hint="Use --store with another place; nothing can make this one safe.",
            url=driver.url,
        )


def _put_until_known(driver: Driver, key: str, data: bytes) -> bool:
    for _ in range(_UNCERTAIN_TRIES - 1):
        with suppress(PutUncertain):
            return driver.put_if_absent(key, data)
    return driver.put_if_absent(key, data)


def _driver_for(url: str, *, write: bool, create: bool, share: bool) -> Driver:
    """The driver of ``url``, its folder checked and made."""
    scheme = urlsplit(url).scheme if "://" in url else ""
    match scheme:
        case "":
            return _folder_driver(Path(url), write=write, create=create, share=share)
        case "file":
            return _folder_driver(_file_url_path(url), write=write, create=create, share=share)
        case "memory":
            if share:
                raise UsageError("--share group is for stores in folders", hint="--store DIR")
            name = url.removeprefix("memory://")
            return MemoryDriver(Objects.named(name), url=url)
        case _ if scheme in SCHEMES:
            if share:
                raise UsageError(
                    f"{url} cannot be shared by a mode", hint="Use the bucket's access rules."
                )
            clients = Clients(parse_place(url))
            clients.check()
            return ObjectDriver(clients, url=url, write=write)
        case _:
            raise UsageError(
                f"{scheme}:// is no kind of store",
                hint=f"Write {_MEANT[scheme]}."
                if scheme in _MEANT
                else "Name a folder, file://PATH, s3://…, gs://… or az://…",
            )


def refuse_half_url(given: str) -> None:
    """Refuse what is meant as a URL and would be taken for a folder: ``s3:/bucket``.

    Raises:
        UsageError: so it is.
    """
    scheme, colon, rest = given.partition(":")
    if colon and not rest.startswith("//") and scheme in {*SCHEMES, *_MEANT, "file", "memory"}:
        raise UsageError(
            f"{given} is no URL: two slashes are missing behind {scheme}:",
            hint=f"Write {scheme}://{rest.lstrip('/')}; a folder of that name is ./{given}",
        )


def _file_url_path(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        raise UsageError(f"{url} names no path of this host", hint="Write file:///PATH.")
    return Path(unquote(parts.path))


def _folder_driver(path: Path, *, write: bool, create: bool, share: bool) -> PosixDriver:
    """The driver of a folder that is there, or is made now."""
    root = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links; people see this path
    with in_our_words("look at", root):
        if create and not root.exists():
            _make_root(root, share=share)
        try:
            found = root.stat()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _no_store(str(path)) from error
    if not stat.S_ISDIR(found.st_mode):
        raise HomeError(f"{root} is no folder", hint="Use --store with the path of a folder.")
    is_shared = _is_shared(found.st_mode)
    if write:
        _check_owner(root, found, is_shared=is_shared)
    return PosixDriver(root, access=GROUP if is_shared else PRIVATE, write=write)


def _make_root(root: Path, *, share: bool) -> None:
    """Make the store's folder; what is missing above it is made private."""
    with in_our_words("make", root):
        if not share:
            make_folders(root, PRIVATE)
            return
        _check_reachable(root)
        make_shared_root(root)
    made = root.stat().st_mode
    if not _is_shared(made):
        raise HomeError(
            f"{root} could not be made for the group: its mode is {stat.S_IMODE(made):04o}",
            hint=f"Look at the ACL and the mount of {root.parent}, or: chmod 2770 {root}",
            path=str(root),
        )


def _check_reachable(root: Path) -> None:
    """Refuse a store for a group where the group cannot get to."""
    try:
        mode = root.parent.stat().st_mode
    except OSError as error:
        raise HomeError(
            f"{root.parent} is not there, and made for you alone it would keep the group out",
            hint="Make it for the group first, or name another place with --store.",
            path=str(root.parent),
        ) from error
    if not mode & (stat.S_IXGRP | stat.S_IXOTH):
        raise HomeError(
            f"nobody but its owner gets into {root.parent}: no store for a group can be there",
            hint="Name a folder of the group: --store /projects/GROUP/perdure",
            path=str(root.parent),
        )


def _is_shared(mode: int) -> bool:
    """Whether a store's folder of that mode is its group's."""
    return bool(mode & stat.S_ISGID) and bool(mode & stat.S_IWGRP)


def _check_owner(root: Path, found: os.stat_result, *, is_shared: bool) -> None:
    """Refuse to write to what is not ours alone, or our group's."""
    if found.st_uid != os.geteuid() and not is_shared:
        raise HomeError(
            f"the store {root} belongs to {owner_name(found.st_uid)}",
            hint="Run as its owner, or use --store with a place of your own.",
            path=str(root),
        )
    if is_open_to_all(found.st_mode):
        raise HomeError(
            f"everybody may write to the store {root}, and so decide what runs in your name",
            hint=f"Take that right away: chmod o-w {root}",
            path=str(root),
        )


def _no_store(url: str) -> HomeError:
    return HomeError(
        f"there is no store at {url}",
        hint="No job was run there yet. Where jobs were run elsewhere, name it: --home or --store.",
        url=url,
    )


def _read_marker(driver: Driver) -> bytes | None:
    """The store's record; None where there is none."""
    try:
        return driver.get(FORMAT_KEY)
    except KeyMissing:
        return None


def _make(driver: Driver, clock: Clock) -> bytes:
    """Put the store's record; the one that is there then, whoever put it."""
    others = [name for name in driver.children("") if name != FORMAT_KEY]
    if others:
        raise HomeError(
            f"{driver.url} is no store and holds other things ({others[0]})",
            hint="Use --store with an empty folder or prefix, or one that is not there yet.",
        )
    header = {
        "kind": "store",
        "id": secrets.token_hex(16),
        "at": to_text(clock.now()),
        "number": STORE_FORMAT,
        "store": secrets.token_hex(16),
    }
    _put_until_known(driver, FORMAT_KEY, encode_record(header))
    return driver.get(FORMAT_KEY)


def _store_id(record: Record, url: str) -> str:
    """The id in the store's record, which this perdure must be able to read."""
    number = record.header.get("number")
    store_id = record.header.get("store")
    if isinstance(number, int) and number > STORE_FORMAT:
        raise FormatTooNew(
            f"the store {url} is of format {number}; this perdure knows up to {STORE_FORMAT}",
            hint="Use the perdure that made it, or a later one; nothing was changed.",
            format=number,
        )
    if record.kind != "store" or number != STORE_FORMAT or not isinstance(store_id, str):
        raise StoreDamaged(
            f"the record 'format' of the store {url} does not describe a store",
            hint="Put back the file 'format' from a copy of the store.",
        )
    return store_id
