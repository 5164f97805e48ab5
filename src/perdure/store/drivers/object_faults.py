"""What an object store's answer means: which fault it is, and how people are told. Pure.

obstore raises few types; the status, the cloud's own code and how far a request came stand in the
error's text. They decide one thing above all: whether a put that failed may have taken effect.

Never shown: the text itself. It holds the request's URL, which may hold a signature (Azure SAS).

Source: obstore.exceptions; the Rust crate object_store, ``client/retry.rs``; the clouds' lists of
error codes. Held to obstore's real answers by tests/contract/store/test_object_faults.py.
"""

import re
from enum import Enum

from msgspec import Struct

_STATUS = re.compile(r"non-2xx status code: (\d{3})")
# XML of S3, Azure and Google's XML interface.
_CODE = re.compile(r"<Code>([A-Za-z0-9._-]{1,64})</Code>")
_MESSAGE = re.compile(r"<Message>([^<]{1,300})</Message>")
_KIND = re.compile(r"\bkind: ([A-Za-z]+)")
#: Behind this obstore prints the error's fields.
_FIELDS = "Debug source"
_SHOWN_CHARACTERS = 160

_CREDENTIAL_CODES = frozenset(
    {
        "AuthenticationFailed",
        "AuthorizationHeaderMalformed",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidToken",
        "RequestExpired",
        "TokenRefreshRequired",
    }
)
_FULL_CODES = frozenset({"QuotaExceeded", "StorageQuotaExceeded", "XMinioStorageFull"})
#: Conditional puts met each other, or the body did not arrive whole: none was done, put again.
_NOT_DONE_CODES = frozenset(
    {
        "BadDigest",
        "ConditionalRequestConflict",
        "IncompleteBody",
        "OperationAborted",
        "RequestTimeout",
        "XAmzContentSHA256Mismatch",
    }
)
#: Where obstore asks for credentials, not for objects.
_CREDENTIAL_SOURCE = re.compile(
    r"performing token request|External \w+ credential provider|http://169\.254\.\d+\.\d+[:/]"
)
_EXISTS_CODES = frozenset({"BlobAlreadyExists", "PreconditionFailed"})
_EXISTS_STATUS = 412
_CONFLICT_STATUS = 409
_RANGE_STATUS = 416


class Fault(Enum):
    """What went wrong."""

    #: a create found an object there, or the condition of a request does not hold
    EXISTS = "exists"
    #: there is no such object
    MISSING = "missing"
    #: there is no such bucket or container
    NO_BUCKET = "no bucket"
    #: the range begins behind the object's end
    RANGE = "range"
    #: who we are, or what we may do, was not accepted; nothing was done
    CREDENTIALS = "credentials"
    #: no space or quota left; nothing was done
    FULL = "full"
    #: nothing was done, and the same may well work soon
    NOT_DONE = "not done"
    #: nobody can say whether it was done
    UNKNOWN = "unknown"
    #: nothing was done, and the same will not work
    REFUSED = "refused"


class Answer(Struct, frozen=True, kw_only=True):
    """An error of obstore, understood.

    Attributes:
        fault: what went wrong.
        said: the same in words that hold no secret.
        is_timeout: the request was given up before it was answered.
        is_doubtful: the store spoke of a conflict, which need not be an object that is there.
    """

    fault: Fault
    said: str
    is_timeout: bool = False
    is_doubtful: bool = False


def understand(error: BaseException) -> Answer:
    """What ``error``, raised by obstore, means."""
    text = str(error)
    head = text.partition(_FIELDS)[0]
    status = _number(_STATUS.search(head))
    code = _text(_CODE.search(head))
    fault = _fault(type(error).__name__, status, code, text)
    is_timeout = status is None and "Timeout" in _KIND.findall(text)
    return Answer(
        fault=fault,
        said=_said(head, status, code, text),
        is_timeout=is_timeout,
        is_doubtful=status == _CONFLICT_STATUS and code not in _EXISTS_CODES,
    )


def _fault(name: str, status: int | None, code: str, text: str) -> Fault:
    """The first row that fits."""
    if _CREDENTIAL_SOURCE.search(text.partition(_FIELDS)[0]):
        return Fault.CREDENTIALS
    if code in ("NoSuchBucket", "ContainerNotFound"):
        return Fault.NO_BUCKET
    if name in ("FileNotFoundError", "NotFoundError"):
        return Fault.MISSING
    if code in _NOT_DONE_CODES or status == 429:
        return Fault.NOT_DONE
    if name in ("AlreadyExistsError", "PreconditionError") or status == _EXISTS_STATUS:
        # obstore takes every 409 for "exists"; who is told so looks where it is doubtful.
        return Fault.EXISTS
    if status == _RANGE_STATUS or "Wanted range starting at" in text:
        return Fault.RANGE
    if code in _FULL_CODES or status == 507:
        return Fault.FULL
    if name in ("UnauthenticatedError", "PermissionDeniedError") or code in _CREDENTIAL_CODES:
        return Fault.CREDENTIALS
    if status is not None and 400 <= status < 500:
        # An expired token is a 400, and the answer to a HEAD says no more than that.
        return Fault.CREDENTIALS if status == 400 and not code else Fault.REFUSED
    if status == 501 or name in ("InvalidPathError", "NotSupportedError"):
        return Fault.REFUSED
    return _broken_fault(status, text)


def _broken_fault(status: int | None, text: str) -> Fault:
    """What it is where the store did not answer properly."""
    kinds = _KIND.findall(text)
    if status is None and ("redirect" in text or "Builder" in kinds):
        return Fault.REFUSED
    if status is None and "Connect" in kinds:
        return Fault.NOT_DONE
    return Fault.UNKNOWN


def _said(head: str, status: int | None, code: str, text: str) -> str:
    """The answer in words."""
    kinds = _KIND.findall(text)
    if _CREDENTIAL_SOURCE.search(head):
        return "no valid credentials were found"
    if status is not None:
        message = _text(_MESSAGE.search(head))[:_SHOWN_CHARACTERS]
        about = ": ".join(part for part in (code, message) if part)
        return f"it answered {status}{f' ({about})' if about else ''}"
    if "redirect" in head:
        return "the bucket is in another region"
    if "Builder" in kinds:
        return "its endpoint is no URL that may be used"
    if "Timeout" in kinds:
        return "it did not answer in time"
    if "Connect" in kinds:
        return "no connection could be made"
    return "the connection broke"


def _number(found: re.Match[str] | None) -> int | None:
    return int(found.group(1)) if found is not None else None


def _text(found: re.Match[str] | None) -> str:
    return found.group(1) if found is not None else ""
