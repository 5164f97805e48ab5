"""Combination expressions: how a step's parameters span its space of tasks.

``A * (B, C)``: the product of A with B and C taken together. Row-major: the rightmost moves
fastest. The order of tasks is part of the store's format ("tasks 0 to 63 of step 2"), so it is
defined here and only compared with the library's (tests/contract).

Grammar::

    expr        = element ("*" element)*
    element     = name | association
    association = "(" expr ("," expr)+ ")"

Source: Open Job Description 2023-09 §3.4.3 ``<CombinationExpr>``.
"""

import re
from typing import final

from msgspec import Struct

_PIECE = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|[*(),])")


@final
class Name(Struct, frozen=True, kw_only=True):
    """One parameter."""

    name: str


@final
class Product(Struct, frozen=True, kw_only=True):
    """Every one with every other; the last moves fastest."""

    parts: tuple["Expression", ...]


@final
class Association(Struct, frozen=True, kw_only=True):
    """The first of each together, then the second of each, and so on."""

    parts: tuple["Expression", ...]


Expression = Name | Product | Association


def parse_combination(text: str) -> Expression:
    """The expression in ``text``.

    Raises:
        ValueError: it is none.
    """
    pieces = _PIECE.findall(text)
    if "".join(pieces) != "".join(text.split()):
        raise ValueError(f"{text!r} is no combination expression")
    parser = _Parser(pieces, text)
    result = parser.expression()
    parser.expect_end()
    return result


class _Parser:
    def __init__(self, pieces: list[str], text: str) -> None:
        self._pieces = [*pieces, ""]
        self._position = 0
        self._text = text

    def expression(self) -> Expression:
        parts = [self._element()]
        while self._take("*"):
            parts.append(self._element())
        return parts[0] if len(parts) == 1 else Product(parts=tuple(parts))

    def expect_end(self) -> None:
        if self._pieces[self._position]:
            raise self._wrong()

    def _element(self) -> Expression:
        if self._take("("):
            parts = [self.expression()]
            while self._take(","):
                parts.append(self.expression())
            if not self._take(")") or len(parts) == 1:
                raise self._wrong()
            return Association(parts=tuple(parts))
        piece = self._pieces[self._position]
        if not piece or piece in "*(),":
            raise self._wrong()
        self._position += 1
        return Name(name=piece)

    def _take(self, sign: str) -> bool:
        if self._pieces[self._position] != sign:
            return False
        self._position += 1
        return True

    def _wrong(self) -> ValueError:
        return ValueError(f"{self._text!r} is no combination expression")
