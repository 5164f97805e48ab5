"""From ``--deliver DIR|URL`` to a target: parsed and checked at submit, opened by each worker.

Source: docs/decisions/116.
"""

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from perdure.errors import UsageError
from perdure.store.delivery.delivery import Whose
from perdure.store.delivery.delivery_target import Check, Target
from perdure.store.delivery.folder_target import FolderTarget
from perdure.store.delivery.object_target import BucketClients, ObjectTarget
from perdure.store.drivers.object_clients import SCHEMES, parse_place
from perdure.store.opening import refuse_half_url

Opener = Callable[[Whose, Check, Callable[[float], None]], Target]
_CALLED = "the --deliver URL"


def delivery_place(given: str) -> str:
    """What ``--deliver`` names, as it is kept with the job: a whole path, or a URL.

    Raises:
        UsageError: it names nothing that files can be delivered to, or holds what may be a secret.
    """
    refuse_half_url(given)
    scheme = urlsplit(given).scheme if "://" in given else ""
    if scheme in SCHEMES:
        parse_place(given, called=_CALLED)
        return given.rstrip("/")
    if scheme == "file":
        parts = urlsplit(given)
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise UsageError(f"{given} names no path of this host", hint="Write file:///PATH.")
        given, scheme = unquote(parts.path), ""
    if scheme:
        raise UsageError(
            f"nothing can be delivered to {scheme}://",
            hint="Name a folder, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://ACCOUNT/CONTAINER.",
        )
    if not given or "\0" in given:
        raise UsageError("--deliver names no folder", hint="Name one, or a bucket's URL.")
    return os.path.abspath(given)  # noqa: PTH100 - resolve() would follow links; people see it


def check_folder(place: str) -> None:
    """Refuse a folder that this host's user could not deliver to; nothing is made.

    Raises:
        UsageError: so it is.
    """
    if "://" in place:
        return
    folder = Path(place)
    try:
        while not folder.exists():
            folder = folder.parent
        is_usable = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        is_usable = False
    if not is_usable:
        what = "no folder can be made in" if folder.is_dir() else "no folder is at"
        raise UsageError(
            f"--deliver {place}: {what} {folder}", hint="Name a folder that you may write to."
        )


def check_apart(place: str, store: str) -> None:
    """Refuse to deliver into the store, or to where it lies: files' names are the tasks' to choose.

    Args:
        place: as `delivery_place` gives it.
        store: the store's URL or folder.

    Raises:
        UsageError: one lies in the other.
    """
    one, other = _parts(place), _parts(store)
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        raise UsageError(
            f"--deliver {place} and the store {store} lie in each other",
            hint="Deliver to another folder or prefix: the store's is perdure's alone.",
        )


def _parts(place: str) -> tuple[str, ...]:
    if "://" in place and not place.startswith("file://"):
        return tuple(part for part in place.split("/") if part)
    return Path(os.path.realpath(unquote(place.removeprefix("file://")))).parts


def opener_of(place: str) -> Opener:
    """What makes the target of one delivery; connections are shared by all of a launch."""
    if "://" not in place:
        return lambda whose, check, _sleep: FolderTarget(Path(place), whose, check)
    clients = BucketClients(parse_place(place, called=_CALLED))
    return lambda _whose, check, sleep: ObjectTarget(clients, place, check, sleep)
