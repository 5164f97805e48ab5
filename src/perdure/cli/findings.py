"""What `perdure doctor` finds: one line a check, with what to do where it is not well. Pure."""

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct


class Health(Enum):
    """How a check ended."""

    OK = "ok"
    #: work goes on, but something is to be known
    WARNING = "warning"
    FAILED = "failed"


class Finding(Struct, frozen=True, kw_only=True):
    """One check.

    Attributes:
        check: what was looked at, in a word or two.
        text: what was seen, with its values.
        advice: what to do; "" where nothing is.
    """

    check: str
    health: Health
    text: str
    advice: str = ""


def ok(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check=check, health=Health.OK, text=text)


def warning(check: str, text: str, advice: str) -> Finding:
    """It works, and something is to be known."""
    return Finding(check=check, health=Health.WARNING, text=text, advice=advice)


def failed(check: str, text: str, advice: str) -> Finding:
    """Jobs would fail by it."""
    return Finding(check=check, health=Health.FAILED, text=text, advice=advice)


def have_failed(findings: Iterable[Finding]) -> bool:
    """Whether any check failed."""
    return any(one.health is Health.FAILED for one in findings)
