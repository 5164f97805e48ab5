"""The dimensions of a space of tasks: single parameters, their products and associations.

Each dimension has a length, gives the texts of its n-th point, finds the positions of given texts,
and says whether it holds them. An axis' values are a row of texts or of integers, never copied.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import assert_never, final

from msgspec import Struct

from perdure.template.chunks import FormedChunks
from perdure.template.combination import Association, Expression, Name, Product
from perdure.template.ranges import IntegerRow

Texts = Mapping[str, str]


@final
class Axis(Struct, frozen=True, kw_only=True):
    """One parameter: how many values, the n-th one's text, and where a text stands."""

    name: str
    type: str
    length: int
    text: Callable[[int], str]
    find: Callable[[str], Iterator[int]]
    #: A chunk holds any subset of its row; the space asks that, not the axis.
    is_chunks: bool = False

    @classmethod
    def of_texts(cls, name: str, type_name: str, texts: Sequence[str]) -> "Axis":
        """An axis with listed values."""

        def find(text: str) -> Iterator[int]:
            return (index for index, known in enumerate(texts) if known == text)

        return cls(name=name, type=type_name, length=len(texts), text=texts.__getitem__, find=find)

    @classmethod
    def of_integers(cls, name: str, type_name: str, row: IntegerRow) -> "Axis":
        """An axis with the values of a range expression."""

        def text(index: int) -> str:
            return str(row[index])

        def find(text: str) -> Iterator[int]:
            try:
                value = int(text)
            except ValueError:
                return iter(())
            return row.positions(value) if str(value) == text else iter(())

        return cls(name=name, type=type_name, length=len(row), text=text, find=find)

    @classmethod
    def of_chunks(cls, name: str, formed: FormedChunks) -> "Axis":
        """An axis with chunks formed beforehand."""

        def find(text: str) -> Iterator[int]:
            position = formed.position(text)
            return iter(() if position is None else (position,))

        return cls(
            name=name,
            type="CHUNK[INT]",
            length=len(formed),
            text=formed.__getitem__,
            find=find,
            is_chunks=True,
        )

    def __len__(self) -> int:
        return self.length

    def texts(self, index: int) -> dict[str, str]:
        """The point at ``index``."""
        return {self.name: self.text(index)}

    def positions(self, texts: Texts) -> Iterator[int]:
        """Where the point ``texts`` stands."""
        return self.find(texts[self.name])

    def holds(self, texts: Texts) -> bool:
        """Whether this axis has the value; of chunks that is not its to say."""
        return self.is_chunks or next(self.positions(texts), None) is not None


@final
class Grid(Struct, frozen=True, kw_only=True):
    """A product; the last part moves fastest. Without parts: one point."""

    parts: tuple["Dimension", ...]

    def __len__(self) -> int:
        return prod(len(part) for part in self.parts)

    def texts(self, index: int) -> dict[str, str]:
        """The point at ``index``."""
        found: list[dict[str, str]] = []
        for part in reversed(self.parts):
            index, inner = divmod(index, len(part))
            found.append(part.texts(inner))
        return {name: text for point in reversed(found) for name, text in point.items()}

    def positions(self, texts: Texts) -> Iterator[int]:
        """Where the point ``texts`` stands."""
        for row in itertools.product(*(tuple(part.positions(texts)) for part in self.parts)):
            index = 0
            for part, inner in zip(self.parts, row, strict=True):
                index = index * len(part) + inner
            yield index

    def holds(self, texts: Texts) -> bool:
        """Whether every part has its share of ``texts``."""
        return all(part.holds(texts) for part in self.parts)


@final
class Bundle(Struct, frozen=True, kw_only=True):
    """An association: parts of equal length that move together."""

    parts: tuple["Dimension", ...]

    def __len__(self) -> int:
        return len(self.parts[0])

    def texts(self, index: int) -> dict[str, str]:
        """The point at ``index``."""
        return {name: text for part in self.parts for name, text in part.texts(index).items()}

    def positions(self, texts: Texts) -> Iterator[int]:
        """Where the point ``texts`` stands: at one index in every part."""
        first, *rest = self.parts
        others = [set(part.positions(texts)) for part in rest]
        return (index for index in first.positions(texts) if all(index in one for one in others))

    def holds(self, texts: Texts) -> bool:
        """Whether ``texts`` is one of the points."""
        return next(self.positions(texts), None) is not None


Dimension = Axis | Grid | Bundle


def dimension(expression: Expression, axes: Mapping[str, Axis]) -> Dimension:
    """The dimension that ``expression`` spans over ``axes``."""
    match expression:
        case Name(name=name):
            return axes[name]
        case Product(parts=parts):
            return Grid(parts=tuple(dimension(part, axes) for part in parts))
        case Association(parts=parts):
            return Bundle(parts=tuple(dimension(part, axes) for part in parts))
        case _:
            assert_never(expression)
