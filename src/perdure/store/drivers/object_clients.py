"""Where an object store is and how we are let in: its URL, and obstore's clients for it.

==============================  =============================================================
``s3://BUCKET/PREFIX``          ``AWS_*`` variables; else the shared credentials file (profile
                                ``AWS_PROFILE``); else what obstore finds itself: a web identity,
                                the container's or the instance's role
``gs://BUCKET/PREFIX``          ``GOOGLE_*`` variables, the application default credentials
``az://ACCOUNT/CONTAINER/PFX``  ``AZURE_*`` variables, managed and workload identities, ``az login``
==============================  =============================================================

A URL is written into logs, records of intents and command lines, so that it may hold no secret: a
user, a password or a signature in it is refused.

This is the one place below ``cli`` that reads the environment, and obstore reads the clouds' own
variables there itself: credentials expire, and whoever holds a store open for days must be able to
read them again (docs/decisions/111).

Source: obstore.store (version 0.12); the AWS SDKs' "shared config and credentials files".
"""

import configparser
import os
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from perdure.errors import UsageError

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

    Client: TypeAlias = AzureStore | GCSStore | MemoryStore | S3Store

SCHEMES = frozenset({"s3", "gs", "az"})
#: A key of ours has up to 512 characters, and the clouds take 1024 bytes.
_LONGEST_PREFIX_BYTES = 500
_TRUE = frozenset({"1", "true", "yes", "on"})
_CONNECT_TIMEOUT = timedelta(seconds=5)
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_ENDPOINT", "AZURE_STORAGE_ENDPOINT"),
}
_ALLOW_HTTP = {"s3": "AWS_ALLOW_HTTP", "gs": "GOOGLE_ALLOW_HTTP", "az": "AZURE_ALLOW_HTTP"}


class ObjectPlace(Struct, frozen=True, kw_only=True):
    """Where a store's objects are.

    Attributes:
        scheme: ``s3``, ``gs`` or ``az``.
        account: of Azure; "" elsewhere.
        bucket: or container.
        prefix: before every key, without slashes around it; "" for the whole bucket.
    """

    scheme: str
    account: str
    bucket: str
    prefix: str


class S3Keys(Struct, frozen=True, kw_only=True):
    """Credentials for S3 as they were found."""

    key: str
    secret: str
    token: str | None


def parse_place(url: str, *, called: str = "the store's URL") -> ObjectPlace:
    """The place that ``url`` names.

    Args:
        url: as it was given.
        called: what it is, for errors.

    Raises:
        UsageError: it names none, or holds what may be a secret.
    """
    parts = urlsplit(url)
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            f"{called} {shown} has more in it than a place; it is kept and shown, so that"
            " it must hold no secret",
            hint="Give credentials by the cloud's own environment variables or files.",
        )
    names = [name for name in f"{parts.netloc}{parts.path}".split("/") if name]
    account = names.pop(0) if parts.scheme == "az" and names else ""
    if (
        not parts.netloc
        or not names
        or "//" in parts.path
        or any(name in (".", "..") for name in names)
    ):
        wanted = "az://ACCOUNT/CONTAINER/PREFIX" if parts.scheme == "az" else "s3://BUCKET/PREFIX"
        raise UsageError(f"{shown} is no place in an object store", hint=f"Write {wanted}.")
    prefix = "/".join(names[1:])
    if len(prefix.encode()) > _LONGEST_PREFIX_BYTES:
        raise UsageError(
            f"the prefix in {called} is longer than {_LONGEST_PREFIX_BYTES} bytes",
            hint="Use a shorter one.",
        )
    return ObjectPlace(scheme=parts.scheme, account=account, bucket=names[0], prefix=prefix)


class Clients:
    """obstore's clients of one place, one for each timeout; safe to use from any thread.

    Credentials are read when a client is made; `renew` makes all of them anew.

    Args:
        place: where.
        make: makes a client of ``place`` whose requests may take so many seconds, after so many
            renewals.
    """

    def __init__(
        self, place: ObjectPlace, make: "Callable[[ObjectPlace, float, int], Client] | None" = None
    ) -> None:
        self._place = place
        self._make = make or make_client
        self._lock = threading.Lock()
        self._made: dict[float, Client] = {}
        self._renewals = 0

    def of(self, timeout_seconds: float) -> "Client":
        """The client whose requests may take so long, body included.

        Raises:
            UsageError: the environment says nothing that a client can be made from.
        """
        with self._lock:
            client = self._made.get(timeout_seconds)
            if client is None:
                client = self._make(self._place, timeout_seconds, self._renewals)
                self._made[timeout_seconds] = client
            return client

    def check(self) -> None:
        """Whether clients can be made; asks the store nothing.

        Raises:
            UsageError: as `of`.
        """
        self._make(self._place, 1.0, 0)

    def renew(self, refused: "Client") -> None:
        """Read credentials again: those of ``refused`` were not accepted.

        Where another thread did so since, nothing is done.
        """
        with self._lock:
            if any(client is refused for client in self._made.values()):
                self._renewals += 1
                self._made = {}


def make_client(
    place: ObjectPlace, timeout_seconds: float, renewals: int, retries: int = 0
) -> "Client":
    """A client of obstore that tries nothing twice: what is tried again is decided by its user.

    Args:
        place: where.
        timeout_seconds: of each request, its body included.
        renewals: how often credentials were refused before.
        retries: for objects in parts alone, each of which may be sent as often as one likes.

    Raises:
        UsageError: obstore is not installed, or refuses what the environment says.
    """
    environment = os.environ
    options = _options(place, timeout_seconds, environment)
    # One request, one answer: a create that is sent twice may meet its own first try, and nobody
    # could tell it from somebody else's object.
    options["retry_config"] = {"max_retries": retries}
    try:
        from obstore.exceptions import BaseError  # noqa: PLC0415 - an extra; it starts threads
    except ImportError as error:
        raise UsageError(
            f"{place.scheme}:// needs the package obstore, which is not installed",
            hint="In perdure's own folder: pip install '.[s3]'",
        ) from error
    try:
        match place.scheme:
            case "s3":
                return _s3(place, options, environment, renewals)
            case "gs":
                return _gcs(place, options)
            case _:
                return _azure(place, options)
    except (BaseError, ValueError, TypeError) as error:
        raise UsageError(
            f"the environment's settings for {place.scheme}:// cannot be used:"
            f" {str(error).partition('Debug source')[0].strip()[:200]}",
            hint="Correct the cloud's environment variables.",
        ) from error


def _options(
    place: ObjectPlace, timeout_seconds: float, environment: Mapping[str, str]
) -> dict[str, Any]:
    """What all clients are made with."""
    allow = _ALLOW_HTTP[place.scheme]
    is_plain = environment.get(allow, "").lower() in _TRUE
    for name in _ENDPOINTS[place.scheme]:
        endpoint = environment.get(name, "")
        if endpoint.startswith("http://") and not is_plain:
            raise UsageError(
                f"{name} is {_without_user(endpoint)}, which is not encrypted",
                hint=f"Use https://, or set {allow}=true where nobody listens.",
            )
    return {
        "client_options": {
            "allow_http": is_plain,
            "connect_timeout": _CONNECT_TIMEOUT,
            "timeout": timedelta(seconds=timeout_seconds),
        },
    }


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _s3(
    place: ObjectPlace,
    options: dict[str, Any],
    environment: Mapping[str, str],
    renewals: int,
) -> "Client":
    from obstore.store import S3Store  # noqa: PLC0415 - see make_client

    # Refused ones may come from either source: take turns.
    keys = s3_keys(environment, skip_variables=bool(renewals % 2))
    if keys is not None:
        found = {
            "access_key_id": keys.key,
            "secret_access_key": keys.secret,
            "token": keys.token,
            "expires_at": None,
        }
        options["credential_provider"] = lambda: found
    region = s3_region(environment)
    if region is not None:
        options["region"] = region
    return S3Store(place.bucket, prefix=place.prefix or None, **options)


def _gcs(place: ObjectPlace, options: dict[str, Any]) -> "Client":
    from obstore.store import GCSStore  # noqa: PLC0415 - see make_client

    return GCSStore(place.bucket, prefix=place.prefix or None, **options)


def _azure(place: ObjectPlace, options: dict[str, Any]) -> "Client":
    from obstore.store import AzureStore  # noqa: PLC0415 - see make_client

    return AzureStore(
        place.bucket, prefix=place.prefix or None, account_name=place.account, **options
    )


def s3_keys(environment: Mapping[str, str], *, skip_variables: bool = False) -> S3Keys | None:
    """Credentials for S3 in the environment, else in the shared credentials file.

    Args:
        environment: the variables.
        skip_variables: those of the environment were refused: prefer the file's, if there are any.
    """
    key = environment.get("AWS_ACCESS_KEY_ID")
    secret = environment.get("AWS_SECRET_ACCESS_KEY")
    by_variables = None
    if key and secret:
        token = environment.get("AWS_SESSION_TOKEN") or environment.get("AWS_TOKEN")
        by_variables = S3Keys(key=key, secret=secret, token=token or None)
    if by_variables is not None and not skip_variables:
        return by_variables
    return _keys_in_file(environment) or by_variables


def s3_region(environment: Mapping[str, str]) -> str | None:
    """The region by the environment, else by the shared config file; None: obstore's default."""
    named = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if named:
        return named
    profile = _profile(environment)
    path = environment.get("AWS_CONFIG_FILE") or "~/.aws/config"
    section = profile if profile == "default" else f"profile {profile}"
    return _section(path, section).get("region")


def _keys_in_file(environment: Mapping[str, str]) -> S3Keys | None:
    path = environment.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"
    found = _section(path, _profile(environment))
    key, secret = found.get("aws_access_key_id"), found.get("aws_secret_access_key")
    if not key or not secret:
        return None
    return S3Keys(key=key, secret=secret, token=found.get("aws_session_token") or None)


def _profile(environment: Mapping[str, str]) -> str:
    return environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE") or "default"


def _section(path: str, name: str) -> Mapping[str, str]:
    """A section of one of AWS's files; empty where there is none."""
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(Path(path).expanduser().read_text(encoding="utf-8"))
    except (OSError, RuntimeError, UnicodeDecodeError, configparser.Error):
        return {}
    return dict(parser.items(name)) if parser.has_section(name) else {}
