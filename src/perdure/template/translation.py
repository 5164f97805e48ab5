"""What the Open Job Description library says about a template, as problems of our own kind.

The library raises `DecodeValidationError` with one text. The validation error behind it (its
``__context__``) has the parts: location, type, message. Locations are cleaned of the names of union
members that pydantic puts between keys, a few messages that speak about the library's inside are
said again in the author's words, and each problem is told once.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError

from perdure.errors import Problem
from perdure.template.document import Document
from perdure.template.extensions import (
    ALL_EXTENSIONS,
    EXTENSION_KEYS,
    FILE_REFERENCE,
    RESUME_ACTION,
    STATE_REFERENCE,
)
from perdure.template.locations import Location

Relocate = Callable[[Location], Location | None]
Reword = Callable[[str], str]


def library_problems(
    error: Exception,
    document: Document,
    content: Mapping[str, Any],
    *,
    relocate: Relocate = lambda location: location,
    reword: Reword = lambda message: message,
) -> list[Problem]:
    """The problems in ``error``, raised by the library about ``content``.

    Args:
        error: what the library raised.
        document: where lines are looked up.
        content: what the library was given: the document, stripped or derived.
        relocate: from a location in ``content`` to one in the document; None drops the problem.
        reword: applied to every message.
    """
    behind = error.__context__
    if not isinstance(behind, ValidationError):
        return [_whole(error, document)] if relocate(()) == () else []
    problems: list[Problem] = []
    for detail in behind.errors(include_url=False):
        location = relocate(
            _cleaned(detail["loc"], content, is_missing=detail["type"] == "missing")
        )
        if location is None:
            continue
        addition, message, advice = _worded(dict(detail))
        message = reword(message)
        advice = advice or _about_references(location, message)
        problems.append(document.problem((*location, *addition), message, advice))
    return list(dict.fromkeys(problems))


def _whole(error: Exception, document: Document) -> Problem:
    message = str(error)
    is_version = "version" in message.lower()
    return document.problem(("specificationVersion",) if is_version else (), message)


def _cleaned(raw: tuple[int | str, ...], content: Any, *, is_missing: bool) -> Location:
    """The keys and indexes of ``raw`` that lead through ``content``; tags of unions do not."""
    # Two of the library's own checks spell "steps" as "step".
    if raw[:1] == ("step",) and "step" not in content:
        raw = ("steps", *raw[1:])
    location: list[int | str] = []
    value = content
    for position, item in enumerate(raw):
        is_last = position == len(raw) - 1
        found, inner = _inside(value, item)
        if found:
            location.append(item)
            value = inner
        elif is_last and is_missing:
            location.append(item)
    return tuple(location)


def _inside(value: Any, item: int | str) -> tuple[bool, Any]:
    if isinstance(value, dict) and isinstance(item, str) and item in value:
        return True, value[item]
    if isinstance(value, list) and isinstance(item, int) and 0 <= item < len(value):
        return True, value[item]
    return False, None


def _worded(detail: dict[str, Any]) -> tuple[Location, str, str]:
    """A further step of the location, the message, and the advice."""
    kind, message, context = detail["type"], str(detail["msg"]), detail.get("ctx") or {}
    if kind == "value_error":
        message = str(context.get("error", message))
    match kind:
        case "missing":
            return (), "required, and not here", "Add it."
        case "extra_forbidden":
            return (), "no such key here", _near_key(str(detail["loc"][-1]))
        case "union_tag_not_found" if "cancelation" in str(context.get("discriminator")):
            return ("mode",), "a cancelation needs a mode that is known", _MODES
        case "union_tag_not_found":
            return ("type",), "required, and not here", "Add it."
        case "union_tag_invalid":
            tags = ", ".join(re.findall(r": '([^']+)'>", str(context.get("expected_tags"))))
            return ("type",), f"there is no type {context.get('tag')!r}", f"Write one of {tags}."
        case "value_error" if message.startswith("Unsupported extension names"):
            return (), message, _about_extensions(message)
        case _:
            return (), message, ""


def _about_references(location: Location, message: str) -> str:
    if "Task.Checkpoint" not in message or "does not exist" not in message:
        return ""
    if RESUME_ACTION not in location or location[-1] in ("timeout", "mode"):
        return f"{_BOTH} exist only in the command and args of onCheckpointResume."
    return f"There are {_BOTH}."


def _about_extensions(message: str) -> str:
    named = {name.strip() for name in message.partition(":")[2].split(",")}
    if named <= set(ALL_EXTENSIONS):
        return "perdure knows it, and this command was told not to allow it."
    return f"perdure knows {', '.join(ALL_EXTENSIONS)}."


_BOTH = f"{STATE_REFERENCE} and {FILE_REFERENCE}"
_MODES = "Write mode: TERMINATE or mode: NOTIFY_THEN_TERMINATE."


def _near_key(key: str) -> str:
    near = difflib.get_close_matches(key, _known_keys(), n=1, cutoff=0.75)
    if near and near[0] != key:
        return f"Did you mean {near[0]}?"
    return "Remove it, or put it where it belongs."


@cache
def _known_keys() -> tuple[str, ...]:
    from openjd.model import v2023_09  # noqa: PLC0415 - only when something is wrong

    keys = set(EXTENSION_KEYS)
    for model in vars(v2023_09).values():
        if isinstance(model, type) and issubclass(model, BaseModel):
            keys.update(model.model_fields)
    return tuple(sorted(keys))
