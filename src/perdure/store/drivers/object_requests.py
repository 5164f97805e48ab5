"""Requests to an object store: each sent once, and sent again only where that is decided here.

One rule is behind all of it (docs/decisions/110): obstore's own retries are switched off, because
a create that is sent twice may meet its own first try and call it somebody else's. The store's
driver and the delivery of files make their requests by this.

How long it takes is said by a `Patience`; `docs/decisions/114` has the reasons.

Threads: every call may come from any thread. Memory: what is sent or read.

Source: docs/decisions/110, 111, 114.
"""

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from perdure.errors import HomeError, OutOfSpace, StoreUnavailable, UsageError
from perdure.store.drivers.driver import KeyMissing, Piece, PutUncertain
from perdure.store.drivers.object_clients import Clients
from perdure.store.drivers.object_faults import Answer, Fault, understand

if TYPE_CHECKING:
    from perdure.store.drivers.object_clients import Client

_T = TypeVar("_T")

#: From here on a transfer is bulk; a whole object is read in pieces, the first one so long.
BULK_BYTES = 1 << 20
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_RENEWALS = 2
_RIGHTS = "read, write, list and delete objects"


class Patience(Struct, frozen=True, kw_only=True):
    """How long a call is tried.

    Attributes:
        timeouts: of a request, body included; the next one after each that was too short.
        seconds: for how long; of bulk only the time between tries counts.
    """

    timeouts: tuple[float, ...]
    seconds: float
    is_bulk: bool = False


SMALL = Patience(timeouts=(5.0, 5.0), seconds=5.0)
SENDING = Patience(timeouts=(60.0, 240.0, 960.0), seconds=30.0, is_bulk=True)
#: A block, a page of a list: 4 MiB at most, and a person or a worker's main thread waits for it.
READING = Patience(timeouts=(30.0, 120.0), seconds=30.0, is_bulk=True)
#: For who tries again anyway, with something newer.
ONCE = Patience(timeouts=(5.0,), seconds=0.0)


class ObjectAbout(Struct, frozen=True, kw_only=True):
    """An object's size, and what changes with its content (its ETag); "" where there is none."""

    size: int
    version: str


class Requests:
    """How objects of one place are asked for.

    Args:
        clients: how it is reached.
        called: what people call the place, in the middle of a sentence.
        url: the same as it was given.
        sleep: waits between two tries; whatever it raises ends the call.
        monotonic: for how long was tried; for tests.
    """

    def __init__(
        self,
        clients: Clients,
        *,
        called: str,
        url: str,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clients = clients
        self._called = called
        self._url = url
        self._sleep = sleep
        self._monotonic = monotonic

    def create(self, key: str, whole: Piece) -> bool:
        """Create ``key``; False if it exists. The bytes are not copied.

        Raises:
            PutUncertain: it may have been created, or may yet be.
            HomeError, OutOfSpace, StoreUnavailable: it was not.
        """
        tries = self._tries(_sending(len(whole)))
        is_uncertain = False
        while True:
            answer = self._try_to_create(tries, key, whole)
            if answer is None:
                return True
            if answer.fault is Fault.EXISTS and not is_uncertain:
                return False
            is_uncertain = is_uncertain or answer.fault is Fault.UNKNOWN
            may_work = answer.fault in (Fault.UNKNOWN, Fault.NOT_DONE)
            if not may_work or not tries.again(answer):
                # Once a try of unknown outcome was made no other failure says what became of it.
                raise PutUncertain(key) if is_uncertain else self.error(answer, key)

    def overwrite(self, key: str, whole: Piece, patience: "Patience | None" = None) -> None:
        """Replace ``key``.

        Raises:
            PutUncertain: it may have been replaced, or may yet be.
            HomeError, OutOfSpace, StoreUnavailable: it was not.
        """
        answer = self.until_done(
            patience or _sending(len(whole)),
            lambda client: client.put(key, whole, mode="overwrite", use_multipart=False),
        )
        if isinstance(answer, Answer):
            if answer.fault is Fault.UNKNOWN:
                raise PutUncertain(key)
            raise self.error(answer, key)

    def read(self, key: str, start: int, length: int) -> tuple[bytes, int]:
        """A range, cut at the object's end, and the whole object's size.

        Raises:
            KeyMissing: there is no such object.
        """

        def read(client: "Client") -> tuple[bytes, int]:
            found = client.get(key, options={"range": (start, start + length)})
            return found.bytes().to_bytes(), int(found.meta["size"])

        answer = self.until_done(_reading(length), read)
        if not isinstance(answer, Answer):
            return answer
        if answer.fault is Fault.MISSING:
            raise KeyMissing(key)
        if answer.fault is Fault.RANGE:
            if self.size(key) is None:
                raise KeyMissing(key)
            return b"", 0
        raise self.error(answer, key)

    def size(self, key: str) -> int | None:
        """The object's size; None: there is none."""
        about = self.about(key)
        return None if about is None else about.size

    def about(self, key: str) -> "ObjectAbout | None":
        """What the store says of an object; None: there is none."""

        def ask(client: "Client") -> ObjectAbout:
            found = client.head(key)
            return ObjectAbout(size=int(found["size"]), version=found["e_tag"] or "")

        answer = self.until_done(SMALL, ask)
        if isinstance(answer, Answer):
            if answer.fault is Fault.MISSING:
                return None
            raise self.error(answer, key)
        return answer

    def delete(self, key: str) -> None:
        """Remove ``key``; no error when it is not there."""
        answer = self.until_done(SMALL, lambda client: client.delete([key]))
        if isinstance(answer, Answer) and answer.fault is not Fault.MISSING:
            raise self.error(answer, key)

    def _tries(self, kind: Patience) -> "_Tries":
        return _Tries(kind, sleep=self._sleep, monotonic=self._monotonic)

    def _try_to_create(self, tries: "_Tries", key: str, whole: Piece) -> Answer | None:
        """One request to create ``key``; None: it was done."""
        answer = self._try(
            tries, lambda client: client.put(key, whole, mode="create", use_multipart=False)
        )
        if not isinstance(answer, Answer):
            return None
        if answer.is_doubtful:
            try:
                is_there = self.size(key) is not None
            except HomeError:
                return Answer(fault=Fault.UNKNOWN, said=answer.said)
            if not is_there:
                return Answer(fault=Fault.NOT_DONE, said=answer.said)
        return answer

    def until_done(self, patience: "Patience", do: "Callable[[Client], _T]") -> _T | Answer:
        """What ``do`` gives, which may be repeated as it is; else why it does not."""
        tries = self._tries(patience)
        while True:
            answer = self._try(tries, do)
            if not isinstance(answer, Answer):
                return answer
            is_worth_it = answer.fault in (Fault.NOT_DONE, Fault.UNKNOWN)
            if not is_worth_it or not tries.again(answer):
                return answer

    def _try(self, tries: "_Tries", do: "Callable[[Client], _T]") -> _T | Answer:
        """One request; sent again only where nothing was done for want of credentials."""
        for renewal in range(_RENEWALS + 1):
            try:
                client = self._clients.of(tries.timeout_seconds)
            except UsageError as error:  # the environment is no more what it was at opening
                return Answer(fault=Fault.CREDENTIALS, said=error.message)
            try:
                return do(client)
            except Exception as error:
                answer = understand(error)
                if not _is_of_obstore(error):
                    raise
                if answer.fault is not Fault.CREDENTIALS or renewal == _RENEWALS:
                    return answer
                self._clients.renew(client)
        raise AssertionError  # pragma: no cover - the last round returns

    def error(self, answer: Answer, key: str) -> HomeError:
        """What ``answer`` means to people."""
        where = self._called
        match answer.fault:
            case Fault.FULL:
                return OutOfSpace(
                    f"{where} is full: {answer.said}",
                    hint="Remove old jobs (`perdure rm`), or raise its quota.",
                    url=self._url,
                )
            case Fault.NO_BUCKET:
                return HomeError(
                    f"{where} names a bucket or container that is not there",
                    hint="Make it first, or correct the URL: perdure makes no buckets.",
                    url=self._url,
                )
            case Fault.CREDENTIALS:
                return StoreUnavailable(
                    f"{where} does not let us in: {answer.said}",
                    hint=f"Renew the credentials, which must allow to {_RIGHTS}; then do it again.",
                    url=self._url,
                )
            case Fault.REFUSED | Fault.RANGE | Fault.EXISTS:
                return HomeError(
                    f"{where} refuses {key or 'to be listed'}: {answer.said}",
                    hint="Correct the URL, the region or the endpoint, or use another store.",
                    url=self._url,
                )
            case _:
                return StoreUnavailable(
                    f"{where} is out of reach: {answer.said}",
                    hint="See whether the network and the service are up, then do the same again.",
                    url=self._url,
                )


class _Tries:
    """How often one call may be tried: with which timeouts, and for how long.

    A small call ends in time whatever happens; bulk is given up when no timeout is long enough, or
    after so long a time of mere waiting between tries.
    """

    def __init__(
        self,
        kind: Patience,
        *,
        sleep: Callable[[float], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._kind = kind
        self._sleep = sleep
        self._monotonic = monotonic
        self._began = monotonic()
        self._waited = 0.0
        self._made = 0
        self._timed_out = 0

    @property
    def timeout_seconds(self) -> float:
        """How long the next request may take."""
        timeouts = self._kind.timeouts
        return timeouts[min(self._timed_out, len(timeouts) - 1)]

    def again(self, answer: Answer) -> bool:
        """Wait for the next try, twice as long each time; False: there is none."""
        self._made += 1
        self._timed_out += answer.is_timeout
        if self._timed_out >= len(self._kind.timeouts):
            return False
        # No two hosts wait alike: they would all come back at once.
        longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0**self._made)
        seconds = longest * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        spent = self._waited if self._kind.is_bulk else self._monotonic() - self._began
        if spent + seconds >= self._kind.seconds:
            return False
        self._waited += seconds
        self._sleep(seconds)
        return True


def _sending(size: int) -> Patience:
    """For sending so many bytes."""
    return SMALL if size < BULK_BYTES else SENDING


def _reading(size: int) -> Patience:
    """For reading so many bytes."""
    return SMALL if size < BULK_BYTES else READING


def _is_of_obstore(error: Exception) -> bool:
    """Whether ``error`` is an answer; anything else is a bug, and never swallowed."""
    return type(error).__module__.startswith("obstore") or isinstance(error, FileNotFoundError)
