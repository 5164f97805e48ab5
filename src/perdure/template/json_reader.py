"""JSON text as document events, with lines, streamed.

`json.loads` knows no lines, keeps the last of two equal keys, and builds everything before one can
say stop; so the text is cut into pieces here, the grammar is checked by a small state table, and
`json` reads single strings and numbers only.

Source: RFC 8259. ``NaN`` and ``Infinity``, which `json` would accept, are refused.
"""

import json
import math
import re
from collections.abc import Iterator
from enum import Enum

from perdure.template.document_events import (
    Closed,
    DocumentSyntaxError,
    Event,
    Opened,
    Refused,
    Scalar,
)

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
      | (?P<sign>[{}\[\],:])
      | (?P<string>"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*")
      | (?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9A-Za-z.]))
      | (?P<word>-?[A-Za-z]+)""",
    re.VERBOSE,
)
_WORDS = {"true": True, "false": False, "null": None}


class _Expect(Enum):
    #: a value
    VALUE = "a value"
    #: a list has just begun
    VALUE_OR_END = "a value or ]"
    #: behind a comma in a mapping
    KEY = "a key in double quotes"
    #: a mapping has just begun
    KEY_OR_END = "a key in double quotes or }"
    #: behind a key
    COLON = ":"
    #: behind a value in a mapping or list
    COMMA_OR_END = ", or the end of the mapping or list"
    #: behind the whole document
    NOTHING = "nothing more"


def json_events(text: str) -> Iterator[Event]:
    """The events of the document in ``text``; nothing for an empty one.

    Raises:
        DocumentSyntaxError: from the place on where the text is not JSON.
    """
    open_signs: list[str] = []
    expect = _Expect.VALUE
    for kind, piece, line in _pieces(text):
        if kind == "sign":
            expect = _after_sign(piece, expect, open_signs, line)
            if piece in "{[":
                yield Opened(is_mapping=piece == "{", line=line)
            elif piece in "}]":
                yield Closed()
            continue
        is_key = expect in (_Expect.KEY, _Expect.KEY_OR_END)
        if is_key and kind != "string":
            raise _unexpected(piece, expect, line)
        if not is_key and expect not in (_Expect.VALUE, _Expect.VALUE_OR_END):
            raise _unexpected(piece, expect, line)
        yield _scalar(kind, piece, line)
        expect = _Expect.COLON if is_key else _behind_value(open_signs)
    if open_signs or expect is not _Expect.NOTHING:
        raise DocumentSyntaxError(
            f"not valid JSON: the text ends where {expect.value} should be", None
        )


def _pieces(text: str) -> Iterator[tuple[str, str, int]]:
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise DocumentSyntaxError(
                f"not valid JSON: {text[position : position + 20]!r} is no JSON", line
            )
        kind, piece = str(match.lastgroup), match.group()
        if kind == "space":
            line += piece.count("\n")
        else:
            yield kind, piece, line
        position = match.end()


def _after_sign(piece: str, expect: _Expect, open_signs: list[str], line: int) -> _Expect:
    """What comes behind a sign, or an error when the sign may not stand here."""
    match piece, expect:
        case ("{", _Expect.VALUE | _Expect.VALUE_OR_END):
            open_signs.append("{")
            return _Expect.KEY_OR_END
        case ("[", _Expect.VALUE | _Expect.VALUE_OR_END):
            open_signs.append("[")
            return _Expect.VALUE_OR_END
        case (":", _Expect.COLON):
            return _Expect.VALUE
        case (",", _Expect.COMMA_OR_END):
            return _Expect.KEY if open_signs[-1] == "{" else _Expect.VALUE
        case ("}", _Expect.KEY_OR_END | _Expect.COMMA_OR_END) if open_signs[-1] == "{":
            open_signs.pop()
            return _behind_value(open_signs)
        case ("]", _Expect.VALUE_OR_END | _Expect.COMMA_OR_END) if open_signs[-1] == "[":
            open_signs.pop()
            return _behind_value(open_signs)
        case _:
            raise _unexpected(piece, expect, line)


def _behind_value(open_signs: list[str]) -> _Expect:
    return _Expect.COMMA_OR_END if open_signs else _Expect.NOTHING


def _unexpected(piece: str, expect: _Expect, line: int) -> DocumentSyntaxError:
    return DocumentSyntaxError(
        f"not valid JSON: {piece[:40]} stands where {expect.value} should be", line
    )


def _scalar(kind: str, piece: str, line: int) -> Event:
    if kind == "word":
        if piece in _WORDS:
            return Scalar(value=_WORDS[piece], line=line)
        if piece in ("NaN", "Infinity", "-Infinity"):
            return _infinite(piece, line)
        raise DocumentSyntaxError(f"not valid JSON: {piece[:40]} is no JSON value", line)
    try:
        value = json.loads(piece)
    except ValueError as exc:
        raise DocumentSyntaxError(f"not valid JSON: {piece[:40]}: {exc}", line) from exc
    if isinstance(value, float) and not math.isfinite(value):
        return _infinite(piece, line)
    assert isinstance(value, str | int | float)
    return Scalar(value=value, line=line)


def _infinite(piece: str, line: int) -> Refused:
    return Refused(
        line=line,
        message=f"{piece[:40]!r} is not a finite number",
        advice="Write a finite number.",
    )
